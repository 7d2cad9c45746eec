"""Stores that refuse, are not there or do not answer: each ends in an error with a code that says what was written and no secret."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from materializer import Materializer
from materializer.adapters.memory.library import MemoryLibrary
from materializer.config import Config
from materializer.core.language.parse import parse_definitions
from materializer.errors import MaterializerError, StorageError
from materializer.journal.events import PolicyRan
from materializer.journal.journal import Journal
from materializer.lake import places
from materializer.lake.table import open_table
from materializer.services.definitions import suites
from tests import tables
from tests.benchmarks.dags import definition, lake_of
from tests.servers.proxy import Fault, Proxy
from tests.servers.s3 import S3Server

SQL: Final = (
    "CREATE MATERIALIZED VIEW hourly AS SELECT time_bucket('1 hour', ts) AS b, count(*) AS n "
    "FROM {} GROUP BY time_bucket('1 hour', ts)"
)
URLS: Final = {
    "ftp://lake/a": "unknown scheme",
    "s3://": "names no bucket",
    "s3://me:hidden@lake/a": "must not have credentials",
    "s3://lake/a?versionId=1": "must not have credentials or a query",
    "az://": "names no bucket",
    "gs:///lake": "names no bucket",
}


def refused(action: Callable[[], object], code: str, words: str) -> MaterializerError:
    """Do what has to be refused, and return the error."""
    with pytest.raises(MaterializerError, match=words) as caught:
        action()
    assert (code, "nothing was written") == (caught.value.code, caught.value.wrote)
    return caught.value


@pytest.mark.parametrize("url", URLS)
def test_a_url_that_is_no_place(url: str, tmp_path: Path) -> None:
    """
    It is refused before anything is asked, as the lake's root and as a source, and a password in it is not repeated.
    """
    error = refused(lambda: Materializer(url), "config.invalid", URLS[url])
    assert "hidden" not in f"{error} {error.hint}"
    with pytest.raises(MaterializerError) as caught:
        Materializer(tmp_path, config=Config(sources={"trades": url})).apply(SQL.format("trades"))
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("AWS_SECRET_ACCESS_KEY", "another-secret", "refuses this request or its credentials"),
        ("AWS_ACCESS_KEY_ID", "nobody", "No user exists with the provided access key ID"),
    ],
)
def test_keys_that_the_store_does_not_know(
    bucket: str, monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    """
    Reading and defining are refused with the store's reason, and no key is shown.
    """
    monkeypatch.setenv(name, value)
    lake = Materializer(f"{bucket}/lake")
    for action in (lake.status, lambda: lake.apply(SQL.format("trades"))):
        error = refused(action, "storage.failed", words)
        assert "credentials" in error.hint
        assert "another-secret" not in f"{error} {error.hint}"


def test_buckets_that_are_not_there(bucket: str) -> None:
    """
    As the lake's root, as the place of a source and as that of a backup.
    """
    none = "s3://no-such-bucket-anywhere"
    lake = Materializer(f"{bucket}/lake")
    for action in (
        Materializer(f"{none}/lake").status,
        lambda: Materializer(f"{none}/lake").apply(SQL.format("trades")),
        lambda: lake.apply(SQL.format(f"`{none}/trades`")),
        lambda: lake.backup(f"{none}/backup"),
    ):
        refused(action, "storage.failed", "there is no bucket 'no-such-bucket-anywhere'")


@pytest.mark.parametrize("kind", ["PUT IF", "PUT"])
def test_a_store_that_may_not_be_written_to(bucket: str, proxy: Proxy, kind: str) -> None:
    """
    A lake cannot be begun there, reading goes on, and with the permission the same is done.
    """
    journal, events = Journal(f"{bucket}/lake"), [PolicyRan("hourly", 0, 0, is_by_clock=False)]
    proxy.set(Fault("AccessDenied", kind, times=1000))
    with pytest.raises(StorageError, match="AccessDenied") as caught:
        journal.append(journal.view().version, "one", events)

    assert "write" in caught.value.hint
    assert caught.value.wrote == {"PUT IF": "nothing was written", "PUT": "nothing was committed"}[kind]
    assert [] == Materializer(f"{bucket}/lake").status()
    proxy.set()
    before = journal.view().version
    journal.append(before, "one", events)
    assert before < journal.view().version


REFUSALS: Final[dict[Any, tuple[str, str]]] = {
    "AccessDenied": ("AccessDenied", "let these credentials list, read, write and delete"),
    "ExpiredToken": ("ExpiredToken", "get new credentials"),
    "RequestTimeTooSkewed": ("RequestTimeTooSkewed", "set the clock of this machine"),
    "PermanentRedirect": ("is in another region", "set AWS_REGION"),
}
"""Of each refusal the words of the error and of its hint."""


def test_what_a_store_refuses_is_told_with_what_to_do(bucket: str, proxy: Proxy) -> None:
    """
    Every request, or only reading or listing: of a lake, of a table that is a source, of definitions, and of a folder of suites.
    """
    lake_of(f"{bucket}/lake", 1)
    tables.append(f"{bucket}/trades", pa.table({"v": [1]}))
    places.put(f"{bucket}/suites/agg_000.json", b"{}")
    [spec] = parse_definitions(definition(0))
    lake = Materializer(f"{bucket}/lake")
    actions: list[Callable[[], object]] = [
        lake.status,
        lambda: open_table(f"{bucket}/trades"),
        lambda: lake.read_definitions(f"{bucket}/lake/sql"),
        lambda: suites.found(spec, suites.Shelf(f"{bucket}/suites"), {"output": {}, "source": {}}, MemoryLibrary),
    ]
    for refusal, kind, action in product(REFUSALS, ("", "GET", "LIST"), actions):
        proxy.set(Fault(refusal, kind, times=1000))
        words, hint = REFUSALS[refusal]
        assert hint in refused(action, "storage.failed", words).hint
    proxy.set()
    assert ["agg_000"] == lake.names()


def test_secrets_stay_out_of_errors(bucket: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Whatever the client says of a request that failed, the secret key is not in it.
    """
    monkeypatch.setenv("AWS_REGION", "nowhere-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.secret)
    with pytest.raises(MaterializerError) as caught:
        Materializer(f"{bucket}/lake").status()
    assert s3.secret not in f"{caught.value} {caught.value.hint} {caught.value.__cause__}"

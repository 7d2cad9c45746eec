"""Places: what is asked of a folder, and of a store, has the same answers."""

from __future__ import annotations

import errno
import os
import resource
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from materializer.errors import ConfigError
from materializer.errors.base import masked
from materializer.lake import places, store_settings
from tests.servers.stores import STORES


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder of this machine, or one on a store; nothing is in it."""
    if request.param == "folder":
        return str(tmp_path / "lake")
    return f"{request.getfixturevalue('bucket')}/lake"


def filled(place: str) -> str:
    """Put three files below a place."""
    for name in ("a", "b/c", "b/d/e"):
        places.make_folder(places.parent(f"{place}/{name}"))
        places.put(f"{place}/{name}", name.encode())
    return place


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("/lake/", "/lake"),
        ("lake", "lake"),
        ("file:///lake/a%20b/", "/lake/a b"),
        ("s3a://bucket/lake", "s3://bucket/lake"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket//lake/./x/", "s3://bucket/lake/x"),
        ("abfss://box@account.dfs.core.windows.net/lake", "abfss://box@account.dfs.core.windows.net/lake"),
        ("gcs://bucket/lake", "gs://bucket/lake"),
    ],
)
def test_a_place_has_one_form(given: str, kept: str) -> None:
    """
    Whatever way a place is written, it is stored and compared in one form.
    """
    assert kept == places.normalised(given) == places.normalised(kept)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("hdfs://host/lake", "unknown scheme"),
        ("s3:///lake", "names no bucket"),
        ("s3://key:hidden@bucket/lake", "must not have credentials"),
        ("az://box/lake?sig=hidden", "must not have credentials"),
        ("ftp://user:hidden@host/lake", "unknown scheme"),
    ],
)
def test_what_is_no_place_is_refused(given: str, problem: str) -> None:
    """
    An unknown scheme, a URL without a bucket and one with credentials are refused; the message does not repeat these.
    """
    with pytest.raises(ConfigError, match=problem) as caught:
        places.normalised(given)

    assert "hidden" not in f"{caught.value} {caught.value.hint}"


def test_relative_names_are_taken_from_a_folder() -> None:
    """
    A relative name belongs to the folder that it is taken from, a path and a URL to none.
    """
    assert "s3://b/lake/trades" == places.inside("s3://b/lake", "trades")
    assert "s3://c/trades" == places.inside("/lake", "s3a://c/trades/")
    assert "/trades" == places.inside("s3://b/lake", "/trades")


def test_what_is_there(place: str) -> None:
    """
    Files and folders are seen as such; what is not there is neither, and no error.
    """
    assert not places.exists(place)
    assert [] == places.names(place) == places.entries(place) == places.files(place)
    filled(place)

    assert ["a", "b"] == sorted(places.names(place))
    assert [("a", 1, False), ("b", 0, True)] == [
        (e.name, e.bytes, e.is_folder) for e in sorted(places.entries(place), key=lambda e: e.name)
    ]
    assert ["a", "b/c", "b/d/e"] == [e.name for e in places.files(place)]
    assert places.is_file(f"{place}/a")
    assert not places.is_folder(f"{place}/a")
    assert places.is_folder(f"{place}/b")
    assert not places.is_file(f"{place}/b")
    assert not places.exists(f"{place}/bb")
    assert not places.exists(f"{place}/b/c/d")
    assert ["x"] == list(places.missing_of(place, ["a", "x", "b/c"]))


def test_reading(place: str) -> None:
    """
    Bytes come back as they were written, for Arrow, too; a missing file is the error of the operating system.
    """
    filled(place)
    pq.write_table(pa.table({"x": [1, 2]}), sink := pa.BufferOutputStream())
    places.put(f"{place}/t.parquet", sink.getvalue().to_pybytes())

    assert b"b/c" == places.read(f"{place}/b/c")
    assert [1, 2] == pq.ParquetFile(places.opened(f"{place}/t.parquet")).read()["x"].to_pylist()
    assert 2 == len(places.all_opened(place, ["t.parquet", "a"]))
    places.put(f"{place}/empty", b"")
    assert b"" == places.read(f"{place}/empty")
    with pytest.raises(pa.ArrowInvalid, match="0 bytes"):
        pq.ParquetFile(places.opened(f"{place}/empty"))
    for read in (places.read, places.entry):
        with pytest.raises(FileNotFoundError):
            read(f"{place}/none")


def test_a_large_file_is_read_in_parts(place: str) -> None:
    """
    A file beyond what one request reads is opened, too.
    """
    rows = pa.table({"x": list(range(1_500_000))})
    pq.write_table(rows, sink := pa.BufferOutputStream(), compression="none", use_dictionary=False)
    places.make_folder(place)
    places.put(f"{place}/t.parquet", sink.getvalue().to_pybytes())

    assert rows == pq.ParquetFile(places.opened(f"{place}/t.parquet")).read()


def test_a_run_ends_at_the_first_gap(place: str) -> None:
    """
    Of files that follow each other, those up to the first that is missing are found; another file has another identity.
    """
    places.make_folder(place)
    for number in (3, 4, 5, 7):
        places.put(f"{place}/{number:03}.json", b"x")
    places.put(f"{place}/004.crc", b"x")
    run = places.run_of(place, (f"{n:03}.json" for n in count(3)))

    assert 3 == len(run)
    assert run[0] == places.identity(f"{place}/003.json")
    assert [] == places.run_of(place, (f"{n:03}.json" for n in count(6)))
    assert places.identity(f"{place}/006.json") is None
    places.put(f"{place}/003.json", b"other")
    assert run[0] != places.run_of(place, (f"{n:03}.json" for n in count(3)))[0]


@pytest.mark.parametrize("store", STORES)
def test_a_file_is_the_same_by_whatever_request(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Who wrote it, asks for it or lists it gets one identity, on every store: a listing of ADLS writes tags without their quotes.
    """
    if not STORES[store].BINARY.exists():
        pytest.skip(STORES[store].MISSING)
    with STORES[store].started(tmp_path) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        folder = f"{server.bucket('some-bucket')}/lake"
        made = places.put_if_absent(f"{folder}/a", b"1")

        assert (
            made == places.identity(f"{folder}/a") == places.identities(folder)["a"] == places.run_of(folder, "ab")[0]
        )


def test_one_of_many_makes_a_file(place: str) -> None:
    """
    Of sixteen calls at once exactly one writes the file, and what it wrote stays.
    """
    places.make_folder(place)
    with ThreadPoolExecutor(16) as pool:
        for number in range(10):
            won = list(pool.map(lambda i, n=number: places.put_if_absent(f"{place}/{n}", str(i).encode()), range(16)))

            assert 15 == won.count(None)
            [winner] = [i for i, identity in enumerate(won) if identity is not None]
            assert won[winner] == places.identity(f"{place}/{number}")
            assert str(winner).encode() == places.read(f"{place}/{number}")


def test_a_file_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    """
    A write that fails on the way leaves neither a part of the file nor anything else, and the file can still be made.
    """
    place = str(tmp_path / "00.json")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            places.put_if_absent(place, b"x" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert [] == places.names(str(tmp_path))
    assert places.put_if_absent(place, b"whole") is not None
    assert ["00.json"] == places.names(str(tmp_path))


def test_one_of_many_makes_a_folder(place: str) -> None:
    """
    Of several calls at once one makes a folder; one that has files is not made again.
    """

    def make(_: int) -> bool:
        try:
            places.make_new_folder(f"{place}/new")
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert 1 == list(pool.map(make, range(8))).count(True)
    filled(f"{place}/old")
    with pytest.raises(FileExistsError):
        places.make_new_folder(f"{place}/old")


def test_copies_and_moves(place: str, tmp_path: Path) -> None:
    """
    Files are copied between any two places, and files and folders are moved within one.
    """
    filled(place)
    places.copy(f"{place}/b/c", f"{tmp_path}/out/c")
    places.copy(f"{tmp_path}/out/c", f"{place}/in/c")
    places.copy(f"{place}/in/c", f"{place}/in/again")
    places.move_file(f"{place}/in/again", f"{place}/a2")
    places.move_folder(f"{place}/b", f"{place}/moved")

    assert ["a", "a2", "in/c", "moved/c", "moved/d/e"] == [e.name for e in places.files(place)]
    assert b"b/c" == places.read(f"{place}/a2") == places.read(f"{place}/moved/c")


def test_deletes(place: str) -> None:
    """
    A file and a folder are deleted; a folder that is not there is no error if errors are ignored.
    """
    filled(place)
    places.delete(f"{place}/a")
    places.delete_folder(f"{place}/b")
    places.delete_folder(f"{place}/b", ignore_errors=True)

    assert [] == places.files(place)


def test_failures_of_a_store_are_those_of_a_file_system(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Wrong keys are a missing permission and no bucket is no device; no secret and nothing that was signed is in the text.
    """
    with pytest.raises(OSError, match="there is no bucket 'none'") as caught:
        places.names("s3://none/lake")
    assert errno.ENODEV == caught.value.errno
    places.put(f"{bucket}/x", b"x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-wrong-secret-key")
    store_settings.configure({"aws_secret_access_key": "another-wrong-key"})
    try:
        with pytest.raises(PermissionError) as refused:
            places.read(f"{bucket}/x")
    finally:
        store_settings.configure({})
    assert "wrong" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_settings_reach_every_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The configuration goes before the environment and the environment before files; Spark gets the same in its own words.
    """
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "credentials").write_text("[work]\naws_access_key_id = of-file\naws_secret_access_key = hidden\n")
    (tmp_path / "config").write_text("[profile work]\nregion = eu-west-1\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "work")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    plain = {"aws_allow_http": "true"}
    of_file = {"aws_access_key_id": "of-file", "aws_secret_access_key": "hidden", "aws_region": "eu-west-1"}

    assert of_file | plain == places.options_of("s3://bucket/lake")
    assert places.options_of("/lake") is None
    store_settings.configure({"AWS_ACCESS_KEY_ID": "of-config", "azure_account_key": "not for s3"})
    try:
        assert {"aws_access_key_id": "of-config"} | plain == places.options_of("s3://bucket/lake")
        assert {"azure_account_key": "not for s3"} == places.options_of("az://bucket/lake")
        assert {"AWS_ACCESS_KEY_ID": "of-config"} == store_settings.spark_environment("s3")
        assert {
            "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
            "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        } == store_settings.spark_options("s3"), "no key is in the command line of a JVM"
    finally:
        store_settings.configure({})
    assert {} == store_settings.spark_options("gs")


def test_a_changed_environment_is_followed(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Keys that are replaced while a process runs are the ones that its next request has.
    """
    places.put(f"{bucket}/x", b"x")
    with monkeypatch.context() as other:
        other.setenv("AWS_SECRET_ACCESS_KEY", "one-that-was-replaced")
        with pytest.raises(PermissionError):
            places.read(f"{bucket}/x")

    assert b"x" == places.read(f"{bucket}/x")


def test_secrets_are_removed_from_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Keys, tokens and signatures do not stay in a text; other settings do.
    """
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    store_settings.configure({"azure_storage_account_key": "ab/cd=="})
    try:
        text = masked("eu-west-1 s3cr3t ab/cd== https://x/y?sv=1&sig=abc&se=2")
    finally:
        store_settings.configure({})

    assert "eu-west-1 *** *** https://x/y?sv=1&sig=***&se=2" == text


def test_a_thread_that_writes_a_file_leaves_those_of_other_threads_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Before one call puts its content in place, another call writes the same file: both succeed, and nothing is left over.
    """
    file, exchange = str(tmp_path / "catalog.json"), os.replace

    def late(source: str, target: str) -> None:
        monkeypatch.setattr(os, "replace", exchange)
        places.put(file, b"another")
        assert b"another" == places.read(file)
        exchange(source, target)

    monkeypatch.setattr(os, "replace", late)
    places.put(file, b"one")

    assert b"one" == places.read(file)
    assert ["catalog.json"] == [p.name for p in tmp_path.iterdir()]

"""A name of a table or an aggregate that nothing has is answered with the one that was meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from materializer.errors import TableNotFoundError, UnknownAggregateError
from materializer.services.definitions.sources import resolve_source
from tests.services.no_spark import RAW, Lake, view


def _no_engine() -> None:
    raise AssertionError


@pytest.mark.parametrize(("name", "hint"), [("tradse", "did you mean `trades`?"), ("orders", "name it in [sources]")])
def test_a_source_that_was_meant_is_named(tmp_path: Path, name: str, hint: str) -> None:
    """
    If one is near; another name is no slip of it.
    """
    with pytest.raises(TableNotFoundError) as caught:
        resolve_source(name, str(tmp_path), {"trades": "raw/trades"}, {}, _no_engine)  # type: ignore[arg-type]

    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize(("name", "meant"), [("evnts", "events"), ("data/evnets", "data/events")])
def test_a_table_beside_the_place_that_was_meant_is_named(tmp_path: Path, name: str, meant: str) -> None:
    """
    As it has to be written; what the hint names is found, and a folder without a table is none.
    """
    there, root = tmp_path / meant, str(tmp_path)
    DeltaTable.create(str(there), RAW)
    (there.parent / "evnt").mkdir()
    with pytest.raises(TableNotFoundError) as caught:
        resolve_source(name, root, {}, {}, _no_engine)  # type: ignore[arg-type]

    assert f"did you mean `{meant}`?" == caught.value.hint
    assert str(there) == resolve_source(meant, root, {}, {}, _no_engine).path  # type: ignore[arg-type]


def test_a_table_of_the_working_directory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A source may be a path that is relative to it, and the lake lie elsewhere.
    """
    monkeypatch.chdir(tmp_path)
    DeltaTable.create(str(tmp_path / "events"), RAW)
    with pytest.raises(TableNotFoundError) as caught:
        resolve_source("evnts", str(tmp_path / "lake"), {}, {}, _no_engine)  # type: ignore[arg-type]

    assert "did you mean `events`?" == caught.value.hint


@pytest.mark.parametrize(("name", "hint"), [("huors", "did you mean 'Hours'?"), ("sessions", "name one of them")])
def test_an_aggregate_that_was_meant_is_named(tmp_path: Path, name: str, hint: str) -> None:
    """
    As it is written in the lake, whatever letters were typed.
    """
    lake = Lake(tmp_path)
    lake.apply(view("Hours", "time_bucket('1 hour', ts)", column="ts"))
    with pytest.raises(UnknownAggregateError) as caught:
        lake.wired.journal.view().named(name)

    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("public.trades", "did you mean `Trades`?"),
        ("public.HOURLY", "name it"),
        ("db.events", "did you mean `events`?"),
    ],
)
def test_a_schema_before_a_known_source_is_named(tmp_path: Path, name: str, hint: str) -> None:
    """
    In other systems a table has one before its name; the catalog does not have the table.
    """
    DeltaTable.create(str(tmp_path / "events"), RAW)
    with pytest.raises(TableNotFoundError) as caught:
        resolve_source(name, str(tmp_path), {"Trades": "raw/trades"}, {}, EmptyCatalog)  # type: ignore[arg-type]

    assert caught.value.hint.startswith(hint)


class EmptyCatalog:
    """An engine whose catalog has no table."""

    def __init__(self) -> None:
        self.catalogs = self

    def table_named(self, name: str) -> None:
        """Find no table."""
        raise TableNotFoundError(f"the catalog has no table '{name}'", hint="name it as the session's catalog does")

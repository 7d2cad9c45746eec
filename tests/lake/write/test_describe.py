"""What a table says of itself: written where it differs, and never by one who comes late."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from materializer.errors import WriteFencedError
from materializer.lake.log import read_commit
from materializer.lake.notes import note_of
from materializer.lake.write.commit import create_table
from materializer.lake.write.describe import NUMBER, comments_of, describe

NOTE = {"plan": "", "n": 1, "kind": "describe", "source_version": 3}


@pytest.fixture
def path(tmp_path: Path) -> str:
    place = str(tmp_path / "output")
    create_table(place, [("at", "timestamp"), ("k", "string")], name="bars", description="made for tests")
    return place


def say(path: str, n: int, comment: str = "the key", description: str = "for people", **properties: str) -> bool:
    return describe(path, {NUMBER: str(n), **properties}, description=description, comments={"k": comment}, note=NOTE)


def test_all_of_it_is_written_once(path: str) -> None:
    """
    Properties, description and comments; the columns stay as they are, and each commit is known as one of ours.
    """
    assert say(path, 1, colour="red")
    table = DeltaTable(path)
    metadata = table.metadata()

    assert "for people" == metadata.description
    assert {"k": "the key"} == comments_of(table.schema().to_json())
    assert {
        "colour": "red",
        NUMBER: "1",
        "delta.enableDeletionVectors": "false",
    }.items() <= metadata.configuration.items()
    assert not any(read_commit(path, v).is_data_change for v in range(table.version() + 1))
    assert {"describe"} == {note.kind for v in range(1, table.version() + 1) if (note := note_of(path, v))}

    assert not say(path, 1, colour="red"), "nothing differs"
    assert table.version() == DeltaTable(path).version()


def test_what_differs_is_written_in_one_commit(path: str) -> None:
    """
    A refresh changes properties only: one commit.
    """
    say(path, 1, colour="red")
    before = DeltaTable(path).version()

    assert say(path, 2, colour="blue")
    assert before + 1 == DeltaTable(path).version()
    assert "blue" == DeltaTable(path).metadata().configuration["colour"]


def test_one_who_comes_late_is_refused(path: str) -> None:
    """
    The table tells of a later refresh: what an earlier one has to say is old.
    """
    say(path, 8, colour="red")

    with pytest.raises(WriteFencedError, match="tells of refresh 8 already, and 7 came late"):
        say(path, 7, colour="green")
    assert "red" == DeltaTable(path).metadata().configuration["colour"]

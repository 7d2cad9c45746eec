"""Journals that were written once are read for ever, and what is written now has the same bytes."""

from __future__ import annotations

import json
import re

import pytest

from materializer import AggregateSpec
from materializer.core.codec import as_json
from materializer.journal.codec import KINDS, decode, encode
from materializer.journal.events import Snapshot
from materializer.journal.fold import fold
from tests.golden import files, journal

RECORDED = files.kept("recorded")


def test_every_event_and_definition_is_stored_as_kept() -> None:
    """
    One of every event, and definitions of every kind, have the bytes that they had.
    """
    assert "" == files.differences("journal", journal.stored())


def test_every_event_is_read_from_kept_bytes() -> None:
    """
    What stands in the golden file is read to what it was made of, as far as it is stored.
    """
    rows = journal.read(files.kept("journal")["journal.jsonl"])

    assert set(KINDS) == {row.kind for row in rows}
    assert rows == [encode(row.aggregate, decode(row), at=row.at) for row in rows]


def test_every_definition_is_read_from_kept_bytes() -> None:
    """
    A stored definition is read, and stored again with the same bytes.
    """
    kept = [json.loads(line) for line in files.kept("journal")["specs.jsonl"].splitlines()]

    assert kept == [AggregateSpec.from_json(data).as_json() for data in kept]


@pytest.mark.parametrize("kind", ["events", "folded"])
def test_a_recorded_journal_means_what_it_meant(kind: str) -> None:
    """
    A journal of a real history, with its events or folded and gone on with, is read and folded to the states that are kept.
    """
    rows = [json.loads(line) for line in RECORDED[f"recorded/{kind}.jsonl"].splitlines()]

    assert RECORDED[f"recorded/{kind}.state.json"] == journal.meaning(rows)


@pytest.mark.parametrize("kind", ["events", "folded"])
def test_a_recorded_journal_is_stored_again_as_it_was(kind: str) -> None:
    """
    Each row of it is read, and stored again with the same bytes, but for the process of Spark that leases named.
    """
    recorded = RECORDED[f"recorded/{kind}.jsonl"]
    rows = journal.read(recorded)
    kept = journal.read(re.sub(r',\\"jvm_pid\\":\d+,\\"jvm_started\\":\d+', "", recorded))

    assert kept == [encode(row.aggregate, decode(row), at=row.at) for row in rows]


def test_a_snapshot_of_a_recorded_journal_is_what_it_folds() -> None:
    """
    The snapshot of each state, read alone, gives the same state.
    """
    states = fold(journal.read(RECORDED["recorded/events.jsonl"]))
    snapshots = [encode(key, Snapshot(as_json(state)), at="") for key, state in states.items()]

    assert states == fold(snapshots)


def test_the_recorded_history_has_what_happens_to_aggregates() -> None:
    """
    It is worth keeping: what a scripted lake cannot bring about is little.
    """
    kinds = {
        json.loads(line)["kind"] for text in RECORDED.values() for line in text.splitlines() if line.startswith('{"agg')
    }

    assert {"build_opened", "delivered", "parent_switched", "registered", "retired"} == set(KINDS) - kinds

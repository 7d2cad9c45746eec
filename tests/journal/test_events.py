from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from materializer.errors import JournalError, JournalVersionError
from materializer.journal import events
from materializer.journal.codec import FORMAT, KINDS, Row, decode, encode
from materializer.journal.events import Event
from tests.model import strategies as some
from tests.model.strategies import EDGES, JSON, NAMES, OBJECTS, VERSIONS

HELD = st.tuples(EDGES, EDGES.map(lambda end: end + 40))
ENTRIES = some.entry_lists().map(tuple)
OF_KIND: dict[str, st.SearchStrategy[Any]] = {
    "defined": st.builds(
        events.Defined, NAMES, OBJECTS, NAMES, some.sources(), VERSIONS, OBJECTS, st.dictionaries(NAMES, NAMES)
    ),
    "delivered": st.builds(events.Delivered, st.integers(0, 99)),
    "registered": st.builds(events.Registered, NAMES, NAMES),
    "checked": st.builds(events.Checked, OBJECTS),
    "maintained": st.builds(events.Maintained, OBJECTS),
    "policy_ran": st.builds(events.PolicyRan, NAMES, VERSIONS, VERSIONS, st.booleans()),
    "described": st.builds(events.Described, OBJECTS),
    "lease_taken": st.builds(events.LeaseTaken, some.leases()),
    "parent_switched": st.builds(events.ParentSwitched, OBJECTS, some.sources(), VERSIONS),
    "lease_renewed": st.builds(events.LeaseRenewed, NAMES, st.floats(0, 1e10)),
    "lease_released": st.builds(events.LeaseReleased, NAMES),
    "captured": st.builds(
        events.Captured,
        VERSIONS,
        ENTRIES,
        some.instants(),
        st.lists(OBJECTS).map(tuple),
        st.none() | VERSIONS,
        st.lists(NAMES).map(tuple),
        VERSIONS,
    ),
    "invalidated": st.builds(events.Invalidated, ENTRIES, NAMES),
    "frozen": st.builds(events.Frozen, some.instants(), NAMES, some.span_sets()),
    "retired": st.builds(events.Retired, some.instants()),
    "planned": st.builds(events.Planned, some.plans(), some.instants(), OBJECTS),
    "audited": st.builds(events.Audited, VERSIONS, st.lists(HELD).map(tuple), OBJECTS),
    "done": st.builds(events.Done, VERSIONS, some.reports()),
    "aborted": st.builds(events.Aborted, VERSIONS, NAMES),
    "repaired": st.builds(
        events.Repaired,
        VERSIONS,
        NAMES,
        st.dictionaries(NAMES, NAMES),
        NAMES,
        st.booleans(),
        st.none() | st.integers(),
        st.none() | VERSIONS,
        st.none() | st.dictionaries(NAMES, NAMES),
    ),
    "build_started": st.builds(events.BuildStarted, NAMES, NAMES, OBJECTS, VERSIONS),
    "switch_planned": st.builds(events.SwitchPlanned, some.plans(), NAMES),
    "build_closed": st.builds(events.BuildClosed),
    "build_opened": st.builds(events.BuildOpened),
    "switched": st.builds(events.Switched, VERSIONS, OBJECTS, VERSIONS, some.reports()),
    "dropped": st.builds(events.Dropped),
    "snapshot": st.builds(events.Snapshot, OBJECTS),
}
EVENTS = st.one_of(*OF_KIND.values())
BEYOND = [
    ("released_twice", FORMAT),
    ("", FORMAT),
    ("done", FORMAT + 1),
]


def test_every_kind_is_tested() -> None:
    """
    The strategies below know every kind of event, so that a new one is not forgotten.
    """
    assert set(KINDS) == set(OF_KIND)


@given(EVENTS)
def test_an_event_survives_its_row(event: Event) -> None:
    """
    Encoding and decoding gives an equal event.
    """
    assert event == decode(encode("a1", event, at="2026-01-01T00:00:00Z"))


@pytest.mark.parametrize(("kind", "version"), BEYOND)
def test_what_is_not_known_is_refused(kind: str, version: int) -> None:
    """
    An unknown kind or a newer format is an error that says which versions can read it, never skipped.
    """
    with pytest.raises(JournalVersionError, match="this version knows format") as caught:
        decode(Row("a1", kind, "", "{}", version))

    assert "newer" in caught.value.hint


@given(EVENTS, st.data())
def test_a_missing_field_is_noticed(event: Event, data: st.DataObject) -> None:
    """
    A payload without one of its fields is corrupt, unless the field has a default.
    """
    row = encode("a1", event, at="")
    payload = json.loads(row.payload)
    names = [f.name for f in fields(event) if f.required]
    if names:
        del payload[data.draw(st.sampled_from(names))]
        with pytest.raises(JournalError, match=row.kind):
            decode(replace(row, payload=json.dumps(payload)))


def read(row: Row) -> Any:
    """Return the event of *row*, or the journal error that reading it raises; any other error is a failure."""
    try:
        return decode(row)
    except JournalError as error:
        return error


@given(st.sampled_from(sorted(KINDS)), JSON.map(json.dumps) | st.text(max_size=5))
def test_a_corrupt_payload_is_a_journal_error(kind: str, payload: str) -> None:
    """
    Whatever stands in a payload, reading it gives an event or a journal error that names the aggregate.
    """
    found = read(Row("a1", kind, "", payload))

    assert isinstance(found, KINDS[kind]) or ("a1" in found.message and kind in found.message)


@given(EVENTS, st.data())
def test_a_damaged_field_is_a_journal_error(event: Event, data: st.DataObject) -> None:
    """
    With one field replaced by something else, reading gives an event or a journal error, nothing else.
    """
    row = encode("a1", event, at="")
    payload = json.loads(row.payload)
    if payload:
        payload[data.draw(st.sampled_from(sorted(payload)))] = data.draw(JSON)
        found = read(replace(row, payload=json.dumps(payload)))
        assert isinstance(found, KINDS[row.kind]) or row.kind in found.message

"""Whether the source of an aggregate was replaced by a later commit, as ``CREATE OR REPLACE TABLE`` does it."""

from __future__ import annotations

from materializer.core.policy.table_properties import ON_REPLACE
from materializer.core.spec.spec import AggregateSpec
from materializer.journal.state import AggregateState
from materializer.lake.capture import source_marks
from materializer.lake.table import DeltaFolder


def goes_on(state: AggregateState) -> bool:
    """Return whether a later commit replaced the source of an aggregate, and a refresh goes on with what is there now."""
    if AggregateSpec.from_json(state.spec).property_map.get(ON_REPLACE) == "refuse":
        return False
    return source_marks.goes_on(DeltaFolder.at(state.source.path), state.cursor, state.source.table_id, state.mark)

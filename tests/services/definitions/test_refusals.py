"""What is refused of frozen history says from when on, as people know the times of the source."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from materializer.errors import FrozenHistoryError
from materializer.journal.state import AggregateState
from materializer.services.definitions.refusals import refuse_frozen
from materializer.services.observe.source_deletes import readers_of
from tests.hints.world import HOURLY
from tests.services.no_spark import Lake


def of_milliseconds(state: AggregateState, **fields: object) -> AggregateState:
    spec = {**state.spec, "time_type": "bigint", "resolution": "ms"}
    return replace(state, spec=spec, **fields)  # type: ignore[arg-type]


def test_a_frozen_bound_of_epoch_times_is_a_time(tmp_path: Path) -> None:
    """
    In the refusal, and of another reader of the same rows: no number of milliseconds.
    """
    lake = Lake(tmp_path)
    lake.apply(HOURLY)
    bound = 1_795_132_800_000
    state = of_milliseconds(lake.state("hourly"), frozen=bound)

    with pytest.raises(FrozenHistoryError, match="is frozen below 2026-11-20T00:00:00Z"):
        refuse_frozen(state, "a build")
    [other] = readers_of(state, bound, [of_milliseconds(state, id="other", frozen=bound - 3_600_000)])
    assert "frozen below 2026-11-19T23:00:00Z" == other.why

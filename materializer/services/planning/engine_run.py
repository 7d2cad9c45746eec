"""What planning a run of an engine comes to."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from materializer.core.engines.cardinality import Life
from materializer.core.engines.work import Key, Work
from materializer.core.refresh.invalidation import Entry
from materializer.core.refresh.plan import Recompute, Settle
from materializer.core.time.spans import SpanSet


class EngineRun(Struct, frozen=True):
    """What planning a run of an engine came to.

    Args:
        work: What is computed.
        steps: The plan's steps.
        taken: The dirt that it does away with.
        conflicts: Slices below the frozen bound whose results would change, and stay as they are.
        lives: The life of each key of the work, with its stored results.
        made: Upper bound of the results that they have more afterwards.
        results: Upper bound of the results that are computed, where only those of some keys are replaced.
    """

    work: Work
    steps: tuple[Recompute | Settle, ...]
    taken: tuple[Entry, ...]
    conflicts: SpanSet = field(default_factory=SpanSet)
    lives: Mapping[Key, Life] = field(default_factory=dict)
    made: int = 0
    results: int | None = None

"""How much of a change feed is read to learn what is dirty, before computing all that can be dirty is cheaper.

Of the files that changed, statistics say in which buckets their rows lie: no change lies elsewhere. A feed says more: which of these
buckets changed, which keys, which rows. That is worth as much as computing less of these buckets can save. So a feed is read
if this takes at most a fifth of computing all of them, plus a quarter of a second. A refresh then takes at most 1.2 times
what the first one of these buckets took, and half a second, whatever changed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from msgspec import Struct

from materializer.config import Config
from materializer.core.refresh.plan import OPENED, Estimate, ExecutorKind
from materializer.core.refresh.price import RATES
from materializer.core.time.spans import NEG_INF, Span, SpanSet
from materializer.errors import MaterializerError
from materializer.journal.state import AggregateState
from materializer.lake.capture.worth import FeedSize, WhyNotRead
from materializer.lake.extent import Extent

SHARE: Final = 0.2
"""Share of the seconds of computing all that can be dirty which reading a feed may take."""
FREE: Final = 0.25
"""Seconds that reading a feed may take in any case."""
START: Final = 5.0
"""Seconds that Spark takes to start."""
ROW: Final = {ExecutorKind.LOCAL: 2e-6, ExecutorKind.SPARK: 1e-6}
"""Seconds that a changed row takes: it is placed in its bucket, and counted."""
KEYED_ROW: Final = {ExecutorKind.LOCAL: 4e-6, ExecutorKind.SPARK: 2e-6}
"""The same if its key is recorded."""
ADDED_FILE: Final = 1.5e-4
"""Seconds that each added file takes, which are read one by one; see :func:`~materializer.lake.capture.changed_rows.inserted_rows`."""
ENGINE_ROW: Final = 3e-6
"""Seconds that an engine takes for a raw row, beside reading it."""


class FeedLimit(Struct, frozen=True):
    """Says which change feeds are not worth reading.

    Args:
        config: Settings.
        engine: The engine that computes the aggregate; "" for a continuous aggregate.
        needs_feed: Whether that engine computes everything where it does not know which rows changed.
        has_keys: Whether changed keys are recorded.
        is_readable: Whether the library may read the rows of the source.
        raw: Returns the files of the source at the version that is captured.
        stored: Returns the files of the partials.
    """

    config: Config
    engine: str
    needs_feed: bool
    has_keys: bool
    is_readable: Callable[[], bool]
    raw: Callable[[], Extent]
    stored: Callable[[], Extent]

    def of(self, state: AggregateState) -> WhyNotRead:
        """Return what says why a feed is not worth reading, beside what is dirty already.

        Below a frozen boundary only the feed tells late rows from conflicts, and of an engine a change below may reach above it.
        """

        def why_not(size: FeedSize, touched: Callable[[], SpanSet | None]) -> str:
            if self.needs_feed:
                return ""
            is_here = size.rows <= self.config.budget.opened and size.bytes <= self.config.budget.bytes
            if (is_here and self._reading(size, ExecutorKind.LOCAL) <= FREE) or (
                self.engine and state.frozen > NEG_INF
            ):
                return ""
            spans = touched()
            if spans is None or (state.frozen > NEG_INF and spans & SpanSet.of(Span(NEG_INF, state.frozen))):
                return ""
            # what was never computed, or has to be computed anew, is computed whatever the feed says
            left = spans - SpanSet.union(e.span for e in state.log.entries if e.after is None)
            every, is_local = self._computing(left)
            is_here = is_here and self.is_readable()
            reading = self._reading(size, ExecutorKind.LOCAL if is_here else ExecutorKind.SPARK)
            if not is_here and is_local and self.config.executor != "spark":
                reading += START
            if reading <= SHARE * every + FREE:
                return ""
            what = f"reading {size.rows:,} changed rows in {size.files:,} file{'s' if size.files > 1 else ''} costs more than it can save"
            return what if left else f"{what}: all that they can have changed is dirty already"

        return why_not

    def _reading(self, size: FeedSize, executor: ExecutorKind) -> float:
        rates, row = RATES[executor], (KEYED_ROW if self.has_keys else ROW)[executor]
        one_by_one = size.files - size.by_library if executor is ExecutorKind.LOCAL else 0
        files = one_by_one * ADDED_FILE + (size.files - one_by_one) * rates.file
        return size.rows * row + size.bytes * rates.byte + files

    def _computing(self, spans: SpanSet) -> tuple[float, bool]:
        """Return the seconds of computing some buckets from all their raw rows, and whether this process can do it."""
        raw, stored = _estimate(self.raw(), spans), Estimate()
        with suppress(MaterializerError):  # damaged partials: the refresh reports them
            stored = _estimate(self.stored(), spans)
        config = self.config
        is_local = (
            config.executor != "spark"
            and raw.likely_rows <= config.rows_here
            and raw.rows <= OPENED * config.rows_here
            and raw.bytes <= OPENED * config.read_bytes
            and self.is_readable()
        )
        rates = RATES[ExecutorKind.LOCAL if is_local else ExecutorKind.SPARK]
        start = 0.0 if is_local or config.executor == "spark" else START
        of_engine = raw.likely_rows * ENGINE_ROW if self.engine else 0.0
        return start + of_engine + rates.reading("recompute", raw, 0) + 2 * stored.likely_rows * rates.written, is_local


def _estimate(extent: Extent, spans: SpanSet) -> Estimate:
    found = extent.estimate(spans)
    return Estimate(found.rows, found.bytes, found.files, found.likely_rows)

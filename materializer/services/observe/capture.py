"""The capture ladder: what changed in a run of source versions, by the best rung that is provably complete.

The driver reads small change feeds and file statistics itself. Where the feed is on but the driver may not read it
(deletion vectors, column mapping, many rows) Spark does; where Spark is refused too, file statistics, and last of all
everything below the threshold.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from materializer.config import Config
from materializer.core.codec import as_json
from materializer.core.policy.table_properties import log_entries_of
from materializer.core.refresh.invalidation import ANY_ROWS, Cause, Entry, Keys
from materializer.core.refresh.lateness import KNOWN_AT, Lateness
from materializer.core.time.spans import EVERYTHING, NEG_INF, POS_INF, Span, SpanSet
from materializer.errors import ChangeFeedGapError
from materializer.journal.events import Captured
from materializer.journal.state import AggregateState
from materializer.lake.capture import capture as lake
from materializer.lake.capture.capture import CapturedPiece, NeedsSpark, Rung, Segment, VersionCount
from materializer.lake.capture.source_marks import mark, mark_anew
from materializer.lake.keys import why_not_recorded
from materializer.lake.log import LogGapError
from materializer.lake.table import DeltaFolder
from materializer.services.aggregate import Aggregate
from materializer.services.observe import source_breaks
from materializer.services.observe.source_breaks import SourceBreak

if TYPE_CHECKING:
    from materializer.services.observe.feed_limit import FeedLimit
    from materializer.spark.run.spark import Spark

MOST_COUNTS: Final = 100
"""Versions of which a capture records one by one how many rows they changed."""
_CAUSES: Final = {Rung.FEED: Cause.CHANGE, Rung.FILES: Cause.FILES, Rung.LOST: Cause.LOST, Rung.SOURCE: Cause.SOURCE}


class Capture:
    """Captures changes of the source of one aggregate.

    Args:
        aggregate: The aggregate.
        config: Settings.
        engine: Starts Spark on first use.
        limit: Says which change feeds are not worth reading; None if each one is read.
    """

    def __init__(
        self, aggregate: Aggregate, config: Config, engine: Callable[[], Spark], limit: FeedLimit | None = None
    ) -> None:
        self._aggregate = aggregate
        self._config = config
        self._engine = engine
        self._limit = limit

    def upto(self, state: AggregateState, version: int) -> Captured:
        """Return what the versions (cursor, *version*] made dirty.

        Raises:
            SourceSchemaChangedError: If a column that the definition reads changed its type or went away.
            SourceReplacedError: If the source is another table now.
        """
        source_breaks.refuse_misfits(state)
        aggregate, grid = self._aggregate, self._aggregate.definition.grid
        reads = [name for name, _ in aggregate.definition.spec.read_types]
        if broken := source_breaks.found(state, version, reads):
            return self._anew(state, version, broken)
        found = lake.capture_without_spark(
            state.source.path,
            after=state.cursor,
            upto=version,
            table_id=state.source.table_id,
            time_column=aggregate.definition.spec.time_column,
            time_type=aggregate.definition.time_type,
            keys=(keys := self._recorded_keys()),
            evaluate=self._evaluate() if keys else None,
            max_rows=self._config.budget.opened,
            max_bytes=self._config.budget.bytes,
            floor=grid.floor,
            next_edge=grid.next,
            frozen_below=state.frozen,
            reads=reads,
            known_at=self._known_at,
            why_not_read=None if self._limit is None else self._limit.of(state),
        )
        captured = found.captured if isinstance(found, NeedsSpark) else found
        entries = list(self._entries(state, captured))
        counts = _counts(captured.per_version)
        reasons, lateness, expired = list(captured.reasons), captured.lateness, captured.expired
        if isinstance(found, NeedsSpark):
            for segment in found.segments:
                more, counted, why, late, gone = self._by_spark(state, segment)
                entries += more
                counts += counted
                reasons += why
                lateness += late
                expired += gone
        entries += self._reaching(state, entries, counts, expired)
        return Captured(
            version,
            tuple(_kept(entries, state.discarded)),
            counts=tuple(counts),
            reasons=tuple(reasons),
            max_entries=log_entries_of(aggregate.definition.spec, self._config.log_max_entries),
            lateness=(lateness if self._known_at or state.extent_end != NEG_INF else Lateness()).as_json(),
            waited=_waited(state),
            expired=expired,
            mark=mark(DeltaFolder.at(state.source.path), version, reads),
        )

    def _anew(self, state: AggregateState, version: int, broken: SourceBreak) -> Captured:
        """Return that everything is dirty, because the source is not the one that was captured."""
        spec, first = self._aggregate.definition.spec, min(state.cursor + 1, version)
        piece = CapturedPiece(SpanSet.of(EVERYTHING), Rung.SOURCE, False, ANY_ROWS, None, first, version)
        reads = [name for name, _ in spec.read_types]
        return Captured(
            version,
            tuple(_kept(self._all_of(state, piece), state.discarded)),
            counts=({"version": version, "rung": Rung.SOURCE.value, "rows": None},),
            reasons=(broken.reason,),
            max_entries=log_entries_of(spec, self._config.log_max_entries),
            mark=mark_anew(DeltaFolder.at(state.source.path), version, reads, broken.reason, state.mark),
            table_id=broken.table_id,
        )

    def _entries(self, state: AggregateState, captured: lake.CaptureResult) -> Iterator[Entry]:
        for piece in captured.pieces:
            if piece.is_frozen:
                yield from self._frozen(piece)
                continue
            is_fine = piece.rung is Rung.FEED or piece.keys is not None
            for span in piece.times:
                yield Entry(
                    span,
                    state.cursor if is_fine else None,
                    _CAUSES[piece.rung],
                    piece.keys if is_fine else None,
                    is_insert_only=piece.is_insert_only,
                    gone=0 if piece.is_insert_only else piece.rows,
                )

    def _frozen(self, piece: CapturedPiece) -> Iterator[Entry]:
        """Yield what a piece below the frozen bound makes dirty.

        An entry without ``after`` stays in the log until a thaw: inserts that cannot be merged, and conflicts.
        """
        is_fine = piece.rung is Rung.FEED and piece.is_insert_only
        cause = _CAUSES[piece.rung] if piece.is_insert_only else Cause.CONFLICT
        merges = is_fine and not self._aggregate.definition.layout.not_mergeable
        for span in piece.times:
            yield Entry(span, piece.from_version - 1 if merges else None, cause, is_insert_only=is_fine)

    def _reaching(
        self, state: AggregateState, entries: Sequence[Entry], counts: Sequence[Mapping[str, Any]], expired: int
    ) -> Iterator[Entry]:
        """Yield the first slice above the frozen bound where events that last changed below it: they may reach above it.

        Which do is for planning to tell, which reads their ends.
        """
        engine = self._aggregate.definition.engine
        if engine is None or state.frozen == NEG_INF:
            return

        if engine.params.lasts_from(state.frozen) is None:
            return
        is_fine = all(count["rung"] == Rung.FEED for count in counts)
        if not is_fine or expired or any(e.span.start < state.frozen for e in entries):
            span = Span(state.frozen, self._aggregate.definition.grid.next(state.frozen))
            yield Entry(span, state.cursor if is_fine else None, Cause.CHANGE if is_fine else Cause.FILES)

    def _by_spark(
        self, state: AggregateState, segment: Segment
    ) -> tuple[list[Entry], list[dict[str, Any]], list[str], Lateness, int]:
        first, last = segment.from_version, segment.to_version
        definition = self._aggregate.definition
        try:
            found = self._engine().changes(definition, state.source, first - 1, last, frozen=state.frozen)
        except ChangeFeedGapError as exc:
            captured = lake.capture_by_files(
                state.source.path,
                after=state.cursor,
                from_version=first,
                to_version=last,
                time_column=definition.spec.time_column,
                time_type=definition.time_type,
                floor=definition.grid.floor,
                next_edge=definition.grid.next,
                reason=exc.message,
                frozen_below=state.frozen,
            )
            return (
                list(self._entries(state, captured)),
                _counts(captured.per_version),
                list(captured.reasons),
                Lateness(),
                captured.expired,
            )
        rows = sum(found.counts.values())
        if found.starts is None:
            reason = f"versions {first} to {last} touch too many buckets to tell them apart"
            lost = [{"version": last, "rung": "lost", "rows": None}]
            everything = CapturedPiece(SpanSet.of(EVERYTHING), Rung.LOST, False, ANY_ROWS, None, first, last)
            return list(self._all_of(state, everything)), lost, [reason], Lateness(), 0
        by_keys: dict[Keys | None, list[Span]] = defaultdict(list)
        for start in found.starts:
            by_keys[found.keys.get(start)].append(Span(start, definition.grid.next(start)))
        gone = found.counts["update_preimage"] + found.counts["delete"]
        entries = [
            Entry(span, state.cursor, Cause.CHANGE, keys, found.is_insert_only, gone)
            for keys, spans in by_keys.items()
            for span in SpanSet.union(spans)
        ]
        for starts, is_late in ((found.late, True), (found.conflicts, False)):
            times = SpanSet.union(Span(start, definition.grid.next(start)) for start in starts)
            piece = CapturedPiece(times, Rung.FEED, is_late, 0, None, first, last, is_frozen=True)
            entries += self._frozen(piece)
        count = {"version": last, "rung": "feed", "rows": rows, "null_time": found.null_times, **found.counts}
        return entries, [count], [], found.lateness, found.expired

    def _all_of(self, state: AggregateState, piece: CapturedPiece) -> Iterator[Entry]:
        """Yield a piece that nothing is known of, parted at the frozen bound."""
        below = SpanSet() if state.frozen == NEG_INF else SpanSet.of(Span(NEG_INF, state.frozen))
        parts = (replace(piece, times=piece.times - below), replace(piece, times=below, is_frozen=True))
        return self._entries(state, lake.CaptureResult(parts))

    @property
    def _known_at(self) -> str:
        """The column that says when a row was known; "" where its commit says it, of which the first load says nothing."""
        return self._aggregate.definition.spec.property_map.get(KNOWN_AT, "")

    def _recorded_keys(self) -> tuple[str, ...] | None:
        """Return the source columns that the keys are made of, if changed keys are recorded here."""
        definition = self._aggregate.definition
        if why_not_recorded(definition):
            return None
        if all(definition.key_sources):
            return tuple(k for k in definition.key_sources if k)
        if self._config.executor == "spark" or definition.engine is not None:
            return None
        from materializer.local.keys import columns_of  # noqa: PLC0415 (it loads a parser)

        return columns_of(definition)

    def _evaluate(self) -> Callable[[Any], Any] | None:
        """Return what computes keys that are expressions."""
        definition = self._aggregate.definition
        if all(definition.key_sources):
            return None
        from materializer.local.keys import evaluated  # noqa: PLC0415 (it loads a parser)

        return lambda rows: evaluated(definition, rows)


def _kept(entries: Iterable[Entry], retired: int) -> Iterator[Entry]:
    """Yield what of some entries is about buckets that our tables keep."""
    stored = SpanSet.of(EVERYTHING if retired == NEG_INF else Span(retired, POS_INF))
    for entry in entries:
        yield from (replace(entry, span=span) for span in SpanSet.of(entry.span) & stored)


def _waited(state: AggregateState) -> float | None:
    """Return for how many seconds the oldest uncaptured commit of the source has waited."""
    try:
        oldest, *_ = DeltaFolder.at(state.source.path).commits(state.cursor, state.cursor + 1)
        return max(0.0, round(time.time() - oldest.timestamp / 1000, 3))
    except LogGapError:
        return None


def _counts(counts: Sequence[VersionCount]) -> list[dict[str, Any]]:
    """Return the counts of each version or, of many versions, one sum for each rung under its newest version."""
    if len(counts) > MOST_COUNTS:
        by_rung: dict[Rung, VersionCount] = {}
        for count in counts:
            before = by_rung.get(count.rung)
            by_rung[count.rung] = count if before is None else before + count
        counts = list(by_rung.values())
    return [{**as_json(c), "rows": c.rows if c.rung is Rung.FEED else None} for c in counts]

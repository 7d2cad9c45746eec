"""Status, history and published rows of aggregates, without a JVM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from materializer.core.policy.policies import has_clock, promise_of
from materializer.core.policy.retention import clock_edge, latest_instant
from materializer.core.printed import Printed, PrintedList, PrintedTable, facts, span_text, spans_text
from materializer.core.quality.canaries import Canaries, canaries_of
from materializer.core.refresh.lateness import Advice, Lateness, advice
from materializer.core.time.grid import Grid
from materializer.core.time.instants import SECOND, Instant, Shown, render
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.errors import MaterializerError
from materializer.journal import output_rows
from materializer.journal.journal import Journal
from materializer.journal.output_rows import OutputRows
from materializer.journal.state import AggregateState, Ended
from materializer.journal.view import View
from materializer.lake import places
from materializer.lake.extent import files
from materializer.lake.failures import no_table
from materializer.lake.statistics import unit
from materializer.lake.table import DeltaFolder, one_look
from materializer.services.aggregate import Aggregate, Timed, output_of, timed
from materializer.services.delivery import registration
from materializer.services.observe import own_tables
from materializer.services.observe.clock import wall_clock
from materializer.services.observe.dirty import dirty_below_newest
from materializer.services.observe.frozen_bound import why_stuck
from materializer.services.observe.source_deletes import OtherReader, left_to_owner
from materializer.services.planning import executors
from materializer.services.report.chain import FRESH, Ancestor, Chains
from materializer.services.report.freshness import Freshness, freshness_of
from materializer.services.report.history import folded
from materializer.services.report.source_lateness import SourceLateness, by_source
from materializer.services.schedule.policies import PolicyState, now_to_look, outside, policy_states
from materializer.services.versions.progress import (
    NextVersion,
    PreviousVersion,
    holder_of,
    next_version,
    previous_versions,
)

if TYPE_CHECKING:
    import pandas as pd


class PastClock(Struct, frozen=True):
    """Rows of the source in buckets after the current one, from file statistics; retention does not count from them.

    Args:
        newest: Time of the newest one, an instant; the start of its bucket when no file has more exact statistics.
        rows: How many there are, at most; None when that is not known.
        files: How many files have such rows.
    """

    newest: int
    rows: int | None
    files: int


class Status(Printed, Struct, frozen=True):
    """One aggregate at a glance.

    Args:
        name: The aggregate.
        source: Path of its source.
        grid: Its buckets, as text.
        time_type: Type of its time column; instants below are of that type.
        cursor: Source version up to which changes are captured.
        newest: Newest source version, or None when the source cannot be read.
        threshold: End of everything that was ever materialised.
        newest_bucket_end: End of the bucket of the newest row at the cursor.
        dirty: Dirty spans below the newest row.
        entries: Entries of the invalidation log.
        changed_keys: Distinct changed keys, when all are known.
        null_times: Source rows without a time, when known.
        open_refresh: Number of its open refresh.
        holder: The process that works on it now, as text.
        rows: Rows of the output, when its log has the number.
        last: The last refresh that ended.
        state: ``fresh``, ``behind`` (also if an aggregate that it reads is not fresh), ``dirty``, ``empty``, ``unfinished``,
            ``source-unreadable`` or ``output-unreadable``, also if the tables are not those that the journal left.
        problem: Why the source or the output cannot be read, and what mends it.
        policies: Its refresh policies, newest window first.
        outside: Dirty spans below the newest row in no policy's window; None without policies, or when *now* is not known.
        freshness: Its staleness, compared with its promise; None without a promise.
        held: The part of *dirty* that a gate withholds.
        last_check: Result of the last check of published rows, as JSON; None without one.
        lateness: Lateness of the rows inserted into the source since the aggregate was defined.
        advice: Suggested policies and retention of the source by *lateness*; None without enough rows.
        maintained: Report of the last maintenance, as JSON; empty before the first.
        next: Progress of its next version; None without one.
        previous: Previous versions, newest first.
        canaries: Results of its canaries; None without canaries.
        frozen: The frozen boundary; ``NEG_INF`` when nothing is frozen.
        retired: The first retained edge of the output; ``NEG_INF`` without retention.
        expired_rows: Raw rows that were deleted below *frozen*, as far as known.
        stuck: Dirty spans below *frozen* that cannot be computed, each with the reason.
        delete: Statement by which the owner of the source may delete the rows below *frozen*; "" if nothing is frozen, or if
            the source is the output of another aggregate.
        readers: Other aggregates that read these rows and are not frozen there.
        past_clock: Rows of the source past the clock; None without any.
        table: Name of its output in a catalog; "" without one.
        table_problem: Why the output does not have the name that the definition asks for; "" if it has.
        waits_for: The aggregate that it reads, itself or through others, and that has to be refreshed first; None if all are fresh.
        only_spark: Parts of it that only Spark can compute or check; None if they were not looked for.
    """

    name: str
    source: str
    grid: str
    time_type: Shown
    cursor: int
    newest: int | None
    threshold: int
    newest_bucket_end: int
    dirty: SpanSet
    entries: int
    changed_keys: int | None
    null_times: int | None
    open_refresh: int | None
    holder: str
    rows: int | None
    last: Ended | None
    state: str
    problem: str = ""
    policies: tuple[PolicyState, ...] = ()
    outside: SpanSet | None = None
    freshness: Freshness | None = None
    held: SpanSet = field(default_factory=SpanSet)
    last_check: Mapping[str, Any] | None = None
    lateness: Lateness = field(default_factory=Lateness)
    advice: Advice | None = None
    maintained: Mapping[str, Any] = field(default_factory=dict)
    next: NextVersion | None = None
    previous: tuple[PreviousVersion, ...] = ()
    canaries: Canaries | None = None
    frozen: int = NEG_INF
    retired: int = NEG_INF
    expired_rows: int = 0
    stuck: tuple[tuple[Span, str], ...] = ()
    delete: str = ""
    readers: tuple[OtherReader, ...] = ()
    past_clock: PastClock | None = None
    table: str = ""
    table_problem: str = ""
    only_spark: tuple[str, ...] | None = None
    waits_for: Ancestor | None = None

    @property
    def versions(self) -> str:
        """The captured version of the source, and the newest one where that is another; it is older in a source that was put back."""
        newest, cursor = self.newest, self.cursor
        if newest is None or newest == cursor:
            return f"{cursor:,}"
        return f"{cursor:,} of {newest:,}" if newest > cursor else f"{cursor:,}, but the newest is {newest:,}"

    def _tables(self) -> list[PrintedTable]:
        kind, last, fresh = self.time_type, self.last, self.freshness
        newest = "not readable" if self.newest is None else self.versions
        pairs = [
            ("", self.problem),
            ("source", self.source),
            ("captured version", newest),
            ("buckets", self.grid),
            ("rows", self.rows),
            ("materialised below", None if last is None else text(kind, self.threshold)),
            ("dirty", spans_text(self.dirty, kind)),
            ("withheld", spans_text(self.held, kind)),
            ("frozen below", None if self.frozen == NEG_INF else text(kind, self.frozen)),
            (
                "staleness",
                None if fresh is None else f"{fresh.staleness} ({'in time' if fresh.is_kept else 'too old'})",
            ),
            (
                "last refresh",
                None if last is None else f"{last.n}, {last.outcome} {last.at}, {last.report.seconds:.2f} s",
            ),
        ]
        return [facts(f"{self.name}: {self.state}", pairs)]


class Statuses(list[Status], Printed):
    """The status of some aggregates, which print as one table."""

    __repr__ = __str__ = Printed.__repr__

    def _tables(self) -> list[PrintedTable]:
        header = ("aggregate", "state", "rows", "source version", "dirty spans", "last refresh")
        rows = [
            (
                s.name,
                s.state if not s.problem else f"{s.state}: {s.problem}",
                s.rows,
                s.versions,
                len(s.dirty) or None,
                s.last.at if s.last else "never",
            )
            for s in self
        ]
        return [PrintedTable(f"{len(self)} aggregate{'s'[: len(self) != 1]}", header, rows)]


class Looker(Struct):
    """Reports on the aggregates of one lake; writes nothing."""

    root: str
    journal: Journal

    def status(self, name: str | None = None, now: Instant = None) -> Statuses:
        """Return the status of one aggregate, or of all by name.

        Args:
            name: The aggregate.
            now: The *now* of policies and promises; None for the clock.
        """
        view = self.journal.view()
        states = [view.named(name)] if name else sorted(view.states.values(), key=lambda s: s.name.lower())
        with one_look():
            chains, noted = Chains(self.root, view.states), output_rows.read(self.root)
            found = Statuses(self._status(s, view, now, chains, noted) for s in states)
        if name:
            found = Statuses(
                replace(s, only_spark=executors.obstacles(Aggregate.of(states[0], self.root))) for s in found
            )
        return found

    def lateness(self, name: str | None = None) -> tuple[SourceLateness, ...]:
        """Return the lateness of the rows of each source, or of the source of one aggregate."""
        view = self.journal.view()
        sources, only = by_source(view.states.values()), view.named(name).source.path if name else None
        return tuple(s for s in sources if only in {None, s.source})

    def history(self, name: str, limit: int | None = 20) -> PrintedList[Ended]:
        """Return the last refreshes of an aggregate, newest first.

        Args:
            name: The aggregate.
            limit: How many at most; None for all, with those in the history table.
        """
        state = self.journal.view().named(name)
        recent = list(state.ended)
        if limit is None or limit > len(recent):
            recent = [*folded(self.journal.history(state.id), {e.n for e in recent}), *recent]
        recent.reverse()
        recent = recent if limit is None else recent[:limit]
        return PrintedList(recent, lambda: _history_table(state, recent))

    def newest_bucket_end(self, name: str) -> int | None:
        """Return the end of the bucket of the source's newest row; None without rows.

        Returns:
            An instant of the aggregate's time. If the source's files have no statistics, the end of the newest captured bucket.
        """
        state = self.journal.view().named(name)
        definition = Aggregate.of(state, self.root).definition
        head = DeltaFolder.at(state.source.path).head()
        hull = files(state.source.path, head.version, definition.spec.time_column, definition.time_type).hull
        newest = max(state.extent_end, NEG_INF if hull is None else definition.grid.cover(hull).end)
        return None if newest == NEG_INF else newest

    def _status(
        self,
        state: AggregateState,
        view: View,
        given: Instant,
        chains: Chains,
        noted: Mapping[str, OutputRows],
    ) -> Status:
        seen, beside, left = chains.seen(state), None, noted.get(state.id)
        left = left if left is not None and left.holds(output_of(state, self.root)) else None
        is_left = left is not None and left.is_left(state, self.root)
        foreign = "" if is_left else own_tables.problem(state, self.journal)
        state, newest, problem = seen.state, seen.newest, seen.problem
        definition = timed(state)
        with suppress(MaterializerError):  # its source may be another table, which is gone
            beside = next_version(state, view.build_of(state), self.root)
        rows, why = (left.rows, "") if left is not None else self._rows(state)
        if why:
            lost = f"its output cannot be read: {why}; 'materializer repair {state.name}' makes it again"
            problem = "; ".join(filter(None, (problem, lost)))
        elif foreign:
            problem = "; ".join(filter(None, (problem, foreign)))
        dirty, above = dirty_below_newest(state), chains.waits_for(state)
        word = "output-unreadable" if problem != seen.problem and not seen.problem else seen.word
        keys = [e.keys for e in state.computable.entries if e.span.start < max(state.threshold, state.extent_end)]
        known = None if any(k is None for k in keys) else len(frozenset().union(*[k for k in keys if k is not None]))
        grid, clock = definition.grid, wall_clock()
        now = now_to_look(given, state, grid, clock)
        promise = promise_of(definition.spec)
        return Status(
            state.name,
            state.source.path,
            grid.describe(),
            grid.shown,
            state.cursor,
            newest,
            state.threshold,
            state.extent_end,
            dirty,
            len(state.log.entries),
            known,
            state.null_times,
            state.plan.n if state.plan else None,
            holder_of(state),
            rows,
            state.ended[-1] if state.ended else None,
            "behind" if word == FRESH and above else word,
            problem,
            policy_states(
                state, definition, now, now if now is not None and has_clock(grid) else clock, is_by_clock=given is None
            ),
            outside(state, definition, now),
            None if promise is None else freshness_of(promise, [seen, *chains.above(state)], now=now),
            chains.withheld(state) & dirty,
            state.checks[-1] if state.checks else None,
            state.lateness,
            advice_of(state, grid),
            state.maintained,
            beside,
            previous_versions(state),
            canaries_of(definition.spec.property_map, state.canaries),
            state.frozen,
            state.retired,
            state.expired_rows,
            tuple((e.span, why_stuck(e)) for e in state.uncomputable),
            *(("", ()) if state.frozen == NEG_INF else self._left_to_owner(state, view)),
            past_clock(state, definition, newest, now),
            state.table,
            registration.why_not(state),
            waits_for=above,
        )

    def _rows(self, state: AggregateState) -> tuple[int | None, str]:
        """Return how many rows an output has, None if a file has no count, and why it cannot be read, or ""."""
        path = output_of(state, self.root)
        if places.is_local(path) and not places.exists(path):
            return None, no_table(path)
        try:
            return DeltaFolder.at(path).rows(), ""
        except MaterializerError as exc:
            return None, exc.message

    def _left_to_owner(self, state: AggregateState, view: View) -> tuple[str, tuple[OtherReader, ...]]:
        return left_to_owner(state, Aggregate.of(state, self.root).definition, self.root, view)

    def show(
        self, name: str, *, limit: int = 20, start: int | None = None, end: int | None = None
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return column names and some published rows, newest bucket first, without a JVM."""
        from materializer.lake.rows import newest_rows  # noqa: PLC0415 - Arrow, which a history does not need

        aggregate = Aggregate.of(self.journal.view().named(name), self.root)
        return newest_rows(
            aggregate.paths["output"], aggregate.slice_column("output"), limit=limit, start=start, end=end
        )


def _history_table(state: AggregateState, ended: Sequence[Ended]) -> PrintedTable:
    kind = timed(state).grid.shown
    rows = [
        (e.n, e.outcome, e.at, e.report.strategy, span_text(e.window, kind), e.report.rows_read, e.report.rows_written)
        for e in ended
    ]
    header = ("refresh", "outcome", "ended", "strategy", "window", "rows read", "rows written")
    return PrintedTable(f"{state.name}: {len(ended)} refreshes", header, rows)


def advice_of(state: AggregateState, grid: Grid) -> Advice | None:
    """Return suggested policies by the lateness of the source's rows; None without enough rows."""
    if not state.lateness.total or state.extent_end == NEG_INF:
        return None
    start = grid.edge_at(state.extent_end - 1)
    return advice(state.lateness, (grid.next(start) - start) / SECOND, max(state.waits, default=None))


def past_clock(state: AggregateState, definition: Timed, version: int | None, now: int | None) -> PastClock | None:
    """Return the captured rows past the clock; without any, no file is listed.

    Args:
        state: The aggregate.
        definition: What its definition says of time.
        version: Version of the source whose statistics are read, None when the source cannot be read.
        now: The *now* of the aggregate; None when it is not known.
    """
    grid = definition.grid
    latest = None if now is None else latest_instant(now, grid)
    if latest is None or state.extent_end <= latest or state.extent_end <= (edge := clock_edge(latest, grid)):
        return None
    extent = None
    with suppress(MaterializerError):
        if version is not None:
            extent = files(state.source.path, version, definition.spec.time_column, definition.time_type)
    if extent is None or extent.unknown.files:
        return PastClock(grid.edge_at(state.extent_end - 1), None, 0 if extent is None else extent.unknown.files)
    past = extent.estimate(SpanSet.of(Span(edge, POS_INF)))
    tick = unit(definition.time_type)  # files end a tick after their newest row, cut to whole ticks
    newest = (max((f.end for f in extent.files), default=edge) - 1) // tick * tick
    return PastClock(newest, past.rows, past.files) if past.files else None


def text(time_type: Shown, instant: int) -> str:
    """Return an instant as text."""
    return render(instant, time_type)


def frame(statuses: Iterable[Status]) -> pd.DataFrame:
    """Return a frame with one row for each status."""
    import pandas as pd  # noqa: PLC0415 (slow to import)

    rows = [
        {
            "name": s.name,
            "state": s.state,
            "grid": s.grid,
            "cursor": s.cursor,
            "newest": s.newest,
            "threshold": text(s.time_type, s.threshold),
            "dirty_spans": len(s.dirty),
            "rows": s.rows,
            "null_times": s.null_times,
            "last_refresh": s.last.at if s.last else None,
        }
        for s in statuses
    ]
    return pd.DataFrame(rows)

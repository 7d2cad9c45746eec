"""The preview of a refresh, from the decision that the refresh would make; writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from msgspec import Struct, field
from msgspec.structs import replace

from materializer.core.compiled.definition import Definition
from materializer.core.printed import Printed, PrintedTable, facts, size_text, spans_text
from materializer.core.refresh.invalidation import Cause, Entry
from materializer.core.refresh.plan import Estimate, ExecutorKind, Plan, Recompute, RollUp, Settle, strategy_of
from materializer.core.time.instants import Shown
from materializer.core.time.slice_column import SliceColumn
from materializer.core.time.spans import EVERYTHING, NEG_INF, Span, SpanSet
from materializer.journal.events import Captured, Invalidated
from materializer.journal.state import AggregateState
from materializer.journal.view import View
from materializer.services.commit.lake import Lake
from materializer.services.definitions import rolled_up
from materializer.services.definitions.waiting import WaitingVersion, waiting_version
from materializer.services.observe.dirty import dirty_below_newest, stuck_spans
from materializer.services.observe.observe import applied
from materializer.services.planning.options import RefreshOptions
from materializer.services.planning.runs import Request
from materializer.services.protocol.process import Which


class Preview(Printed, Struct, frozen=True):
    """The plan of a refresh that was not carried out.

    Args:
        name: The aggregate.
        time_type: Type of its time column, for showing instants.
        window: Whole buckets of the refresh window; None when an open end leaves nothing.
        source_version: Source version that would be read.
        captured: The changes of new source versions, which would be captured first.
        dirty: Dirty spans inside the window.
        outside: Dirty spans below the newest row, outside the window.
        plan: The first run; None when nothing is dirty.
        runs: About how many runs the window needs.
        unfinished: Number of an open refresh, which would be ended first.
        frozen: The frozen boundary; ``NEG_INF`` when nothing is frozen.
        stuck: The dirty spans below *frozen* that cannot be computed.
        starting: Seconds that starting Spark takes first, about; 0 where it runs, or nothing needs it.
        waiting: The next version, which waits to be built; None without one.
        sample: Which rows of its source are read, for people; "" for all.
    """

    name: str
    time_type: Shown
    window: Span | None
    source_version: int
    captured: Captured | None
    dirty: SpanSet
    outside: SpanSet
    plan: Plan | None
    runs: int
    unfinished: int | None = None
    frozen: int = NEG_INF
    stuck: SpanSet = field(default_factory=SpanSet)
    starting: float = 0.0
    waiting: WaitingVersion | None = None
    sample: str = ""

    def __str__(self) -> str:
        """Return the plan as text; the command line has a longer form."""
        if self.plan is None:
            next_ = f"\n  next version {self.waiting.text}" if self.waiting else ""
            return f"{self.name}: nothing to do at source version {self.source_version}{next_}"
        lines = [
            f"{self.name}: refresh {self.plan.n} at source version {self.source_version}, about {self.runs:,} run{'' if self.runs == 1 else 's'}"
        ]
        for step in self.plan.steps:
            lines.append(f"  {strategy_of(step):9} {_spans(step.spans, self.time_type)}")
            if isinstance(step, Settle):
                continue
            if isinstance(step, Recompute):
                lines.append(f"{'':12}because {step.reason}")
            read = step.estimate
            lines.append(f"{'':12}reads at most {_read(read)}")
            lines += [f"{'':12}not {r.strategy}: {r.reason}" for r in step.rejected]
        if self.stuck:
            lines.append(f"  below the frozen bound {_spans(self.stuck, self.time_type)} stays dirty")
        if self.outside:
            lines.append(f"  stays dirty {_spans(self.outside, self.time_type)}")
        if self.waiting:
            lines.append(f"  next version {self.waiting.text}")
        return "\n".join(lines)

    __repr__ = __str__

    def _tables(self) -> list[PrintedTable]:
        kind, next_ = self.time_type, self.waiting.text if self.waiting else None
        if self.plan is None:
            pairs = [("source version", self.source_version), ("next version", next_)]
            return [facts(f"{self.name}: nothing to do", pairs)]
        steps = []
        for step in self.plan.steps:
            read = Estimate() if isinstance(step, Settle) else step.estimate
            why = step.reason if isinstance(step, Recompute | RollUp) else ""
            against = () if isinstance(step, Settle) else step.rejected
            reads = _read(read) if read.files else "nothing"
            seconds = None if isinstance(step, Settle) else f"{step.seconds:.3f} s"
            rejected = "\n".join(f"{r.strategy}: {r.reason}" for r in against if r.reason)
            steps.append((strategy_of(step), _spans(step.spans, kind), why, reads, seconds, rejected))
        start = f" and {self.starting:.0f} s to start Spark" if self.starting else ""
        price = f"about {self.plan.seconds:.2f} s{start}"
        head = f"{self.name}: refresh {self.plan.n} of source version {self.source_version}, {price}"
        found = PrintedTable(
            f"{head}, by {self.plan.executor}",
            ("strategy", "buckets", "because", "reads at most", "price", "not"),
            steps,
        )
        left = [("outside the window", self.outside), ("below the frozen boundary", self.stuck)]
        dirty = [(f"dirty {where}", _spans(spans, kind)) for where, spans in left if spans]
        dirty += [("next version", next_)] if next_ else []
        return [found, facts("", dirty)] if dirty else [found]


class Coming(Struct, frozen=True):
    """The buckets of a parent that are refreshed first.

    Args:
        spans: The buckets.
        column: The column of its output that they are of.
    """

    spans: SpanSet
    column: SliceColumn

    def of_child(self, definition: Definition) -> SpanSet:
        """Return the buckets of a child that they make dirty: all where it divides another time."""
        if definition.spec.rolls_up is None and definition.spec.time_column != self.column.name:
            return SpanSet.of(EVERYTHING) if self.spans else SpanSet()
        return definition.grid.cover_set(self.spans | self.column.values_in(self.spans))


def _spans(spans: SpanSet, time_type: Shown) -> str:
    return spans_text(spans, time_type, few=2, between=", ")


def _read(read: Estimate) -> str:
    many = (f"{n:,} {one}{'' if n == 1 else 's'}" for n, one in ((read.rows, "row"), (read.files, "file")))
    rows, files = many
    return f"{rows}, {size_text(read.bytes)} in {files}"


class Previewer(Struct):
    """Makes previews."""

    lake: Lake

    def chain(self, items: Sequence[tuple[str, RefreshOptions]]) -> list[Preview]:
        """Return the previews of aggregates of which each reads the one before it, as if that had been refreshed.

        Args:
            items: Name and options of each, the one that reads raw rows first.
        """
        found: list[Preview] = []
        coming: Coming | None = None
        for name, options in items:
            preview = self.preview(name, options, coming=coming)
            column = self.lake.aggregate(self.lake.journal.view().named(name)).slice_column("output")
            coming = None if preview.plan is None else Coming(preview.plan.spans, column)
            found.append(preview)
        return found

    def preview(self, name: str, options: RefreshOptions, *, coming: Coming | None = None) -> Preview:
        """Return what :meth:`Refresher.refresh` would do first, as if an open refresh had been given up.

        Args:
            name: The aggregate.
            options: What is asked.
            coming: What of its parent is refreshed before it.
        """
        view = self.lake.journal.view()
        state = view.named(name)
        with self.lake.reading(state):
            return self._preview(view, state, options, coming)

    def _preview(self, view: View, state: AggregateState, options: RefreshOptions, coming: Coming | None) -> Preview:
        lake = self.lake
        event = None if state.plan else rolled_up.moved(state, lake.root, view.states)
        state = state if event is None else applied(state, event)
        from materializer.core.compiled.sample import text_of  # noqa: PLC0415 (few plans are previews)
        from materializer.services.definitions import widened  # noqa: PLC0415 (few plans are previews)

        wider = widened.found(state, lake.engine, lake.config.run_rows, is_strict=options.strict)
        state = reduce(applied, wider.events, state) if wider else state
        aggregate = lake.aggregate(state)
        planner = lake.planner(state, Request(options))
        observation = planner.observation
        unfinished = state.plan.n if state.plan else None
        if state.plan is not None:
            state = observation.given_back(state)
        if coming is not None:
            observation.coming = coming.of_child(aggregate.definition)
            entries = tuple(Entry(span, None, Cause.FILES) for span in observation.coming)
            state = applied(observation.looked(state), Invalidated(entries, "its parent is refreshed first"))
            hull = observation.coming.hull
            if hull is not None and hull.is_bounded:
                state = replace(state, extent_end=max(state.extent_end, hull.end))
        decision = planner.decide(state, {which: observation.head(which) for which in Which})
        note = decision.note
        assert note is not None  # a planner of runs always returns one
        window = note.window
        outside = dirty_below_newest(note.state) - (SpanSet.of(window) if window else SpanSet())
        return Preview(
            state.name,
            aggregate.definition.grid.shown,
            window,
            note.source_version,
            note.captured,
            note.dirty,
            outside,
            decision.plan,
            note.run.runs if note.run else 0,
            unfinished,
            note.state.frozen,
            stuck_spans(note.state),
            lake.starting() if decision.plan and decision.plan.executor is ExecutorKind.SPARK else 0.0,
            waiting_version(view, view.all.get(state.id, state)),
            text_of(aggregate.definition.spec),
        )

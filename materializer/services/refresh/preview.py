"""The preview of a refresh, from the decision that the refresh would make; writes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from materializer.core.refresh.plan import Plan, Recompute, Settle, strategy_of
from materializer.core.spec.spec import TimeType
from materializer.core.time.instants import render
from materializer.core.time.spans import NEG_INF, Span, SpanSet
from materializer.journal.events import Captured
from materializer.services.commit.lake import Lake
from materializer.services.definitions import rolled_up
from materializer.services.observe.dirty import dirty_below_newest, stuck_spans
from materializer.services.observe.observe import applied
from materializer.services.planning.options import RefreshOptions
from materializer.services.planning.runs import Request
from materializer.services.protocol.process import Which


@dataclass(frozen=True, slots=True)
class Preview:
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
    """

    name: str
    time_type: TimeType
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

    def __str__(self) -> str:
        """Return the plan as text; the command line has a longer form."""
        if self.plan is None:
            return f"{self.name}: nothing to do at source version {self.source_version}"
        lines = [
            f"{self.name}: refresh {self.plan.n} at source version {self.source_version}, about {self.runs} run(s)"
        ]
        for step in self.plan.steps:
            lines.append(f"  {strategy_of(step):9} {_spans(step.spans, self.time_type)}")
            if isinstance(step, Settle):
                continue
            if isinstance(step, Recompute):
                lines.append(f"{'':12}because {step.reason}")
            read = step.estimate
            lines.append(f"{'':12}reads at most {read.rows:,} rows, {read.bytes:,} bytes in {read.files} files")
            lines += [f"{'':12}not {r.strategy}: {r.reason}" for r in step.rejected]
        if self.stuck:
            lines.append(f"  below the frozen bound {_spans(self.stuck, self.time_type)} stays dirty")
        if self.outside:
            lines.append(f"  stays dirty {_spans(self.outside, self.time_type)}")
        return "\n".join(lines)


def _spans(spans: SpanSet, time_type: TimeType) -> str:
    shown = [f"[{render(s.start, time_type)}, {render(s.end, time_type)})" for s in spans.spans[:2]]
    return ", ".join(shown) + (f" and {len(spans) - 2} more" if len(spans) > 2 else "")


@dataclass(slots=True)
class Previewer:
    """Makes previews."""

    lake: Lake

    def preview(self, name: str, options: RefreshOptions) -> Preview:
        """Return what :meth:`Refresher.refresh` would do first, as if an open refresh had been given up."""
        lake = self.lake
        view = lake.journal.view()
        state = view.named(name)
        event = None if state.plan else rolled_up.moved(state, lake.root, view.states)
        state = state if event is None else applied(state, event)
        aggregate = lake.aggregate(state)
        planner = lake.planner(state, Request(options))
        observation = planner.observation
        unfinished = state.plan.n if state.plan else None
        if state.plan is not None:
            state = observation.given_back(state)
        decision = planner.decide(state, {which: observation.head(which) for which in Which})
        note = decision.note
        assert note is not None  # a planner of runs always returns one
        window = note.window
        outside = dirty_below_newest(note.state) - (SpanSet.of(window) if window else SpanSet())
        return Preview(
            state.name,
            aggregate.definition.time_type,
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
        )

"""``plan``: what a refresh would do, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, assert_never

from materializer.adapters.cli.render.result import (
    DONE,
    IDLE,
    Result,
    estimate_form,
    instant_form,
    span_form,
    spans_form,
    value_form,
    window_form,
)
from materializer.adapters.cli.words import count, duration, labelled, number, size, span, spans, wrapped
from materializer.core.refresh.plan import (
    Estimate,
    Lane,
    Merge,
    Plan,
    Recompute,
    Rejected,
    Retract,
    RollUp,
    Settle,
    Step,
    strategy_of,
)
from materializer.core.time.instants import Shown
from materializer.core.time.spans import SpanSet
from materializer.structs import as_dict

if TYPE_CHECKING:
    from materializer.services.definitions.waiting import WaitingCheck, WaitingVersion
    from materializer.services.refresh.preview import Preview

LEAST: Final = 0.001
"""Seconds below which prices look the same."""
_LANES = {Lane.DRIVER: "by the driver (small result)", Lane.SPARK: "by Spark (large result)"}


class PlanResult(Result, frozen=True):
    """What ``plan`` found."""

    preview: Preview
    is_why: bool = False

    @property
    def exit_status(self) -> int:
        return IDLE if self.preview.plan is None and self.preview.unfinished is None else DONE

    def form(self) -> dict[str, Any]:
        p, kind, captured = self.preview, self.preview.time_type, None
        if p.captured is not None:
            dirty = spans_form(SpanSet.union(e.span for e in p.captured.entries), kind)
            captured = {"version": p.captured.version, "dirty": dirty, "null_times": p.captured.null_times}
        return {
            "name": p.name,
            "window": window_form(p.window, kind),
            "source_version": p.source_version,
            "captured": captured,
            "dirty": spans_form(p.dirty, kind),
            "outside": spans_form(p.outside, kind),
            "plan": None if p.plan is None else _plan_form(p.plan, kind) | {"starting": p.starting or None},
            "runs": p.runs,
            "unfinished": p.unfinished,
            **below_form(p.frozen, p.stuck, kind),
            "waiting": waiting_form(p.waiting),
            "sample": p.sample,
        }

    def lines(self, width: int) -> Iterator[str]:
        preview, kind, plan = self.preview, self.preview.time_type, self.preview.plan
        yield f"{preview.name}: " + (
            _idle(preview) if plan is None else f"{plan.strategy.replace('+', ' and ')}, refresh {plan.n}"
        )
        captured = "nothing new"
        if preview.captured is not None:
            dirty = SpanSet.union(e.span for e in preview.captured.entries)
            text = f"dirty by it: {spans(dirty, kind)}" if dirty else "nothing dirty by it"
            captured = f"up to version {preview.captured.version}; {text}"
        unfinished = f"refresh {preview.unfinished} has not ended; it is finished or taken back first"
        pairs = [
            ("window", "nothing: there are no rows yet" if preview.window is None else span(preview.window, kind)),
            ("source", f"version {preview.source_version}"),
            ("sample", preview.sample),
            ("captured", captured),
            ("unfinished", "" if preview.unfinished is None else unfinished),
            ("dirty", spans(preview.dirty, kind)),
        ]
        if plan is not None:
            first = f"about {number(preview.runs)}; the first takes {span(plan.window, kind)}"
            pairs += [
                ("reads", reads_text(plan.estimate)),
                ("makes", _makes(plan.windows)),
                ("executor", f"{plan.executor}: {plan.executor_reason}" if plan.executor_reason else ""),
                ("price", _price(plan.seconds, preview.starting)),
                ("written", _LANES[plan.lane]),
                ("runs", first if preview.runs > 1 else "1"),
            ]
        outside = f"{spans(preview.outside, kind)}, outside" if preview.outside else "nothing outside"
        pairs += [("stays dirty", f"{outside} the window"), ("stuck", stuck_text(preview.stuck, kind))]
        yield from labelled([*pairs, *waiting_pairs(preview.waiting)], width=width)
        for at, step in enumerate(plan.steps if plan else (), start=1):
            yield from _step_lines(at, step, kind, width, is_why=self.is_why)


def _idle(preview: Preview) -> str:
    return "nothing to do for what is published; its next version waits" if preview.waiting else "nothing to do"


def waiting_form(waiting: WaitingVersion | None) -> dict[str, Any] | None:
    """Return the next version, which waits to be built; None without one."""
    return None if waiting is None else value_form(as_dict(waiting))


def waiting_pairs(waiting: WaitingVersion | None) -> Iterator[tuple[str, str]]:
    """Yield what is said of a next version that waits to be built, and of its expectations that wait with it."""
    if waiting is not None:
        yield "next version", waiting.text
        yield from not_active(waiting.checks)


def not_active(checks: Iterable[WaitingCheck]) -> Iterator[tuple[str, str]]:
    """Yield the expectations that do not hold for what is published."""
    yield "not active", "\n".join(check.text for check in checks)


def _price(seconds: float, starting: float) -> str:
    start = f"starting Spark first takes about {duration(starting)}" if starting else ""
    return "; ".join(filter(None, [f"about {duration(seconds)} in all" if seconds else "", start]))


def _plan_form(plan: Plan, kind: Shown) -> dict[str, Any]:
    return {
        "refresh": plan.n,
        "source_version": plan.source_version,
        "window": span_form(plan.window, kind),
        "strategy": plan.strategy,
        "executor": plan.executor.value,
        "executor_reason": plan.executor_reason,
        "seconds": round(plan.seconds, 3) if plan.seconds else None,
        "lane": plan.lane.value,
        "reads": estimate_form(plan.estimate),
        "windows": plan.windows,
        "steps": [step_form(s, kind) for s in plan.steps],
    }


def step_form(step: Step, kind: Shown) -> dict[str, Any]:
    """Return a step with its reasons."""
    estimate, rejected = (Estimate(), ()) if isinstance(step, Settle) else (step.estimate, step.rejected)
    return {
        "strategy": strategy_of(step),
        "reason": _why(step),
        "spans": spans_form(step.spans, kind),
        "keys": step.keys if isinstance(step, Recompute) else None,
        "reads": estimate_form(estimate),
        "seconds": None if isinstance(step, Settle) else round(step.seconds, 4),
        "rejected": [{"strategy": r.strategy, "reason": r.reason, "seconds": _rounded(r.seconds)} for r in rejected],
    }


def _step_lines(at: int, step: Step, kind: Shown, width: int, *, is_why: bool) -> Iterator[str]:
    yield f"  step {at}: {strategy_of(step)}"
    pairs = [("buckets in", spans(step.spans, kind)), ("because", _why(step))]
    if not isinstance(step, Settle):
        pairs += [("keys", _keys(step)), ("reads", reads_text(step.estimate))]
        pairs.append(("price", price_text(step.seconds)))
        pairs += [(f"not {r.strategy}", against(r)) for r in step.rejected if is_why and r.reason]
    yield from labelled(pairs, width=width, indent=4)


def short_plan_lines(name: str, plan: Plan, kind: Shown, width: int, *, is_why: bool = False) -> Iterator[str]:
    """Yield a plan in short: a line, and one for each step."""
    yield f"{name}: refresh {plan.n} at source version {plan.source_version}"
    for step in [s for s in plan.steps if not isinstance(s, Settle)] or plan.steps:
        why = _why(step)
        read = against = ""
        if not isinstance(step, Settle):
            read = f"; {keys}" if (keys := _keys(step)) else ""
            read += f"; reads {reads_text(step.estimate)}"
            if is_why:
                against = "".join(f"; not {r.strategy}: {r.reason}" for r in step.rejected if r.reason not in {"", why})
        if isinstance(step, Recompute) and step.windows:
            read += f"; makes {_makes(step.windows)}"
        text = f"{spans(step.spans, kind, few=2)}{read}; {why}{against}"
        yield from wrapped(text, f"  {strategy_of(step) + ' ':<10}", width=width)


def _why(step: Step) -> str:
    """Return why the buckets of *step* are dirty and come out this way."""
    match step:
        case Settle():
            return "no result there can have changed: nothing to read or write"
        case Recompute(reason=reason):
            return reason
        case Merge(after=after):
            return f"rows were only inserted since version {after}"
        case Retract(after=after):
            return f"rows were changed since version {after}, and what went is subtracted"
        case RollUp(reason=reason, parent=parent):
            return f"{reason}; '{parent}' has partials of the same rows"
        case _:
            assert_never(step)


def _keys(step: Step) -> str:
    """Return which groups of the buckets are computed; "" for all."""
    if not isinstance(step, Recompute) or step.keys is None:
        return ""
    return f"only the groups of {count(step.keys, 'changed key')}; all others are stored partials"


def price_text(seconds: float | None) -> str:
    """Return what a strategy takes, as predicted; "" if that is not known."""
    if not seconds:
        return ""
    return "under 1 ms" if seconds < LEAST else f"about {duration(seconds)}"


def against(rejected: Rejected) -> str:
    """Return why a strategy was not chosen, with its price where it has one."""
    price = price_text(rejected.seconds)
    return f"{rejected.reason} ({price})" if price else rejected.reason


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)


def reads_text(estimate: Estimate) -> str:
    """Return what a step reads at most."""
    if not estimate.files:
        return "nothing"
    return f"at most {count(estimate.rows, 'row')}, {size(estimate.bytes)} in {count(estimate.files, 'file')}"


def _makes(windows: int) -> str:
    """Return how many windows an engine makes at most; "" where they are no more than the rows."""
    return f"at most {count(windows, 'window')}" if windows else ""


def below_form(frozen: int, dirty: SpanSet, kind: Shown) -> dict[str, Any]:
    """Return the time that no refresh computes again, and the dirt in it."""
    return {"frozen_below": instant_form(frozen, kind), "stuck": spans_form(dirty, kind)}


def stuck_text(dirty: SpanSet, kind: Shown) -> str:
    """Return what is said of dirt that no refresh takes; "" when there is none."""
    return f"{spans(dirty, kind)}, dirty below the frozen bound and kept as it is" if dirty else ""

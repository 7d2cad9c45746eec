"""Plans and what refreshes did, as lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, assert_never

from materializer.adapters.cli.render.text_maintain import maintain_lines
from materializer.adapters.cli.words import count, duration, instant, labelled, number, size, span, spans, wrapped
from materializer.core.refresh.plan import Estimate, Lane, Merge, Plan, Recompute, RunReport, Settle, Step, strategy_of
from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import NEG_INF, SpanSet

if TYPE_CHECKING:
    from materializer.services.observe.source_deletes import Reader
    from materializer.services.refresh.preview import Preview
    from materializer.services.refresh.reports import RefreshReport

LANES = {Lane.DRIVER: "the driver (small result)", Lane.SPARK: "Spark (large result)"}


def why(step: Step) -> str:
    """Return why the buckets of *step* are dirty and come out this way."""
    match step:
        case Settle():
            return "neither the source nor the aggregate has rows there: nothing to read or write"
        case Recompute(reason=reason):
            return reason
        case Merge(after=after):
            return f"rows were only inserted since version {after}"
        case _:
            assert_never(step)


def reads(estimate: Estimate) -> str:
    """Return what a step reads at most."""
    if not estimate.files:
        return "nothing"
    return f"at most {count(estimate.rows, 'row')}, {size(estimate.bytes)} in {count(estimate.files, 'file')}"


def makes(windows: int) -> str:
    """Return how many windows an engine makes at most; "" where they are no more than the rows."""
    return f"at most {count(windows, 'window')}" if windows else ""


def plan_lines(preview: Preview, width: int) -> Iterator[str]:
    """Yield a plan: the window, what is known of the source, each step with its reasons, and what stays dirty."""
    kind, plan = preview.time_type, preview.plan
    yield f"{preview.name}: " + (
        "nothing to do" if plan is None else f"{plan.strategy.replace('+', ' and ')}, refresh {plan.n}"
    )
    captured = "nothing new"
    if preview.captured is not None:
        found = SpanSet.union(e.span for e in preview.captured.entries)
        told = f"dirty by it: {spans(found, kind)}" if found else "nothing dirty by it"
        captured = f"up to version {preview.captured.version}; {told}"
    unfinished = (
        f"refresh {preview.unfinished} has not ended; it is finished or taken back first"
        if preview.unfinished is not None
        else ""
    )
    pairs = [
        ("window", "nothing: there are no rows yet" if preview.window is None else span(preview.window, kind)),
        ("source", f"version {preview.source_version}"),
        ("captured", captured),
        ("unfinished", unfinished),
        ("dirty", spans(preview.dirty, kind)),
    ]
    if plan is not None:
        first = f"about {number(preview.runs)}; the first takes {span(plan.window, kind)}"
        pairs += [
            ("reads", reads(plan.estimate)),
            ("makes", makes(plan.windows)),
            ("commits", f"by {LANES[plan.lane]}"),
            ("runs", first if preview.runs > 1 else "1"),
        ]
    pairs.append(
        (
            "stays dirty",
            spans(preview.outside, kind) + ", outside the window" if preview.outside else "nothing outside the window",
        )
    )
    pairs.append(("stuck", below_text(preview.stuck, kind)))
    yield from labelled(pairs, width=width)
    if plan is not None:
        for at, step in enumerate(plan.steps, start=1):
            yield from _step_lines(at, step, kind, width)


def _step_lines(at: int, step: Step, kind: TimeType, width: int) -> Iterator[str]:
    yield f"  step {at}: {strategy_of(step)}"
    pairs = [("buckets in", spans(step.spans, kind)), ("because", why(step))]
    if not isinstance(step, Settle):
        pairs.append(("reads", reads(step.estimate)))
        pairs += [(f"not {r.strategy}", r.reason) for r in step.rejected if r.reason]
    yield from labelled(pairs, width=width, indent=4)


def short_plan_lines(name: str, plan: Plan, kind: TimeType, width: int) -> Iterator[str]:
    """Yield a plan in short: a line, and one for each step."""
    yield f"{name}: refresh {plan.n} at source version {plan.source_version}"
    steps = [s for s in plan.steps if not isinstance(s, Settle)] or plan.steps
    for step in steps:
        read = "" if isinstance(step, Settle) else f"; reads {reads(step.estimate)}"
        if isinstance(step, Recompute) and step.windows:
            read += f"; makes {makes(step.windows)}"
        against = (
            ""
            if isinstance(step, Settle)
            else "".join(f"; not {r.strategy}: {r.reason}" for r in step.rejected if r.reason and r.reason != why(step))
        )
        yield from wrapped(
            f"{spans(step.spans, kind, few=2)}{read}; {why(step)}{against}", f"  {strategy_of(step):<10}", width=width
        )


def done_text(report: RunReport) -> str:
    """Return what one run did."""
    if not report.commits or report.strategy == "settle":
        return f"nothing to read or write, {duration(report.seconds)}"
    parts = [
        f"read {count(report.rows_read, 'row')}",
        f"wrote {number(report.rows_written)} in {count(report.buckets, 'bucket')}",
        count(report.jobs, "Spark job"),
        count(report.commits, "commit"),
        f"{count(report.files_rewritten, 'file')} rewritten",
        duration(report.seconds),
    ]
    return ", ".join(parts)


def refresh_lines(report: RefreshReport, kind: TimeType, width: int) -> Iterator[str]:
    """Yield the end of a refresh: what came out, and what stays dirty."""
    for n, outcome in report.recovered:
        meant = (
            "its result was there and is published"
            if outcome == "finished"
            else "its buckets are dirty again and come next"
        )
        yield from wrapped(
            f"refresh {n} had not ended and was {outcome} first: {meant}", f"{report.name}: ", width=width
        )
    at = f"source version {report.source_version}"
    window = "" if report.window is None else f" in {span(report.window, kind)}"
    if report.runs:
        yield from wrapped(_total(report, f"{window} at {at}"), f"{report.name}: ", width=width)
    else:
        done = (
            f"up to date{window}" if report.outcome == "up-to-date" else "nothing done, no whole bucket in the window,"
        )
        yield from wrapped(f"{done} at {at}, {duration(report.seconds)}", f"{report.name}: ", width=width)
    pairs = [
        ("stays dirty", spans(report.left, kind) if report.left else ""),
        ("left out", f"{count(report.null_times, 'row')} whose time is null" if report.null_times else ""),
        ("frozen", _frozen_text(report, kind)),
        ("stuck", below_text(report.stuck, kind)),
        *(("warning", text) for text in report.warnings),
        ("raw rows", _let_go_text(report, kind)),
    ]
    yield from labelled(pairs, width=width)
    if report.delete:
        yield f"    {report.delete}"
    for after in report.maintained:
        if after.done:
            yield from maintain_lines(after, width)


def below_text(stuck: SpanSet, kind: TimeType) -> str:
    """Return what is said of dirt that no refresh takes; "" when there is none."""
    return f"{spans(stuck, kind)}, dirty below the frozen bound and kept as it is" if stuck else ""


def _frozen_text(report: RefreshReport, kind: TimeType) -> str:
    """Return what is said of a window that reaches below the frozen bound."""
    is_below = report.frozen != NEG_INF and report.window is not None and report.window.start < report.frozen
    return f"below {instant(report.frozen, kind)} rows are merged and nothing is computed again" if is_below else ""


def let_go_text(readers: Iterable[Reader]) -> str:
    """Return when the owner of the source may delete raw rows that are not needed any more."""
    others = "; ".join(f"{r.name} ({r.why})" for r in readers)
    return f"not before these are frozen, too: {others}" if others else "the owner of the source may delete them"


def _let_go_text(report: RefreshReport, kind: TimeType) -> str:
    """Return what a refresh that moved the frozen bound says of the raw rows; the statement follows on its own line."""
    if not report.delete:
        return ""
    return f"history is frozen below {instant(report.frozen, kind)} now; {let_go_text(report.readers)}"


def _total(report: RefreshReport, where: str) -> str:
    done, left = [r.report for r in report.runs], report.runs[-1].runs_left
    rows, written = sum(r.rows_read for r in done), sum(r.rows_written for r in done)
    total = f"{count(len(done), 'run')}, read {count(rows, 'row')}, wrote {number(written)}, {duration(report.seconds)}"
    if left:
        return f"{total}; about {count(left, 'run')} left, run it again to go on"
    return f"true{where}; " + (total if len(done) > 1 else duration(report.seconds))


def run_line(at: int, report: RunReport, plan: Plan, runs_left: int, seconds_left: float | None, kind: TimeType) -> str:
    """Return a line of progress: a run of a backfill."""
    about = f"/{number(at + runs_left)}" if runs_left else ""
    left = f", {duration(seconds_left)} left" if seconds_left is not None and runs_left else ""
    what = f"{count(report.rows_read, 'row')}, {count(report.buckets, 'bucket')}, {duration(report.seconds)}{left}"
    return f"  run {number(at)}{about}: {span(plan.window, kind)}, {what}"

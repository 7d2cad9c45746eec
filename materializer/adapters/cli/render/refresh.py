"""``refresh``, ``backfill`` and ``policy run``: what came out, and what stays dirty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from materializer.adapters.cli.render.plan import below_form, step_form, stuck_text, waiting_form, waiting_pairs
from materializer.adapters.cli.render.result import DONE, IDLE, Result, span_form, spans_form, window_form
from materializer.adapters.cli.words import count, duration, instant, labelled, number, span, spans, wrapped
from materializer.core.refresh.plan import Plan, RunReport
from materializer.core.time.instants import Shown
from materializer.core.time.spans import NEG_INF
from materializer.structs import as_dict

if TYPE_CHECKING:
    from materializer.services.definitions.sources import MissingFeed
    from materializer.services.maintenance.maintain import MaintainReport
    from materializer.services.observe.source_deletes import OtherReader
    from materializer.services.refresh.reports import RefreshReport, RunDone

_COUNTED = (
    "source_version",
    "strategy",
    "lane",
    "buckets",
    "rows_read",
    "partials_written",
    "rows_written",
    "jobs",
    "commits",
    "files_rewritten",
    "seconds",
)


class RefreshResult(Result, frozen=True):
    """What ``refresh``, ``backfill`` or a *policy* at some *now* did to one aggregate."""

    listing = "refreshes"
    report: RefreshReport
    time_type: Shown
    policy: str | None = None
    now: str | int | None = None
    feed: MissingFeed | None = None
    """How the source gets a change feed, where that is to be said."""

    @property
    def exit_status(self) -> int:
        return DONE if self.report.runs or self.report.recovered else IDLE

    def form(self) -> dict[str, Any]:
        r, kind = self.report, self.time_type
        return {
            "name": r.name,
            "outcome": r.outcome,
            "window": window_form(r.window, kind),
            "source_version": r.source_version,
            "runs": [run_form(run, kind) for run in r.runs],
            "recovered": [{"refresh": n, "outcome": outcome} for n, outcome in r.recovered],
            "left": spans_form(r.left, kind),
            "null_times": r.null_times,
            "seconds": round(r.seconds, 3),
            "maintained": [_maintained(m).form() for m in r.maintained],
            "warnings": list(r.warnings),
            **below_form(r.frozen, r.stuck, kind),
            **let_go_form(r.delete, r.readers),
            "policy": self.policy,
            "now": self.now,
            "waiting": waiting_form(r.waiting),
            "change_feed": None if self.feed is None else as_dict(self.feed),
        }

    def lines(self, width: int) -> Iterator[str]:
        r, kind = self.report, self.time_type
        head = f"{r.name}: "
        if self.policy is not None:
            yield from wrapped(f"policy {self.policy} at {self.now}", head, width=width)
        for n, outcome in r.recovered:
            is_finished = outcome == "finished"
            next_ = (
                "its result was there and is published" if is_finished else "its buckets are dirty again and come next"
            )
            yield from wrapped(f"refresh {n} had not ended and was {outcome} first: {next_}", head, width=width)
        at = f"at source version {r.source_version}"
        window = "" if r.window is None else f" in {span(r.window, kind)}"
        withheld = r.withheld
        if r.runs:
            text = self._total(f"{window}{' except in what its gate withholds,' if withheld else ''} {at}")
        elif r.outcome == "up-to-date":
            what = "what is published is up to date" if r.waiting else "up to date"
            text = f"{what}{window} {at}, {duration(r.seconds)}"
        else:
            text = f"nothing done, no whole bucket in the window, {at}, {duration(r.seconds)}"
        yield from wrapped(text, head, width=width)
        pairs = [
            ("withheld", f"{spans(withheld, kind)}; 'materializer doctor {r.name}' says why" if withheld else ""),
            ("stays dirty", spans(left, kind) if (left := r.left - withheld) else ""),
            ("left out", f"{count(r.null_times, 'row')} whose time is null" if r.null_times else ""),
            ("frozen", self._frozen()),
            ("stuck", stuck_text(r.stuck, kind)),
            *(("warning", text) for text in r.warnings),
            ("raw rows", self._let_go()),
            *waiting_pairs(r.waiting),
        ]
        yield from labelled(pairs, width=width)
        for after in r.maintained:
            if after.done:
                yield from _maintained(after).lines(width)
        if self.feed is not None:
            from materializer.adapters.cli.render.feed import feed_lines  # noqa: PLC0415 (most refreshes say nothing of it)

            yield from feed_lines(self.feed, width)

    def _total(self, where: str) -> str:
        report = self.report
        done, left = [r.report for r in report.runs], report.runs[-1].runs_left
        rows, written, took = (
            sum(r.rows_read for r in done),
            sum(r.rows_written for r in done),
            duration(report.seconds),
        )
        total = f"{count(len(done), 'run')}, read {count(rows, 'row')}, wrote {number(written)}, {took}"
        if left:
            return f"{total}; about {count(left, 'run')} left, run it again to go on"
        return f"true{where}; {total if len(done) > 1 else took}"

    def _frozen(self) -> str:
        """Return what is said of a window that reaches below the frozen boundary."""
        r = self.report
        is_below = r.frozen != NEG_INF and r.window is not None and r.window.start < r.frozen
        at = instant(r.frozen, self.time_type)
        return f"below {at} nothing is computed again from raw rows" if is_below else ""

    def _let_go(self) -> str:
        """Return what a refresh that moved the frozen boundary says of raw rows: where a person finds the statement, as it moves each day."""
        at = instant(self.report.frozen, self.time_type)
        where = f"'materializer status {self.report.name}' says whether and how raw rows may go"
        return f"history is frozen below {at} now; {where}" if self.report.delete else ""


def _maintained(report: MaintainReport) -> Result:
    from materializer.adapters.cli.render.maintain import MaintainResult  # noqa: PLC0415 - most refreshes maintain nothing

    return MaintainResult(report)


def run_form(run: RunDone, kind: Shown) -> dict[str, Any]:
    """Return one run of a refresh."""
    from materializer.adapters.cli.render.gate import gate_form  # noqa: PLC0415 - where something ran

    return {
        "refresh": run.plan.n,
        "window": span_form(run.window, kind),
        **counted_form(run.report),
        "steps": [step_form(s, kind) for s in run.plan.steps],
        "runs_left": run.runs_left,
        "gate": gate_form(run.verdict, kind),
    }


def counted_form(report: RunReport) -> dict[str, Any]:
    """Return what a run read and wrote."""
    form = {name: getattr(report, name) for name in _COUNTED}
    return form | {"executor": executor_of(report), "predicted_seconds": report.predicted or None}


def executor_of(report: RunReport) -> str:
    """Return what computed a run; "" if nothing was computed."""
    return report.executor or ("spark" if report.lane and report.commits else "")


def run_text(report: RunReport) -> str:
    """Return what one run did."""
    if not report.commits or report.strategy == "settle":
        return f"nothing to read or write, {duration(report.seconds)}"
    parts = [
        f"read {count(report.rows_read, 'row')}",
        f"wrote {number(report.rows_written)} in {count(report.buckets, 'bucket')}",
        "without Spark" if report.executor == "local" else count(report.jobs, "Spark job"),
        count(report.commits, "commit"),
        f"{count(report.files_rewritten, 'file')} rewritten",
        duration(report.seconds),
    ]
    return ", ".join(parts)


def run_line(
    at: int,
    report: RunReport,
    plan: Plan,
    runs_left: int,
    seconds_left: float | None,
    kind: Shown,
    estimated: int = 0,
    *,
    is_first_of_spark: bool = False,
) -> str:
    """Return a line of progress: a run of a backfill.

    Args:
        at: Its number.
        report: What it did.
        plan: Its plan.
        runs_left: Runs after it, as estimated.
        seconds_left: What these take.
        kind: Type of the time column.
        estimated: Runs in all, as the run before it let expect; 0 before the first.
        is_first_of_spark: Whether Spark computed it, and this process the one before.
    """
    runs = at + runs_left
    about = f"/{number(runs)}" if runs_left or estimated not in {0, runs} else ""
    if estimated not in {0, runs}:
        why = "Spark takes more rows in a run" if is_first_of_spark else "the rest was estimated anew"
        about += f" (not {number(estimated)}: {why})"
    left = f", {duration(seconds_left)} left" if seconds_left is not None and runs_left else ""
    what = f"{count(report.rows_read, 'row')}, {count(report.buckets, 'bucket')}, {duration(report.seconds)}{left}"
    return f"  run {number(at)}{about}: {span(plan.window, kind)}, {what}"


def let_go_form(delete: str, readers: Iterable[OtherReader]) -> dict[str, Any]:
    """Return how the owner of the source deletes raw rows, and who else needs them."""
    return {"delete": delete or None, "readers": [as_dict(r) for r in readers]}


def let_go_text(readers: Iterable[OtherReader]) -> str:
    """Return when the owner of the source may delete raw rows that are not needed any more."""
    others = "; ".join(f"{r.name} ({r.why})" for r in readers)
    return f"not before these are frozen, too: {others}" if others else "the owner of the source may delete them"

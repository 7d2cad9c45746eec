"""``history``: the last refreshes of an aggregate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from materializer.adapters.cli.render.gate import gate_form, gate_text
from materializer.adapters.cli.render.refresh import counted_form
from materializer.adapters.cli.render.result import Result, span_form
from materializer.adapters.cli.words import count, duration, number, span, table, wrapped
from materializer.core.time.instants import Shown

if TYPE_CHECKING:
    from materializer.journal.state import Ended


class HistoryResult(Result, frozen=True):
    """The last refreshes of one aggregate, newest first."""

    name: str
    time_type: Shown
    refreshes: tuple[Ended, ...]

    def form(self) -> dict[str, Any]:
        return {"name": self.name, "refreshes": [ended_form(e, self.time_type) for e in self.refreshes]}

    def lines(self, width: int) -> Iterator[str]:
        if not self.refreshes:
            yield f"{self.name}: no refresh has ended yet"
            return
        rows = [(str(e.n), e.at, e.outcome, e.report.strategy) for e in self.refreshes]
        head, *body = table(("refresh", "ended", "outcome", "strategy"), rows, right=[0])
        yield head
        for line, e in zip(body, self.refreshes, strict=True):
            yield line
            policy = f"policy {e.policy}, " if e.policy else ""
            yield from wrapped(f"{policy}{span(e.window, self.time_type)}, {ended_text(e)}", " " * 9, width=width)
            if gate := gate_text(e.verdict, self.time_type):
                yield from wrapped(f"gate: {gate}", " " * 9, width=width)


def ended_form(e: Ended, kind: Shown) -> dict[str, Any]:
    """Return one refresh that has ended."""
    return {
        "refresh": e.n,
        "at": e.at,
        "outcome": e.outcome,
        "policy": e.policy or None,
        "window": span_form(e.window, kind),
        **counted_form(e.report),
        "reason": e.reason,
        "gate": gate_form(e.verdict, kind),
    }


def ended_text(e: Ended) -> str:
    """Return what a refresh did before it ended."""
    from materializer.core.refresh.price import shown  # noqa: PLC0415 - a refresh without work shows none

    r = e.report
    if e.outcome == "switched":
        return f"version {r.source_version} of another definition, {count(r.commits, 'commit')}, {duration(r.seconds)}"
    if e.outcome != "done":
        return e.reason or "given back; its buckets are dirty again"
    read = f"read {count(r.rows_read, 'row')}, wrote {number(r.rows_written)} in {count(r.buckets, 'bucket')}"
    lane = f", written by {'the driver' if r.lane == 'driver' else 'Spark'}" if r.lane else ""
    jobs = "without Spark" if r.executor == "local" else count(r.jobs, "Spark job")
    predicted = shown(r.predicted, r.unlearned, r.seconds)
    guess = f" (predicted {duration(predicted)})" if predicted else ""
    return (
        f"version {r.source_version}, {read}, {jobs}, {count(r.commits, 'commit')}, {duration(r.seconds)}{guess}{lane}"
    )

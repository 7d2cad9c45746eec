"""``repair``: what is wrong between journal and tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from materializer.adapters.cli.render.result import DONE, IDLE, Result
from materializer.adapters.cli.words import duration, wrapped

if TYPE_CHECKING:
    from materializer.services.repair.apply import RepairReport


class RepairResult(Result, frozen=True):
    """What ``repair`` found and did, or would do."""

    listing = "repairs"
    report: RepairReport

    @property
    def exit_status(self) -> int:
        return IDLE if self.report.outcome == "sound" else DONE

    def form(self) -> dict[str, Any]:
        r, m = self.report, self.report.mending
        return {
            "name": r.name,
            "outcome": r.outcome,
            "wrong": [{"code": code, "message": words} for code, words in m.wrong],
            "steps": list(m.steps),
            "everything_dirty": m.is_everything_dirty,
            "partials": m.partials.value,
            "output": m.output.value,
            "old_output": m.old_output.value,
            "refresh": m.n,
            "abandoned": m.abandons,
            "source_rows": m.source_rows,
            "partial_rows": m.partial_rows,
            "recovered": [{"refresh": n, "outcome": how} for n, how in r.recovered],
            "left": list(r.left),
            "seconds": round(r.seconds, 3),
        }

    def lines(self, width: int) -> Iterator[str]:
        r, todo = self.report, self.report.mending
        if r.outcome == "sound":
            yield f"{r.name}: nothing to repair"
            return
        is_done = r.outcome == "repaired"
        yield f"{r.name}:"
        for head, texts in (
            ("wrong", [words for _, words in todo.wrong]),
            ("done", [f"refresh {n} had not ended, it is {how} now" for n, how in r.recovered]),
            ("done" if is_done else "would do", todo.steps),
            ("left", r.left),
        ):
            for text in texts:
                yield from wrapped(text, f"  {head:<8} ", width=width)
        if is_done:
            next_ = f"'materializer refresh {r.name}' computes what is dirty"
            yield from wrapped(f"{duration(r.seconds)}; {next_}", "  ", width=width)
        else:
            yield "  nothing was written; with --yes it is done"

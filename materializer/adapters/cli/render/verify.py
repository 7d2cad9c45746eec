"""``verify``: what plain Spark says of an aggregate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import field

from materializer.adapters.cli.render.result import Result, instant_form, shown_time, spans_form
from materializer.adapters.cli.words import count, duration, instant, labelled, number, spans, wrapped
from materializer.core.time.instants import Shown
from materializer.core.time.spans import NEG_INF

if TYPE_CHECKING:
    from materializer.services.quality.verify import VerifyReport

_LOOSE = {"float": "within 1e-9 of the magnitudes in it", "rank": "within rank error"}


class VerifyResult(Result, frozen=True):
    """What ``verify`` found in one aggregate."""

    listing = "verified"
    report: VerifyReport
    time_type: Shown
    times: Mapping[str, Shown] = field(default_factory=dict)
    """The columns with times of the bucket or window, and how these are shown."""

    def form(self) -> dict[str, Any]:
        r, kind = self.report, self.time_type
        return {
            "name": r.name,
            "equal": r.is_equal,
            "source_version": r.source_version,
            "compared": spans_form(r.compared, kind),
            "left_out": spans_form(r.left_out, kind),
            "frozen_below": instant_form(r.frozen, kind),
            "rows": r.rows,
            "differing": r.differing,
            "examples": [
                {
                    "kind": d.kind,
                    "row": d.row,
                    "columns": {c: {"published": a, "expected": b} for c, (a, b) in d.columns.items()},
                }
                for d in r.examples
            ],
            "types": [{"column": c, "published": ours, "expected": theirs} for c, ours, theirs in r.types],
            "tolerances": r.tolerances,
            "seconds": round(r.seconds, 3),
        }

    def lines(self, width: int) -> Iterator[str]:
        r, kind = self.report, self.time_type
        if not r.compared:
            yield f"{r.name}: nothing to compare, all of it is dirty, frozen or not materialised yet"
            return
        against, rows = f"plain Spark at source version {r.source_version}", count(r.rows, "row")
        text = (
            f"{number(r.differing)} of {rows} differ from {against}" if r.differing else f"equal to {against}, {rows}"
        )
        if r.types and not r.differing:
            text += ", but for the types of columns"
        yield from wrapped(f"{r.name}: {text}, {duration(r.seconds)}", width=width)
        frozen = "" if r.frozen == NEG_INF else f"; below {instant(r.frozen, kind)} raw rows may be gone"
        loose = [f"{measure} {_LOOSE.get(how, how)}" for measure, how in r.tolerances.items() if how != "exact"]
        pairs = [
            ("left out", f"{spans(r.left_out, kind)}{frozen}" if r.left_out else ""),
            ("types", "; ".join(f"{c} is {ours}, and {theirs} by plain Spark" for c, ours, theirs in r.types)),
            ("compared", "exactly" + (f", but {', '.join(loose)}" if loose else "")),
        ]
        yield from labelled(pairs, width=width)
        for difference in r.examples:
            where = ", ".join(f"{k}={self._text(k, v)}" for k, v in difference.row.items())
            what = "; ".join(f"{c} is {was}, should be {wanted}" for c, (was, wanted) in difference.columns.items())
            yield from wrapped(where + (f": {what}" if what else ""), f"  {difference.kind}  ", width=width)
        if r.differing > len(r.examples) > 0:
            yield f"  and {number(r.differing - len(r.examples))} more"

    def _text(self, name: str, value: str) -> str:
        is_number = value.removeprefix("-").isdigit()  # a null is none
        return str(shown_time(int(value) if is_number else value, self.times.get(name)))

"""``diff``: how the rows of an aggregate differ between two lakes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from materializer.adapters.cli.render.result import DONE, FOUND, Result, cell, spans_form, value_form
from materializer.adapters.cli.words import cell_text, count, duration, labelled, number, spans, wrapped
from materializer.core.spec.spec import TimeType
from materializer.core.time.instants import parse, render
from materializer.core.time.zones import load
from materializer.lake import places

if TYPE_CHECKING:
    from materializer.local.differences import ColumnDifference, GroupDifference
    from materializer.services.report.diff import DiffReport, DiffSide


class DiffResult(Result, frozen=True):
    """What ``diff`` found."""

    report: DiffReport

    @property
    def exit_status(self) -> int:
        return DONE if self.report.is_equal else FOUND

    def form(self) -> dict[str, Any]:
        r = self.report
        return {
            "name": r.name,
            "equal": r.is_equal,
            "here": self._side_form(r.here),
            "there": self._side_form(r.there),
            "definition": list(r.definition),
            "types": [{"column": name, "here": here, "there": there} for name, here, there in r.types],
            "columns_only_here": list(r.only_here),
            "columns_only_there": list(r.only_there),
            "columns_not_compared": list(r.not_compared),
            "compared": spans_form(r.compared, r.grid.shown),
            "rows_equal": r.rows.equal,
            "rows_only_here": r.rows.only_here,
            "rows_only_there": r.rows.only_there,
            "rows_differing": r.rows.differing,
            "columns": [
                {"name": c.name, "rows": c.rows, "largest": value_form(c.largest), "compared": c.law.value}
                for c in r.rows.columns
            ],
            "examples": [{"kind": _kind(e), "row": self._place(e), "columns": _both(e)} for e in r.rows.examples],
            "seconds": round(r.seconds, 3),
        }

    def lines(self, width: int) -> Iterator[str]:
        r, rows, kind = self.report, self.report.rows, self.report.grid.shown
        differing = rows.only_here + rows.only_there + rows.differing
        what = f"{count(differing, 'row')} differ" if differing else f"{count(rows.equal, 'row')} equal"
        if not differing and not r.is_equal:
            what += ", but the columns differ"
        yield from wrapped(f"{r.name}: {what}, {duration(r.seconds)}", width=width)
        columns = [
            (f"only {where}", f"column {', '.join(names)}, not compared" if names else "")
            for where, names in (("here", r.only_here), ("there", r.only_there))
        ]
        types = "; ".join(
            f"{name} is {here} here and {there} there{', not compared' if name in r.not_compared else ''}"
            for name, here, there in r.types
        )
        both = ("here", r.here), ("there", r.there)
        sides = [(where, "; ".join(filter(None, (_rows_of(side), side.sample)))) for where, side in both]
        outside = [
            (side.left_out, f"not clean{', or not sampled,' if side.sample else ''} {where}") for where, side in both
        ]
        if r.here.left_out == r.there.left_out:
            outside = [(r.here.left_out, "not clean in either lake")]
        left = [("left out", f"{spans(out, kind)}, {why}" if out else "") for out, why in outside]
        counts = (
            f"{count(rows.equal, 'row')} equal, {number(rows.only_here)} only here, {number(rows.only_there)} only there, "
            f"{number(rows.differing)} with other values"
        )
        found = [(c.name, self._column(c)) for c in rows.columns]
        pairs = [
            ("definition", "\n".join(r.definition)),
            *columns,
            ("types", types),
            *sides,
            ("", self._why(r)),
            ("compared", spans(r.compared, kind)),
            *left,
            ("rows", counts if differing else ""),
            *found,
        ]
        yield from labelled(pairs, width=width)
        for example in rows.examples:
            where = ", ".join(f"{k}={cell_text(cell(v))}" for k, v in self._place(example).items())
            yield from wrapped(where + _values(example), f"  {_kind(example)}  ", width=width)
        if rows.examples and differing > len(rows.examples):
            yield f"  and {number(differing - len(rows.examples))} more"

    def _side_form(self, side: DiffSide) -> dict[str, Any]:
        return {
            "lake": side.root,
            "source": side.source,
            "source_version": side.source_version,
            "output_version": side.output_version,
            "sample": side.sample,
            "rows": side.rows,
            "left_out": spans_form(side.left_out, self.report.grid.shown),
        }

    @staticmethod
    def _why(report: DiffReport) -> str:
        here, there = report.here, report.there
        if here.source != there.source:
            return "the sources are other tables, from which a difference may come"
        if here.source_version != there.source_version:
            return "the source is read at two versions, from which a difference may come"
        return ""

    @staticmethod
    def _column(column: ColumnDifference) -> str:
        if column.law.value == "rank":
            return f"other values in {count(column.rows, 'row')}, as two sketches of the same rows may have"
        most = "" if column.largest is None else f", by at most {cell(column.largest)}"
        return f"differs in {count(column.rows, 'row')}{most}"

    def _place(self, example: GroupDifference) -> dict[str, str | None]:
        texts = {n: self._time(v) if n in self.report.edges else cell(v) for n, v in example.place.items()}
        return {n: None if example.place[n] is None else text for n, text in texts.items()}

    def _time(self, value: Any) -> str:
        """Return a time of the bucket as the zone of the grid has it."""
        grid = self.report.grid
        text = render(value, grid.shown) if isinstance(value, int) else cell(value)
        if grid.spec.timezone is None or not text.endswith("Z"):
            return text
        try:
            offset = load(grid.spec.timezone).regime_at(parse(text, TimeType.TIMESTAMP)).offset
            return datetime.fromisoformat(text).astimezone(timezone(timedelta(microseconds=offset))).isoformat()
        except ValueError:  # a year that Python has not
            return text


def _rows_of(side: DiffSide) -> str:
    here = places.resolved(".")
    root, source = (place.removeprefix(f"{here}/") for place in (side.root, side.source))
    return f"{root}: {count(side.rows, 'row')}, version {side.source_version} of {source}"


def _kind(example: GroupDifference) -> str:
    if example.here is None or example.there is None:
        return "only there" if example.here is None else "only here"
    return "differs"


def _both(example: GroupDifference) -> dict[str, dict[str, Any]]:
    here, there = example.here or {}, example.there or {}
    return {n: {"here": value_form(here.get(n)), "there": value_form(there.get(n))} for n in {**here, **there}}


def _values(example: GroupDifference) -> str:
    if example.here is not None and example.there is not None:
        texts = [f"{n} is {cell(v)} here, {cell(example.there[n])} there" for n, v in example.here.items()]
        return f": {'; '.join(texts)}"
    values = example.there if example.here is None else example.here
    return f": {', '.join(f'{n}={cell(v)}' for n, v in (values or {}).items())}" if values else ""

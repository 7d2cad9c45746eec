"""``show`` and ``changes``: rows of an output, and what refreshes changed in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from materializer.adapters.cli.render.result import Result, cell, estimate_form, shown_time, value_form
from materializer.adapters.cli.words import cell_text, count, duration, labelled, size, table, wrapped
from materializer.core.refresh.plan import Estimate, ReadCost
from materializer.core.time.instants import Epoch, Shown

if TYPE_CHECKING:
    from materializer.services.refresh.fresh import FreshRead


class FreshCost(Struct, frozen=True):
    """What an always-fresh read computed on the fly: as planned, and as it was measured."""

    source_version: int
    strategy: str
    pieces: int
    estimate: Estimate
    planning: float
    measured: ReadCost
    left_to_spark: str = ""

    @classmethod
    def of(cls, read: FreshRead, measured: ReadCost) -> FreshCost:
        """Return what *read* was to cost, and what fetching it did."""
        known = read.source_version, read.strategy, len(read.computed), read.estimate, read.seconds
        return cls(*known, measured, read.left_to_spark)

    def form(self) -> dict[str, Any]:
        """Return the JSON value."""
        return {
            "source_version": self.source_version,
            "strategy": self.strategy,
            "spans": self.pieces,
            **estimate_form(self.estimate),
            "planning_seconds": self.planning,
            "rows_read": self.measured.rows_read,
            "jobs": self.measured.jobs,
            "seconds": self.measured.seconds,
            "left_to_spark": self.left_to_spark or None,
        }

    def lines(self, width: int) -> Iterator[str]:
        """Yield the text."""
        read, took = self.estimate, self.measured
        what = (
            f"{count(self.pieces, 'dirty span')} by {self.strategy}, {count(took.rows_read, 'source row')} aggregated"
        )
        by = "without Spark" if took.jobs == 0 else count(took.jobs, "Spark job")
        done = f"{what if self.pieces else 'nothing is dirty'}, {by}, {duration(took.seconds)}"
        yield from wrapped(done, f"as of source version {self.source_version}: ", width=width)
        if self.pieces:
            most = f"at most {count(read.rows, 'row')}, {size(read.bytes)} in {count(read.files, 'file')}"
            yield from wrapped(most, f"planned in {duration(self.planning)}: ", width=width)


class ShowResult(Result, frozen=True):
    """Rows of one aggregate."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    fresh: FreshCost | None = None
    times: Mapping[str, Shown] = field(default_factory=dict)
    """The columns with times of the bucket or window, and how these are shown."""
    has_slice: bool = False
    """Whether the first column is the slice of an engine, which divides the work and is no result."""

    def form(self) -> dict[str, Any]:
        return {**_rows_form(self), "fresh": None if self.fresh is None else self.fresh.form()}

    def lines(self, width: int) -> Iterator[str]:
        first = 1 if self.has_slice and len(self.columns) > 1 else 0
        shown = replace(self, columns=self.columns[first:], rows=tuple(row[first:] for row in self.rows))
        yield from _rows_lines(shown, "no rows there", width)
        if self.fresh is not None:
            yield from self.fresh.lines(width)


class ChangesResult(Result, frozen=True):
    """What refreshes changed in an output: the first rows of *total*."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    total: int
    times: Mapping[str, Shown] = field(default_factory=dict)

    def form(self) -> dict[str, Any]:
        return {**_rows_form(self), "total": self.total}

    def lines(self, width: int) -> Iterator[str]:
        yield from _rows_lines(self, "no changes there", width)
        if self.rows and (left := self.total - len(self.rows)):
            yield f"{count(left, 'change')} more: raise --limit, or go on with --after"


def _shown(column: tuple[Any, ...], kind: Shown | None) -> tuple[Any, ...]:
    """Return a column of times that are stored as parts of a second as texts, any other as it is."""
    if not isinstance(kind, Epoch):
        return column
    return tuple(shown_time(v, kind) for v in column)


def _rows_form(result: ShowResult | ChangesResult) -> dict[str, Any]:
    return {"name": result.name, "columns": list(result.columns), "rows": value_form(result.rows)}


def _rows_lines(result: ShowResult | ChangesResult, none: str, width: int) -> Iterator[str]:
    if not result.rows:
        yield f"{result.name}: {none}"
        return
    columns = [
        _shown(column, result.times.get(n))
        for n, column in zip(result.columns, zip(*result.rows, strict=True), strict=True)
    ]
    kinds = [{*map(type, column)} for column in columns]
    texts = [
        *zip(*(map(str if kind == {int} else cell, c) for kind, c in zip(kinds, columns, strict=True)), strict=True)
    ]
    right = [i for i, kind in enumerate(kinds) if any(issubclass(k, int | float) for k in kind)]
    whole = table(result.columns, texts, right=right)
    if max(map(len, whole)) <= width:
        yield from whole
        return
    needs = (
        f"{count(len(result.columns), 'column')} need {max(map(len, whole))} characters, and the terminal has {width}"
    )
    yield from wrapped(f"one row below the other: {needs}", width=width)
    yield ""
    for at, row in enumerate(texts):
        if at:
            yield ""
        yield from labelled(zip(result.columns, map(cell_text, row), strict=True), width=width, indent=0)

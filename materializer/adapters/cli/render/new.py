"""``new``: what a look at a source found, what is proposed, and what was written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from materializer.adapters.cli.render.feed import feed_lines
from materializer.adapters.cli.render.result import Result
from materializer.adapters.cli.words import count, number, table, wrapped
from materializer.core.language.new_text import alias_of, bucket_name
from materializer.core.language.suggest import times_in_text
from materializer.structs import as_dict

if TYPE_CHECKING:
    from materializer.core.language.suggest import ColumnFacts
    from materializer.services.definitions.starting import NewDefinition

_TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""Ticks of a second by resolution."""
MOST_SHOWN = 30
"""Columns that a table of the terminal lists."""


class LookResult(Result, frozen=True):
    """What was found in a source, before questions are asked."""

    new: NewDefinition

    def form(self) -> dict[str, Any]:
        return {"source": self.new.path, "version": self.new.version, "rows": self.new.facts.rows}

    def lines(self, width: int) -> Iterator[str]:
        new = self.new
        rows = "an unknown number of rows" if new.facts.rows is None else count(new.facts.rows, "row")
        seen = f", {number(new.facts.sampled)} of them looked at" if new.facts.sampled != new.facts.rows else ""
        yield from wrapped(f"{new.path}: version {new.version}, {rows}{seen}", width=width)
        yield ""
        shown = new.facts.columns[:MOST_SHOWN]
        cells = [(_short(c.name, 30), _short(c.type, 24), _values(c, self._tick(c)), self._use(c.name)) for c in shown]
        yield from table(("column", "type", "values", "use"), cells, indent=2)
        if rest := len(new.facts.columns) - len(shown):
            yield f"  and {count(rest, 'column')} more"
        yield ""

    def _tick(self, column: ColumnFacts) -> Fraction:
        """Return the microseconds of a tick of a column that holds times; 0 for other columns."""
        if column.type in {"timestamp", "timestamp_ntz", "date"}:
            return Fraction(1)
        answers = self.new.answers
        return (
            Fraction(1_000_000, _TICKS[answers.resolution])
            if column.name == answers.time and answers.resolution
            else Fraction(0)
        )

    def _use(self, name: str) -> str:
        answers = self.new.answers
        if name == answers.time:
            return "time"
        if name in answers.keys:
            return "key"
        alias = alias_of(name)
        return "measured" if any(f" AS {alias}_" in m for m in answers.measures) else ""


class MeasuresResult(Result, frozen=True):
    """The measures that are proposed."""

    new: NewDefinition

    def form(self) -> dict[str, Any]:
        return {"measures": list(self.new.answers.measures)}

    def lines(self, width: int) -> Iterator[str]:
        yield "measures:"
        for measure in self.new.answers.measures:
            yield from wrapped(measure, "    ", width=width)


class ProposedResult(Result, frozen=True):
    """The text of the definition, before it is written."""

    new: NewDefinition

    def form(self) -> dict[str, Any]:
        return {"definition": self.new.definition}

    def lines(self, width: int) -> Iterator[str]:  # noqa: ARG002 - SQL is shown as it is written
        yield ""
        yield from (f"  {line}".rstrip() for line in self.new.definition.splitlines())
        yield ""


class NewResult(Result, frozen=True):
    """What was written, and what to do next.

    Args:
        new: The definition.
        files: The files.
        options: Options of the next commands, such as ``--lake``.
    """

    new: NewDefinition
    files: tuple[str, ...]

    def form(self) -> dict[str, Any]:
        answers, facts = self.new.answers, self.new.facts
        return {
            "name": answers.name,
            "source": self.new.path,
            "source_version": self.new.version,
            "rows": facts.rows,
            "time": answers.time,
            "resolution": answers.resolution,
            "bucket": answers.bucket,
            "bucket_column": bucket_name(answers),
            "keys": list(answers.keys),
            "measures": list(answers.measures),
            "policy": {name: value for name, value in answers.policy},  # noqa: C416 - pairs of texts, as JSON
            "files": list(self.files),
            "columns": [_column_form(c) for c in facts.columns],
            "times_in_text": times_in_text(facts, answers.time),
            "change_feed": None if self.new.feed is None else as_dict(self.new.feed),
        }

    def lines(self, width: int) -> Iterator[str]:
        name = self.new.answers.name
        for file in self.files:
            yield from wrapped(f"wrote {file}", width=width)
        yield ""
        if texts := times_in_text(self.new.facts, self.new.answers.time):
            text = f"{self.new.answers.time} is a number and no time; {', '.join(texts)} sounds like a time and is text, which divides no time"
            yield from wrapped(f"{text}: store it as a timestamp when the rows are written", "warning: ", width=width)
            yield ""
        if self.new.feed is not None:
            yield from feed_lines(self.new.feed, width)
            yield ""
        yield "next:"
        yield from wrapped(f"materializer apply {self.files[0]}", "  ", width=width)
        yield f"  materializer backfill {name}"
        yield f"  materializer check {name}"


def _column_form(column: ColumnFacts) -> dict[str, Any]:
    known = as_dict(column)
    return {name: known[name] for name in ("name", "type", "distinct", "nulls")}


def _values(column: ColumnFacts, tick: Fraction) -> str:
    """Return what the sample says of the values of a column, in a few words; *tick* as :meth:`LookResult._tick` returns it."""
    if column.distinct is None:
        return ""
    nulls = f", {number(column.nulls)} null" if column.nulls else ""
    text = count(column.distinct, "value")
    if tick and column.least is not None:
        text = f"{_day(int(column.least * tick))} to {_day(int(column.most * tick))}"
    return f"{text}{nulls}"


def _day(micros: int) -> str:
    try:
        return f"{datetime.fromtimestamp(micros // 1_000_000, UTC):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return "far away"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."

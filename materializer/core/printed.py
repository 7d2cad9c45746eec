"""What Python and notebooks print of a value: a few lines of text, and small HTML tables with the same content.

Instants are printed as the command line prints them: as times, and as numbers for integer time without a resolution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

from msgspec import Struct

from materializer.core.spec.spec import TimeType
from materializer.core.time.instants import Epoch, Shown, render
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet

_T = TypeVar("_T")
_CELL: Final = "text-align:left;vertical-align:top;padding:2px 10px 2px 0"
_FEW: Final = 4
"""Spans that are named before the number of the others."""


class PrintedTable(Struct, frozen=True):
    """Rows under a header; None is shown as a dash.

    Args:
        caption: The line above.
        header: Names of the columns; empty for rows of a name and a value, of which those without a value are left out.
        rows: The rows.
    """

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[object]]


def facts(caption: str, pairs: Iterable[tuple[str, object]] = ()) -> PrintedTable:
    """Return a table of names and values, without the pairs whose value is None or empty."""
    return PrintedTable(caption, (), [pair for pair in pairs if pair[1] is not None and pair[1] != ""])


class Printed:
    """A value that prints as text, and as HTML in a notebook.

    A class whose instants are not of the type ``Span`` or ``SpanSet`` names their fields in ``_INSTANTS``.
    """

    __slots__ = ()
    _INSTANTS: ClassVar[frozenset[str]] = frozenset()
    _UNPRINTED: ClassVar[frozenset[str]] = frozenset()
    """Fields that are not printed."""

    def _tables(self) -> list[PrintedTable]:
        """Return what is printed: by default the fields that are not empty."""
        return [facts(getattr(self, "name", "") or "", self._fields())]

    def _fields(self) -> Iterator[tuple[str, object]]:
        value: Any = self
        kind = getattr(value, "time_type", None)
        for name in value.__struct_fields__:
            if name not in {"name", "time_type", *self._UNPRINTED}:
                yield name.replace("_", " "), _shown(getattr(value, name), kind, is_instant=name in self._INSTANTS)

    def __repr__(self) -> str:
        return "\n".join(line for table in self._tables() for line in _lines(table))

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return the value as HTML, for notebooks."""
        return "".join(map(_html, self._tables()))


def tables_of(value: Printed) -> list[PrintedTable]:
    """Return what is printed of a value, for one that holds it."""
    return value._tables()  # noqa: SLF001 - what a subclass defines is for this module alone


class PrintedList(list[_T], Printed):
    """A list that prints as a table.

    Args:
        items: The items.
        table: Returns how they are printed.
    """

    def __init__(self, items: Iterable[_T], table: Callable[[], PrintedTable]) -> None:
        super().__init__(items)
        self._table = table

    __repr__ = __str__ = Printed.__repr__

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep what is printed instead of what prints it, which may be a function inside another one."""
        return PrintedList, (list(self), partial(_same, self._table()))

    def _tables(self) -> list[PrintedTable]:
        return [self._table()]


def _same(table: PrintedTable) -> PrintedTable:
    return table


def size_text(n: int) -> str:
    """Return bytes in the unit that suits them.

    Examples:
        >>> size_text(999), size_text(1_500), size_text(12_345_678)
        ('999 B', '1.5 kB', '12.3 MB')
    """
    if n < 1000:
        return f"{n} B"
    amount = float(n)
    for unit in ("kB", "MB", "GB"):
        amount /= 1000
        if amount < 999.95:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1000:.1f} TB"


def instant_text(value: int, time_type: Shown) -> str:
    """Return an instant as ISO text, or as a number for integer time; infinite ones in words."""
    if value == NEG_INF:
        return "the beginning"
    return "open" if value == POS_INF else render(value, time_type)


class PrintedSpan(Printed, Span, frozen=True):
    """A span that prints as its ends are shown; equal to the span of the same ends.

    Args:
        start: As in :class:`~materializer.Span`.
        end: As in :class:`~materializer.Span`.
        time_type: Type of the time column, for showing instants.
    """

    time_type: Shown = TimeType.TIMESTAMP

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Span) and (self.start, self.end) == (other.start, other.end)

    def __hash__(self) -> int:
        return hash(Span(self.start, self.end))

    def _tables(self) -> list[PrintedTable]:
        return [facts(span_text(self, self.time_type) or "")]


class PrintedRows(tuple[list[str], list[tuple[Any, ...]]], Printed):  # noqa: SLOT001 - a tuple has no room for slots
    """Column names and rows, which print as a table."""

    times: Mapping[str, Shown]

    @classmethod
    def of(cls, columns: list[str], rows: list[tuple[Any, ...]], times: Mapping[str, Shown]) -> PrintedRows:
        """Return rows.

        Args:
            columns: Names of the columns.
            rows: The rows.
            times: The columns with times of the bucket or window, and how these are shown.
        """
        found = cls((columns, rows))
        found.times = times
        return found

    __repr__ = __str__ = Printed.__repr__

    def _tables(self) -> list[PrintedTable]:
        return [rows_table("", *self, self.times)]


def rows_table(
    caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]], times: Mapping[str, Shown]
) -> PrintedTable:
    """Return rows of an output as a table.

    Args:
        caption: The line above.
        columns: Names of the columns.
        rows: The rows.
        times: The columns with times of the bucket or window, and how these are shown.
    """
    kinds = [times.get(name) for name in columns]
    shown = [[_value(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in rows]
    return PrintedTable(caption, columns, shown)


def _value(value: object, kind: Shown | None) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and isinstance(kind, Epoch):
        return render(value, kind)
    from materializer.core.time.fetched import plain_text  # noqa: PLC0415 - only rows are printed so

    return "null" if value is None else plain_text(value)


def span_text(span: Span | None, kind: Shown) -> str | None:
    """Return a span in half-open form, ends that do not exist in words; None for none."""
    return None if span is None else f"[{instant_text(span.start, kind)}, {instant_text(span.end, kind)})"


def spans_text(spans: SpanSet, kind: Shown, *, few: int = _FEW, between: str = "\n") -> str:
    """Return the first spans of a set, and how many more there are; "" for none.

    Examples:
        >>> from materializer.core.spec.spec import TimeType
        >>> spans_text(SpanSet.of(Span(0, 1), Span(3, POS_INF)), TimeType.INT, few=1, between=", ")
        '[0, 1) and 1 more'
    """
    shown = between.join(filter(None, (span_text(span, kind) for span in spans.spans[:few])))
    rest = len(spans) - few
    return f"{shown}{between.removeprefix(',')}and {rest:,} more" if rest > 0 else shown


def _shown(value: Any, kind: Shown | None, *, is_instant: bool = False) -> object:
    match value:
        case int() if is_instant:
            return None if kind is None or value in {NEG_INF, POS_INF} else render(value, kind)
        case Span():
            return None if kind is None else span_text(value, kind)
        case SpanSet():
            return f"{len(value)} spans" if value and kind is None else spans_text(value, kind) if kind else None
        case Enum():
            return str(value.value)
        case Mapping():
            return "\n".join(f"{key}: {_text(_shown(each, kind))}" for key, each in value.items())
        case tuple() | list():
            return "\n".join(_text(_shown(each, kind)) for each in value)
        case float():
            return f"{value:,.3f}"
        case Struct() if not isinstance(value, Printed):
            shown = {name: _shown(getattr(value, name), kind) for name in value.__struct_fields__}
            return ", ".join(f"{name.replace('_', ' ')} {_text(each)}" for name, each in shown.items() if each)
        case _:
            return value


def _text(value: object) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case _:
            text = str(value)
            # what a terminal would obey, or not show, is shown
            return (
                text
                if text.isprintable()
                else "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
            )


def _lines(table: PrintedTable) -> Iterator[str]:
    if table.caption:
        yield table.caption
    cells = [[_text(value).split("\n") for value in row] for row in ([table.header] if table.header else [])]
    cells += [[_text(value).split("\n") for value in row] for row in table.rows]
    widths = [max(len(line) for row in cells for line in row[i]) for i in range(len(cells[0]) if cells else 0)]
    for row in cells:
        for at in range(max(map(len, row))):
            parts = (cell[at] if at < len(cell) else "" for cell in row)
            yield ("  " + "  ".join(part.ljust(width) for part, width in zip(parts, widths, strict=True))).rstrip()


def _html(table: PrintedTable) -> str:
    from html import escape  # noqa: PLC0415 - only notebooks show it

    style = "text-align:left;font-weight:bold"
    caption = f'<caption style="{style}">{escape(table.caption)}</caption>' if table.caption else ""
    names = "".join(f'<th scope="col" style="{_CELL}">{escape(name)}</th>' for name in table.header)
    head = f"<thead><tr>{names}</tr></thead>" if table.header else ""
    body = "".join(f"<tr>{_cells(row, is_fact=not table.header)}</tr>" for row in table.rows)
    return f"<table>{caption}{head}<tbody>{body}</tbody></table>"


def _cells(row: Sequence[object], *, is_fact: bool) -> str:
    from html import escape  # noqa: PLC0415 - only notebooks show it

    shown = [escape(_text(value)).replace("\n", "<br>") for value in row]
    cells = [f'<td style="{_CELL}">{text}</td>' for text in shown]
    if is_fact:
        cells[0] = f'<th scope="row" style="{_CELL}">{shown[0]}</th>'
    return "".join(cells)

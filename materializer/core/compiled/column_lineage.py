"""Column lineage: which columns of the source each output column is computed from, and how, by the definition alone.

A use is *direct* where values pass into the output column, and *indirect* where they only decide which values do: by a filter, as a
grouping key, or as an order. The lineage of a roll-up names the columns of the output of its parent, although partials are read,
because readers know no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Final

from msgspec import Struct

from materializer.core.compiled.definition import SLICE, key_column
from materializer.core.spec.spec import AggregateSpec, Call, Measure
from materializer.core.sql.expressions import Vocabulary, examine
from materializer.core.sql.tokens import Refused, fragment_of

_BY_TIME: Final = frozenset({"first", "last", "first_value", "last_value", "any_value", "delta", "open", "close"})
_COUNTS: Final = frozenset({"count", "count_if", "approx_count_distinct"})


class Use(StrEnum):
    """How an input column is used."""

    IDENTITY = "identity"
    TRANSFORMATION = "transformation"
    AGGREGATION = "aggregation"
    FILTER = "filter"
    GROUP_BY = "group_by"
    SORT = "sort"

    @property
    def is_direct(self) -> bool:
        """Whether values of the column pass into the output."""
        return self in (Use.IDENTITY, Use.TRANSFORMATION, Use.AGGREGATION)


class InputUse(Struct, frozen=True, order=True):
    """One use of an input column.

    Args:
        column: The column of the source.
        use: How it is used.
        text: The expression that uses it, or words about it.
        is_masking: Whether the values cannot be seen in the result, because they are only counted.
    """

    column: str
    use: Use
    text: str = ""
    is_masking: bool = False


class ColumnLineage(Struct, frozen=True):
    """The lineage of all output columns.

    Args:
        fields: The uses behind each output column, in the order of the output.
        rows: The uses that decide which rows and groups there are; they concern every column.
    """

    fields: Mapping[str, tuple[InputUse, ...]]
    rows: tuple[InputUse, ...]


def column_lineage(spec: AggregateSpec) -> ColumnLineage:
    """Return the column lineage of a definition that was resolved against its source.

    Examples:
        >>> from materializer.core.language.define import define
        >>> spec = define(
        ...     "d", "trades", time="at", width="1 day", keys=["symbol"],
        ...     measures={"volume": "sum(size * price)"}, where="size > 0",
        ... )
        >>> [(use.column, use.use.value) for use in column_lineage(spec).fields["volume"]]
        [('price', 'aggregation'), ('size', 'aggregation')]
        >>> [(use.column, use.use.value) for use in column_lineage(spec).rows]
        [('at', 'group_by'), ('size', 'filter'), ('symbol', 'group_by')]
    """
    known = _Columns(spec)
    time = known.named(spec.time_column)
    fields: dict[str, set[InputUse]] = {name: set() for name in spec.columns}
    for key in spec.keys:
        uses = known.of(key.sql)
        is_same = len(uses) == 1 and _bare(known.shown(key.sql)) == _bare(next(iter(uses)))
        how = Use.IDENTITY if is_same else Use.TRANSFORMATION
        fields[key.name] = {InputUse(c, how, "" if is_same else known.shown(key.sql)) for c in uses}
    for measure in spec.measures:
        fields[measure.name] = set(known.of_measure(measure))
    for name, text in _row_measures(spec):
        fields[name] = {InputUse(c, Use.TRANSFORMATION, text) for c in known.of(text)}
    given = {name for name, uses in fields.items() if uses}
    described = {k.name for k in spec.keys} | {m.name for m in spec.measures} | {n for n, _ in _row_measures(spec)}
    for name in fields:
        if name in spec.edges or (spec.is_engine and name not in described and name not in given):
            words = "the bucket of the time" if name in spec.edges else f"by the engine {spec.engine}"
            fields[name] = {InputUse(time, Use.TRANSFORMATION, words)}
    rows = (
        {InputUse(c, Use.FILTER, known.shown(spec.where)) for c in known.of(spec.where or "")} if spec.where else set()
    )
    rows |= {InputUse(c, Use.GROUP_BY) for key in spec.keys for c in known.of(key.sql)} | {InputUse(time, Use.GROUP_BY)}
    if spec.having is not None:
        text = spec.having.fill([call.text for call in spec.having.calls])
        rows |= {
            InputUse(use.column, Use.FILTER, f"HAVING {text}") for c in spec.having.calls for use in known.of_call(c)
        }
    if spec.sequence:
        rows.add(InputUse(known.named(spec.sequence), Use.SORT))
    return ColumnLineage({name: tuple(sorted(uses)) for name, uses in fields.items()}, tuple(sorted(rows)))


class _Columns:
    """The source columns in the texts of one definition, by the names that readers know."""

    def __init__(self, spec: AggregateSpec) -> None:
        self.spec = spec
        parent = spec.rolls_up
        self.renamed: dict[str, str] = {}
        if parent is not None:
            self.renamed = {key_column(k.name).casefold(): k.name for k in parent.keys}
            self.renamed[SLICE.casefold()] = next(iter(parent.edges), SLICE)
        self.known = {name.casefold(): name for name in spec.reads}

    def named(self, name: str) -> str:
        """Return the name of a column that readers know."""
        return self.renamed.get(name.casefold(), self.known.get(name.casefold(), name))

    def shown(self, text: str | None) -> str:
        """Return a text with the names that readers know, on one line."""
        found = " ".join((text or "").split())
        for stored, name in self.renamed.items():
            found = found.replace(f"`{stored}`", name)
        return found

    def of(self, text: str) -> frozenset[str]:
        """Return the source columns in a text; all of them if it cannot be read."""
        if not text or text == "*":
            return frozenset()
        with suppress(Refused):
            found = {name.casefold() for name in examine(fragment_of(text, "text"), Vocabulary()).column_names}
            return frozenset(self.named(name) for name in found & {*self.known, *self.renamed})
        return frozenset(map(self.named, self.spec.reads))

    def of_call(self, call: Call) -> Iterator[InputUse]:
        """Yield the uses of one aggregate call."""
        parent = self.spec.rolls_up
        if parent is not None:
            name = call.args[0].strip().strip("`") if call.args else ""
            measure = next((m.name for m in parent.measures if m.name.casefold() == name.casefold()), name)
            yield InputUse(
                measure, Use.AGGREGATION, f"merged from the partials of {parent.name}", _is_count(call, parent)
            )
            return
        is_count = call.function in _COUNTS
        for arg in call.args:
            yield from (InputUse(c, Use.AGGREGATION, call.text, is_count) for c in self.of(arg))
        yield from (InputUse(c, Use.FILTER, f"FILTER (WHERE {call.where})") for c in self.of(call.where or ""))
        yield from (InputUse(c, Use.SORT, f"ORDER BY {call.order_by}") for c in self.of(call.order_by or ""))
        if call.function in _BY_TIME:
            yield InputUse(self.named(self.spec.time_column), Use.SORT, call.text)

    def of_measure(self, measure: Measure) -> Iterable[InputUse]:
        """Return the uses of one measure."""
        return [use for call in measure.formula.calls for use in self.of_call(call)]


def _is_count(call: Call, parent: AggregateSpec) -> bool:
    name = call.args[0].strip().strip("`").casefold() if call.args else ""
    behind = [c.function for m in parent.measures if m.name.casefold() == name for c in m.formula.calls]
    return bool(behind) and set(behind) <= _COUNTS


def _bare(text: str) -> str:
    """Return the text of a name without back quotes, to be compared."""
    return text.strip().strip("`").replace("``", "`").casefold()


def _row_measures(spec: AggregateSpec) -> list[tuple[str, str]]:
    """Return (name, text) of the measures of an engine that computes them for each row."""
    if not spec.is_engine:
        return []
    metrics = dict(spec.params).get("metrics")
    return [(str(name), str(text)) for name, text in metrics] if isinstance(metrics, (list, tuple)) else []

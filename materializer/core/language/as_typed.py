"""The statement of a user as plain Spark runs it, to be compared with what was computed by way of our reading of it.

The text is the one that was typed. Replaced are only the source after FROM, a bucket that plain Spark does not have or divides in
UTC instead of its zone, and an aggregate that Spark does not have or of which it does not define the value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.aggregates.decompose import parts_of
from materializer.core.aggregates.order import row_order
from materializer.core.aggregates.parts import plain
from materializer.core.aggregates.registry import find
from materializer.core.aggregates.rollup import calls_of
from materializer.core.language.selection import item_of, select_outputs
from materializer.core.language.statement import read_source, split_statement
from materializer.core.spec.spec import AggregateSpec
from materializer.core.spec.table_names import quoted
from materializer.core.sql.expressions import Expression, FunctionUse, Vocabulary, examine
from materializer.core.sql.formulas import read_call
from materializer.core.sql.time_bucket import Bucket, bucket_form, read_bucket
from materializer.core.sql.tokens import Fragment, Refused, Script

BUCKET: Final = "mz bucket"
"""The column with start and end of the bucket of a row, which the rows have where the text needs it."""

_Edit = tuple[int, int, str]


class TypedQuery(Struct, frozen=True):
    """A statement over other rows.

    Args:
        text: The query; its columns are those of the definition, then those that were added.
        needs_bucket: Whether the rows must have the column :data:`BUCKET`.
    """

    text: str
    needs_bucket: bool


def as_typed(spec: AggregateSpec, rows: str, more: Sequence[tuple[str, str]] = ()) -> TypedQuery | None:
    """Return the query of a definition as its user typed it; None where none was typed, or plain Spark cannot run it.

    Args:
        spec: The definition.
        rows: Name of a view of the source.
        more: Further (name, aggregate) columns, appended.
    """
    python = any(find(call.function) is None for call in calls_of(spec))
    if not spec.sql or spec.is_engine or spec.rolls_up is not None or python:
        return None  # Spark has no aggregate in Python beside its own
    script = Script(spec.sql)
    try:
        statement = Fragment(script, script.tokens())
        clauses, begin = split_statement(statement)
        source = read_source(clauses["FROM"])
        selection = select_outputs(clauses["SELECT"], clauses["GROUP BY"], source.qualifiers, [])
        if selection is None:
            return None
        reading = _Reading(spec, selection.bucket, source.qualifiers)
        items = [item.expression for piece in clauses["SELECT"].split() if (item := item_of(piece, []))]
        groups = [piece for piece in clauses["GROUP BY"].split() if len(piece) > 1]
        filters = [clauses["HAVING"]] if "HAVING" in clauses else []
        edits = [edit for part in (*items, *groups, *filters) for edit in reading.edits(part)]
    except Refused:
        return None
    [qualifier] = source.qualifiers
    edits.append((clauses["FROM"].start, clauses["FROM"].stop, f"{quoted(rows)} AS {quoted(qualifier)}"))
    added = "".join(f", {sql} AS {quoted('mz ' + name)}" for name, sql in more)
    edits.append((clauses["SELECT"].stop, clauses["SELECT"].stop, added))
    text, at = "", begin
    for start, stop, instead in sorted(edits):
        text, at = text + script.text[at:start] + instead, stop
    return TypedQuery(text + script.text[at : statement.stop], not reading.is_sparks)


class _Reading:
    def __init__(self, spec: AggregateSpec, bucket: Bucket, qualifiers: frozenset[str]) -> None:
        self.spec, self.bucket, self.qualifiers = spec, bucket, qualifiers
        self.known = {replace(call, types=()): call for call in calls_of(spec)}
        is_divided_alike = bucket.form in ("date_trunc", "window")
        is_instant = spec.time_type is not None and not spec.time_type.is_integer
        self.is_sparks = is_divided_alike and is_instant and spec.grid.timezone is None

    def edits(self, part: Fragment) -> Iterator[_Edit]:
        """Yield (start, end, replacement) of what plain Spark does not compute as it stands."""
        expression = examine(part, Vocabulary(self.qualifiers))
        tokens = expression.fragment.tokens
        for use in expression.calls:
            yield from self._of_call(expression, use)
        if self.is_sparks:
            return
        timed = [(use.at, use.last) for use in expression.functions if self._is_time(expression, use)]
        for first, last in timed:
            end = f"({quoted(BUCKET)}.end - INTERVAL '0.000001' SECOND)"
            yield tokens[first].start, tokens[last].end + 1, end
        for use in expression.functions:
            if any(first <= use.at <= last for first, last in timed):
                continue
            called = expression.fragment.part(use.at, use.last + 1)
            if use.name == self.bucket.form == bucket_form(called) and self._is_bucket(called):
                end = "" if use.name == "window" else ".start"
                yield called.start, called.stop, f"{quoted(BUCKET)}{end}"
        for column in expression.columns:
            if self.bucket.form == "window" and column.name.lower() == "window" and column.last > column.head:
                yield tokens[column.at].start, tokens[column.head].end + 1, quoted(BUCKET)

    def _is_time(self, expression: Expression, use: FunctionUse) -> bool:
        inner = expression.fragment.part(use.at + 2, use.closing)
        is_named = inner.normal == ("window",)
        return use.name == "window_time" and (is_named or (bucket_form(inner) == "window" and self._is_bucket(inner)))

    def _is_bucket(self, called: Fragment) -> bool:
        found = read_bucket(called, self.qualifiers)
        same = (self.bucket.grid, self.bucket.time_column.lower())
        return (found.grid, found.time_column.lower()) == same

    def _of_call(self, expression: Expression, use: FunctionUse) -> Iterator[_Edit]:
        function, tokens = find(use.name), expression.fragment.tokens
        call = self.known.get(read_call(expression, use))
        if function is None or call is None or function.family == "within_group":
            return  # Spark says of a call that we have not read like this what it is
        reference = parts_of(call, row_order(self.spec)).reference
        if reference != plain(call.function, call.args, call.where, distinct=call.distinct):
            yield tokens[use.at].start, tokens[use.last].end + 1, f"({reference})"
        elif use.name != function.name:
            yield tokens[use.at].start, tokens[use.at].end + 1, function.name

"""A roll-up in its two forms: over the partials of another aggregate, as it is computed, and over raw rows, as it is defined.

:func:`over_partials` turns the definition of a user, which names columns of the other aggregate, into one whose time column,
keys and WHERE name columns of its partials. The rest of the program then reads the partials as it reads any source.
:func:`over_raw_rows` gives the same definition over the source of the other aggregate; verification and fresh reads use it.
"""

# ruff: noqa: PLC0415 - the parser takes longer to import than a refresh without work

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from materializer.core.aggregates.decompose import decompose
from materializer.core.aggregates.layout import Layout
from materializer.core.aggregates.parts import column_of, group, is_same
from materializer.core.aggregates.registry import ROLLUP, find
from materializer.core.aggregates.rollup import behind, calls_of, measure_of
from materializer.core.compiled.definition import SLICE, Definition, key_column
from materializer.core.spec.spec import AggregateSpec, Call, Formula, Key
from materializer.core.spec.table_names import quoted
from materializer.core.time.nesting import misfit
from materializer.errors import DefinitionError, Problem


def over_partials(spec: AggregateSpec, parent: AggregateSpec) -> AggregateSpec:
    """Return a roll-up of *parent* over the columns of its partials.

    Args:
        spec: The definition as written.
        parent: The definition of the aggregate that it names as its source, with the types of all arguments.

    Raises:
        DefinitionError: With every reason why the one cannot be rolled up as the other says.
    """
    from materializer.core.sql.functions import nearest
    from materializer.core.sql.tokens import Refused

    problems = list(_problems(spec, parent))
    columns = {key.name.lower(): quoted(key_column(key.name)) for key in parent.keys}
    keys: list[Key] = []
    where = None
    for text, what in [*((k.sql, f"the key `{k.name}`") for k in spec.keys), (spec.where, "WHERE")]:
        if text is None:
            continue
        try:
            found, unknown = _replaced_columns(text, columns)
        except Refused as refused:
            problems.append(refused.problem)
            continue
        for name in unknown:
            message = f"{spec.name}: {what} reads `{name}`, and a roll-up of '{parent.name}' can read its keys only"
            names = [key.name for key in parent.keys]
            hint = nearest(name, names) or f"its keys are {', '.join(names) or 'none'}"
            problems.append(Problem("definition.rollup-column", message, hint, about=name))
        if what == "WHERE":
            where = found
        else:
            keys.append(Key(spec.keys[len(keys)].name, found))
    if problems:
        raise DefinitionError(problems)
    layout = decompose(parent)
    finals = dict(layout.finals)
    measures = [m for call in calls_of(spec) if (m := measure_of(call, parent))]
    partials = {p.name for m in measures for p in behind(finals[m.name], layout)}
    texts = " ".join([*(key.sql for key in keys), where or ""])
    read = {key_column(key.name) for key in parent.keys if quoted(key_column(key.name)) in texts}
    return replace(
        spec,
        time_column=SLICE,
        keys=tuple(keys),
        where=where,
        reads=tuple(sorted({SLICE, *read, *partials})),
        rolls_up=replace(parent, sql="", comment="", properties=(), suites=()),
    )


def defined_over_raw_rows(definition: Definition) -> Definition:
    """Return what a compiled roll-up means: the same tables, computed from raw rows."""
    spec = definition.spec
    if spec.rolls_up is None:
        return definition
    return replace(definition, spec=over_raw_rows(spec), layout=_layout_over_raw_rows(spec))


def _layout_over_raw_rows(spec: AggregateSpec) -> Layout:
    """Return the layout of a definition with partials that are built from raw rows.

    They are those of the aggregate at the root, so that rows of one instant are ordered as there.
    """
    layout = decompose(spec)
    if spec.rolls_up is None:
        return layout
    below = {p.name: p for p in _layout_over_raw_rows(spec.rolls_up).partials}
    return replace(layout, partials=tuple(below.get(p.name, p) for p in layout.partials))


def merged_from(definition: Definition, keys: Sequence[tuple[str, str]]) -> Definition:
    """Return a definition that computes the partials of *definition* from those of a finer aggregate over the same rows.

    Args:
        definition: The definition, over raw rows.
        keys: (name of a key, name of the same key of the finer aggregate).
    """
    spec, layout = definition.spec, definition.layout
    theirs, types = dict(keys), dict(definition.partial_columns)
    columns = {SLICE: types[SLICE], **{p.name: types[p.name] for p in layout.partials}}
    columns |= {key_column(theirs[key.name]): types[key_column(key.name)] for key in spec.keys}
    over = replace(
        spec,
        time_column=SLICE,
        keys=tuple(Key(key.name, quoted(key_column(theirs[key.name]))) for key in spec.keys),
        where=None,
        sequence=None,
        reads=tuple(sorted(columns)),
        read_types=tuple(sorted(columns.items())),
    )
    partials = tuple(replace(p, build=str(p.merge), pick=None) for p in layout.partials)
    return replace(definition, spec=over, layout=replace(layout, partials=partials))


def finer(ours: Definition, theirs: Definition) -> tuple[tuple[str, str], ...] | None:
    """Return which of their keys each of our keys is, if our partials can be merged from theirs; else None.

    Both read the same rows in the same order, their buckets lie in ours, and our partials are built as theirs are.
    """
    a, b = ours.spec, theirs.spec
    if a.is_engine or b.is_engine or a.rolls_up is not None or b.rolls_up is not None:
        return None
    if _rows_of(a) != _rows_of(b) or ours.time_type is not theirs.time_type:
        return None
    if not is_same(a.where or "", b.where or ""):
        return None
    by_name = {p.name: p for p in theirs.layout.partials}
    for partial in ours.layout.partials:
        other = by_name.get(partial.name)
        if other is None or partial.merge is None or other.build != partial.build:
            return None
    keys = [(key.name, next((o.name for o in b.keys if is_same(key.sql, o.sql)), None)) for key in a.keys]
    found = tuple((name, other) for name, other in keys if other is not None)
    return found if len(found) == len(keys) and misfit(ours.grid, theirs.grid) is None else None


def _rows_of(spec: AggregateSpec) -> tuple[object, ...]:
    return spec.time_column.lower(), spec.resolution, spec.lateness


def over_raw_rows(spec: AggregateSpec) -> AggregateSpec:
    """Return the definition over raw rows that a definition stands for; a definition that is no roll-up stands for itself."""
    if spec.rolls_up is None:
        return spec
    base = over_raw_rows(spec.rolls_up)
    keys = {key_column(key.name): group(key.sql) for key in base.keys}
    formulas = {m.name.casefold(): m.formula for m in base.measures}
    conditions = [w for w in (base.where, spec.where and _replaced_names(spec.where, keys)) if w]
    return replace(
        spec,
        source=base.source,
        time_column=base.time_column,
        time_type=base.time_type,
        resolution=base.resolution,
        keys=tuple(Key(key.name, _replaced_names(key.sql, keys)) for key in spec.keys),
        measures=tuple(replace(m, formula=_spelled_out(m.formula, formulas)) for m in spec.measures),
        having=None if spec.having is None else _spelled_out(spec.having, formulas),
        where=" AND ".join(map(group, conditions)) or None,
        sequence=base.sequence,
        reads=base.reads,
        read_types=base.read_types,
        sql="",
        rolls_up=None,
    )


def _problems(spec: AggregateSpec, parent: AggregateSpec) -> Iterator[Problem]:
    from materializer.core.dialect import words_in

    if spec.is_engine or parent.is_engine:
        which = spec.name if spec.is_engine else parent.name
        message = f"{spec.name}: `{ROLLUP}` merges partials of buckets, and '{which}' is computed by an engine"
        yield Problem("definition.rollup-engine", message, "aggregate the columns of its output", about=parent.name)
        return
    if spec.time_column.lower() != (parent.bucket_start or "").lower():
        message = f"{spec.name}: a roll-up of '{parent.name}' divides the starts of its buckets, and `{spec.time_column}` is not that column"
        hint = (
            f"divide `{parent.bucket_start}`"
            if parent.bucket_start
            else f"select the bucket's start in '{parent.name}'"
        )
        yield Problem("definition.rollup-time", message, hint, about=spec.time_column)
    if spec.sequence is not None:
        message = f"{spec.name}: a roll-up has no rows to order, '{parent.name}' has ordered them"
        yield Problem("definition.rollup-sequence", message, "leave 'sequence' away", about="sequence")
    raw = over_raw_rows(parent)
    formulas = {m.name.casefold(): m.formula for m in raw.measures}
    grouped = {column_of(key.sql) for key in spec.keys}
    dropped = {c for k in raw.keys if k.name.casefold() not in grouped and (c := column_of(k.sql)) is not None}
    names = {n.casefold() for n in (*(k.name for k in parent.keys), *parent.edges)}
    for call in dict.fromkeys(calls_of(spec)):
        shown = call.text or call.function
        if call.function != ROLLUP:
            message = f"{spec.name}: {shown} stands beside `{ROLLUP}`, which reads partials and not rows"
            hint = f"write {ROLLUP}(measure) for each measure, or make two aggregates"
            yield Problem("definition.rollup-mixed", message, hint, about=call.function)
            continue
        measure = measure_of(call, parent)
        if measure is None:
            continue  # decomposing reports it
        formula = formulas[measure.name.casefold()]
        if any(isinstance(p, str) and names & words_in(p) for p in formula.pieces):
            message = f"{spec.name}: {shown}: the measure also reads a key or the bucket of '{parent.name}'"
            hint = "give each aggregate in it a name there, and combine them here"
            yield Problem("definition.rollup-key", message, hint, about=measure.name)
        for inner in formula.calls:
            function = find(inner.function)
            is_ordered = function is not None and function.is_ordered
            if is_ordered and dropped & {word for arg in inner.args for word in words_in(arg)}:
                message = f"{spec.name}: {shown}: {inner.text or inner.function} selects by order a value of a key that is not grouped by here"
                yield Problem(
                    "definition.rollup-key", message, "group by that key, or read the raw source", about=measure.name
                )


def _spelled_out(formula: Formula, measures: Mapping[str, Formula]) -> Formula:
    """Return a formula in which each ``rollup`` is replaced by the formula of its measure, by name in lower case."""
    pieces: list[str | int] = []
    calls: list[Call] = []
    for piece in formula.pieces:
        if isinstance(piece, str):
            pieces.append(piece)
            continue
        inner = measures[column_of(formula.calls[piece].args[0]) or ""]
        pieces += ["(", *(p if isinstance(p, str) else len(calls) + p for p in inner.pieces), ")"]
        calls += inner.calls
    return Formula(tuple(pieces), tuple(calls))


def _replaced_columns(text: str, columns: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return an expression with its columns replaced, and the columns that have no replacement.

    Args:
        text: Spark SQL over a row.
        columns: The replacement of each column, by its name in lower case.

    Raises:
        Refused: If the text is not one expression.
    """
    from materializer.core.sql.expressions import Vocabulary, examine
    from materializer.core.sql.tokens import fragment_of

    expression = examine(fragment_of(text, "expression"), Vocabulary())
    out, at, unknown = "", 0, []
    for column in expression.columns:
        token = expression.fragment.tokens[column.head]
        if column.name.lower() not in columns:
            unknown.append(column.name)
            continue
        out += text[at : token.start] + columns[column.name.lower()]
        at = token.end + 1
    return out + text[at:], unknown


def _replaced_names(text: str, names: Mapping[str, str]) -> str:
    """Return Spark SQL in which quoted names are replaced; a literal or a comment holds none."""
    if "`" not in text:
        return text
    from sqlglot import TokenType

    from materializer.core.dialect import DIALECT

    out, at = "", 0
    for token in DIALECT.tokenize(text):
        if token.token_type == TokenType.IDENTIFIER and token.text in names:
            out, at = out + text[at : token.start] + names[token.text], token.end + 1
    return out + text[at:]

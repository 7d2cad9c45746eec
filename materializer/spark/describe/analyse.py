"""Spark's analysis of a definition: the types of all expressions, and every expression that Spark refuses.

Nothing is read and no job runs: Spark analyses all expressions over an empty frame with the source's schema. The session must
have UTC and ANSI on, because types and implicit casts depend on these settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from msgspec import Struct
from msgspec.structs import replace
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st
from pyspark.sql.functions import expr

from materializer.core.aggregates.decompose import decompose
from materializer.core.aggregates.layout import Layout
from materializer.core.aggregates.registry import find
from materializer.core.compiled.definition import SLICE, key_column
from materializer.core.compiled.texts_as_numbers import texts_as_numbers
from materializer.core.spec.spec import AggregateSpec, Call, Formula, TimeType
from materializer.core.spec.table_names import quoted
from materializer.errors import DefinitionError, Problem
from materializer.spark.describe.refusals import quoted_in, sentence_of
from materializer.spark.describe.typed import refusal_of_text
from materializer.spark.query.types import is_storable, within

_TIME_TYPES: dict[TimeType, st.DataType] = {
    TimeType.DATE: st.DateType(),
    TimeType.TIMESTAMP: st.TimestampType(),
    TimeType.TIMESTAMP_NTZ: st.TimestampNTZType(),
    TimeType.SMALLINT: st.ShortType(),
    TimeType.INT: st.IntegerType(),
    TimeType.BIGINT: st.LongType(),
}

# Spark computes with these types, but a table that every reader can read cannot hold them.

_CODES = (
    ("UNRESOLVED_COLUMN", "definition.unknown-column"),
    ("FIELD_NOT_FOUND", "definition.unknown-column"),
    ("UNRESOLVED_ROUTINE", "definition.unknown-function"),
    ("WRONG_NUM_ARGS", "definition.wrong-arguments"),
    ("DATATYPE_MISMATCH.WRONG_NUM_ARGS", "definition.wrong-arguments"),
    ("PARSE_", "definition.syntax"),
    ("MISSING_AGGREGATION", "definition.not-grouped"),
    ("MISSING_GROUP_BY", "definition.not-grouped"),
)


class Analysed(Struct, frozen=True):
    """A definition with everything that only Spark can determine.

    Args:
        spec: The definition; every call has the types of its arguments.
        layout: The columns that the definition stores and computes.
        partial_schema: The partial columns, in the order of the layout; without bucket and keys; all nullable.
        key_types: (name, Spark type) of each grouping key.
        output_schema: The columns of the output, in the order of the SELECT; all nullable.
    """

    spec: AggregateSpec
    layout: Layout
    partial_schema: st.StructType
    key_types: tuple[tuple[str, str], ...]
    output_schema: st.StructType


def analyse(spark: SparkSession, spec: AggregateSpec, source_schema: st.StructType) -> Analysed:
    """Return *spec* with types, its layout, and the schemas of its tables.

    Args:
        spark: A session with UTC and ANSI on.
        spec: The definition, resolved against its source (``reads`` and ``time_type`` are known).
        source_schema: The schema of the source.

    Raises:
        DefinitionError: If Spark refuses an expression, or a type cannot be grouped or stored; the error lists all problems.
        ValueError: If *spec* was not resolved.
    """
    if spec.time_type is None:
        msg = f"'{spec.name}' is not resolved against its source"
        raise ValueError(msg)
    asked = _Questions(spark.createDataFrame([], source_schema))
    keys = asked.keys(spec)
    asked.conditions(spec)
    typed = asked.typed(spec)
    asked.problems += texts_as_numbers(typed)
    asked.raise_problems()
    layout = decompose(typed)
    measures = asked.references(typed, layout)
    asked.raise_problems()
    if spec.is_engine:
        return _analysed_engine(spark, typed, layout, keys, source_schema)
    partials = asked.partials(typed, layout)
    asked.raise_problems()
    _check_merges(spark, keys, partials, layout)
    buckets = dict.fromkeys(spec.edges, _TIME_TYPES[spec.time_type])
    finals = _finals(_stored(spark, buckets | keys, partials), layout, measures)
    if (refusal := refusal_of_text(spark, typed, source_schema)) is not None:
        raise DefinitionError([_problem(_Place("Spark refuses the statement"), refusal, source_schema)]) from refusal
    return Analysed(
        spec=typed,
        layout=layout,
        partial_schema=st.StructType([st.StructField(n, _nullable(t)) for n, t in partials.items()]),
        key_types=tuple((n, t.simpleString()) for n, t in keys.items()),
        output_schema=_output_schema(spec, keys | buckets | finals),
    )


def _analysed_engine(
    spark: SparkSession,
    spec: AggregateSpec,
    layout: Layout,
    keys: dict[str, st.DataType],
    source_schema: st.StructType,
) -> Analysed:
    from materializer.spark.describe.analyse_engine import stored_schemas

    stored, output = stored_schemas(spark, spec, source_schema)
    asked = _Questions(spark.createDataFrame([], source_schema))
    asked.storable([(f.name, f"measure '{f.name}'", f.dataType) for f in output], "cast it")
    asked.raise_problems()
    hint = "cast it inside the call"
    asked.storable([(f.name, f"'{f.name}', which is kept beside the results,", f.dataType) for f in stored], hint)
    asked.raise_problems()
    groups = {SLICE, *(key_column(n) for n in keys)}
    return Analysed(
        spec=spec,
        layout=layout,
        partial_schema=st.StructType(
            [st.StructField(f.name, _nullable(f.dataType)) for f in stored if f.name not in groups]
        ),
        key_types=tuple((n, t.simpleString()) for n, t in keys.items()),
        output_schema=st.StructType([st.StructField(f.name, _nullable(f.dataType)) for f in output]),
    )


class _Questions:
    """Determines types over an empty frame, and collects the problems that Spark reports."""

    def __init__(self, source: DataFrame) -> None:
        self.source = source
        self.problems: list[Problem] = []

    def raise_problems(self) -> None:
        if self.problems:
            raise DefinitionError(dict.fromkeys(self.problems))

    def types(self, texts: Sequence[tuple[_Place, str]]) -> list[st.DataType | None]:
        """Return the type of each (place, text); None if the text does not analyse."""
        try:
            return list(_types(self.source, [t for _, t in texts]))
        except AnalysisException:
            return [self._type(place, text) for place, text in texts]

    def _type(self, place: _Place, text: str) -> st.DataType | None:
        try:
            return _types(self.source, [text])[0]
        except AnalysisException as error:
            self._refuse(place, error)
            return None

    def keys(self, spec: AggregateSpec) -> dict[str, st.DataType]:
        found = self.types([(_Place(f"key '{k.name}'", k.name), k.sql) for k in spec.keys])
        for key, of in zip(spec.keys, found, strict=True):
            if of is not None and (any(isinstance(t, st.MapType) for t in within(of)) or not is_storable(of)):
                message = f"key '{key.name}' is of type {of.simpleString()}, which cannot be grouped by"
                hint = "group by a field or an element of it"
                self.problems.append(Problem("definition.wrong-type", message, hint, about=key.name))
        return {k.name: of for k, of in zip(spec.keys, found, strict=True) if of is not None}

    def conditions(self, spec: AggregateSpec) -> None:
        texts = [(_Place("WHERE"), spec.where)]
        texts += [(replace(place, words=f"FILTER of {place.words}"), call.where) for place, call in _calls(spec)]
        present = [(place, text) for place, text in texts if text is not None]
        for (place, text), of in zip(present, self.types(present), strict=True):
            if of is not None and not isinstance(of, st.BooleanType):
                message = f"{place.words} is of type {of.simpleString()}, expected boolean: {text}"
                self.problems.append(Problem("definition.wrong-type", message, "write a comparison", about=place.name))

    def typed(self, spec: AggregateSpec) -> AggregateSpec:
        """Return *spec* with the types of all arguments; the type is "" if an argument does not analyse.

        A roll-up has no arguments, but names of measures.
        """
        if spec.rolls_up is not None:
            return spec
        texts = [(place, arg) for place, call in _calls(spec) for arg in call.args if arg != "*"]
        found = iter([of.simpleString() if of is not None else "" for of in self.types(texts)])

        def fill(formula: Formula) -> Formula:
            return replace(
                formula,
                calls=tuple(_with_types(c, ["" if a == "*" else next(found) for a in c.args]) for c in formula.calls),
            )

        measures = tuple(replace(m, formula=fill(m.formula)) for m in spec.measures)
        return replace(spec, measures=measures, having=fill(spec.having) if spec.having else None)

    def references(self, spec: AggregateSpec, layout: Layout) -> dict[str, st.DataType | None]:
        """Return the type of each measure's reference form; None if Spark cannot evaluate it as one expression.

        That of a roll-up reads raw rows, which the source does not have.
        """
        if spec.rolls_up is not None:
            return dict.fromkeys(m.name for m in spec.measures)
        known = {m.name: all(find(c.function) is not None for c in m.formula.calls) for m in spec.measures}
        plain = [(n, text) for n, text in layout.reference if known[n]]
        found: dict[str, st.DataType | None] = dict.fromkeys(known)
        try:
            found |= zip([n for n, _ in plain], self._aggregated(spec, [t for _, t in plain]), strict=True)
        except AnalysisException:
            found |= {n: self._aggregated_type(spec, _measure(n), text) for n, text in plain}
        self.storable([(name, f"measure '{name}'", of) for name, of in found.items()], "cast it")
        if layout.having_reference is not None:
            of = self._aggregated_type(spec, _Place("HAVING"), layout.having_reference)
            if of is not None and not isinstance(of, st.BooleanType):
                message = f"HAVING is of type {of.simpleString()}, expected boolean"
                self.problems.append(Problem("definition.wrong-type", message, "write a comparison"))
        return found

    def partials(self, spec: AggregateSpec, layout: Layout) -> dict[str, st.DataType]:
        """Return the type of every partial column."""
        ours = [p for p in layout.partials if not p.is_foreign]
        found: dict[str, st.DataType | None] = {p.name: None for p in layout.partials}
        found |= zip([p.name for p in ours], self._aggregated(spec, [p.build for p in ours]), strict=True)
        for partial in layout.partials:
            if partial.is_foreign:
                found[partial.name] = self._aggregated_type(spec, _Place("aggregate"), partial.build)
        self.storable([("", p.build, found[p.name]) for p in layout.partials], "cast it inside the aggregate")
        return {n: of for n, of in found.items() if of is not None}

    def storable(self, types: Iterable[tuple[str, str, st.DataType | None]], hint: str) -> None:
        """Add a problem for each (name, words, type) whose type a table cannot hold."""
        for name, what, of in types:
            if of is not None and not is_storable(of):
                message = f"{what} is of type {of.simpleString()}, which cannot be stored"
                self.problems.append(Problem("definition.wrong-type", message, hint, about=name))

    def _aggregated(self, spec: AggregateSpec, texts: Sequence[str]) -> list[st.DataType]:
        if not texts:
            return []
        taken = {name.lower() for name in self.source.columns}
        edges = [] if spec.is_engine else [name for name in spec.edges if name.lower() not in taken]
        time = quoted(spec.time_column)
        rows = self.source.select("*", *[expr(time).alias(name) for name in edges])
        grouped = rows.groupBy(*[quoted(name) for name in edges], *[expr(k.sql).alias(k.name) for k in spec.keys])
        schema = grouped.agg(*[expr(t).alias(f"c{i}") for i, t in enumerate(texts)]).schema
        return [f.dataType for f in schema.fields[-len(texts) :]]

    def _aggregated_type(self, spec: AggregateSpec, place: _Place, text: str) -> st.DataType | None:
        try:
            return self._aggregated(spec, [text])[0]
        except AnalysisException as error:
            self._refuse(place, error)
            return None

    def _refuse(self, place: _Place, error: AnalysisException) -> None:
        self.problems.append(_problem(place, error, self.source.schema))


class _Place(Struct, frozen=True):
    """A part of a definition: in words, and the name that it has there, if any."""

    words: str
    name: str = ""


def _measure(name: str) -> _Place:
    return _Place(f"measure '{name}'", name)


def _calls(spec: AggregateSpec) -> list[tuple[_Place, Call]]:
    """Return (place, call) of all calls in order, those of measures first."""
    calls = [(_measure(m.name), c) for m in spec.measures for c in m.formula.calls]
    return calls + [(_Place("HAVING"), c) for c in (spec.having.calls if spec.having else ())]


def _with_types(call: Call, types: Iterable[str]) -> Call:
    return replace(call, types=tuple(types))


def _types(frame: DataFrame, texts: Sequence[str]) -> list[st.DataType]:
    selected = frame.select(*[expr(t).alias(f"c{i}") for i, t in enumerate(texts)])
    return [f.dataType for f in selected.schema.fields]


def _problem(place: _Place, error: AnalysisException, schema: st.StructType) -> Problem:
    condition = error.getCondition() or ""
    code = next((c for start, c in _CODES if condition.startswith(start)), None)
    if code is None:
        code = "definition.wrong-type" if "TYPE" in condition else "definition.invalid-expression"
    facts = error.getMessageParameters() or {}
    if code == "definition.unknown-column" and "objectName" in facts:
        name = facts["objectName"].replace("`", "")
        columns = schema.fieldNames()
        near = get_close_matches(name, columns, n=1)
        hint = f"did you mean {near[0]}?" if near else f"the columns are {', '.join(columns)}"
        return Problem(code, f"{place.words}: the source has no column {name}", hint, about=place.name)
    if code == "definition.unknown-function" and "routineName" in facts:
        name = facts["routineName"].replace("`", "")
        hint = "register it in the session, or mend its name"
        return Problem(code, f"{place.words}: there is no function {name}", hint, about=place.name)
    hint = _meant_field(facts, schema) if condition == "FIELD_NOT_FOUND" else ""
    return Problem(code, f"{place.words}: {sentence_of(error)}", hint, about=place.name or quoted_in(error))


def _meant_field(facts: Mapping[str, str], schema: st.StructType) -> str:
    """Return the hint for a field that a struct does not have: the nearest of its fields, with the column before it."""
    name, fields = facts.get("fieldName", "").strip("`"), facts.get("fields", "").strip("`").split("`, `")
    known = {field.lower(): field for field in fields}
    near = get_close_matches(name.lower(), known, n=1)
    if not near:
        return f"its fields are {', '.join(fields)}"
    structs = [path for path, kind in _structs(schema) if kind.fieldNames() == fields]
    return f"did you mean {' or '.join(f'`{path}.{known[near[0]]}`' for path in structs) or f'`{known[near[0]]}`'}?"


def _structs(schema: st.StructType, before: str = "") -> Iterator[tuple[str, st.StructType]]:
    for field in schema.fields:
        if isinstance(field.dataType, st.StructType):
            yield before + field.name, field.dataType
            yield from _structs(field.dataType, f"{before}{field.name}.")


def _check_merges(
    spark: SparkSession, keys: dict[str, st.DataType], partials: dict[str, st.DataType], layout: Layout
) -> None:
    merges = [(p.name, p.merge) for p in layout.partials if p.merge is not None]
    if not merges:
        return
    stored = _stored(spark, keys, partials)
    merged = stored.groupBy(*[stored[f"`{n}`"] for n in keys]).agg(*[expr(m).alias(n) for n, m in merges])
    for name, _ in merges:
        built, after = partials[name].simpleString(), merged.schema[name].dataType.simpleString()
        if built != after:
            msg = f"partial {name} is built as {built} but merges to {after}: {dict(merges)[name]}"
            raise RuntimeError(msg)


def _finals(stored: DataFrame, layout: Layout, references: dict[str, st.DataType | None]) -> dict[str, st.DataType]:
    try:
        found = _types(stored, [text for _, text in layout.finals])
        having = _types(stored, [layout.having] if layout.having is not None else [])
    except AnalysisException as error:
        message = f"a measure or HAVING reads more than aggregates and keys by their names: {sentence_of(error)}"
        hint = "put it inside an aggregate"
        raise DefinitionError([Problem("definition.not-grouped", message, hint, about=quoted_in(error))]) from error
    if any(not isinstance(of, st.BooleanType) for of in having):
        if layout.having_reference is None or None in references.values():
            message = f"HAVING is of type {having[0].simpleString()}, expected boolean"
            raise DefinitionError([Problem("definition.wrong-type", message, "write a comparison")])
        msg = f"HAVING is final as {having[0].simpleString()}: {layout.having}"
        raise RuntimeError(msg)
    finals = dict(zip([n for n, _ in layout.finals], found, strict=True))
    for name, of in finals.items():
        expected = references[name]
        if expected is not None and expected.simpleString() != of.simpleString():
            msg = f"measure '{name}' is final as {of.simpleString()}, but means {expected.simpleString()}"
            raise RuntimeError(msg)
    return finals


def _stored(spark: SparkSession, keys: dict[str, st.DataType], partials: dict[str, st.DataType]) -> DataFrame:
    return spark.createDataFrame([], st.StructType([st.StructField(n, t) for n, t in (keys | partials).items()]))


def _output_schema(spec: AggregateSpec, types: dict[str, st.DataType]) -> st.StructType:
    return st.StructType([st.StructField(c, _nullable(types[c])) for c in spec.columns])


def _nullable(of: st.DataType) -> st.DataType:
    """Return *of* with all nested types nullable, as our tables hold it."""
    match of:
        case st.ArrayType():
            return st.ArrayType(_nullable(of.elementType), containsNull=True)
        case st.MapType():
            return st.MapType(of.keyType, _nullable(of.valueType), valueContainsNull=True)
        case st.StructType():
            return st.StructType([st.StructField(f.name, _nullable(f.dataType)) for f in of.fields])
        case _:
            return of

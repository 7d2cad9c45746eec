"""Compare published rows with the reference form, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from uuid import uuid4

from msgspec import Struct, field
from msgspec.structs import replace
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as sf

from materializer.core.aggregates.moments import LEAST_SQUARED, MOST_SQUARED
from materializer.core.compiled.bucket_sql import bucket_end_sql, bucket_start_sql, instant_of_sql
from materializer.core.compiled.definition import Definition
from materializer.core.compiled.sample import condition_of
from materializer.core.compiled.shown import SAME_SHARE
from materializer.core.spec.spec import Call, Measure
from materializer.core.spec.table_names import quoted
from materializer.core.time.fetched import fetched_text
from materializer.core.time.spans import SpanSet
from materializer.errors import SparkError
from materializer.spark.query import compute as c

DIFFERS: Final = "size(wrong) > 0"
"""Predicate of the rows that differ."""
FLOAT_TOLERANCE: Final = 1e-9
"""Maximum difference of doubles, as a share of the sum of the magnitudes that enter the result (law 1)."""
_UNDEFINED: Final = "-1D"
"""In place of the sum of the magnitudes, where sums leave the range of doubles and the order of the rows decides the result."""

_SQUARED: Final = frozenset(
    {
        "var_pop",
        "var_samp",
        "stddev_pop",
        "stddev_samp",
        "covar_pop",
        "covar_samp",
        "corr",
        "regr_slope",
        "regr_intercept",
        "regr_r2",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
        "beta",
        "sem",
        "skew",
        "skewness",
        "kurtosis",
        "wsum",
        "wavg",
    }
)
_CUBED: Final = "sum3"
"""The power sum whose terms may cancel each other out."""
_CENTRED: Final = dict.fromkeys(_SQUARED - {"wsum", "wavg"}, 1) | {
    "kurtosis": 2,
    "regr_r2": 2,
    "skew": 3,
    "skewness": 3,
}
"""How often the squares of its argument are multiplied in an aggregate of centred sums."""
_QUOTIENTS: Final = frozenset(
    {"corr", "regr_slope", "regr_intercept", "regr_r2", "beta", "skew", "skewness", "kurtosis"}
)
"""Aggregates that divide one sum of squares by another: of tiny values, both have few digits or none."""
_NUMERIC: Final = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


class Comparison(Struct, frozen=True):
    """The result of a comparison.

    Args:
        rows: Number of rows of the reference form.
        differing: Number of rows that are missing, extra or different.
        examples: Some of these rows: kind, row (bucket and keys as text), columns (published, reference).
        evidence: The same rows whole: kind, the expected row and the row found (None if there is no such row).
        buckets: Every bucket with a differing row, as an instant of the requested column.
        types: Columns of another type: the name, the published type and that of the reference form.
    """

    rows: int
    differing: int
    examples: list[dict[str, Any]] = field(default_factory=list)
    evidence: list[dict[str, Any]] = field(default_factory=list)
    buckets: frozenset[int] = frozenset()
    types: tuple[tuple[str, str, str], ...] = ()


@contextmanager
def _expected(
    definition: Definition,
    raw: DataFrame,
    spans: SpanSet,
    inside: SpanSet,
    extra: Sequence[tuple[str, str]],
    *,
    is_typed: bool,
) -> Iterator[DataFrame]:
    """Yield the rows that should be there: what plain Spark says of the user's statement, or of our reading of it.

    Args:
        definition: The definition of the rows.
        raw: The source.
        spans: The spans to compare.
        inside: The part of *spans* in which the source has rows.
        extra: Further (name, aggregate) columns, appended.
        is_typed: Whether the statement is run as it was typed, if plain Spark can run it.

    Shape:
        The columns of the output, then those of *extra*.
    """
    from materializer.core.language.as_typed import BUCKET, as_typed

    spec, view = definition.spec, f"mz_{uuid4().hex}"
    typed = as_typed(spec, view, extra) if is_typed else None
    if typed is None:
        yield c.reference(definition, c.relevant_rows(definition, raw, spans), inside, extra)
        return
    # rows of windows that an engine has not closed yet count for no reader
    is_final = spec.where == "is_final" or (spec.where or "").endswith(" AND is_final")
    added = "is_final" if is_final else condition_of(spec)
    rows = c.relevant_rows(replace(definition, spec=replace(spec, where=added)), raw, spans)
    if typed.needs_bucket:
        start = bucket_start_sql(definition.grid, quoted(spec.time_column), inside)
        end = bucket_end_sql(definition.grid, f"({start})", inside)
        rows = rows.withColumn(BUCKET, sf.expr(f"named_struct('start', {start}, 'end', {end})"))
    rows.createOrReplaceTempView(view)
    spark = raw.sparkSession
    try:
        try:
            found = spark.sql(typed.text).toDF(*spec.columns, *(name for name, _ in extra))
        except AnalysisException as exc:
            message = f"plain Spark refuses the statement of '{spec.name}': {exc.getCondition() or exc}"
            hint = "apply it again: a name in it may mean a column that the source has"
            raise SparkError(message, hint=hint, wrote="nothing was written") from exc
        types = dict(definition.output_columns)  # of a time that is a date, Spark's bucket begins at a timestamp
        yield found.withColumns({name: sf.col(quoted(name)).cast(types[name]) for name in spec.edges})
    finally:
        spark.catalog.dropTempView(view)


def compare(
    definition: Definition,
    raw: DataFrame,
    published: DataFrame,
    spans: SpanSet,
    inside: SpanSet,
    *,
    examples: int,
    bucket: str | None = None,
    is_typed: bool = False,
) -> Comparison:
    """Compare *published* rows of *spans* with what plain Spark says of *raw*.

    Args:
        definition: The definition of the rows.
        raw: The source at the version that the output reflects.
        published: Rows of the output inside *spans*.
        spans: The spans to compare.
        inside: The part of *spans* in which the source has rows.
        examples: How many differing rows to return.
        bucket: Column of the output whose instants identify the differing buckets, if these are few; None to return none.
        is_typed: Whether Spark runs the statement as its user typed it; else it runs our reading of it, the reference form.
    """
    spec = definition.spec
    tolerances = dict(definition.layout.tolerances)
    groups = [n for n in spec.columns if n not in {m.name for m in spec.measures}]
    floats = {m.name: f"m_{i}" for i, m in enumerate(spec.measures) if tolerances[m.name] == "float"}
    magnitudes = [(floats[m.name], _magnitude(m)) for m in spec.measures if m.name in floats]
    brackets = {name: (f"low_{i}", f"high_{i}") for i, (name, _, _) in enumerate(definition.layout.brackets)}
    bounds = [
        (column, sql)
        for name, *sqls in definition.layout.brackets
        for column, sql in zip(brackets[name], sqls, strict=True)
    ]
    with _expected(definition, raw, spans, inside, [*magnitudes, *bounds], is_typed=is_typed) as expected:
        ours = published.select(
            *[sf.col(quoted(n)).alias(f"o_{i}") for i, n in enumerate(spec.columns)], sf.lit(1).alias("o")
        )
        theirs = expected.select(
            *[sf.col(quoted(n)).alias(f"r_{i}") for i, n in enumerate(spec.columns)],
            *floats.values(),
            *(column for column, _ in bounds),
            sf.lit(1).alias("r"),
        )
        at = {n: i for i, n in enumerate(spec.columns)}
        on = sf.expr(" AND ".join(f"o_{at[n]} <=> r_{at[n]}" for n in groups))
        both = ours.join(theirs, on, "full_outer")
        wrong = []
        for measure in spec.measures:
            name, i = measure.name, at[measure.name]
            if name in brackets:
                same = _within(f"o_{i}", *brackets[name], dict(definition.output_columns)[name])
            elif tolerances[name] == "rank":
                same = f"(o_{i} IS NULL) = (r_{i} IS NULL)"
            elif name in floats:
                same = _close(f"o_{i}", f"r_{i}", floats[name])
            else:
                same = f"o_{i} <=> r_{i}"
            wrong.append(f"CASE WHEN NOT ({same}) THEN {i} END")
        differing = sf.expr(f"array_compact(array({', '.join(wrong)}))" if wrong else "array()").cast("array<int>")
        both = both.withColumn("wrong", sf.expr("CASE WHEN o IS NULL OR r IS NULL THEN array(-1) END")).withColumn(
            "wrong", sf.coalesce(sf.col("wrong").cast("array<int>"), differing)
        )
        types = other_types(published, expected, [n for n in spec.columns if n not in spec.edges])
        rows_compared, differing_rows, found = counted(both, examples)
        buckets: list[Any] = []
        if differing_rows and bucket is not None:
            at_sql = instant_of_sql(f"coalesce(o_{at[bucket]}, r_{at[bucket]})", definition.time_type)
            buckets = both.where(DIFFERS).select(sf.expr(at_sql).alias("at")).distinct().collect()
    rows_found = [r.asDict() for r in found]
    return Comparison(
        rows_compared,
        differing_rows,
        [_example(r, spec.columns, groups, dict(definition.output_columns)) for r in rows_found],
        [_evidence(r, spec.columns) for r in rows_found],
        frozenset(int(r["at"]) for r in buckets),
        types,
    )


def other_types(published: DataFrame, expected: DataFrame, names: Sequence[str]) -> tuple[tuple[str, str, str], ...]:
    """Return the columns whose types differ, which an equation of their values does not see: the name and both types.

    Whether a column, or a part of it, may be null belongs to no type here.
    """
    ours, theirs = ({f.name.lower(): f.dataType.simpleString() for f in of.schema} for of in (published, expected))
    kinds = ((name, ours[name.lower()], theirs[name.lower()]) for name in names)
    return tuple(found for found in kinds if found[1] != found[2])


def counted(both: DataFrame, examples: int) -> tuple[int, int, list[Row]]:
    """Return how many rows were compared, how many differ, and some of the differing rows.

    Nothing is cached. In the usual case, without differences, one query is enough; otherwise a second query fetches examples.

    Args:
        both: Rows of both sides, joined; ``r`` is null if the expected row is missing, ``wrong`` lists the differing columns.
        examples: How many differing rows to return.
    """
    numbers = both.agg(sf.count("r").alias("rows"), sf.count_if(sf.expr(DIFFERS)).alias("differing")).collect()[0]
    found = both.where(DIFFERS).limit(examples).collect() if numbers["differing"] else []
    return numbers["rows"], numbers["differing"], found


def _within(ours: str, low: str, high: str, kind: str) -> str:
    """Return SQL that tells whether a quantile, or each of an array of them, lies in its bracket; NaN counts as infinity."""
    if kind.startswith("array"):
        element = _number(f"{ours}[i]", kind)
        inner = f"{low}[i] <= {element} AND {element} <= {high}[i]"
        test = f"forall(sequence(0, greatest(size({ours}), 1) - 1), i -> {inner})"
    else:
        number = _number(ours, kind)
        test = f"{low} <= {number} AND {number} <= {high}"
    return f"({ours} IS NULL AND {low} IS NULL) OR coalesce({test}, false)"


def _number(text: str, kind: str) -> str:
    return f"nanvl({text}, double('infinity'))" if "double" in kind or "float" in kind else text


def _close(ours: str, theirs: str, magnitude: str) -> str:
    tolerance = f"{FLOAT_TOLERANCE}D * greatest(abs(cast({theirs} AS double)), {magnitude}, 1D)"
    is_finite = f"{magnitude} < double('infinity')"
    is_near = f"{is_finite} AND abs(cast({ours} AS double) - cast({theirs} AS double)) <= {tolerance}"
    return f"{ours} <=> {theirs} OR {magnitude} = {_UNDEFINED} OR coalesce({is_near}, false)"


def _magnitude(measure: Measure) -> str:
    """Return an aggregate: the sum of the magnitudes behind a measure, or :data:`_UNDEFINED`."""
    found = [part for call in measure.formula.calls for part in _parts(call)]
    if not found:
        return "0D"
    undefined = " OR ".join(f"({test})" for _, test in found)
    return f"CASE WHEN {undefined} THEN {_UNDEFINED} ELSE {' + '.join(sql for sql, _ in found)} END"


def _parts(call: Call) -> list[tuple[str, str]]:
    """Return for each number in a call the sum of its magnitudes, and whether the call has no result that Spark defines."""
    where = f" FILTER (WHERE {call.where})" if call.where else ""
    parts = []
    for arg, type_ in zip(call.args, call.types, strict=False):
        if type_.startswith(_NUMERIC):
            number = f"abs(cast(({arg}) AS double))"
            value = f"{number} * {number} + {number}" if call.function in _SQUARED else number
            value = f"pow({number}, 3)" if call.function == _CUBED else value
            total, largest = f"coalesce(sum({value}){where}, 0D)", f"max({number}){where}"
            test = f"{largest} < double('infinity') AND {total} >= double('infinity')"
            if times := _CENTRED.get(call.function):
                test = f"{largest} < double('infinity') AND {largest} > {MOST_SQUARED ** (1 / times)!r}D"
                if call.function in _QUOTIENTS:
                    test += f" OR {largest} > 0 AND {largest} < {LEAST_SQUARED ** (1 / times)!r}D"
            parts.append((total, f"coalesce({test}, false)"))
    return parts


def is_same(a: Column, b: Column, *, inexact: bool) -> Column:
    """Return whether readers of an output see no difference between two values; of an inexact double its last digits do not count."""
    same = a.eqNullSafe(b)
    if not inexact:
        return same
    largest = sf.greatest(sf.abs(a), sf.abs(b))
    near = (largest < sf.lit(float("inf"))) & (sf.abs(a - b) <= SAME_SHARE * largest)
    return same | sf.coalesce(near, sf.lit(False))


def kind_of(row: dict[str, Any]) -> str:
    """Return how a row of both sides differs: ``missing``, ``extra`` or ``differs``."""
    return "missing" if row["o"] is None else "extra" if row["r"] is None else "differs"


def _evidence(row: dict[str, Any], columns: tuple[str, ...]) -> dict[str, Any]:
    expected, found = (
        None if row[side] is None else {name: row[f"{side}_{i}"] for i, name in enumerate(columns)} for side in "ro"
    )
    return {"kind": kind_of(row), "expected": expected, "found": found}


def _example(row: dict[str, Any], columns: tuple[str, ...], groups: list[str], types: dict[str, str]) -> dict[str, Any]:
    kind = kind_of(row)
    side = "r" if kind == "missing" else "o"
    texts = {c: fetched_text(row[c], types[n]) for i, n in enumerate(columns) for c in (f"o_{i}", f"r_{i}")}
    shown = {n: texts[f"{side}_{columns.index(n)}"] for n in groups}
    wrong = {columns[i]: (texts[f"o_{i}"], texts[f"r_{i}"]) for i in row["wrong"] if i >= 0}
    return {"kind": kind, "row": shown, "columns": wrong}

"""Run the query of an engine: over all raw rows, or only over the ranges that a change touched, next to stored results.

A result row is stored whole: ``slice``, keys, ``w_start``, ``w_end``, ``label``, measures as ``v_<name>``, ``n``, ``first_t``,
``last_t``, ``is_final``, ``is_shown``, the engine's own ``x_…``, and ``revision``: how often the published content has changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from msgspec.structs import replace
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from materializer.core.compiled.bucket_sql import instant_of_sql, slice_sql
from materializer.core.compiled.definition import SLICE, Definition, key_column
from materializer.core.compiled.shown import shown_values
from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.compile import carried_columns, measure_names
from materializer.core.engines.engine_query import CARRY, END, KNOWN_MAX, PART, TIME, Before, EngineQuery, engine_of
from materializer.core.engines.queries import frozen
from materializer.core.engines.queries.census import Census, counted
from materializer.core.engines.reactive_state import ARGUMENT
from materializer.core.engines.registry import query_module
from materializer.core.engines.work import Part
from materializer.core.spec.table_names import quoted
from materializer.core.time.spans import EVERYTHING, SpanSet
from materializer.spark.query import compute as c
from materializer.spark.query.compare import is_same
from materializer.spark.query.render import named, rendered
from materializer.spark.query.types import is_storable

IDENTITY: Final = ("w_start", "w_end", "label", "x_ordinal")
"""Columns that, together with the keys, identify a result row."""
_OPEN_END: Final = 2**62
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MAX_INLINE: Final = 64
"""Maximum number of parts that the query holds as constants; more parts are joined."""


def prepared(definition: Definition, frame: DataFrame, spans: SpanSet | None = None) -> DataFrame:
    """Return the raw rows that count, with the columns that every query uses.

    Args:
        definition: The definition.
        frame: Rows of the source.
        spans: Spans in which the times of the rows have to lie; None for any time.
    """
    spec = definition.spec
    rows = c.relevant_rows(definition, frame, SpanSet.of(EVERYTHING) if spans is None else spans)
    columns = [
        *(sf.expr(k.sql).alias(key_column(k.name)) for k in spec.keys),
        sf.expr(instant_of_sql(quoted(spec.time_column), definition.time_type)).alias(TIME),
        sf.lit(0).alias(PART),
        sf.lit(None).cast("bigint").alias(KNOWN_MAX),
    ]
    end = engine_of(definition).params.end
    if end:
        columns.append(sf.expr(instant_of_sql(quoted(end), definition.time_type)).alias(END))
    return rows.select("*", *columns)


def results(definition: Definition, raw: DataFrame, at: ClosingClock, before: Before | None = None) -> DataFrame:
    """Return the result rows over prepared *raw* rows in their stored form, all with revision 0.

    The result includes the windows of *before*; see :func:`windows_before`.

    Shape:
        ``slice``, keys, ``_part``, and the columns of the partials table.
    """
    found = _results(definition, raw, replace(EngineQuery.of(definition), before=before), at)
    extra = sorted(name for name in found.columns if name.startswith("x_") and _is_stored(definition, found, name))
    ticks = engine_of(definition).slice_ticks
    first = f"(w_start - pmod(w_start, {ticks}L))"
    return found.select(
        sf.expr(slice_sql(first, definition.time_type)).alias(SLICE),
        *[sf.col(quoted(key_column(k.name))) for k in definition.spec.keys],
        *["w_start", "w_end", "label"],
        *[sf.col(quoted(f"v_{name}")) for name in measure_names(definition.spec)],
        sf.col("n").cast("bigint").alias("n"),
        *["first_t", "last_t", "is_final", "is_shown"],
        *[sf.col(quoted(name)) for name in extra],
        sf.lit(0).alias("revision"),
        PART,
    )


def census(
    definition: Definition, raw: DataFrame, at: ClosingClock, limit: int, before: Before | None = None
) -> Census:
    """Return how many windows prepared *raw* rows would make; see :mod:`materializer.core.engines.queries.census`."""
    e, given = EngineQuery.of(definition), {"raw": raw}
    if before is not None:
        given["before"] = before.windows
        e = replace(e, before=Before(named("before", before.windows), before.since))
    [row] = rendered(counted(named("raw", raw), e, at, limit), given).collect()
    return Census.of(row.asDict())


def _is_stored(definition: Definition, found: DataFrame, name: str) -> bool:
    """Return whether the partials table has a column: arguments only of types that tables hold, and none in one of an older version."""
    columns = dict(definition.partial_columns)
    if name in columns or not name.startswith(ARGUMENT):
        return True
    return not columns and is_storable(found.schema[name].dataType)


def _results(definition: Definition, raw: DataFrame, e: EngineQuery, at: ClosingClock) -> DataFrame:
    query = query_module(definition.spec.engine)
    given = {"raw": raw}
    if e.before is not None:
        given["before"] = e.before.windows
        e = replace(e, before=Before(named("before", e.before.windows), e.before.since))

    def rows(e: EngineQuery) -> DataFrame:
        return rendered(query.rows(named("raw", raw), e, at), given)

    if e.params.fills and not e.types:
        types = {f.name: f.dataType.simpleString() for f in rows(replace(e, params=replace(e.params, fills=()))).schema}
        e = replace(e, types={name: types[f"v_{name}"] for name in e.measures})
    return rows(e)


def everything(
    definition: Definition, raw: DataFrame, at: ClosingClock, spans: SpanSet, before: Before | None = None
) -> DataFrame:
    """Return all result rows of *spans*, computed from all raw rows; this is also the reference form."""
    found = results(definition, raw, at, before).drop(PART)
    return found if spans == SpanSet.of(EVERYTHING) else c.kept_partials(definition, found, spans)


def going_on(definition: Definition, raw: DataFrame, stored: DataFrame, since: int) -> DataFrame:
    """Return prepared *raw* rows from a frozen boundary on, with the state of their key's last result before it.

    A session that began below the boundary owns the rows within its gap, whether it counts them or not; they are left out.
    Cumulative functions resume from ``_carry_<column>``; the other functions look back on the rows of :func:`looking_back`.

    Args:
        definition: The definition.
        raw: Raw rows, none before *since*.
        stored: The stored rows that begin before *since*.
        since: The frozen boundary.
    """
    query = frozen.going_on(
        named("raw", raw), named("stored", stored), EngineQuery.of(definition), since, carried_columns(definition)
    )
    return rendered(query, {"raw": raw, "stored": stored})


def looks_back(definition: Definition) -> bool:
    """Return whether results depend on a fixed number of rows before them."""
    return bool(engine_of(definition).params.lookback)


def looking_back(definition: Definition, raw: DataFrame, stored: DataFrame, parts: DataFrame | None) -> DataFrame:
    """Return prepared *raw* rows and, before those of each key, its last *stored* rows, on which functions look back.

    Args:
        definition: The definition.
        raw: Raw rows, none below the frozen boundary.
        stored: The stored rows that begin below the boundary.
        parts: The ranges whose rows would reach below the boundary, from :func:`part_frame`; None for everything.

    Shape:
        The columns of *raw*, ``_kept_x_ordinal`` and ``_kept_x_arg<i>``, which are null in raw rows. A stored row has only
        these, its keys, ``_part``, ``_t`` and ``_carry_<column>``.
    """
    e, types = EngineQuery.of(definition), dict(definition.partial_columns)
    carried = [name.removeprefix(CARRY) for name in raw.columns if name.startswith(CARRY)]
    found = frozen.rows_before(named("stored", stored), e, carried, None if parts is None else named("parts", parts))
    query = frozen.looking_back(named("raw", raw), found, e, types)
    return rendered(query, {"raw": raw, "stored": stored} | ({} if parts is None else {"parts": parts}))


def windows_before(definition: Definition, stored: DataFrame, parts: DataFrame | None) -> DataFrame:
    """Return the last of the *stored* windows of each key; empty windows are filled after it.

    Args:
        definition: The definition.
        stored: The stored rows that begin before a frozen boundary.
        parts: The ranges to compute, from :func:`part_frame`; None for everything.

    Shape:
        Keys, ``_part``, ``w_start``, ``v_<measure>``, ``n``, ``first_t``, and ``last_t``: the newest time of the key in *stored*.
        Grain: keys, ``_part``.
    """
    query = frozen.windows_before(
        named("stored", stored), EngineQuery.of(definition), None if parts is None else named("parts", parts)
    )
    return rendered(query, {"stored": stored} | ({} if parts is None else {"parts": parts}))


def part_frame(spark: SparkSession, definition: Definition, parts: Sequence[Part]) -> DataFrame:
    """Return *parts* as a frame: ``_part`` (from 1), keys as ``_mz_<i>``, bounds, and carried columns ``_carry_<column>``."""
    types = dict(definition.partial_columns)
    keys = [key_column(k.name) for k in definition.spec.keys]
    carried = [name for name, _ in parts[0].carry] if parts else []
    fields = [f"{PART} int", *(f"_mz_{i} {types[k]}" for i, k in enumerate(keys))]
    fields += [f"_mz_{name} bigint" for name in ("start", "end", "raw_start", "raw_end", "known_max")]
    fields += [f"`_carry_{name}` {types[name]}" for name in carried]
    rows = [
        (i, *p.key, *map(_clamped, (p.start, p.end, p.raw_start, p.raw_end)), p.known_max, *(v for _, v in p.carry))
        for i, p in enumerate(parts, 1)
    ]
    return spark.createDataFrame(rows, ", ".join(fields))


def in_parts(definition: Definition, raw: DataFrame, parts: DataFrame) -> DataFrame:
    """Return the prepared *raw* rows of some parts, each with the id of its part; a row may be in several parts."""
    rows = raw.drop(PART, KNOWN_MAX)
    start, end = sf.col("_mz_raw_start"), sf.col("_mz_raw_end")
    if END in rows.columns:
        lasts = sf.greatest(sf.col(END), sf.col(TIME) + 1)  # `greatest` skips nulls
        until = sf.when(sf.col(END).isNull(), sf.lit(_OPEN_END)).otherwise(lasts)
        inside = (sf.col(TIME) < end) & (until > start)
    else:
        inside = (sf.col(TIME) >= start) & (sf.col(TIME) < end)
    joined = rows.join(sf.broadcast(parts), _same_keys(definition) & inside)
    carried = [name for name in parts.columns if name.startswith("_carry_")]
    return joined.select(
        *[sf.col(quoted(n)) for n in rows.columns],
        PART,
        sf.col("_mz_known_max").alias(KNOWN_MAX),
        *[sf.col(quoted(n)) for n in carried],
    )


def _same_keys(definition: Definition) -> Column:
    same = sf.expr("true")
    for i, key in enumerate(definition.spec.keys):
        same = same & sf.col(quoted(key_column(key.name))).eqNullSafe(sf.col(f"_mz_{i}"))
    return same


def changed_results(
    definition: Definition,
    raw: DataFrame,
    parts: Sequence[Part],
    frame: DataFrame,
    at: ClosingClock,
    kept: DataFrame,
    before: Before | None = None,
) -> DataFrame:
    """Return all result rows of the slices in *kept*: those of *parts* are computed again, the others stay as they are.

    Args:
        definition: The definition.
        raw: Prepared raw rows of the parts, from :func:`in_parts`.
        parts: The ranges to compute.
        frame: The same ranges as a frame, from :func:`part_frame`.
        at: The bounds that close windows.
        kept: The stored rows of the slices that are replaced.
        before: The last windows before the parts; see :func:`windows_before`.
    """
    new = results_of_parts(definition, raw, parts, frame, at, before)
    columns, shown = new.columns, shown_values(definition, engine_of(definition))
    if len(parts) <= MAX_INLINE:
        touched = _touched(definition, parts)
        return revised(new, kept.where(touched), shown).unionByName(kept.where(~touched).select(*columns))
    inside = (sf.col("w_start") >= sf.col("_mz_start")) & (sf.col("w_start") < sf.col("_mz_end"))
    touching, ranges = _same_keys(definition) & inside, sf.broadcast(frame)
    clean = kept.join(ranges, touching, "left_anti")
    old = kept.join(ranges, touching, "left_semi")
    return revised(new, old, shown).unionByName(clean.select(*columns))


def results_of_parts(
    definition: Definition,
    raw: DataFrame,
    parts: Sequence[Part],
    frame: DataFrame,
    at: ClosingClock,
    before: Before | None = None,
) -> DataFrame:
    """Return the result rows of *parts*, computed again; the arguments are those of :func:`changed_results`."""
    found = results(definition, raw, at, before)
    columns = [n for n in found.columns if n != PART]
    if len(parts) <= MAX_INLINE:
        return found.where(_cut_sql(parts)).select(*columns)
    cuts = frame.select(sf.col(PART).alias("_mz_part"), "_mz_start", "_mz_end")
    mine = (sf.col(PART) == sf.col("_mz_part")) & (sf.col("w_start") >= sf.col("_mz_start"))
    return found.join(sf.broadcast(cuts), mine & (sf.col("w_start") < sf.col("_mz_end"))).select(*columns)


def _cut_sql(parts: Sequence[Part]) -> str:
    """SQL of whether a result row is in the range of its part; the query holds few parts as constants, which saves jobs."""
    starts, ends = (", ".join(f"{_clamped(getattr(p, name))}L" for p in parts) for name in ("start", "end"))
    return f"w_start >= element_at(array({starts}), {PART}) AND w_start < element_at(array({ends}), {PART})"


def _touched(definition: Definition, parts: Sequence[Part]) -> Column:
    """Return whether a stored row is in the range of a part of its key."""
    types = dict(definition.partial_columns)
    names = [key_column(k.name) for k in definition.spec.keys]
    found = sf.expr("false")
    for part in parts:
        inside = sf.expr(f"w_start >= {_clamped(part.start)}L AND w_start < {_clamped(part.end)}L")
        for name, value in zip(names, part.key, strict=True):
            inside = inside & sf.col(quoted(name)).eqNullSafe(literal(value).cast(types[name]))
        found = found | inside
    return found


def literal(value: Any) -> Column:
    """Return a key's value; before 1582 the calendar of Java's times is another than that of a column."""
    if isinstance(value, datetime):
        instant = value if value.tzinfo else value.replace(tzinfo=UTC)
        return sf.timestamp_micros(sf.lit((instant - _EPOCH) // timedelta(microseconds=1)))
    if isinstance(value, date):
        return sf.date_from_unix_date(sf.lit((value - _EPOCH.date()).days))
    return sf.lit(value)


def revised(new: DataFrame, old: DataFrame, shown: Mapping[str, bool]) -> DataFrame:
    """Return *new* rows with the revision of the *old* row that they replace, plus one if that was shown and readers see another.

    Args:
        new: Result rows.
        old: The stored rows in their place.
        shown: The columns that readers see, and whether each is inexact; see :func:`shown_values`.
    """
    keys = [n for n in new.columns if n.startswith("k_") or n in IDENTITY]
    content = [n for n in new.columns if n in shown and n not in keys]
    before = old.select(
        *[sf.col(quoted(n)).alias(f"o_{i}") for i, n in enumerate(keys)],
        *[sf.col(quoted(n)).alias(f"c_{i}") for i, n in enumerate(content)],
        sf.col("is_shown").alias("o_shown"),
        sf.col("revision").alias("o_revision"),
    )
    on, same = sf.expr("true"), sf.col("is_shown")
    for i, name in enumerate(keys):
        on = on & sf.col(quoted(name)).eqNullSafe(sf.col(f"o_{i}"))
    for i, name in enumerate(content):
        same = same & is_same(sf.col(quoted(name)), sf.col(f"c_{i}"), inexact=shown[name])
    revision = (
        sf.when(sf.col("o_revision").isNull(), sf.lit(0))
        .when(same | ~sf.col("o_shown"), sf.col("o_revision"))
        .otherwise(sf.col("o_revision") + 1)
    )
    joined = new.drop("revision").join(before, on, "left")
    return joined.select(
        *[revision.cast("int").alias(n) if n == "revision" else sf.col(quoted(n)) for n in new.columns]
    )


def schema_of(frame: DataFrame) -> list[st.StructField]:
    """Return the stored columns of a result frame."""
    return [f for f in frame.schema if f.name != PART]


def _clamped(instant: int) -> int:
    """Return the instant as a 64-bit number; infinite instants become numbers beyond every real instant."""
    return max(-_OPEN_END, min(_OPEN_END, instant))

"""The query of session windows: gaps and islands over the ordered times of a key.

Spark's own ``session_window`` joins two rows whose distance equals the gap; here such rows belong to different sessions.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from materializer.core.compiled.definition import quoted
from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.engine_query import KNOWN_MAX, PART, TIME, EngineQuery
from materializer.core.engines.session_window import SessionWindow
from materializer.spark.engines.groups import aggregated, measures

_START = "_session"
_KNOWN = "_known"


def rows(raw: DataFrame, e: EngineQuery, at: ClosingClock) -> DataFrame:
    """Return one row for each session.

    Args:
        raw: Raw rows; see :mod:`materializer.core.engines.engine_query`.
        e: The definition, with :class:`~materializer.core.engines.session_window.SessionWindow`.
        at: The bounds that close sessions, besides the next row of their key.

    Shape:
        Keys, ``_part``, ``w_start`` (first row), ``w_end`` (last row + gap), ``label``, ``v_<measure>``, ``n``, ``first_t``,
        ``last_t``, ``is_final``, ``is_shown``. Grain (keys, ``_part``, ``w_start``).
    """
    p: SessionWindow = e.params
    found = aggregated(_in_sessions(raw, e), [*e.groups, _START], e, [(_KNOWN, f"max({KNOWN_MAX})")])
    end = sf.col("last_t") + sf.lit(p.session_gap)
    # Parts meet here only to find the newest time of the key, which lies in one of the parts or outside all of them.
    key = Window.partitionBy(*map(quoted, e.keys)) if e.keys else Window.partitionBy(sf.lit(0))
    newest = sf.max(sf.greatest("last_t", _KNOWN)).over(key)
    found = found.withColumn("is_final", (end <= newest) | _is_closed(p, end, at))
    return found.select(
        *map(quoted, e.keys),
        PART,
        sf.col(_START).alias("w_start"),
        end.alias("w_end"),
        (sf.col(_START) if p.use_session_start_time else end).alias("label"),
        *measures(e),
        *["n", "first_t", "last_t", "is_final"],
        (sf.col("is_final") | sf.lit(p.update_time is not None)).alias("is_shown"),
    )


def _in_sessions(raw: DataFrame, e: EngineQuery) -> DataFrame:
    """Return raw rows with the time of the first row of their session."""
    p: SessionWindow = e.params
    ordered = Window.partitionBy(*map(quoted, e.groups)).orderBy(TIME)
    begins = sf.coalesce(sf.col(TIME) - sf.lag(TIME).over(ordered) >= sf.lit(p.session_gap), sf.expr("true"))
    # Of several rows with equal time only one may be marked as the beginning; the frame by value shows the mark to all of them.
    so_far = ordered.rangeBetween(Window.unboundedPreceding, Window.currentRow)
    marked = raw.withColumn(_START, sf.when(begins, sf.col(TIME)))
    return marked.withColumn(_START, sf.max(_START).over(so_far))


def _is_closed(p: SessionWindow, end: Column, at: ClosingClock) -> Column:
    """Whether the clock closes a session."""
    by_clock = sf.expr("false") if at.as_of is None else end <= sf.lit(at.as_of)
    if p.force_trigger_time is None or at.global_max is None:
        return by_clock
    clock = at.global_max if at.as_of is None else max(at.as_of, at.global_max)
    return by_clock | sf.lit(clock >= at.global_max + p.force_trigger_time)

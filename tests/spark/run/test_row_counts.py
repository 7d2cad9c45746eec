"""The guard of engines' history, counted by Spark, against adding up by hand."""

from __future__ import annotations

from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from materializer.core.aggregates.layout import Layout
from materializer.core.compiled.definition import Definition
from materializer.core.language.define import define
from materializer.core.spec.spec import TimeType
from materializer.core.time.grid import build
from materializer.lake.computed import Computed, Fewer
from materializer.spark.query import compute
from materializer.spark.run.row_counts import fewer_counted
from materializer.spark.runtime.session import work_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEP = 10
COUNTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=8)
COLUMNS = {"slice": "bigint", "n": "bigint"}


@pytest.fixture(scope="module")
def definition() -> Definition:
    """Windows of plain integers."""
    spec = replace(define("v", "t", time="ts", width=str(STEP), measures={"s": "sum(x)"}), time_type=TimeType.BIGINT)
    return Definition(
        spec,
        Layout((), (), None, (), None, (), (), ()),
        build(spec.grid, TimeType.BIGINT, spec.resolution),
        tuple(COLUMNS.items()),
        (),
    )


def rows(rng: Random, counts: list[int]) -> pa.Table:
    """Results of slices that count so many rows in all, each alone, in any order; nothing for none."""
    found = [(at * STEP, n) for at, count in enumerate(counts) for n in (count // 2, count - count // 2) if n]
    rng.shuffle(found)
    columns = list(zip(*found, strict=True)) or [(), ()]
    return pa.table(dict(zip(COLUMNS, columns, strict=True)), schema=pa.schema([(c, pa.int64()) for c in COLUMNS]))


def by_hand(counts: list[tuple[int, int]], gone: int) -> Fewer | None:
    """Add up everything before each slice: the first that lacks rows, and the first of those at which most are missing."""
    missing = [lost - gone for lost in accumulate(was - now for was, now in counts)]
    short = [at for at, lost in enumerate(missing) if lost > 0]
    if not short:
        return None
    worst = missing.index(max(missing))
    upto = counts[: worst + 1]
    return Fewer(
        buckets=sum(now < was for was, now in upto),
        rows=missing[worst],
        first=short[0] * STEP,
        last=worst * STEP,
        was=sum(was for was, _ in upto),
        now=sum(now for _, now in upto),
    )


def test_where_results_count_too_few(spark: SparkSession, definition: Definition) -> None:
    """
    Found as by hand, whether what was computed was fetched or is Spark's, at any allowance.
    """
    session = work_session(spark)
    seen = set()

    @settings(max_examples=15, derandomize=True, database=None, deadline=None, phases=[Phase.generate])
    @given(counts=COUNTS, gone=st.integers(0, 6), is_fetched=st.booleans(), seed=st.integers(0, 999))
    def check(counts: list[tuple[int, int]], gone: int, is_fetched: bool, seed: int) -> None:
        rng = Random(seed)
        kept = compute.frame_of(session, rows(rng, [was for was, _ in counts]), COLUMNS)
        fetched = rows(rng, [now for _, now in counts])
        partials = fetched if is_fetched else compute.frame_of(session, fetched, COLUMNS)
        computed = Computed(partials, partials, 0, 0, 0, 0, "", is_fetched=is_fetched)
        expected = by_hand(counts, gone)
        seen.add((expected is None, is_fetched))
        assert expected == fewer_counted(session, definition, kept, computed, gone)

    check()
    assert 4 == len(seen)

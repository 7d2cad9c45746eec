"""The queries of a continuous aggregate: what of rows and partials goes into which step."""

from __future__ import annotations

from materializer.core.aggregates.layout import Layout, PartialColumn
from materializer.core.compiled.definition import FROM, Definition
from materializer.core.compiled.queries import (
    beside,
    built,
    finalised,
    group_columns,
    merged,
    only_groups,
    other_groups,
    twice,
)
from materializer.core.language.define import define
from materializer.core.query.nodes import Named, Query
from materializer.core.spec.spec import TimeType
from materializer.core.time.grid import build
from tests.core.query.printed import printed

PARTIALS = (
    PartialColumn("p_s", "sum(size)", "sum(p_s)", "sum(p_s * mz_sign)"),
    PartialColumn("p_n", "count(1)", "sum(p_n)", "sum(p_n * mz_sign)"),
)
FINALS = (("total", "p_s"), ("mean", "p_s / p_n"))
LAYOUT = Layout(PARTIALS, FINALS, "p_n > 1", (), None, (), (), row_count="p_n")
RAW = (("at", "timestamp"), ("symbol", "string"), ("size", "bigint"))
STORED = (("slice", "timestamp"), ("k_symbol", "string"), ("p_s", "bigint"), ("p_n", "bigint"))
OUTPUT = (("bucket", "timestamp"), ("symbol", "string"), ("total", "bigint"), ("mean", "double"))
SPEC = define("bars", "trades", time="at", width="1 hour", keys=["symbol"], measures={n: "count(*)" for n, _ in FINALS})
BARS = Definition(SPEC, LAYOUT, build(SPEC.grid, TimeType.TIMESTAMP), STORED, OUTPUT)
A, B, C = (Named(name, STORED) for name in ("a", "b", "c"))


def steps(query: Query) -> list[str]:
    """Return the lines of a query."""
    return printed(query).splitlines()


def test_partials_are_built_by_bucket_and_keys() -> None:
    """
    The texts of both stand in the grouping, so that they hide no column of the rows.
    """
    assert ["1: raw", "2: 1 group by slice = trunc(at), k_symbol = symbol: p_s = sum(size), p_n = count(1)"] == steps(
        built(BARS, Named("raw", RAW), "trunc(at)")
    )


def test_rows_that_went_are_subtracted_by_their_sign() -> None:
    """
    Without such rows partials are merged; with some, a group that has no row left is gone, and one that has fewer is an error.
    """
    assert ["3: union of 1, 2", "4: 3 group by slice, k_symbol: p_s = sum(p_s), p_n = sum(p_n)"] == steps(
        merged(BARS, [A, B])
    )[2:]
    assert [
        "1: a",
        "2: 1 select mz_sign = 1",
        "3: b",
        "4: 3 select mz_sign = 1",
        "5: c",
        "6: 5 select mz_sign = -1",
        "7: union of 2, 4, 6",
        "8: 7 group by slice, k_symbol: p_s = sum(p_s * mz_sign), p_n = sum(p_n * mz_sign)",
        "9: 8 where CASE WHEN p_n < 0 THEN raise_error('more rows went than the stored partials count') ELSE p_n > 0 END",
    ] == steps(merged(BARS, [A, B], [C]))


def test_having_sees_partials_under_output_names() -> None:
    """
    The output has the columns of the SELECT, in their order.
    """
    found = finalised(BARS, A, {"bucket_end": "slice + 1"})

    assert ["2: 1 select bucket_end = slice + 1, bucket = slice, symbol = `k_symbol`", "3: 2 where p_n > 1"] == steps(
        found
    )[1:3]
    assert tuple(name for name, _ in OUTPUT) == found.names


def test_an_output_that_is_stored_is_there_once() -> None:
    """
    Beside partials stand the other outputs, and whether HAVING takes the group.
    """
    assert {0: ("slice", ""), 1: ("k_symbol", ""), 2: ("p_s", "")} == twice(BARS)
    assert (*(name for name, _ in STORED), "f_3", "f_kept") == beside(BARS, A, {}).names


def test_groups_are_joined_by_part_and_key() -> None:
    """
    Of source rows those of the groups stay, of partials all others; neither has the column of the part afterwards.
    """
    groups, part = Named("groups", group_columns(["string"])), (FROM, "bigint")
    by = f"join 4 on {FROM} <=> materializer r0 and"

    rows = only_groups(BARS, Named("raw", (*RAW, part)), groups)
    assert f"5: 2 semi {by} materializer at 0 <=> materializer r1" == steps(rows)[4]
    assert tuple(name for name, _ in RAW) == rows.names

    others = other_groups(BARS, Named("a", (*STORED, part)), groups)
    assert f"4: 1 anti {by.replace('4', '3')} k_symbol <=> materializer r1" == steps(others)[3]
    assert A.names == others.names

"""Which columns of the source an output column is computed from, by its definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from materializer.core.compiled.column_lineage import ColumnLineage, InputUse, Use, column_lineage
from materializer.core.compiled.rolled_up import over_partials
from materializer.core.language.define import define
from materializer.core.language.engine_define import define_engine


def lineage(**parts) -> ColumnLineage:
    """Return the lineage of an aggregate over trades."""
    given = {"time": "at", "width": "1 hour", "keys": ["symbol"], "measures": {"n": "count(*)"}} | parts
    return column_lineage(define("bars", "trades", **given))


def uses(found: ColumnLineage, column: str) -> set[tuple[str, Use]]:
    """Return column and use of everything behind an output column."""
    return {(use.column, use.use) for use in found.fields[column]}


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("count(*)", set()),
        ("sum(size * price)", {("size", Use.AGGREGATION), ("price", Use.AGGREGATION)}),
        ("sum(size) FILTER (WHERE side = 'B')", {("size", Use.AGGREGATION), ("side", Use.FILTER)}),
        ("first(price)", {("price", Use.AGGREGATION), ("at", Use.SORT)}),
        ("try_divide(sum(size), count(price))", {("size", Use.AGGREGATION), ("price", Use.AGGREGATION)}),
    ],
)
def test_a_measure_names_what_it_reads(measure: str, expected: set[tuple[str, Use]]) -> None:
    """
    What is aggregated is direct, filters and orders are not.
    """
    assert expected == uses(lineage(measures={"m": measure}), "m")


def test_only_counts_hide_values() -> None:
    """
    A count shows no value of its column, a sum does.
    """
    found = lineage(measures={"m": "sum(size)", "n": "count(size)"})

    assert [False] == [use.is_masking for use in found.fields["m"]]
    assert [True] == [use.is_masking for use in found.fields["n"]]


def test_keys_are_identities_or_transformations() -> None:
    """
    A key that is a column is the column, also in back quotes and in other letters; anything else is computed from it.
    """
    found = lineage(keys={"symbol": "`Symbol`", "first_letter": "substring(symbol, 1, 1)"})

    assert {Use.IDENTITY} == {use.use for use in found.fields["symbol"]}
    assert {Use.TRANSFORMATION} == {use.use for use in found.fields["first_letter"]}
    assert {("at", Use.TRANSFORMATION)} == uses(found, "bucket")


def test_what_decides_which_rows_there_are_concerns_all_columns() -> None:
    """
    WHERE, the keys, the time, and HAVING.
    """
    found = lineage(where="size > 0 AND venue = 'X'")

    assert {
        ("size", Use.FILTER), ("venue", Use.FILTER), ("symbol", Use.GROUP_BY), ("at", Use.GROUP_BY)
    } == {(use.column, use.use) for use in found.rows}  # fmt: skip


def test_a_roll_up_names_the_columns_of_its_parent() -> None:
    """
    Not those of the partials, which readers do not know.
    """
    parent = define(
        "hourly", "trades", time="at", width="1 hour", keys=["symbol"],
        measures={"top": "max(price)", "n": "count(*)"}, bucket="hour",
    )  # fmt: skip
    child = define(
        "daily", "hourly", time="hour", width="1 day", keys=["symbol"],
        measures={"top": "rollup(top)", "n": "rollup(n)"}, where="symbol <> 'X'",
    )  # fmt: skip
    found = column_lineage(over_partials(child, parent))

    assert {("top", Use.AGGREGATION)} == uses(found, "top")
    assert {("symbol", Use.IDENTITY)} == uses(found, "symbol")
    assert {("hour", Use.TRANSFORMATION)} == uses(found, "bucket")
    assert {("symbol", Use.FILTER), ("symbol", Use.GROUP_BY), ("hour", Use.GROUP_BY)} == {
        (use.column, use.use) for use in found.rows
    }
    assert [True] == [use.is_masking for use in found.fields["n"]]
    assert not any("k_" in use.text for uses in [*found.fields.values(), found.rows] for use in uses)


def test_every_column_of_an_engine_has_a_lineage() -> None:
    """
    Its keys and measures from what they read, and what the engine adds from the time.
    """
    spec = define_engine(
        "visits", "clicks", engine="session_window", time="at", keys=["user"], measures={"n": "count(page)"},
        session_gap="30 minutes", slice="1 day",
    )  # fmt: skip
    found = column_lineage(spec)

    assert set(spec.columns) == set(found.fields)
    assert {("page", Use.AGGREGATION)} == uses(found, "n")
    assert all(uses(found, name) for name in spec.columns)


@given(st.sets(st.sampled_from("abcdef"), min_size=1), st.sets(st.sampled_from("abcdef"), min_size=1))
def test_no_column_is_lost_or_invented(summed: set[str], filtered: set[str]) -> None:
    """
    The uses of a measure are exactly the columns in its text, each as what it is there.
    """
    text = f"sum({' + '.join(sorted(summed))}) FILTER (WHERE {' AND '.join(f'{c} > 0' for c in sorted(filtered))})"
    expected = {(c, Use.AGGREGATION) for c in summed} | {(c, Use.FILTER) for c in filtered}

    assert expected == uses(lineage(measures={"m": text}), "m")


def test_uses_are_sorted() -> None:
    """
    So that two events about one definition are the same text.
    """
    found = lineage(measures={"m": "sum(z) + sum(a)"})

    assert sorted(found.fields["m"]) == list(found.fields["m"])
    assert all(isinstance(use, InputUse) for use in found.rows)

"""Aggregates as text: what is known by name, what shares a partial, what is refused, and what order rows have."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from materializer.core.aggregates.decompose import decompose
from materializer.core.aggregates.layout import Layout
from materializer.core.aggregates.order import row_order
from materializer.core.aggregates.parts import is_same, partial_name
from materializer.core.aggregates.registry import find, names
from materializer.core.spec.spec import AggregateSpec, Call, Formula, GridSpec, Key, Measure, TimeType, Width
from materializer.errors import DefinitionError
from tests.literals import LITERALS

READS = (("note", "string"), ("price", "double"), ("sym", "string"), ("ts", "timestamp"), ("volume", "bigint"))


def make_spec(*formulas: Formula | Call, **changes: object) -> AggregateSpec:
    """Return a definition over trades with one measure for each formula or call."""
    whole = [f if isinstance(f, Formula) else Formula((0,), (f,)) for f in formulas]
    measures = tuple(Measure(f"m{i}", f) for i, f in enumerate(whole))
    fields: dict[str, object] = {
        "name": "bars",
        "source": "trades",
        "time_column": "ts",
        "grid": GridSpec(Width(micros=60_000_000)),
        "bucket_start": "bucket",
        "bucket_end": None,
        "keys": (Key("sym", "sym"),),
        "measures": measures,
        "columns": ("bucket", "sym", *(m.name for m in measures)),
        "time_type": TimeType.TIMESTAMP,
        "reads": tuple(n for n, _ in READS),
        "read_types": READS,
    }
    return AggregateSpec(**(fields | changes))  # type: ignore[arg-type]


def call(function: str, *args: str, types: tuple[str, ...] = ("double",), **more: object) -> Call:
    return Call(function, args, types=types, **more)  # type: ignore[arg-type]


def layout_of(*calls: Call | Formula, **changes: object) -> Layout:
    """Return a layout without the count of rows that every table keeps beside what is asked for."""
    return decompose(make_spec(*calls, **changes)).stored_in(())


def codes(*calls: Call, **changes: object) -> list[str]:
    with pytest.raises(DefinitionError) as caught:
        layout_of(*calls, **changes)
    return [p.code for p in caught.value.problems]


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("mean", "avg"),
        ("std", "stddev_samp"),
        ("variance", "var_samp"),
        ("every", "bool_and"),
        ("any", "bool_or"),
        ("First_Value", "first"),
        ("percentile_approx", "approx_percentile"),
        ("string_agg", "listagg"),
        ("array_agg", "collect_list"),
    ],
)
def test_an_alias_is_the_aggregate_it_stands_for(alias: str, name: str) -> None:
    """
    Every alias that Spark knows leads to one aggregate, in any case.
    """
    found = find(alias)

    assert found is not None
    assert name == found.name
    assert alias.lower() in names()


def test_every_name_is_found_and_nothing_else() -> None:
    """
    What is listed can be found; a scalar function cannot.
    """
    assert all(find(n) is not None for n in names())
    assert find("upper") is None


def test_equal_partials_are_stored_once() -> None:
    """
    An average, a sum and a count over the same text share two columns, however the text is spaced.
    """
    layout = layout_of(call("avg", "price * 2"), call("sum", "PRICE  *2"), call("count", "price*2"))

    assert 2 == len(layout.partials)


def test_an_average_of_bigints_shares_a_sum_that_is_asked_for_and_only_that() -> None:
    """
    A sum of bigints can overflow where their average cannot, so an average alone does not store one.
    """
    bigint = ("bigint",)
    alone = layout_of(call("avg", "volume", types=bigint))
    beside = layout_of(call("avg", "volume", types=bigint), call("sum", "volume", types=bigint))
    filtered = layout_of(call("avg", "volume", types=bigint), call("sum", "volume", types=bigint, where="price > 0"))

    assert [3, 2, 4] == [len(x.partials) for x in (alone, beside, filtered)]


def test_a_filter_makes_another_partial() -> None:
    """
    The same sum over other rows is another column.
    """
    layout = layout_of(
        call("sum", "price"), call("sum", "price", where="volume > 0"), call("sum", "price", where="volume > 1")
    )

    assert 3 == len({p.name for p in layout.partials})


def test_a_formula_is_finalised_from_the_partials_of_its_calls() -> None:
    """
    The text around the calls stays as it was written, in the final and in the reference form.
    """
    ratio = Formula(("try_divide(", 0, ", ", 1, ")"), (call("sum", "price"), call("sum", "volume", types=("bigint",))))
    layout = layout_of(ratio)
    one, two = (p.name for p in layout.partials)

    assert (("m0", f"try_divide({one}, {two})"),) == layout.finals
    assert (("m0", "try_divide((sum((price))), (sum((volume))))"),) == layout.reference


def test_having_is_finalised_like_a_measure() -> None:
    """
    HAVING has a form over partials and a plain one, and shares partials with the measures.
    """
    layout = decompose(make_spec(call("count", "*"), having=Formula((0, " > 1"), (call("count", "*"),))))
    (partial,) = layout.partials  # the count of rows that every table keeps is this one

    assert f"{partial.name} > 1" == layout.having
    assert "(count(*)) > 1" == layout.having_reference


@pytest.mark.parametrize(
    "one",
    [
        call("count", "price", distinct=True),
        call("sum", "price", distinct=True),
        call("median", "price"),
        call("percentile_cont", "0.5", order_by="price"),
        call("mode", "price"),
        call("collect_set", "price"),
        call("collect_list", "price"),
        call("listagg", "note", types=("string",)),
        call("weighted", "price", "volume"),
    ],
)
def test_what_cannot_be_merged_is_stored_as_its_value_and_says_why(one: Call) -> None:
    """
    Recompute-only calls store what they mean, in a column without a merge, with a reason that names the call.
    """
    layout = layout_of(one)
    (partial,) = layout.partials

    assert partial.merge is None
    assert partial.build == layout.reference[0][1].removeprefix("(").removesuffix(")")
    assert not layout.is_mergeable
    assert one.function in layout.not_mergeable[0]
    assert partial.is_foreign == (one.function == "weighted")


def test_distinct_means_nothing_to_extremes() -> None:
    """
    ``max(DISTINCT x)`` is ``max(x)``: one mergeable column for both.
    """
    layout = layout_of(call("max", "price", distinct=True), call("max", "price"))

    assert 1 == len(layout.partials)
    assert layout.is_mergeable


@pytest.mark.parametrize(
    ("one", "code"),
    [
        (call("sum", "price", "volume"), "definition.wrong-arguments"),
        (call("sum", "*"), "definition.wrong-arguments"),
        (call("count", "*", distinct=True), "definition.wrong-arguments"),
        (call("corr", "price"), "definition.wrong-arguments"),
        (call("first", "price", "volume"), "definition.wrong-arguments"),
        (call("first", "price", distinct=True), "definition.wrong-arguments"),
        (call("approx_count_distinct", "price", "0.9"), "definition.wrong-arguments"),
        (
            call("approx_percentile", "price", "0.5", "volume", types=("double", "double", "int")),
            "definition.wrong-arguments",
        ),
        (call("percentile_cont", "0.5"), "definition.wrong-arguments"),
        (call("max", "price", order_by="volume"), "definition.wrong-arguments"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused(one: Call, code: str) -> None:
    """
    Wrong numbers of arguments, DISTINCT and WITHIN GROUP where they mean nothing, parameters that are no literals.
    """
    assert [code] == codes(one)


def test_all_problems_of_a_definition_are_told_at_once() -> None:
    """
    Two bad calls are two problems of one error.
    """
    assert 2 == len(codes(call("sum", "*"), call("count", "price"), call("corr", "price")))


@pytest.mark.follows_hint("definition.not-together")
def test_a_list_within_group_beside_distinct_is_refused() -> None:
    """
    Spark accepts the two together and then cannot plan them, so they are refused when they are defined.
    """
    ordered = call("listagg", "note", order_by="volume", types=("string",))

    assert ["definition.not-together"] == codes(ordered, call("count", "price", distinct=True))
    for alone in (ordered, call("count", "price", distinct=True)):
        assert layout_of(alone)


def test_rows_are_ordered_by_time_sequence_and_the_columns_read() -> None:
    """
    Time decides first, then the sequence column, then the columns by name; grouping keys decide nothing.
    """
    spec = make_spec(call("first", "price"))

    assert ("ts", "note", "price", "volume") == row_order(spec).columns
    assert ("ts", "volume", "note", "price") == row_order(replace(spec, sequence="volume")).columns
    assert ("ts", "note", "price", "sym", "volume") == row_order(replace(spec, keys=(Key("k", "upper(sym)"),))).columns


@pytest.mark.parametrize(
    ("picked", "struct"),
    [
        ("price", "named_struct('o0', `ts`, 'o1', `note`, 'v', (price))"),
        ("`Price`", "named_struct('o0', `ts`, 'o1', `note`, 'v', (`Price`))"),
        ("ts", "named_struct('v', (ts))"),
        ("sym", "named_struct('v', (sym))"),
        ("price + 1", "named_struct('o0', `ts`, 'o1', `note`, 'o2', `price`, 'o3', `volume`, 'v', (price + 1))"),
    ],
)
def test_a_picked_value_is_stored_with_what_decides_before_it(picked: str, struct: str) -> None:
    """
    Where the value itself stands in the order, nothing behind it can decide, so nothing behind it is stored.
    """
    assert f"min({struct})" == layout_of(call("first", picked)).partials[0].build


def test_ties_of_min_by_go_by_the_order_of_rows() -> None:
    """
    The deciding value comes first and leaves the order of rows; rows without it do not take part.
    """
    (partial,) = layout_of(call("min_by", "note", "price", types=("string", "double"))).partials

    expected = "min(named_struct('y', (price), 'o0', `ts`, 'v', (note))) FILTER (WHERE ((price) IS NOT NULL))"
    assert expected == partial.build


@pytest.mark.follows_hint("definition.needs-sequence")
def test_a_column_without_an_order_needs_a_sequence_column() -> None:
    """
    Where a map is read, "first" has no meaning until a sequence column gives one; a sum needs none.
    """
    reads = (*READS, ("tags", "map<string,string>"))
    names_read = {"reads": tuple(n for n, _ in reads), "read_types": reads}

    assert ["definition.needs-sequence"] == codes(call("first", "price"), **names_read)
    assert layout_of(call("first", "price"), sequence="volume", **names_read).is_mergeable
    assert layout_of(call("sum", "price"), **names_read).is_mergeable


def test_types_that_are_needed_and_missing_are_a_mistake_of_ours() -> None:
    """
    An average depends on the type of its argument; without analysis there is no layout.
    """
    with pytest.raises(ValueError, match="analysed first"):
        layout_of(call("avg", "price", types=()))


@given(st.tuples(LITERALS, LITERALS), st.tuples(LITERALS, LITERALS))
@example((("'C:\\\\'", "C:\\"), ("'A'", "A")), (("'C:\\\\'", "C:\\"), ("'a'", "a")))
@example((("r'C:\\'", "C:\\"), ("'A'", "A")), (("r'C:\\'", "C:\\"), ("'a'", "a")))
@example((("'it''s'", "it's"), ("'A'", "A")), (("'it' 's'", "its"), ("'A'", "A")))
def test_a_partial_is_shared_only_where_the_literals_have_equal_values(left, right) -> None:
    """
    Two filters that compare with other values are two partials, whatever the quotes, escapes and comments in them look like.
    """
    texts = [f"note = {one} AND sym = {two}" for (one, _), (two, _) in (left, right)]
    values = [[value for _, value in pair] for pair in (left, right)]
    layout = layout_of(*(call("count_if", text, types=("boolean",)) for text in texts))

    assert values[0] == values[1] or len(layout.partials) == 2
    assert len({final for _, final in layout.finals}) == len(layout.partials)
    assert is_same(*texts) == (len(layout.partials) == 1)


def test_an_average_shares_only_the_sum_of_its_own_rows() -> None:
    """
    The sum beside an average may overflow; that of other rows, with almost the same filter, says nothing about it.
    """
    where = "note = '\\\\' AND sym = '{}'"
    of = {"types": ("bigint",)}
    summed, mean = (call(f, "volume", where=where.format(x), **of) for f, x in (("sum", "A"), ("avg", "a")))

    found = layout_of(summed, mean)
    assert {p.build for p in layout_of(mean).partials} < {p.build for p in found.partials}
    assert len(found.partials) == len({p.name for p in found.partials}) == 4


def test_a_table_with_one_column_for_two_partials_is_read_as_before() -> None:
    """
    An earlier release made one column of two filters; a table without the second column is still refreshed.
    """
    calls = [call("count_if", f"note = '\\\\' AND sym = '{x}'", types=("boolean",)) for x in "Aa"]
    first = layout_of(calls[0]).partials[0].name

    assert [first] == [p.name for p in decompose(make_spec(*calls), {first}).stored_in({first}).partials]


def test_names_of_partials_stay_those_of_earlier_releases() -> None:
    """
    Stored tables have columns of these names: a definition without two filters that were mistaken for each other keeps all.
    """
    names = [
        partial_name("count_if", text, None) for text in ("sym = 'A'", "x - -1 > 0", r"note = 'C:\\' AND sym = 'A'")
    ]

    assert ["p_14b2c5ba48ef", "p_b6eab4418788", "p_56915be71977"] == names


def test_quotes_keep_case_and_blanks() -> None:
    """
    Text in quotes is data: two spellings of it are two filters.
    """
    assert partial_name("sum", "a", "b = 'X'") != partial_name("sum", "a", "b = 'x'")
    assert partial_name("sum", "a", "b = 'x y'") != partial_name("sum", "a", "b = 'xy'")
    assert partial_name("sum", "a", "b = 'x'") == partial_name("sum", "A", "B='x'")
    assert partial_name("sum", "a --b\n+ c") != partial_name("sum", "a --b + c")

"""The metrics that Spark does not have, as text: names, partials that are shared, flags, and what is refused."""

from __future__ import annotations

import pytest

from materializer.core.aggregates.decompose import decompose
from materializer.core.aggregates.layout import Layout
from materializer.core.aggregates.python import PythonAggregate, by_name
from materializer.core.aggregates.registry import find
from materializer.core.language.define import define
from materializer.core.spec.spec import AggregateSpec, Call, Formula, GridSpec, Measure, TimeType, Width
from materializer.errors import DefinitionError, UsageError

READS = (("price", "double"), ("sym", "string"), ("ts", "timestamp"), ("volume", "bigint"))
TYPES = dict(READS)


def defined(*texts: str) -> AggregateSpec:
    """Return the definition that SQL texts give, one measure each."""
    measures = {f"m{i}": text for i, text in enumerate(texts)}
    return define("bars", "trades", time="ts", width="1 minute", measures=measures)


def call(function: str, *args: str, **more: object) -> Call:
    """Return a call over the columns of trades; what is no column is an int."""
    return Call(function, args, types=tuple(TYPES.get(a, "int") for a in args), **more)  # type: ignore[arg-type]


def layout_of(*calls: Call, reads: tuple[tuple[str, str], ...] = READS) -> Layout:
    """Return a layout without the count of rows that every table keeps beside what is asked for."""
    measures = tuple(Measure(f"m{i}", Formula((0,), (c,))) for i, c in enumerate(calls))
    return decompose(
        AggregateSpec(
            name="bars",
            source="trades",
            time_column="ts",
            grid=GridSpec(Width(micros=60_000_000)),
            bucket_start="bucket",
            bucket_end=None,
            keys=(),
            measures=measures,
            columns=("bucket", *(m.name for m in measures)),
            time_type=TimeType.TIMESTAMP,
            reads=tuple(n for n, _ in reads),
            read_types=reads,
        )
    ).stored_in(())


def code(one: Call, reads: tuple[tuple[str, str], ...] = READS) -> str:
    with pytest.raises(DefinitionError) as caught:
        layout_of(one, reads=reads)
    (problem,) = caught.value.problems
    return problem.code


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("var", "var_samp"),
        ("varp", "var_pop"),
        ("stdp", "stddev_pop"),
        ("covar", "covar_samp"),
        ("covarp", "covar_pop"),
        ("Beta", "regr_slope"),
        ("MED", "median"),
        ("firstNot", "firstnot"),
        ("searchK", "searchk"),
    ],
)
def test_a_metric_is_known_by_its_name_in_any_case(alias: str, name: str) -> None:
    """
    Names of metrics lead to one aggregate, in a definition too.
    """
    found = find(alias)
    args = {"searchk": "price, 1", "covar_samp": "price, volume", "covar_pop": "price, volume"}
    text = f"{alias}({'price, volume' if name == 'regr_slope' else args.get(name, 'price')})"
    (one,) = defined(text).measures[0].formula.calls

    assert found is not None
    assert (name, name, text) == (found.name, one.function, one.text)


def test_metrics_over_the_same_arguments_share_what_is_stored() -> None:
    """
    Spreads share their moments, skewness and kurtosis theirs, and weighted sums and averages their products.
    """
    spreads = layout_of(call("var", "price"), call("stdp", "price"), call("sem", "price"))
    shapes = layout_of(call("skew", "price"), call("kurtosis", "price"), call("skew", "price", "false"))
    weighted = layout_of(call("wavg", "price", "volume"), call("wsum", "price", "volume"))

    assert [1, 1, 2] == [len(x.partials) for x in (spreads, shapes, weighted)]


@pytest.mark.parametrize("flag", ["true", "TRUE", None])
def test_skewness_and_kurtosis_are_biased_unless_told_otherwise(flag: str | None) -> None:
    """
    The flag ``true`` is what leaving it out means, ``false`` is another estimate of the same partial.
    """
    for function in ("skew", "kurtosis"):
        biased = layout_of(call(function, "price", *([flag] if flag else [])))
        unbiased = layout_of(call(function, "price", "false"))

        assert layout_of(call(function, "price")).finals == biased.finals != unbiased.finals
        assert biased.partials == unbiased.partials


@pytest.mark.parametrize(
    "one",
    [
        call("ifirstNot", "price"),
        call("ilastNot", "price"),
        call("imax", "price"),
        call("imin", "price"),
        call("quantile", "price", "0.5"),
        call("quantile", "price", "0.5", "'lower'"),
        call("searchK", "price", "2"),
        call("nunique", "price"),
        call("med", "price"),
        call("atImax", "sym", "price"),
    ],
)
def test_positions_and_ranks_are_stored_as_their_value(one: Call) -> None:
    """
    Earlier rows move positions and ranks, and text has no reversed order, so their buckets are recomputed.
    """
    layout = layout_of(one)

    assert not layout.is_mergeable
    assert [None] == [p.merge for p in layout.partials]


@pytest.mark.parametrize("location", ["price", "volume", "ts", "1"])
def test_the_first_extreme_location_is_merged_where_its_type_can_be_turned(location: str) -> None:
    """
    Numbers and times have a reversed order, so the first of the greatest is the smallest of something.
    """
    layout = layout_of(call("atImax", location, "sym"), call("atImin", location, "sym"))

    assert layout.is_mergeable
    assert ["min(", "min("] == [p.build[:4] for p in layout.partials]


def test_all_of_them_merge() -> None:
    """
    The partials of new rows are merged into stored ones, whatever the function.
    """
    calls = [call(f, "price") for f in ("prod", "sem", "skew", "kurtosis", "sum2", "sum3", "sum4", "firstNot")]
    calls += [call(f, "volume", "price") for f in ("wsum", "wavg", "beta", "atImax", "atImin", "lastNot")]

    assert all(layout_of(one).is_mergeable for one in calls)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (call("wavg", "price"), "definition.wrong-arguments"),
        (call("prod", "*"), "definition.wrong-arguments"),
        (call("wsum", "price", "volume", distinct=True), "definition.wrong-arguments"),
        (call("nunique", "price", distinct=True), "definition.wrong-arguments"),
        (call("nunique", "price", "volume"), "definition.wrong-arguments"),
        (call("skew", "price", "1"), "definition.wrong-arguments"),
        (call("quantile", "price", "1.5"), "definition.wrong-arguments"),
        (call("quantile", "price", "volume"), "definition.wrong-arguments"),
        (call("quantile", "price", "0.5", "'middle'"), "definition.wrong-arguments"),
        (call("quantile", "price", "0.5", "xlowerx"), "definition.wrong-arguments"),
        (call("searchK", "price", "1.5"), "definition.wrong-arguments"),
        (call("searchK", "price", "volume"), "definition.wrong-arguments"),
        (call("prod", "sym"), "definition.wrong-type"),
        (call("wsum", "price", "ts"), "definition.wrong-type"),
        (call("sum3", "ts"), "definition.wrong-type"),
    ],
)
def test_a_metric_that_makes_no_sense_is_refused(one: Call, expected: str) -> None:
    """
    Wrong numbers of arguments, parameters that are no literals in their range, and text or times where numbers belong.
    """
    assert expected == code(one)


@pytest.mark.parametrize("function", ["imax", "ifirstNot", "ilastNot", "firstNot", "lastNot"])
def test_a_position_needs_an_order_of_rows(function: str) -> None:
    """
    Where a map is read and no sequence column is declared, rows have no first.
    """
    assert code(call(function, "price"), (*READS, ("tags", "map<string,string>"))) == "definition.needs-sequence"


def test_distinct_values_stand_beside_no_ordered_list() -> None:
    """
    ``nunique`` counts DISTINCT values, which Spark cannot plan beside a list WITHIN GROUP.
    """
    ordered = Call("listagg", ("sym",), order_by="volume", types=("string",))
    with pytest.raises(DefinitionError) as caught:
        layout_of(ordered, call("nunique", "price"))

    assert ["definition.not-together"] == [p.code for p in caught.value.problems]


def test_skewness_shares_the_partial_of_skew() -> None:
    """
    Spark's name is the biased ``skew`` and has no flag; ``kurtosis`` is ours.
    """
    assert layout_of(call("skewness", "price")).partials == layout_of(call("skew", "price")).partials
    with pytest.raises(DefinitionError, match="has 2 arguments, expected 1"):
        layout_of(call("skewness", "price", "false"))
    assert "kurtosis" == defined("kurtosis(price)").measures[0].formula.calls[0].function


def test_a_python_aggregate_cannot_take_the_name_of_a_metric() -> None:
    """
    A name means one thing in every definition.
    """
    with pytest.raises(UsageError, match="wavg"):
        by_name([PythonAggregate("wavg", lambda x: x, "double")])

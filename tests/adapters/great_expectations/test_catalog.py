"""The written table of expectations against Great Expectations' own registry."""

from __future__ import annotations

from typing import Any

import pytest

from materializer.core.quality.catalog import KNOWN, Domain

pytestmark = pytest.mark.quality

OF_ALL = {
    "id", "meta", "notes", "result_format", "description", "catch_exceptions", "rendered_content", "severity", "windows",
    "library_metadata",
}  # fmt: skip
"""Fields of every expectation that are no arguments."""


@pytest.fixture(scope="module")
def registry() -> dict[str, Any]:
    """Name → class of every core expectation that the library has registered."""
    import great_expectations.expectations  # noqa: F401
    from great_expectations.expectations.registry import (
        get_expectation_impl,
        list_registered_expectation_implementations,
    )

    classes = {name: get_expectation_impl(name) for name in list_registered_expectation_implementations()}
    return {n: c for n, c in classes.items() if c.__module__.startswith("great_expectations.expectations.core.")}


def domain_of(cls: Any) -> Domain:
    """What an expectation looks at, by the class it derives from."""
    from great_expectations.expectations import expectation as bases

    if cls.__name__ == "UnexpectedRowsExpectation":
        return Domain.QUERY
    by_base = {
        bases.ColumnMapExpectation: Domain.COLUMN_MAP,
        bases.ColumnAggregateExpectation: Domain.COLUMN_AGGREGATE,
        bases.ColumnPairMapExpectation: Domain.COLUMN_PAIR,
        bases.MulticolumnMapExpectation: Domain.MULTICOLUMN,
    }
    return next((domain for base, domain in by_base.items() if issubclass(cls, base)), Domain.TABLE)


def test_the_table_has_every_expectation(registry: dict[str, Any]):
    """
    No more and no less than the library registers.
    """
    assert set(registry) == set(KNOWN)


def test_arguments_and_domains_are_the_librarys(registry: dict[str, Any]):
    """
    Required and optional arguments are the fields of the library's models; the domain follows from its base class.
    """
    for name, cls in registry.items():
        fields = {n: bool(f.required) for n, f in cls.__fields__.items() if n not in OF_ALL}
        known = KNOWN[name]

        assert {n for n, required in fields.items() if required} == set(known.required), name
        assert set(fields) | {"batch_id"} == set(known.arguments), name
        assert domain_of(cls) is known.domain, name


def test_what_runs_on_spark_is_what_the_library_says(registry: dict[str, Any]):
    """
    The library lists the data sources of each expectation, and has a Spark provider for every metric of those on Spark.
    """
    from great_expectations.execution_engine import SparkDFExecutionEngine
    from great_expectations.expectations.registry import get_metric_provider

    engine = SparkDFExecutionEngine.__new__(SparkDFExecutionEngine)
    for name, cls in registry.items():
        told = cls.schema()["properties"]["metadata"]["properties"]
        listed = told.get("supported_data_sources", {"const": []})["const"]
        assert ("Spark" in listed) is KNOWN[name].is_on_spark, (name, listed)
        by_column_type = ("expect_column_values_to_be_of_type", "expect_column_values_to_be_in_type_list")
        if KNOWN[name].is_on_spark and name not in by_column_type:
            mapped = getattr(cls, "map_metric", None)
            for metric in [f"{mapped}.unexpected_count"] if mapped else cls.metric_dependencies:
                assert get_metric_provider(metric, engine), (name, metric)

"""Every core expectation of Great Expectations 1.24: its arguments, its subject, and whether Great Expectations offers it on
Spark.

The table is written out here, so that a suite can be refused when it is defined, without loading the library. A test compares
it with the library's own registry.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import Final

from msgspec import Struct


class Domain(StrEnum):
    """The subject of an expectation."""

    COLUMN_MAP = "values of a column"
    COLUMN_AGGREGATE = "a column as a whole"
    COLUMN_PAIR = "two values of a row"
    MULTICOLUMN = "several values of a row"
    TABLE = "the table"
    QUERY = "rows that a query returns"

    @property
    def is_about_rows(self) -> bool:
        """Whether a failure belongs to rows, and so to buckets."""
        return self in _ROWS


_ROWS: Final = frozenset({Domain.COLUMN_MAP, Domain.COLUMN_PAIR, Domain.MULTICOLUMN, Domain.QUERY})


class Known(Struct, frozen=True):
    """One expectation.

    Args:
        name: Its type in a suite.
        domain: Its subject.
        required: Arguments that it must have.
        optional: Its other arguments.
        is_on_spark: Whether Great Expectations lists Spark among its data sources.
    """

    name: str
    domain: Domain
    required: tuple[str, ...]
    optional: tuple[str, ...]
    is_on_spark: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        """The arguments whose values must be columns of the table."""
        if self.domain is Domain.TABLE:
            return ("column",) if self.name == "expect_column_type_to_be" else ()
        return tuple(n for n in ("column", "column_A", "column_B", "column_list") if n in self.required)

    @property
    def arguments(self) -> tuple[str, ...]:
        """All its arguments, including the one that every expectation takes."""
        return (*self.required, *self.optional, "batch_id")


def _known(domain: Domain, optional: str, table: str, *, is_on_spark: bool = True) -> dict[str, Known]:
    """Read lines that hold a name, its required arguments and, after a bar, further optional arguments."""
    found = {}
    for line in table.strip().splitlines():
        needed, _, more = line.partition("|")
        name, *required = needed.split()
        found[name] = Known(name, domain, tuple(required), (*optional.split(), *more.split()), is_on_spark)
    return found


_CONDITION: Final = "row_condition condition_parser"
_BOUNDS: Final = "min_value max_value strict_min strict_max"

_MAP = _known(
    Domain.COLUMN_MAP,
    f"mostly {_CONDITION}",
    f"""
expect_column_value_lengths_to_be_between column | {_BOUNDS}
expect_column_value_lengths_to_equal column value
expect_column_value_z_scores_to_be_less_than column threshold double_sided
expect_column_values_to_be_between column | {_BOUNDS}
expect_column_values_to_be_in_set column value_set
expect_column_values_to_be_in_type_list column | type_list
expect_column_values_to_be_null column
expect_column_values_to_be_of_type column type_
expect_column_values_to_be_unique column
expect_column_values_to_match_regex column | regex
expect_column_values_to_match_regex_list column regex_list | match_on
expect_column_values_to_match_strftime_format column strftime_format
expect_column_values_to_not_be_in_set column value_set
expect_column_values_to_not_be_null column
expect_column_values_to_not_be_outliers column | method multiplier
expect_column_values_to_not_match_regex column regex
expect_column_values_to_not_match_regex_list column regex_list
""",
)
_MAP_ELSEWHERE = _known(
    Domain.COLUMN_MAP,
    f"mostly {_CONDITION}",
    """
expect_column_values_to_be_dateutil_parseable column
expect_column_values_to_be_decreasing column | strictly
expect_column_values_to_be_increasing column | strictly
expect_column_values_to_be_json_parseable column
expect_column_values_to_match_json_schema column json_schema
expect_column_values_to_match_like_pattern column like_pattern | escape
expect_column_values_to_match_like_pattern_list column like_pattern_list | match_on escape
expect_column_values_to_not_match_like_pattern column like_pattern | escape
expect_column_values_to_not_match_like_pattern_list column like_pattern_list | escape
""",
    is_on_spark=False,
)
_AGGREGATE = _known(
    Domain.COLUMN_AGGREGATE,
    _CONDITION,
    f"""
expect_column_distinct_values_to_be_in_set column value_set
expect_column_distinct_values_to_contain_set column value_set
expect_column_distinct_values_to_equal_set column value_set
expect_column_kl_divergence_to_be_less_than column | partition_object threshold tail_weight_holdout internal_weight_holdout bucketize_data min_value max_value
expect_column_max_to_be_between column | {_BOUNDS}
expect_column_mean_to_be_between column | {_BOUNDS}
expect_column_median_to_be_between column | {_BOUNDS}
expect_column_min_to_be_between column | {_BOUNDS}
expect_column_most_common_value_to_be_in_set column value_set | ties_okay
expect_column_proportion_of_non_null_values_to_be_between column | {_BOUNDS}
expect_column_proportion_of_unique_values_to_be_between column | {_BOUNDS}
expect_column_quantile_values_to_be_between column quantile_ranges | allow_relative_error
expect_column_stdev_to_be_between column | {_BOUNDS}
expect_column_sum_to_be_between column | {_BOUNDS}
expect_column_unique_value_count_to_be_between column | {_BOUNDS}
""",
)
_PAIR = _known(
    Domain.COLUMN_PAIR,
    f"mostly {_CONDITION} ignore_row_if",
    """
expect_column_pair_values_a_to_be_greater_than_b column_A column_B | or_equal
expect_column_pair_values_to_be_equal column_A column_B
expect_column_pair_values_to_be_in_set column_A column_B value_pairs_set
""",
)
_MULTICOLUMN = _known(
    Domain.MULTICOLUMN,
    f"mostly {_CONDITION} ignore_row_if",
    """
expect_compound_columns_to_be_unique column_list
expect_multicolumn_sum_to_equal column_list sum_total
expect_multicolumn_values_to_be_equal column_list
expect_select_column_values_to_be_unique_within_record column_list
""",
)
_TABLE = _known(
    Domain.TABLE,
    "",
    f"""
expect_column_to_exist column | column_index
expect_column_type_to_be column type_
expect_table_column_count_to_be_between | min_value max_value
expect_table_column_count_to_equal value
expect_table_columns_to_match_ordered_list | column_list
expect_table_columns_to_match_set | column_set exact_match
expect_table_row_count_to_be_between | {_BOUNDS} {_CONDITION}
expect_table_row_count_to_equal value | {_CONDITION}
""",
)
_TABLE_ELSEWHERE = _known(
    Domain.TABLE,
    "",
    f"""
expect_query_results_to_match_comparison base_query comparison_data_source_name comparison_query | mostly
expect_table_row_count_to_equal_other_table other_table_name | {_CONDITION}
""",
    is_on_spark=False,
)
_QUERY = _known(Domain.QUERY, "", "unexpected_rows_expectation unexpected_rows_query")

KNOWN: Final = MappingProxyType(
    _MAP | _MAP_ELSEWHERE | _AGGREGATE | _PAIR | _MULTICOLUMN | _TABLE | _TABLE_ELSEWHERE | _QUERY
)
"""Every expectation by name."""

"""Partials and output in one fetch: what comes apart in the driver is what Spark makes of the partials by itself."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

import pytest

from materializer.lake.computed import apart
from materializer.spark.query import compute as c
from materializer.spark.query import fetch
from tests.spark.query.by_hash_world import ALL, defined, drawn

if TYPE_CHECKING:
    import pyarrow as pa

BY: Final = "FROM t GROUP BY time_bucket('1 hour', ts), k"
AT: Final = "time_bucket('1 hour', ts)"
DEFINITIONS: Final = {
    "bars": (
        f"SELECT {AT} AS at, k, first(x) AS a, last(d) AS z, max(n) AS most, avg(x) AS mean, count(*) AS rows {BY}",
        {"mean"},
    ),
    "some of the groups": (
        f"SELECT {AT} AS at, k, first(x) AS a, count(*) AS rows {BY} HAVING count(*) > 1 AND first(x) > 0",
        set(),
    ),
    "names of ours": (f"SELECT {AT} AS k_k, k AS slice, max(x) AS f_kept, min(i) AS f_0 {BY}", None),
    "other cases": (f"SELECT {AT} AS SLICE_, k AS K, max(x) AS F_1, min(i) AS Slice {BY}", None),
}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("asks", [(), ("count(*)",)], ids=["plain", "with questions"])
@pytest.mark.parametrize("name", DEFINITIONS)
def test_what_is_fetched_once_is_what_spark_makes_of_it(spark, tmp_path, name, asks) -> None:
    """
    Both tables are equal, types too, to those that Spark makes each by itself; what is a stored value is not fetched twice. Questions are
    answered on the way where no group is left out and no output has a name of ours.
    """
    sql, made = DEFINITIONS[name]
    definition = defined(spark, tmp_path, drawn(random.Random(name), 300, keys=40), sql)
    partials = c.build(definition, spark.read.format("delta").load(str(tmp_path / "t")), ALL)

    frame, observation = fetch.combined(definition, partials, ALL, asks)
    found, output = apart(definition, fetch.in_order(definition, c.to_arrow(frame)))

    assert rows(c.to_arrow(partials)) == rows(found)
    expected = c.to_arrow(c.finalise(definition, partials, ALL))
    assert rows(expected) == rows(output)
    assert expected.schema.names == output.schema.names
    assert expected.schema.types == output.schema.types
    assert (observation is not None) == (name == "bars" and bool(asks))
    if observation is not None:
        assert {"count(*)": output.num_rows} == c.metrics_of(observation, asks)
    if made is not None:
        count = len(definition.partial_columns) + len(made) + bool(definition.layout.having)
        assert count == len(frame.columns)


def rows(table: pa.Table) -> list[str]:
    """Return the rows of a table as texts, sorted; NaN is equal to NaN there."""
    return sorted(str(row) for row in table.to_pylist())

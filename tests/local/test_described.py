"""The types that this process finds for a definition are those that Spark finds."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import types as st

from materializer.core.compiled.resolve import resolve
from materializer.core.language.parse import parse_definitions
from materializer.errors import DefinitionError
from materializer.local.described import described
from materializer.local.kinds import NotLocal
from materializer.services.definitions.tables import schemas_of
from materializer.spark.describe.analyse import analyse
from materializer.spark.runtime.session import work_session
from tests.local.drawing import COLUMNS, Drawing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SOURCE = (("at", "timestamp"), *COLUMNS.items())
DRAWN = 60


def test_types_are_those_of_spark(spark: SparkSession) -> None:
    """
    Of drawn definitions of the proven set, each column of both tables has the type that Spark's analysis gives it; at least half of them
    are described here.
    """
    session = work_session(spark)
    shape = st.StructType.fromDDL(", ".join(f"`{name}` {kind}" for name, kind in SOURCE))
    found = 0
    for seed in range(DRAWN):
        draw = Drawing(random.Random(f"described {seed}"), is_hard=seed % 2 == 0)
        key = draw.key()
        measures = ", ".join(f"{draw.measure(is_mergeable=seed % 3 == 0)} AS m{i}" for i in range(3))
        where = draw.truth(2)
        sql = f"""CREATE MATERIALIZED VIEW v AS SELECT time_bucket('1 hour', at) AS hour, {key} AS key, {measures}
            FROM s WHERE {where} GROUP BY time_bucket('1 hour', at), {key}"""
        spec = resolve(parse_definitions(sql)[0], SOURCE)
        try:
            ours = described(spec)
        except NotLocal:
            continue
        except DefinitionError:
            with pytest.raises(DefinitionError):
                analyse(session, spec, shape)
            continue
        found += 1
        analysed = analyse(session, spec, shape)
        theirs = schemas_of(analysed)
        assert [list(column) for column in ours.partial_columns] == theirs["partials"], sql
        assert [list(column) for column in ours.output_columns] == theirs["output"], sql
        assert ours.spec == analysed.spec, sql
    assert found >= DRAWN / 2

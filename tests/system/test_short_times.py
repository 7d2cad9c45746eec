"""Times that are `smallint` or `int`, of which the first slice of an engine begins below the smallest value: computed as over `bigint`."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pytest

from tests.system import verifying
from tests.system.builders import Site

ENGINES: Final = {
    "session_window": "TBLPROPERTIES ('engine' = 'session_window', 'force_trigger_time' = '0') AS SELECT session_window.start AS b, k, "
    "sum(v) AS total FROM {} GROUP BY session_window(t, '{}'), k",
    "time_series": "TBLPROPERTIES ('engine' = 'time_series') AS SELECT window.end AS b, k, sum(v) AS total FROM {} GROUP BY window(t, '{}'), k",
    "hopping_window": "TBLPROPERTIES ('engine' = 'hopping_window', 'end' = 'v') AS SELECT window.end AS b, k, count(*) AS n FROM {} "
    "GROUP BY window(t, '{}'), k",
    "event_time_window": "TBLPROPERTIES ('engine' = 'event_time_window') AS SELECT window.end AS b, k, count(*) AS n FROM {} GROUP BY window(t, '{}'), k",
}
LEAST: Final = {"smallint": -(2**15), "int": -(2**31)}
_WIDTHS: Final = [("smallint", "10"), ("smallint", "40000"), ("int", "3000000000")]
ROWS: Final = [(-5, 1), (1, 5), (2, 6), (100, 120), (9_000, 9_001)]


@pytest.fixture(scope="module", params=["spark", "auto"])
def site(request, tmp_path_factory, spark) -> Site:
    """A lake that Spark or the process computes."""
    return Site(tmp_path_factory.mktemp("short"), spark, executor=request.param)


def rows(least: int, *times: tuple[int, int]) -> list[dict[str, Any]]:
    """Return rows with the smallest value of a type, too."""
    return [{"t": t, "k": t % 2, "v": v} for t, v in (*times, (least, least + 9), (least + 4, least + 11))]


CASES: Final = [
    *((kind, engine, width) for kind, width in _WIDTHS for engine in ("session_window", "time_series")),
    ("smallint", "hopping_window", "10"),
    ("smallint", "event_time_window", "10"),
]


@pytest.mark.parametrize(("kind", "engine", "width"), CASES)
def test_they_are_computed_as_over_bigint(site: Site, kind: str, engine: str, width: str) -> None:
    """
    By a width or a default slice that the type cannot hold, below zero, too; a slice that begins below the smallest value has that value.
    """
    least, found = LEAST[kind], []
    short = pa.int16() if kind == "smallint" else pa.int32()
    for name, of in (("short", short), ("long", pa.int64())):
        source, view = f"{name}_{kind}_{engine}_{width}", f"v_{name}_{kind}_{engine}_{width}"
        table = site.table(source, pa.schema({"t": of, "k": pa.int32(), "v": pa.int64()}))
        table.write(rows(least, *ROWS))
        site.lake.apply(f"CREATE MATERIALIZED VIEW {view} {ENGINES[engine].format(source, width)}")
        site.lake.refresh(view)
        table.write(rows(least + 1, (3, 8), (-7, 0)))
        site.lake.refresh(view)
        if name == "short" and verifying.is_turn(view, 0, 3):
            assert site.lake.verify(view).is_equal
        else:  # the rows of both are compared with each other
            verifying.expect_equal(site.lake, view)
        found.append(sorted([row | {"slice": max(row["slice"], least)} for row in site.records(view)], key=str))

    assert found[0] == found[1]
    assert engine == "time_series" or found[0]

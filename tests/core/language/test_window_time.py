"""`window_time` of a definition: the third edge of a bucket, where Spark takes it."""

from __future__ import annotations

import pytest

from materializer.core.language.define import define
from materializer.core.language.parse import parse_definitions
from materializer.core.spec.spec import AggregateSpec
from materializer.errors import DefinitionError

TEXT = "CREATE MATERIALIZED VIEW hours AS SELECT {} FROM trades GROUP BY {}"
TIME = "window_time(window(ts, '1 hour'))"


@pytest.mark.parametrize("group", ["1, 2", "t, 2", f"{TIME}, sym", "ALL"])
def test_it_is_the_only_edge(group: str) -> None:
    """
    By its place, its alias, repeated and by ALL; the window is the grid.
    """
    [spec] = parse_definitions(TEXT.format(f"{TIME} AS t, sym, count(*) AS n", group))

    assert (None, None, "t") == (spec.bucket_start, spec.bucket_end, spec.bucket_time)
    assert (("t",), ["sym"], ["n"]) == (spec.edges, [key.name for key in spec.keys], [m.name for m in spec.measures])


def test_it_stands_beside_the_others_and_is_the_same_in_python() -> None:
    """
    A definition of both forms is one, and its JSON has the column where there is one.
    """
    [spec] = parse_definitions(
        TEXT.format(
            "window.start AS b, window.end AS e, window_time(window) AS t, count(*) AS n",
            f"window(ts, '1 hour'), {TIME}",
        )
    )
    parts = {"time": "ts", "width": "1 hour", "align": "window", "bucket": "b", "measures": {"n": "count(*)"}}
    made = define("hours", "trades", bucket_end="e", bucket_time="t", **parts)  # type: ignore[arg-type]

    assert spec == made == AggregateSpec.from_json(made.as_json())
    assert ("b", "e", "t") == spec.edges
    assert "bucket_time" not in define("hours", "trades", **parts).as_json()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("select", "group", "hint"),
    [
        (f"{TIME} AS t, count(*) AS n", "window(ts, '1 hour')", "add it to GROUP BY"),
        ("window.start AS b, window_time(window) AS t", "window(ts, '1 hour')", "add it to GROUP BY"),
        ("window.start AS b, count(*) AS n", TIME, "add the window to GROUP BY"),
        (f"{TIME} AS t, {TIME} AS u, count(*) AS n", "1", "keep one"),
        (f"window.start AS b, max({TIME}) AS n", "window(ts, '1 hour')", "select the bucket as a column of its own"),
        (
            "window.start AS b, window_time(window(ts, '2 hours')) AS t",
            "window(ts, '1 hour'), 2",
            "define one aggregate for each",
        ),
        (f"{TIME} AS t, count(*) AS n", f"1 HAVING {TIME} > t", "select the bucket as a column of its own"),
        ("window_time(session_window(ts, '1 hour')) AS t, count(*) AS n", "1", "select session_window.end"),
    ],
)
def test_what_spark_refuses_is_refused(select: str, group: str, hint: str) -> None:
    """
    With what mends it.
    """
    with pytest.raises(DefinitionError) as caught:
        parse_definitions(TEXT.format(select, group))

    assert any(problem.hint.startswith(hint) for problem in caught.value.problems), caught.value.problems

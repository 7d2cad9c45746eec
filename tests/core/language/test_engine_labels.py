"""The end of a window that an engine labels it by."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from materializer.core.language.parse import parse_definitions
from materializer.errors import DefinitionError, Problem

ENGINES = {"hopping_window": "end", "compressed_hopping_window": "start", "event_time_window": "end"}


def view(engine: str, end: str) -> str:
    more = {"event_time_window": ", 'discard_age' = '1 day'"}.get(engine, ", 'end_time' = 'gone'")
    return (
        f"CREATE MATERIALIZED VIEW v TBLPROPERTIES ('engine' = '{engine}'{more}) AS SELECT window.{end} AS at, sym, count(*) AS n "
        "FROM t GROUP BY window(ts, '2 hours', '1 hour'), sym"
    )


def problems_of(text: str) -> Sequence[Problem]:
    try:
        parse_definitions(text)
    except DefinitionError as exc:
        return exc.problems
    return ()


@pytest.mark.parametrize("engine", ENGINES)
def test_the_other_end_is_refused(engine: str) -> None:
    """
    It would get the values of the label under a name that says the opposite.
    """
    other = {"start": "end", "end": "start"}[ENGINES[engine]]
    [found] = [p for p in problems_of(view(engine, other)) if "labels a window" in p.message]

    assert found.code == "definition.engine-parameter"
    assert f"window.{ENGINES[engine]}" in found.hint


@pytest.mark.parametrize("engine", ENGINES)
def test_its_own_end_is_taken(engine: str) -> None:
    """
    Whatever else is wrong with the definition, the label is not.
    """
    assert [] == [p for p in problems_of(view(engine, ENGINES[engine])) if "labels a window" in p.message]

"""The SQL form of an engine's definition: what divides time in GROUP BY, and its fields in SELECT."""

from __future__ import annotations

import pytest

from materializer.core.language.parse import parse_definitions
from materializer.errors import DefinitionError

CALL = "session_window(ts, '30 minutes')"
HOPPING = (
    "CREATE MATERIALIZED VIEW v TBLPROPERTIES ('engine' = 'hopping_window', 'time' = '{}', 'end' = 'till', 'period' = '1 hour', 'duration' = '1 hour') "
    "AS SELECT k, count(*) AS n FROM t GROUP BY k"
)
TEXT = "CREATE MATERIALIZED VIEW v AS SELECT {} AS w, k, count(*) AS n FROM t GROUP BY {}"


@pytest.mark.parametrize(
    ("select", "group"),
    [
        (f"{CALL}.start", "1, k"),
        (f"{CALL}.start", "w, k"),
        (f"{CALL}.start", f"{CALL}.start, k"),
        (f"{CALL}.end", "1, 2"),
        (f"{CALL}.start", f"{CALL}, {CALL}.start, k"),
        (f"{CALL}.start", f"{CALL}, 1, k"),
        (f"{CALL}['start']", "1, k"),
        (f"{CALL}.start", "ALL"),
    ],
)
def test_a_field_of_sessions_is_not_grouped(select: str, group: str) -> None:
    """
    Spark joins no rows into sessions then; the hint leads to what is right, with the field in SELECT.
    """
    with pytest.raises(DefinitionError) as caught:
        parse_definitions(TEXT.format(select, group))
    [problem] = caught.value.problems

    assert ("definition.misplaced-bucket", True) == (problem.code, f"`{CALL}`" in problem.hint)
    end = ".end" if ".end" in select else ".start"
    [spec] = parse_definitions(TEXT.format(CALL + end, f"{CALL}, k"))
    assert ("session_window", "30 minutes") == (spec.engine, dict(spec.params)["session_gap"])


def test_a_window_has_two_fields() -> None:
    """
    Another name after it is refused.
    """
    with pytest.raises(DefinitionError, match="a start and an end"):
        parse_definitions(TEXT.format("session_window.begin", f"{CALL}, k"))


@pytest.mark.parametrize("name", ["ordered@", "Order Time", "order-time", "a.b", "select"])
@pytest.mark.parametrize("engine", ["session_window", "hopping_window"])
def test_the_time_may_have_any_name(name: str, engine: str) -> None:
    """
    In a call it stands in backticks, in the property as it is.
    """
    call = f"session_window(`{name}`, '30 minutes')" if engine == "session_window" else ""
    text = TEXT.format(call, f"{call}, k") if call else HOPPING.format(name)

    [spec] = parse_definitions(text)

    assert (engine, name) == (spec.engine, spec.time_column)


def test_all_that_is_wrong_is_told_at_once() -> None:
    """
    Names of keys, parameters, functions and lateness, each once; an engine whose name is wrong has no other fault because of it.
    """
    series = "CREATE MATERIALIZED VIEW a TBLPROPERTIES ('engine' = 'time_series', 'lateness' = 'strikt') "
    series += (
        "AS SELECT window.end AS time, `the key`, last(v) AS x FROM t GROUP BY window(ts, '10 minuets'), `the key`;"
    )
    state = "CREATE MATERIALIZED VIEW b TBLPROPERTIES ('engine' = 'reactive_state', 'time' = 'ts', 'keys' = 'the key') "
    state += "AS SELECT ts, `the key`, mavgg(v, 3) AS m FROM t;"
    wrong = "CREATE MATERIALIZED VIEW c TBLPROPERTIES ('engine' = 'time_serie', 'fill' = 'ffill') "
    wrong += "AS SELECT window.end AS time, k, last(v) AS x FROM t GROUP BY window(ts, '10 minutes'), k;"
    told = []
    for statement in (series, state, wrong):
        with pytest.raises(DefinitionError) as caught:
            parse_definitions(statement)
        told.append([p.message for p in caught.value.problems])

    for found, parts in zip(
        told, (("'the key'", "strikt", "minuets"), ("'the key'", "mavgg"), ("time_serie",)), strict=True
    ):
        assert [sum(part in message for message in found) > 0 for part in parts] == [True] * len(parts), found
    assert sum("strikt" in message for message in told[0]) == 1
    assert len(told[2]) == 1

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from materializer.core.compiled.difference_lines import differences
from materializer.core.compiled.fingerprint import data_fingerprint, metadata_fingerprint
from materializer.core.language.parse import parse_definitions
from materializer.core.spec.spec import AggregateSpec, Resolution, TimeType

HOURLY = (
    "CREATE MATERIALIZED VIEW v COMMENT 'c' TBLPROPERTIES ('refresh.order' = 'newest') AS "
    "SELECT time_bucket('1 hour', ts) AS b, upper(sym) AS s, sum(price * 2) / count(*) AS m "
    "FROM trades WHERE side = 'b' GROUP BY 1, 2 HAVING count(*) > 1"
)
BURSTS = (
    "CREATE MATERIALIZED VIEW bursts TBLPROPERTIES ('engine' = 'session_window', 'sequence' = 'id', 'slice' = '1 hour') AS "
    "SELECT session_window.start AS begun, sym, count(*) AS n FROM trades GROUP BY session_window(ts, '2 minutes'), sym"
)
STATE = (
    "CREATE MATERIALIZED VIEW state TBLPROPERTIES ('engine' = 'reactive_state', 'time' = 'ts', 'keys' = 'sym') AS "
    "SELECT ts, sym, cumsum(price) AS total FROM trades"
)


def one(text: str) -> AggregateSpec:
    (spec,) = parse_definitions(text)
    return replace(spec, time_type=TimeType.TIMESTAMP)


@pytest.mark.parametrize(
    ("text", "old", "new", "lines"),
    [
        (HOURLY, "'1 hour'", "'2 hours'", ["- buckets: 1 h", "+ buckets: 2 h"]),
        (HOURLY, "'1 hour', ts", "'1 day', ts", ["- buckets: 1 h", "+ buckets: 1 day"]),
        (
            HOURLY,
            "ts)",
            "ts, 'Europe/Paris', TIMESTAMP '2024-01-01 00:00:00')",
            ["- buckets: 1 h", "+ buckets: 1 h in Europe/Paris from 2024-01-01T00:00:00Z"],
        ),
        (HOURLY, "ts)", "other)", ["- time: ts", "+ time: other"]),
        (HOURLY, "AS b", "AS bucket", ["- columns: b, s, m", "+ columns: bucket, s, m"]),
        (HOURLY, "upper(sym)", "lower(sym)", ["- key s: upper(sym)", "+ key s: lower(sym)"]),
        (
            HOURLY,
            "price * 2",
            "price * 3",
            ["- measure m: sum(price * 2) / count(*)", "+ measure m: sum(price * 3) / count(*)"],
        ),
        (HOURLY, "WHERE side = 'b'", "", ["- where: side = 'b'"]),
        (HOURLY, " > 1", " > 2", ["- having: count(*) > 1", "+ having: count(*) > 2"]),
        (HOURLY, "trades", "quotes", ["- source: trades", "+ source: quotes"]),
        (HOURLY, "'newest'", "'newest', 'sequence' = 'id'", ["+ sequence: id"]),
        (HOURLY, "'newest'", "'oldest'", ["- property refresh.order: newest", "+ property refresh.order: oldest"]),
        (HOURLY, "COMMENT 'c'", "", ["- comment: c"]),
        (
            BURSTS,
            "2 minutes",
            "3 minutes",
            ["- parameter session_gap: 2 minutes", "+ parameter session_gap: 3 minutes"],
        ),
        (BURSTS, "'1 hour'", "'2 hours'", ["- parameter slice: 1 hour", "+ parameter slice: 2 hours"]),
        (BURSTS, "'sequence'", "'lateness' = 'strict', 'sequence'", ["- lateness: recompute", "+ lateness: strict"]),
        (STATE, "cumsum", "cummax", ["- measure total: cumsum(price)", "+ measure total: cummax(price)"]),
    ],
)
def test_what_differs_is_told_in_the_words_of_a_definition(text: str, old: str, new: str, lines: list[str]) -> None:
    """
    Whatever changes a fingerprint has a line, of an engine's parameters, too.
    """
    assert old in text
    was, is_now = one(text), one(text.replace(old, new))
    assert list(differences(was, is_now)) == lines
    assert [*_turned(lines)] == list(differences(is_now, was))
    assert (data_fingerprint(was), metadata_fingerprint(was)) != (
        data_fingerprint(is_now),
        metadata_fingerprint(is_now),
    )


def _turned(lines: list[str]) -> list[str]:
    """What was comes first in each part."""
    turned = [("+" if line[0] == "-" else "-") + line[1:] for line in lines]
    return sorted(turned, key=lambda line: line[0], reverse=True)


def test_what_a_tick_means_is_told() -> None:
    """
    The same numbers read as milliseconds are other buckets.
    """
    was = replace(one(HOURLY), time_type=TimeType.BIGINT, resolution=Resolution.S)
    lines = differences(was, replace(was, resolution=Resolution.MS))
    assert ("- resolution: s", "+ resolution: ms") == lines


def test_equal_definitions_differ_in_nothing() -> None:
    """
    Also when they are written in another way.
    """
    assert () == differences(one(HOURLY), one(HOURLY.replace(" AS SELECT", " AS\n  SELECT")))


def test_a_suite_differs_by_its_expectations() -> None:
    """
    One line for each that came, went or changed, and not the suite whole; of two of one kind and column the second has a number.
    """

    def suited(*expectations: dict[str, object]) -> AggregateSpec:
        return replace(one(HOURLY), suites=(("output", json.dumps({"name": "bars", "expectations": expectations})),))

    most = {
        "type": "expect_column_max_to_be_between",
        "kwargs": {"column": "m", "max_value": 5},
        "severity": "critical",
    }
    rows = {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}}
    lower = {**most, "kwargs": {"column": "m", "max_value": 4}}

    assert [
        "- suite of the output, expect_column_max_to_be_between of m: max_value 5, severity critical",
        "+ suite of the output, expect_column_max_to_be_between of m: max_value 4, severity critical",
        "+ suite of the output, expect_table_row_count_to_be_between: min_value 1",
    ] == list(differences(suited(most), suited(lower, rows)))
    [twice] = differences(suited(most), suited(most, lower))
    assert "+ suite of the output, expect_column_max_to_be_between of m (2): max_value 4, severity critical" == twice
    assert [] == list(differences(suited(most, rows), suited(rows, most)))

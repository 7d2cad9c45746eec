from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from materializer.core.compiled.definition import FROM, KEY
from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import EVERYTHING, NEG_INF, POS_INF, Span, SpanSet
from materializer.lake.keys import LONGEST, coded, json_value, may_hold, table_of
from materializer.lake.local_read import read_small_rows
from tests import tables

DAYS = st.dates(date(1902, 1, 1))
MOMENTS = st.datetimes(datetime(1902, 1, 1), datetime(9999, 12, 30))  # noqa: DTZ001
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "string": (pa.string(), st.text(max_size=20)),
    "binary": (pa.binary(), st.binary(max_size=20)),
    "boolean": (pa.bool_(), st.booleans()),
    "tinyint": (pa.int8(), st.integers(-128, 127)),
    "smallint": (pa.int16(), st.integers(-(1 << 15), (1 << 15) - 1)),
    "int": (pa.int32(), st.integers(-(1 << 31), (1 << 31) - 1)),
    "bigint": (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    "date": (pa.date32(), DAYS),
    "timestamp": (pa.timestamp("us", "UTC"), MOMENTS.map(lambda t: t.replace(tzinfo=UTC))),
    "timestamp_ntz": (pa.timestamp("us"), MOMENTS),
    "decimal(38,5)": (pa.decimal128(38, 5), st.decimals(Decimal(-(10**33) + 1), Decimal(10**33 - 1), places=5)),
}


@pytest.mark.parametrize("kind", VALUES)
@given(st.data())
def test_what_the_journal_holds_is_the_value(kind: str, data: st.DataObject) -> None:
    """
    A recorded value makes the value again, null too.
    """
    arrow, values = VALUES[kind]
    column = pa.chunked_array([pa.array(data.draw(st.lists(values | st.none(), max_size=4)), arrow)])
    found = coded(column)
    assert found is not None
    recorded = [json_value(v) for v in found[0].to_pylist()]

    groups = [(Span(0, 1), (v,)) for v in recorded]
    assert column.to_pylist() == table_of(groups, [kind])[f"{KEY}0"].to_pylist()
    assert found[1] is None or not any(found[1].to_pylist())
    assert all(v is None or isinstance(v, str | int) for v in recorded)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([-(1 << 20), None], pa.int32()).cast(pa.date32()),
        pa.array([date(1582, 10, 4), None]),
        pa.array([1 << 60, None], pa.int64()).cast(pa.timestamp("us", "UTC")),
        pa.array(["é" * LONGEST, None]),
        pa.array([b"x" * (LONGEST + 1), None]),
    ],
)
def test_a_value_that_might_not_be_exact_is_unknown(values: pa.Array) -> None:
    """
    Days before 1902, years after 9999 and long texts are not recorded; null is.
    """
    found = coded(pa.chunked_array([values]))

    assert found is not None
    assert [True, None] == found[1].to_pylist()


@pytest.mark.parametrize("kind", [pa.float64(), pa.list_(pa.int64()), pa.timestamp("ns")])
def test_other_types_are_not_recorded(kind: pa.DataType) -> None:
    """
    A double has two zeros and no exact text here; nested values and nanoseconds have no form.
    """
    assert coded(pa.chunked_array([pa.array([], kind)])) is None


def test_groups_without_an_end_reach_as_far_as_instants() -> None:
    """
    An infinite start is the first instant that 64 bits hold.
    """
    rows = table_of([(Span(NEG_INF, 5), ("a",)), (Span(5, POS_INF), (None,))], ["string"])

    assert [[-(1 << 63), 5], ["a", None]] == [rows[c].to_pylist() for c in (FROM, f"{KEY}0")]


@given(st.lists(st.lists(st.integers(0, 9) | st.none(), min_size=1, max_size=3), min_size=1, max_size=4), st.data())
def test_a_file_that_has_a_wanted_value_is_never_left_out(files: list[list[int | None]], data: st.DataObject) -> None:
    """
    By statistics that are exact, wider or missing; a file that statistics exclude is left out.
    """
    wanted = data.draw(st.frozensets(st.integers(0, 9) | st.none(), max_size=3))
    known = [[v for v in values if v is not None] for values in files]
    statistics = {
        "min.k": pa.array([min(v, default=None) for v in known], pa.int64()),
        "max.k": pa.array([max(v, default=None) for v in known], pa.int64()),
        "null_count.k": pa.array([values.count(None) for values in files], pa.int64()),
    }
    shown = {name: column for name, column in statistics.items() if data.draw(st.integers(0, 5))}
    found = may_hold(pa.table(shown or {"x": pa.array([0] * len(files))}), {"k": wanted}, [])

    assert all(is_open for is_open, values in zip(found, files, strict=True) if wanted & set(values))
    if len(shown) == 3:
        assert not any(
            is_open
            for is_open, values, v in zip(found, files, known, strict=True)
            if v
            and None not in wanted & set(values)
            and not any(min(v) <= w <= max(v) for w in wanted if w is not None)
        )


def test_only_files_that_may_hold_a_key_are_read(tmp_path: Any) -> None:
    """
    By texts, by whole numbers and by times in milliseconds; a text that may have been cut ends nowhere.
    """
    path, last = str(tmp_path / "t"), datetime(2025, 1, 1, 0, 0, 0, 999, tzinfo=UTC)
    long = "m" * 40
    for i, device in enumerate(["a", "k", long]):
        rows = {
            "ts": pa.array([i], pa.int64()),
            "device": [device],
            "n": [i],
            "at": pa.array([last], pa.timestamp("us", "UTC")),
        }
        tables.append(path, pa.table(rows))

    def read(**within: Any) -> list[int]:
        found = read_small_rows(
            path, 2, ["n"], SpanSet.of(EVERYTHING), time="ts", time_type=TimeType.BIGINT, max_rows=9, max_bytes=1 << 20,
            within={name: frozenset(values) for name, values in within.items()},
        )  # fmt: skip
        assert found is not None
        return sorted(found["n"].to_pylist())

    assert [1] == read(device=["k"])
    assert [0] == read(device=["a"], n=[0, 2])
    assert [2] == read(device=[long + "z"])
    assert [] == read(device=[None])
    micros = int(last.timestamp()) * 1_000_000 + 999
    assert [0, 1, 2] == read(at=[micros])
    assert [] == read(at=[micros + 5_000])

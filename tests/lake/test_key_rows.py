"""Rows of some keys in slices of their own: which rows they are, and which files may hold them."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from materializer.core.engines.work import KeySlices
from materializer.core.spec.spec import TimeType
from materializer.core.time.spans import NEG_INF, POS_INF, Span, SpanSet
from materializer.lake.key_rows import is_replaced, that_may_hold
from materializer.lake.local_read import read_rows_of_keys
from tests import tables

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DOMAINS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ["", "a", "b", "é" * 20, "é" * 20 + "a", None]),
    "number": (pa.int16(), [-(1 << 15), 0, 7, (1 << 15) - 1, None]),
    "day": (pa.date32(), [date(1969, 12, 31), date(9999, 12, 31), date(2025, 3, 1), None]),
    "moment": (pa.timestamp("us", "UTC"), [EPOCH - timedelta(microseconds=1), EPOCH + timedelta(days=9), None]),
    "local": (pa.timestamp("us"), [datetime(1970, 1, 1), datetime(2025, 3, 30, 2, 30, 0, 999_999), None]),  # noqa: DTZ001
    "fee": (pa.decimal128(9, 3), [Decimal("-1.000"), Decimal("0.001"), None]),
    "flag": (pa.bool_(), [True, False, None]),
    "raw": (pa.binary(), [b"", b"\x00\xff", None]),
}
TIMES = st.integers(-50, 50)
SPANS = st.lists(
    st.one_of(
        st.tuples(TIMES, st.integers(1, 30)).map(lambda at: Span(at[0], at[0] + at[1])),
        TIMES.map(lambda at: Span(NEG_INF, at)),
        TIMES.map(lambda at: Span(at, POS_INF)),
    ),
    max_size=3,
).map(SpanSet.union)


def keys_of(names: list[str]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(*(st.sampled_from(DOMAINS[name][1]) for name in names))


def drawn(data: st.DataObject) -> tuple[list[str], list[tuple[Any, ...]], KeySlices]:
    """Return key columns, rows (time, keys), and what of them is replaced."""
    names = data.draw(st.lists(st.sampled_from(sorted(DOMAINS)), min_size=1, max_size=3, unique=True))
    keys = keys_of(names)
    rows = data.draw(st.lists(st.tuples(TIMES | st.none(), keys), max_size=30))
    of_keys = data.draw(st.dictionaries(keys, SPANS, max_size=5))
    only = KeySlices(tuple((key, own) for key, own in of_keys.items() if own), data.draw(SPANS))
    return names, [(at, *key) for at, key in rows], only


def table(names: list[str], rows: list[tuple[Any, ...]]) -> pa.Table:
    kinds = [pa.int64(), *(DOMAINS[name][0] for name in names)]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(kinds)
    return pa.table([pa.array(c, k) for c, k in zip(columns, kinds, strict=True)], ["at", *names])


def naive(row: tuple[Any, ...], only: KeySlices) -> bool:
    """Return whether a row is replaced."""
    at, key = row[0], row[1:]
    return at is not None and (at in only.whole or any(own == key and at in spans for own, spans in only.of_keys))


@given(st.data())
def test_a_row_is_replaced_if_its_key_has_its_slice(data: st.DataObject) -> None:
    """
    Of rows with any keys, nulls too, in spans that are open or not, exactly those that a loop finds.
    """
    names, rows, only = drawn(data)

    found = is_replaced(table(names, rows), names, "at", TimeType.BIGINT, only)

    assert [naive(row, only) for row in rows] == list(found)


@given(st.data())
def test_what_is_in_slices_is_the_part_in_them(data: st.DataObject) -> None:
    """
    A row is in the part if it is in the whole and in the spans.
    """
    _, rows, only = drawn(data)
    spans = data.draw(SPANS)

    part = only.within(spans)

    assert [naive(row, only) and row[0] in spans for row in rows] == [naive(row, part) for row in rows]


@pytest.mark.parametrize("seed", range(4))
def test_no_file_and_no_row_of_a_key_is_left_out(tmp_path: Path, seed: int) -> None:
    """
    Of random files every one that has a replaced row may hold one, some others are known to have none, and reading gives exactly
    the rows of the keys in the spans.
    """
    draw = random.Random(seed)
    names = draw.sample(sorted(set(DOMAINS) - {"raw"}), 2)
    path = str(tmp_path / "t")
    rows: list[tuple[Any, ...]] = []
    for _ in range(12):
        few = [draw.sample(DOMAINS[name][1], 2) for name in names]
        at = draw.randrange(-50, 50)
        rows += (new := [(at + draw.randrange(5), *map(draw.choice, few)) for _ in range(4)])
        tables.append(path, table(names, new), feed=False)
    opened = DeltaTable(path)
    actions = pa.RecordBatchReader.from_stream(opened.get_add_actions(flatten=True)).read_all()
    ends = zip(*(actions[f"{end}.at"].to_pylist() for end in ("min", "max")), strict=True)
    spans = [SpanSet.of(Span(low, high + 1)) for low, high in ends]
    files = [pq.read_table(f"{path}/{name}").select(["at", *names]) for name in actions["path"].to_pylist()]
    in_files = [[tuple(row.values()) for row in of.to_pylist()] for of in files]
    counts = []
    for _ in range(20):
        start = draw.randrange(-50, 50)
        only = KeySlices(((draw.choice(rows)[1:], SpanSet.of(Span(start, start + draw.randrange(1, 60)))),))
        may = that_may_hold(actions, spans, names, only)
        assert not [
            of for of, is_open in zip(in_files, may, strict=True) if not is_open and any(naive(r, only) for r in of)
        ]
        counts.append(sum(may))
        bounds = {"max_rows": 1000, "max_bytes": 1 << 20, "max_opened": 1000}
        asked = ["at", *names], only.keyed, only.keys, names
        found = read_rows_of_keys(path, opened.version(), *asked, time="at", time_type=TimeType.BIGINT, **bounds)
        assert found is not None
        expected = table(names, [row for row in rows if naive(row, only)])
        assert sorted(map(repr, expected.to_pylist())) == sorted(map(repr, found.to_pylist()))
    assert min(counts) < len(files)


def test_rows_of_keys_are_read_from_a_store(bucket: str) -> None:
    """
    Files of a store are opened without a file system of Arrow; which rows are read does not depend on it.
    """
    path = f"{bucket}/t"
    rows = [[(0, "a"), (1, "b")], [(2, "a"), (3, None)]]
    for new in rows:
        write_deltalake(path, table(["text"], new), mode="append")
    bounds = {"max_rows": 1000, "max_bytes": 1 << 20, "max_opened": 1000}
    asked = ["at", "text"], SpanSet.of(Span(0, 3)), [("a",)], ["text"]
    found = read_rows_of_keys(path, 1, *asked, time="at", time_type=TimeType.BIGINT, **bounds)

    assert found is not None
    assert [(0, "a"), (2, "a")] == sorted(tuple(row.values()) for row in found.to_pylist())

"""Which change feeds are worth reading, beside computing all that their files can have changed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from materializer.config import Config
from materializer.core.refresh.invalidation import Cause, Entry, InvalidationLog
from materializer.core.time.spans import EVERYTHING, Span, SpanSet
from materializer.errors import SourceDamagedError
from materializer.journal.events import SourceIdentity
from materializer.journal.state import AggregateState
from materializer.lake.capture.worth import FeedSize
from materializer.lake.extent import Extent
from materializer.lake.file_times import FileStat
from materializer.services.observe.feed_limit import FeedLimit

CLEAN = AggregateState("a", "bars", {}, "d", SourceIdentity("p", "t"), {}, {}, cursor=3, log=InvalidationLog())
WHOLE = Span(0, 1_000)
BYTES = 20
"""Bytes of a row."""


def extent(rows: int, files: int = 10) -> Extent:
    """Return rows that are spread evenly over the time from 0 to 1,000."""
    each = 1_000 // files
    return Extent(
        4, tuple(FileStat(rows // files, rows // files * BYTES, i * each, (i + 1) * each) for i in range(files))
    )


def limit(rows: int, **options: Any) -> FeedLimit:
    """Return the limit of a source with so many rows."""
    given: dict[str, Any] = {
        "config": Config(), "engine": "", "needs_feed": False, "has_keys": False, "is_readable": lambda: True,
        "raw": lambda: extent(rows), "stored": lambda: extent(1_000),
    }  # fmt: skip
    return FeedLimit(**(given | options))


def size(rows: int, files: int = 1, by_library: int = 0) -> FeedSize:
    return FeedSize(rows, rows * BYTES, files, by_library)


def why(found: FeedLimit, changed: FeedSize, span: Span | None = WHOLE, state: AggregateState = CLEAN) -> str:
    return found.of(state)(changed, lambda: None if span is None else SpanSet.of(span))


def test_half_of_all_rows_is_more_than_all_of_them_cost() -> None:
    """
    The reason says how much would have been read.
    """
    expected = "reading 500,000 changed rows in 1 file costs more than it can save"

    assert expected == why(limit(500_000), size(500_000))


@pytest.mark.parametrize("rows", [1, 100, 50_000])
@pytest.mark.parametrize("source", [10, 10_000, 1_000_000, 1_000_000_000])
def test_few_changed_rows_are_read_always(rows: int, source: int) -> None:
    """
    However small or large the source is, whatever of it is dirty, and without a look at its files.
    """

    def never() -> Extent:
        raise AssertionError("nobody has to know")

    found = limit(source, raw=never, stored=never, has_keys=True)

    assert "" == why(found, size(rows), state=replace(CLEAN, log=InvalidationLog.everything()))


def test_the_larger_the_source_the_more_is_read() -> None:
    """
    What is refused of some source is refused of each smaller one, and whatever has more rows is refused, too.
    """
    sources = [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000]
    changes = [10_000, 100_000, 400_000, 1_000_000, 10_000_000, 100_000_000]
    refused = [[bool(why(limit(source), size(rows))) for rows in changes] for source in sources]

    assert all(row == sorted(row) for row in refused)
    assert all(list(column) == sorted(column, reverse=True) for column in zip(*refused, strict=True))
    assert [False, True] == [refused[-1][2], refused[0][3]]


def test_only_buckets_that_can_have_changed_count() -> None:
    """
    As many changed rows in a hundredth of the time are not worth reading: computing that hundredth is cheap.
    """
    found = limit(100_000_000)

    assert "" == why(found, size(400_000))
    assert "" != why(replace(found, raw=lambda: extent(1_000_000)), size(400_000), Span(0, 10))


def test_what_is_computed_anyway_is_not_saved() -> None:
    """
    Of buckets that are new, or known by files, or declared dirty, the feed saves nothing; of those known by a feed it does.
    """
    found, changed = limit(100_000_000), size(400_000)
    for after, cause in ((None, Cause.NEW), (None, Cause.FILES), (None, Cause.INVALIDATED)):
        log = InvalidationLog((Entry(EVERYTHING, after, cause),))
        assert "is dirty already" in why(found, changed, state=replace(CLEAN, log=log))

    log = InvalidationLog((Entry(EVERYTHING, 2, Cause.CHANGE),))
    assert "" == why(found, changed, state=replace(CLEAN, log=log))


@pytest.mark.parametrize(("frozen", "engine", "is_read"), [(1, "", True), (0, "", False), (0, "session_window", True)])
def test_below_a_frozen_bound_only_the_feed_knows(frozen: int, engine: str, is_read: bool) -> None:
    """
    If the changed files reach below it, the feed is read whatever it costs; of an engine wherever they lie.
    """
    found = why(limit(500_000, engine=engine), size(500_000), state=replace(CLEAN, frozen=frozen))

    assert is_read == (found == "")


def test_a_file_that_does_not_tell_its_times_needs_its_feed() -> None:
    """
    Else all that was ever computed would be unknown.
    """
    assert "" == why(limit(500_000), size(5_000_000), None)


@pytest.mark.parametrize(
    ("options", "is_read"),
    [
        ({}, False),
        ({"is_readable": lambda: False}, True),
        ({"config": Config(executor="spark")}, True),
        ({"raw": lambda: extent(200_000_000)}, True),
    ],
)
def test_spark_does_not_start_to_learn_what_can_be_computed_without_it(options: dict[str, Any], is_read: bool) -> None:
    """
    More rows than the driver reads are Spark's. It starts for them where it has to start anyway.
    """
    found = limit(1_000_000, **options)
    config = replace(found.config, driver_lane_rows=1_000)

    assert is_read == ("" == why(replace(found, config=config), size(100_000)))


def test_damaged_partials_are_for_the_refresh_to_report() -> None:
    """
    What is stored then counts as nothing.
    """

    def damaged() -> Extent:
        raise SourceDamagedError("its log has a hole")

    assert "" != why(limit(500_000, stored=damaged), size(500_000))


def test_a_row_with_keys_takes_longer() -> None:
    """
    Its key is looked at, too.
    """
    assert [False, True] == [bool(why(limit(100_000, has_keys=keys), size(100_000))) for keys in (False, True)]


@pytest.mark.parametrize(
    ("options", "is_read"),
    [({}, False), ({"needs_feed": True}, True), ({"config": Config(local_rows=1_000)}, True)],
)
def test_an_engine_is_told_which_rows_changed_if_it_has_to_be(options: dict[str, Any], is_read: bool) -> None:
    """
    An engine that would compute everything instead is given the feed whatever it costs; another one as a continuous aggregate is.
    """
    found = limit(500_000, engine="session_window", **options)

    assert is_read == ("" == why(found, size(450_000)))


def test_files_that_only_the_library_reads_are_dearer() -> None:
    """
    It takes twice as long for each, as where a commit removed files, too.
    """
    assert why(limit(1_000_000), size(1_500, files=1_500, by_library=1_500))
    assert not why(limit(1_000_000), size(1_500, files=1_500))

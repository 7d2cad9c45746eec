"""Output handlers: functions that are given what a refresh published."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from materializer.api import Materializer
from materializer.config import Config
from materializer.errors import OutputHandlerError, UsageError

TRADES = [("00:10", "A", 1), ("00:50", "B", 2), ("01:10", "A", 3)]
ENGINE = {
    "engine": "time_series",
    "time": "ts",
    "keys": ["sym"],
    "window_size": "1 hour",
    "step": "1 hour",
    "measures": {"total": "sum(price)"},
    "output_handler": "keep",
}


class Kept:
    """A handler that keeps what it is given, and fails when told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, object]] = []
        self.fails = False

    def __call__(self, message, version) -> None:
        """Keep rows as (symbol, total), or the tuple as it is."""
        if self.fails:
            raise ConnectionError("the queue is away")
        rows = message if isinstance(message, tuple) else sorted((r["sym"], r["total"]) for r in message.collect())
        self.calls.append((version, rows))


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.mark.parametrize("site", [200_000, 0], ids=["driver", "spark"], indirect=True)
def test_a_handler_is_given_what_is_new_or_changed(site, kept):
    """
    First everything, then only the bucket that changed; nothing when nothing did.
    """
    site.table().trade(*TRADES)
    lake = site.opened_for(keep=kept)
    lake.define(
        "hourly",
        "trades",
        time="ts",
        width="1 hour",
        keys=["sym"],
        measures={"total": "sum(price)"},
        properties={"output_handler": "keep"},
    )
    lake.refresh("hourly")
    site.tables["trades"].trade(("00:20", "A", 10))
    lake.refresh("hourly")
    lake.refresh("hourly")

    assert [[("A", 1), ("A", 3), ("B", 2)], [("A", 11)]] == [rows for _, rows in kept.calls]
    assert kept.calls[0][0] < kept.calls[1][0]


def test_a_handler_that_failed_is_given_the_rows_again(site, kept):
    """
    The refresh is done all the same; the next one, which finds nothing to do, brings the rows.
    """
    site.table().trade(*TRADES)
    lake = site.opened_for(keep=kept)
    lake.define("bars", "trades", **ENGINE)
    kept.fails = True

    with pytest.raises(OutputHandlerError, match="the queue is away") as failed:
        lake.refresh("bars")

    assert "what was refreshed so far is published" == failed.value.wrote
    assert 1 == len(site.published("bars"))
    kept.fails = False
    assert "up-to-date" == site.opened_for(keep=kept).refresh("bars").outcome
    assert [[("A", 1)]] == [rows for _, rows in kept.calls]


def test_a_handler_may_take_columns(site, kept):
    """
    As in the original: a tuple of columns, in the order of the output.
    """
    site.table().trade(*TRADES)
    lake = site.opened_for(keep=kept)
    lake.define("bars", "trades", **ENGINE, msg_as_table=False)
    lake.refresh("bars")

    [(_, columns)] = kept.calls
    output = DeltaTable(str(lake.root / "bars" / "output")).schema()
    found = dict(zip([f.name for f in output.fields], columns, strict=True))
    assert (["A"], [1], [True]) == (found["sym"], found["total"], found["is_final"])


def test_a_handler_that_nobody_knows_is_refused(site):
    """
    A process without the function writes nothing, so that no row passes the handler by.
    """
    site.table().trade(*TRADES)
    site.lake.define("bars", "trades", **ENGINE)
    before = site.files()

    with pytest.raises(UsageError, match="the handler 'keep', which this process does not know"):
        site.lake.refresh("bars")

    assert before == site.files()


@pytest.mark.parametrize("text", ["no.such.module:f", "json:no_such", "json:__doc__"])
def test_a_handler_that_cannot_be_had_is_refused(tmp_path, text):
    """
    Those of the configuration are imported when the lake is opened.
    """
    with pytest.raises(UsageError, match="output handler"):
        Materializer(tmp_path, config=Config(output_handlers=(text,)))


@pytest.mark.parametrize("name", ["not a name", "1st"])
def test_an_unfit_name_is_refused(tmp_path, name):
    """
    Handlers are named in definitions, so they need names that fit there.
    """
    with pytest.raises(UsageError, match="is no output handler"):
        Materializer(tmp_path, output_handlers={name: print})

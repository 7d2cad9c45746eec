"""A lake with everything that a report shows; its gate lets Spark find the rows that fail."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable

from materializer.api import Materializer
from materializer.config import Config
from materializer.errors import MaterializerError
from tests import tables

START: Final = datetime(2024, 1, 1, tzinfo=UTC)
DAYS: Final = 20
SCRIPT: Final = '<img src=x onerror="document.title=1"><script>document.title=1</script>'
"""What would change the page if it were markup."""
SUITE: Final = {
    "expectations": [
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {"column": "high", "max_value": 500},
            "severity": "critical",
        }
    ],
}
SCHEMA: Final = pa.schema([("ts", pa.timestamp("us", "UTC")), ("sym", pa.string()), ("price", pa.int64())])
MEASURES: Final = "count(*) AS n, avg(price) AS mean, max(price) AS high"


def trades(
    days: range, *, minute: int = 0, price: int = 100, every: int = 1, name: str = SCRIPT, start: datetime = START
) -> pa.Table:
    """Return a trade in each hour of some days, of AAPL and of another name in turn."""
    hours = [start + timedelta(days=d, hours=h, minutes=minute) for d in days for h in range(0, 24, every)]
    names = [("AAPL", name)[i % 2] for i in range(len(hours))]
    return pa.table({"ts": hours, "sym": names, "price": [price + i % 7 for i in range(len(hours))]}, schema=SCHEMA)


def numbers(first: int, count: int) -> pa.Table:
    """Return rows of integer time."""
    return pa.table({"t": list(range(first, first + count)), "v": [float(i % 13) for i in range(count)]})


def lake(root: Path, *, name: str = SCRIPT, start: datetime = START) -> Materializer:
    """Return a lake of seven aggregates, with a text in each place where a lake has texts, over some days from a start.

    ``hourly`` was refreshed, corrected and is behind; ``daily`` rolls it up in New York's days; ``held`` has a bucket that its
    gate holds back; ``kept`` is frozen and has let old rows go; ``empty`` was never refreshed; ``ticks`` has integer time; ``gone``
    has lost its source.
    """
    source, some = root / "trades", partial(trades, name=name, start=start)
    tables.append(source, some(range(DAYS)))
    config = Config(sources={each: str(root / each) for each in ("trades", "numbers", "lost")})
    made = Materializer(root / "lake", config=config)
    suite = root / "suite.json"
    suite.write_text(json.dumps(SUITE | {"name": f"sane {name}"}), encoding="utf-8")
    tables.append(root / "numbers", numbers(0, 1_000))
    tables.append(root / "lost", some(range(2)))
    view = "CREATE MATERIALIZED VIEW"
    policy = "'refresh.start_offset' = '10 days', 'refresh.schedule' = '0 * * * *', 'refresh.max_staleness' = '1 day'"
    made.apply(
        f"{view} hourly COMMENT 'Trades of AAPL and {name.replace(chr(39), chr(39) * 2)}' TBLPROPERTIES ('output.change_feed' = 'true', "
        f"'quality.canaries' = '2', {policy}) AS SELECT time_bucket('1 hour', ts) AS hour, sym, {MEASURES} FROM trades GROUP BY ALL"
    )
    made.refresh("hourly", executor="local")
    made.apply(
        f"{view} daily AS SELECT time_bucket('1 day', hour, 'America/New_York') AS day, rollup(mean) AS mean, rollup(n) AS n "
        "FROM hourly GROUP BY ALL"
    )
    made.apply(
        f"{view} held TBLPROPERTIES ('quality.suite' = '{suite}', 'quality.on_failure' = 'buckets') "
        f"AS SELECT time_bucket('6 hours', ts) AS at, {MEASURES} FROM trades GROUP BY ALL"
    )
    made.apply(
        f"{view} kept TBLPROPERTIES ('source.retention' = '10 days', 'output.retention' = '15 days') "
        f"AS SELECT time_bucket('1 day', ts) AS day, {MEASURES} FROM trades GROUP BY ALL"
    )
    made.apply(f"{view} empty AS SELECT time_bucket('1 month', ts) AS month, {MEASURES} FROM trades GROUP BY ALL")
    made.apply(f"{view} ticks AS SELECT time_bucket(100, t) AS at, sum(v) AS total FROM numbers GROUP BY ALL")
    made.apply(f"{view} gone AS SELECT time_bucket('1 day', ts) AS day, {MEASURES} FROM lost GROUP BY ALL")
    for each in ("daily", "held", "kept", "ticks", "gone"):
        made.refresh(each, executor="local")
    tables.append(source, some(range(3, 4), minute=20, every=6))
    first, last = ((start + timedelta(days=d)).isoformat() for d in (4, 5))
    DeltaTable(str(source)).update(
        predicate=f"price = 103 AND ts >= '{first}' AND ts < '{last}'", updates={"price": "price + 5"}
    )
    for each in ("hourly", "daily", "kept"):
        _refresh(made, each)
    tables.append(source, some(range(12, 13), minute=30, price=9_000, every=12))
    _refresh(made, "held")
    (root / "lost").rename(root / "was-lost")
    return made


def _refresh(made: Materializer, name: str) -> None:
    try:
        made.refresh(name, executor="local")
    except MaterializerError as exc:
        if exc.code != "quality.gate":
            raise


def page_of(script: str) -> dict[str, Any]:
    """Return the page inside a script that a report has of an aggregate."""
    _, _, rest = script.partition(",")
    page: dict[str, Any] = json.loads(rest.removesuffix(");"))
    return page

"""The first hour with a lake of one's own, as a script: what is typed, what has to be said, and what is done because of it.

The source is a shop's events: epoch milliseconds, a struct, JSON in a text, refunds, null keys. Nothing of it is a fixture of other tests. Each hint
is followed by the step that does what it says; rows are compared with a loop over the events.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from msgspec import Struct, field

BEGIN: Final = datetime(2026, 11, 1, tzinfo=UTC)
DAYS: Final = 14
A_DAY: Final = 1_430
SCHEMA: Final = pa.schema(
    [
        ("event_id", pa.int64()),
        ("ts_ms", pa.int64()),
        ("kind", pa.string()),
        ("country", pa.string()),
        ("payload", pa.struct([("amount", pa.float64()), ("items", pa.int32()), ("sku", pa.string())])),
        ("body", pa.string()),
    ]
)
MILLIS: Final = "TBLPROPERTIES ('time.resolution' = 'ms')\n"
REVENUE: Final = (
    f"CREATE MATERIALIZED VIEW revenue\n{MILLIS}AS SELECT time_bucket('1 day', ts_ms) AS day, country, "
    "round(sum(payload.amount), 2) AS revenue, count(*) AS events FROM events\nGROUP BY time_bucket('1 day', ts_ms), country"
)
OTHERS: Final[Mapping[str, str]] = {
    "hourly": "time_bucket('1 hour', ts_ms) AS hour, country, sum(payload.amount) AS revenue, count(*) AS events FROM events\n"
    "GROUP BY time_bucket('1 hour', ts_ms), country",
    "refunds": "time_bucket('1 day', ts_ms) AS day, count(*) AS refunds FROM events WHERE kind = 'refund'\nGROUP BY time_bucket('1 day', ts_ms)",
    "skus": "time_bucket('1 week', ts_ms) AS week, payload.sku AS sku, sum(payload.items) AS items FROM events WHERE kind = 'order'\n"
    "GROUP BY time_bucket('1 week', ts_ms), payload.sku",
    "bodies": "time_bucket('1 day', ts_ms) AS day, max(CAST(get_json_object(body, '$.amount') AS DOUBLE)) AS top FROM events\n"
    "GROUP BY time_bucket('1 day', ts_ms)",
    "vienna": "time_bucket('1 day', ts_ms, 'Europe/Vienna') AS day, count(DISTINCT country) AS countries FROM events\n"
    "GROUP BY time_bucket('1 day', ts_ms, 'Europe/Vienna')",
    "daily": "time_bucket('1 day', hour) AS day, country, rollup(revenue) AS revenue, rollup(events) AS events FROM hourly\n"
    "GROUP BY time_bucket('1 day', hour), country",
    "visits": "session_window.start AS begun, country, count(*) AS n FROM events\nGROUP BY session_window(ts_ms, '30 minutes'), country",
}
"""Seven definitions beside that of the revenue: a struct, JSON in a text, a zone, a roll-up, sessions."""
INTERNAL: Final = re.compile(
    r"\b17[0-9]{11}\b|\bpartials?\b(?! at version)|\bslice\b|\bmz_|\bk_\w+|\bslot\b|Traceback|\bNone\b"
)
"""What a newcomer is never shown: times as numbers, and names of ours."""


def suite(**checks: Any) -> str:
    """Return a suite of critical expectations: (type, other arguments) by column."""
    listed = [
        {"type": kind, "kwargs": {"column": column, **more}, "severity": "critical"}
        for column, (kind, more) in checks.items()
    ]
    return json.dumps({"name": "revenue", "expectations": listed})


class Shop:
    """A folder with the events of a shop.

    Args:
        folder: The working directory.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.table = "events"
        self.events: list[dict[str, Any]] = []
        self._rng = random.Random(7)
        self._made = 0

    def write(self, count: int, day: int, days: int = 1) -> None:
        """Commit some events of some days."""
        made = [self._event(BEGIN + timedelta(days=day), days) for _ in range(count)]
        self.events += made
        write_deltalake(str(self.folder / self.table), pa.Table.from_pylist(made, schema=SCHEMA), mode="append")

    def refuse(self, day: int) -> None:
        """Commit one event that an expectation does not let through: a refund of a million."""
        event = self._event(BEGIN + timedelta(days=day), 1) | {"country": "AT"}
        event["payload"] = {"amount": -1_000_000.0, "items": 1, "sku": "S1"}
        self.events.append(event)
        write_deltalake(str(self.folder / self.table), pa.Table.from_pylist([event], schema=SCHEMA), mode="append")

    def correct(self) -> None:
        """Delete it."""
        [wrong] = [event for event in self.events if event["payload"]["amount"] == -1_000_000.0]
        self.events.remove(wrong)
        DeltaTable(str(self.folder / self.table)).delete(f"event_id = {wrong['event_id']}")

    def turn_on_the_feed(self) -> None:
        """Do what the printed statement does."""
        DeltaTable(str(self.folder / self.table)).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})

    def define(self, name: str, text: str) -> None:
        """Write a file of definitions."""
        (self.folder / "sql").mkdir(exist_ok=True)
        (self.folder / "sql" / f"{name}.sql").write_text(f"{text}\n", encoding="utf-8")

    def define_all(self) -> None:
        """Write all eight."""
        shutil.rmtree(self.folder / "sql", ignore_errors=True)
        self.define("revenue", REVENUE)
        for name, text in OTHERS.items():
            self.define(name, f"CREATE MATERIALIZED VIEW {name}\n{MILLIS}AS SELECT {text}")

    def expect(self, **checks: Any) -> None:
        """Write the suite of the revenue."""
        (self.folder / "expectations").mkdir(exist_ok=True)
        (self.folder / "expectations" / "revenue.json").write_text(suite(**checks), encoding="utf-8")

    def configure(self, table: str) -> None:
        """Write the configuration: where the source is, and an environment for development."""
        text = f'[sources]\nevents = "{table}"\n\n[env.dev]\nlake = "dev"\nsource.sample = "1 day"\n'
        (self.folder / "materializer.toml").write_text(text, encoding="utf-8")

    def move(self) -> None:
        """Move the source."""
        shutil.move(self.folder / self.table, self.folder / "moved")
        self.table = "moved"

    def lose_output(self, name: str) -> None:
        """Delete the folder of an output."""
        shutil.rmtree(self.folder / "lake" / name / "output")

    def revenue(self) -> dict[tuple[str, str | None], tuple[float, int]]:
        """Return revenue and events by day and country, as a loop over the events has them."""
        amounts: dict[tuple[str, str | None], float] = defaultdict(float)
        counted: Counter[tuple[str, str | None]] = Counter()
        for event in self.events:
            group = f"{datetime.fromtimestamp(event['ts_ms'] / 1000, UTC):%Y-%m-%d}", event["country"]
            amounts[group] += event["payload"]["amount"] or 0
            counted[group] += 1
        return {group: (round(amounts[group], 2), counted[group]) for group in counted}

    def published(self, name: str = "revenue", lake: str = "lake") -> dict[tuple[str, str | None], tuple[float, int]]:
        """Return the same of an output."""
        rows = DeltaTable(str(self.folder / lake / name / "output")).to_pyarrow_table().to_pylist()
        return {
            (f"{datetime.fromtimestamp(row['day'] / 1000, UTC):%Y-%m-%d}", row["country"]): (
                round(row["revenue"], 2),
                row["events"],
            )
            for row in rows
        }

    def _event(self, first: datetime, days: int) -> dict[str, Any]:
        at = first + timedelta(seconds=self._rng.randrange(days * 86_400))
        kind = self._rng.choices(["order", "refund", "view"], [6, 1, 3])[0]
        amount = None if kind == "view" else self._rng.randrange(500, 20_000) / 100 * (-1 if kind == "refund" else 1)
        payload = {"amount": amount, "items": self._rng.randrange(1, 6), "sku": f"S{self._rng.randrange(40)}"}
        self._made += 1
        return {
            "event_id": self._made,
            "ts_ms": int(at.timestamp() * 1000),
            "kind": kind,
            "country": self._rng.choice(["AT", "DE", "FR", None]),
            "payload": payload,
            "body": json.dumps(payload),
        }


class Typed(Struct, frozen=True):
    """A command that is typed.

    Args:
        line: The command.
        says: Words that it prints, in this order, line breaks counted as blanks.
        status: Its exit status.
        before: What the newcomer, or the shop, does before.
        is_right: Whether the published revenue is then that of the events; None where it is not asked.
        never: Words that it does not print, besides :data:`INTERNAL`.
    """

    line: str
    says: tuple[str, ...] = ()
    status: int = 0
    before: Callable[[Shop], object] = field(default=lambda _: None)
    is_right: bool | None = None
    never: tuple[str, ...] = ()


def _days(shop: Shop) -> None:
    for day in range(DAYS):
        shop.write(A_DAY, day)


def _own(select: str, *, millis: bool = True) -> Callable[[Shop], None]:
    return lambda shop: shop.define(
        "revenue", f"CREATE MATERIALIZED VIEW revenue\n{MILLIS if millis else ''}AS SELECT {select}"
    )


_BY_DAY: Final = "GROUP BY time_bucket('1 day', ts_ms), country"
_BUCKET: Final = "time_bucket('1 day', ts_ms) AS day, country"
HOUR: Final = (
    Typed(
        "materializer new events --yes",
        (
            "wrote sql/events_1h.sql",
            "has no change feed",
            "delta.enableChangeDataFeed = true",
            "materializer apply sql/events_1h.sql",
        ),
        before=_days,
    ),
    # what people type first, and where each hint leads
    Typed(
        "materializer apply sql",
        ("definition.no-bucket", "write date_trunc('day', ts_ms)"),
        65,
        lambda shop: (
            shutil.rmtree(shop.folder / "sql"),
            _own("ts_ms::date AS day, country, sum(payload.amount) AS revenue FROM events GROUP BY 1, 2", millis=False)(
                shop
            ),
        ),
    ),
    Typed(
        "materializer apply sql",
        ("definition.width-type", "add the property 'time.resolution' = 'ms'"),
        65,
        _own(
            "date_trunc('day', ts_ms) AS day, country, sum(payload.amount) AS revenue FROM events GROUP BY 1, 2",
            millis=False,
        ),
    ),
    Typed(
        "materializer apply sql --dry-run",
        ("revenue: would be created",),
        0,
        _own("date_trunc('day', ts_ms) AS day, country, sum(payload.amount) AS revenue FROM events GROUP BY 1, 2"),
    ),
    Typed(
        "materializer apply sql",
        ("definition.time-column", "divide ts_ms, with the property 'time.resolution' = 'ms'"),
        65,
        _own(
            "time_bucket('1 day', timestamp_millis(ts_ms)) AS day, country, sum(payload.amount) AS revenue FROM events GROUP BY 1, 2"
        ),
    ),
    Typed(
        "materializer apply sql",
        ("definition.wrong-type", "CAST(country AS DOUBLE)", "try_cast"),
        65,
        _own(f"{_BUCKET}, sum(country) AS countries FROM events {_BY_DAY}"),
    ),
    Typed(
        "materializer apply sql --dry-run",
        ("revenue: would be created",),
        0,
        _own(f"{_BUCKET}, sum(try_cast(country AS DOUBLE)) AS countries FROM events {_BY_DAY}"),
    ),
    Typed(
        "materializer apply sql",
        ("definition.window-function", "the engine `reactive_state`"),
        65,
        _own("ts_ms, country, avg(payload.amount) OVER (PARTITION BY country ORDER BY ts_ms) AS mean FROM events"),
    ),
    Typed(
        "materializer apply sql",
        ("a `;` is missing after `country`", "write `;` after `country`"),
        65,
        lambda shop: shop.define("revenue", REVENUE + "\n" + REVENUE.replace("VIEW revenue", "VIEW sales")),
    ),
    Typed(
        "materializer apply sql --dry-run",
        ("revenue: would be created", "sales: would be created"),
        0,
        lambda shop: shop.define("revenue", REVENUE + ";\n" + REVENUE.replace("VIEW revenue", "VIEW sales")),
    ),
    Typed(
        "materializer apply sql",
        ("there is no table 'evnts'", "did you mean `events`?"),
        65,
        lambda shop: shop.define("revenue", REVENUE.replace("FROM events", "FROM evnts")),
    ),
    # eight definitions; the feed is named once
    Typed(
        "materializer apply sql",
        ("revenue: created; everything is dirty", "has no change feed", "delta.enableChangeDataFeed = true"),
        before=lambda shop: (shop.configure("events"), shop.define_all()),
    ),
    Typed("materializer apply sql", ("revenue: unchanged",), before=Shop.turn_on_the_feed, never=("change feed",)),
    Typed("materializer plan revenue --why", ("dirty", "never materialised", "nothing is stored yet to merge into")),
    Typed("materializer refresh revenue", ("revenue: true in", "2026-11-15T00:00:00Z"), is_right=True),
    Typed("materializer backfill --all", ("visits: true in", "2026-11-15T00:00:00Z"), is_right=True),
    Typed("materializer status", ("revenue fresh",), never=("behind", "unreadable")),
    Typed("materializer show revenue --limit 3", ("2026-11-14T00:00:00Z",)),
    Typed("materializer show visits --limit 3", ("begun", "2026-11-1")),
    Typed("materializer export revenue --to revenue.csv", ("56 rows of version",)),
    # late rows and refunds
    Typed(
        "materializer status revenue",
        ("revenue: behind", "captured up to version"),
        before=lambda shop: shop.write(40, 3),
        is_right=False,
    ),
    Typed("materializer refresh --all", ("revenue: true in",), is_right=True),
    Typed("materializer verify revenue", ("revenue: equal to plain Spark", "56 rows"), is_right=True),
    # a suite, and a definition that changes
    Typed(
        "materializer apply sql",
        (
            "revenue: changed in its data; is the next version",
            "+ suite of the output, expect_column_values_to_be_between of revenue: min_value -1000, severity critical",
            "'materializer build revenue' builds and publishes it",
            "not active before that: expect_column_values_to_not_be_null of paid",
        ),
        before=lambda shop: (
            shop.define(
                "revenue", REVENUE.replace("count(*) AS events", "count(*) AS events, count(payload.amount) AS paid")
            ),
            shop.expect(
                revenue=("expect_column_values_to_be_between", {"min_value": -1000}),
                paid=("expect_column_values_to_not_be_null", {}),
            ),
        ),
        never=('"expectations"',),
    ),
    Typed(
        "materializer refresh revenue",
        ("what is published is up to date", "'materializer build revenue' builds and publishes it"),
    ),
    Typed("materializer build revenue", ("revenue: the next version is published",), is_right=True),
    Typed(
        "materializer refresh revenue",
        ("does not meet its expectations", "nothing was published; the buckets stay dirty"),
        1,
        lambda shop: shop.refuse(5),
        is_right=False,
    ),
    Typed("materializer refresh --all", ("revenue: true in",), before=Shop.correct, is_right=True),
    Typed(
        "materializer apply sql --build",
        ("revenue: changed", "+ measure largest: max(payload.amount)", "revenue: the next version is published"),
        before=lambda shop: shop.define(
            "revenue",
            REVENUE.replace(
                "count(*) AS events",
                "count(*) AS events, count(payload.amount) AS paid, max(payload.amount) AS largest",
            ),
        ),
        is_right=True,
        never=("not active",),
    ),
    # what breaks
    Typed(
        "materializer status",
        ("revenue output-unreadable", "'materializer repair revenue' makes it again"),
        before=lambda shop: shop.lose_output("revenue"),
    ),
    Typed(
        "materializer refresh revenue",
        ("run 'materializer repair revenue'",),
        66,
    ),
    Typed(
        "materializer repair revenue --yes",
        ("its output table is not there", "the output is made again from 56 stored rows"),
        is_right=True,
    ),
    Typed(
        "materializer refresh revenue",
        ("there is no table at", "[sources] of materializer.toml", "'materializer apply FILE'"),
        66,
        Shop.move,
    ),
    Typed(
        "materializer apply sql",
        ("revenue: changed in its metadata; nothing is computed again",),
        before=lambda shop: shop.configure("moved"),
    ),
    Typed("materializer refresh --all", ("revenue: true in",), before=lambda shop: shop.write(10, 13), is_right=True),
    # another lake
    Typed(
        "materializer apply sql --env dev",
        ("revenue: created", "only rows since 2026-11-14T00:00:00Z are read (source.sample = '1 day')"),
    ),
    Typed(
        "materializer diff revenue --against dev",
        ("nothing of 'revenue' is materialized", "materializer backfill revenue"),
        64,
    ),
    Typed("materializer backfill --all --env dev", ("revenue: true in",)),
    Typed(
        "materializer diff revenue --against dev",
        ("revenue: 4 rows equal", "[2026-11-14T00:00:00Z, 2026-11-15T00:00:00Z)"),
    ),
    Typed("materializer diff daily --against dev", ("daily: 4 rows equal",)),
    Typed("materializer diff visits --against dev", ("visits:", "only there", "window_start=2026-11-14T"), 1),
    Typed(
        "materializer diff visits --against other",
        ("rows equal",),
        before=lambda shop: shutil.copytree(shop.folder / "lake", shop.folder / "other"),
    ),
    Typed("materializer history revenue --limit 2", ("done",)),
    Typed(
        "materializer doctor", ("expectations/events_1h.json belongs to no aggregate", "0 errors, 1 warning")
    ),  # `new` wrote it, and its definition was not applied
)
"""The hour."""

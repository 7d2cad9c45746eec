"""A lake without a JVM with several aggregates over one source, each of columns of its own and of buckets that do not nest."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from msgspec import Struct
from msgspec.structs import replace

from materializer.adapters.cli.call import CommandCall, guarded
from materializer.adapters.cli.commands import policies, refreshing
from materializer.adapters.cli.output import TextOutput
from materializer.lake.reads import SharedReads
from materializer.services.commit import lake as commit
from materializer.spark.run.executor import Executor
from tests import tables
from tests.benchmarks.files import opened
from tests.services.keyed import TIME, Keyed
from tests.services.no_spark import BY_ROWS, LocalLake, Opened

HOUR: Final = 3_600_000_000
DAY: Final = 24 * HOUR
SCHEMA: Final = pa.schema([("ts", TIME), ("shop", pa.string()), ("v", pa.int64()), ("w", pa.int64())])
Row = tuple[int, str | None, int | None, int | None]
Measured = tuple[Any, ...]


class View(Struct, frozen=True):
    """An aggregate: its definition, and what it means as a loop.

    Args:
        name: Its name.
        minutes: Length of its buckets.
        by: Its key column; "" for none.
        measures: The measures as SQL.
        of: Returns the measures of (v, w) of some rows.
    """

    name: str
    minutes: int
    by: str
    measures: str
    of: Callable[[Sequence[tuple[int | None, int | None]]], Measured]

    @property
    def sql(self) -> str:
        """The definition."""
        key = f"{self.by}, " if self.by else ""
        return (
            f"CREATE MATERIALIZED VIEW {self.name} TBLPROPERTIES ('refresh.start_offset' = 'none', "
            f"'refresh.schedule' = '@hourly') AS SELECT time_bucket('{self.minutes} minutes', ts) AS at, {key}"
            f"{self.measures} FROM sales GROUP BY ALL;"
        )


def _sum(values: Collection[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def _max(values: Collection[int | None]) -> int | None:
    return max((v for v in values if v is not None), default=None)


VIEWS: Final = (
    View("most_v", 50, "", "max(v) AS most", lambda rows: (_max([v for v, _ in rows]),)),
    View("sum_v", 70, "shop", "sum(v) AS v, count(*) AS n", lambda rows: (_sum([v for v, _ in rows]), len(rows))),
    View("most_w", 110, "shop", "max(w) AS most", lambda rows: (_max([w for _, w in rows]),)),
    View("sum_w", 130, "", "sum(w) AS w, count(w) AS n", lambda rows: (_sum([w for _, w in rows]), _known(rows))),
    View("both", 170, "shop", "max(v) AS v, max(w) AS w", lambda rows: tuple(map(_max, zip(*rows, strict=True)))),
)


def _known(rows: Sequence[tuple[int | None, int | None]]) -> int:
    return sum(w is not None for _, w in rows)


class Several(LocalLake):
    """A lake over the table ``sales``.

    Args:
        root: Its folder.
        views: Its aggregates.
        reads: What a command may remember.
        partitioned: Whether the files of the table are divided by shop.
        on_checkpoint: Called before each step.
    """

    def __init__(
        self,
        root: Path,
        views: Sequence[View] = VIEWS,
        *,
        reads: SharedReads | None = None,
        partitioned: bool = False,
        on_checkpoint: Callable[[str], None] = lambda _: None,
    ) -> None:
        tables.create(root / "sales", SCHEMA, partition_by=["shop"] if partitioned else None)
        super().__init__(root, rows=100_000, size=1 << 26, engine=Keyed())
        self.views = views
        executor = Executor(BY_ROWS, None, {}, started=Keyed())  # type: ignore[arg-type]
        wired: commit.Lake = replace(self.wired, reads=reads or SharedReads(), on_checkpoint=on_checkpoint)
        self.wired, self.opened = wired, Opened(wired, executor)
        self.apply(*(view.sql for view in views))

    @property
    def sales(self) -> DeltaTable:
        """The source."""
        return DeltaTable(str(self.root / "sales"))

    def write(self, *rows: Row, **more: Any) -> None:
        """Commit rows (microseconds, shop, v, w)."""
        times, *others = zip(*rows, strict=True)
        columns = [pa.array(times, pa.int64()).cast(TIME)]
        columns += [pa.array(c, f.type) for c, f in zip(others, list(SCHEMA)[1:], strict=True)]
        write_deltalake(str(self.root / "sales"), pa.table(columns, schema=SCHEMA), mode="append", **more)

    def fill(self, days: int) -> None:
        """Commit a file for each day, with a row each six minutes from six to six, and numbers that tell it from the others."""
        for day in range(days):
            times = range(day * DAY + 6 * HOUR, day * DAY + 18 * HOUR, HOUR // 10)
            self.write(*((t, "ab"[i % 2], 1000 * day + i, -i) for i, t in enumerate(times)))

    def command(self, what: str, now: str = "2024-03-01T00:00:00Z") -> tuple[int, str]:
        """Run ``refresh --all``, ``backfill --all`` or ``policy run --due``; return its exit status and what it printed."""
        out, err = io.StringIO(), io.StringIO()
        call = CommandCall(TextOutput(out, err), opened=self.opened)
        bodies: dict[str, Callable[[], None]] = {
            "refresh": lambda: refreshing.refresh(call, every=True),
            "backfill": lambda: refreshing.backfill(call, every=True),
            "policy": lambda: policies.run(call, due=True, now=now),
        }
        return guarded(call, bodies[what]), out.getvalue() + err.getvalue()

    @contextmanager
    def counted(self) -> Iterator[dict[str, int]]:
        """Count how often files of the source are opened in the block, and their bytes; the figures are there after it."""
        found: dict[str, int] = {}
        with opened([self.root / "sales"]) as files:
            yield found
        assert files.is_known
        found["files"] = len(files.files)
        found["openings"] = files.openings.total()
        found["bytes"] = sum(path.stat().st_size * times for path, times in files.openings.items())

    def published(self, view: View) -> list[Measured]:
        """Return the rows of an output."""
        rows = DeltaTable(str(self.root / view.name / "output")).to_pyarrow_table()
        rows = rows.set_column(0, "at", rows["at"].cast(pa.int64()))
        return sorted((tuple(row.values()) for row in rows.to_pylist()), key=repr)

    def naive(self, view: View, version: int | None = None) -> list[Measured]:
        """Return what an output must be at a version of the source, by a loop over all its rows."""
        floor = self.opened.grid(view.name).floor
        groups: dict[tuple[Any, ...], list[tuple[int | None, int | None]]] = defaultdict(list)
        rows = DeltaTable(str(self.root / "sales"), version=version).to_pyarrow_table(columns=SCHEMA.names)
        rows = rows.set_column(0, "ts", rows["ts"].cast(pa.int64()))
        for row in rows.to_pylist():
            if row["ts"] is not None:
                groups[floor(row["ts"]), *([row["shop"]] if view.by else [])].append((row["v"], row["w"]))
        return sorted(((*group, *view.of(values)) for group, values in groups.items()), key=repr)

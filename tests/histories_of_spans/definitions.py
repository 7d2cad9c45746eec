"""Random definitions over readings, each said twice: as SQL to the product, and as a loop over raw rows."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
from msgspec import Struct

MINUTE: Final = 60_000_000
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
WIDTHS: Final = {"15 minutes": 15 * MINUTE, "1 hour": HOUR, "1 day": DAY}
BERLIN: Final = ZoneInfo("Europe/Berlin")
NOTHING: Final = -(10**9)
"""Stands for a null value."""
MEASURES: Final = ("v", "n", "most", "mean", "opened", "closed")
Shown: TypeAlias = tuple[object, ...]
"""A row of an output: the bucket, the keys, the measures."""
Numbers: TypeAlias = npt.NDArray[np.int64]


class Rows(NamedTuple):
    """Raw rows as columns; no two rows have the same time.

    Args:
        id: The identity of a row.
        ts: Its time in microseconds.
        device: Its first key: the number of a text, or -1 for null.
        region: Its second key, too.
        v: Its value, or :data:`NOTHING`.
    """

    id: Numbers
    ts: Numbers
    device: Numbers
    region: Numbers
    v: Numbers

    def where(self, is_meant: npt.NDArray[np.bool_]) -> Rows:
        """Return some of the rows."""
        return Rows(*(column[is_meant] for column in self))


class Made(Struct, frozen=True):
    """A definition.

    Args:
        name: Its name.
        source: ``events``, or the aggregate that it rolls up.
        grid: Width of a bucket, a key of ``WIDTHS``.
        keys: What it groups by: ``device``, ``region``.
        measures: Some of ``MEASURES``; ``n`` is among them.
        is_local: Whether days are Berlin's.
        least: Rows with smaller values are left out; None: all rows count.
        more: The least count of a shown group, less one.
    """

    name: str
    source: str
    grid: str
    keys: tuple[str, ...]
    measures: tuple[str, ...]
    is_local: bool = False
    least: int | None = None
    more: int = 0

    @property
    def is_rollup(self) -> bool:
        """Whether it reads partials."""
        return self.source != "events"

    @property
    def sql(self) -> str:
        """The text of the definition."""
        calls = {"v": "sum(v)", "n": "count(*)", "most": "max(v)", "mean": "avg(v)", "opened": "first(v)"}
        calls["closed"] = "last(v)"
        if self.is_rollup:
            calls = {name: f"rollup({name})" for name in calls}
        zone = ", 'Europe/Berlin'" if self.is_local else ""
        bucket = f"time_bucket('{self.grid}', {'at' if self.is_rollup else 'ts'}{zone}) AS at"
        selected = [bucket, *self.keys, *(f"{calls[name]} AS {name}" for name in self.measures)]
        where = f" WHERE v >= {self.least}" if self.least is not None and not self.is_rollup else ""
        having = f" HAVING {calls['n']} > {self.more}" if self.more else ""
        return (
            f"CREATE MATERIALIZED VIEW {self.name} AS SELECT {', '.join(selected)} FROM {self.source}{where} "
            f"GROUP BY ALL{having};"
        )

    def buckets(self, ts: Numbers) -> Numbers:
        """Return the start of the bucket of each time."""
        width = WIDTHS[self.grid]
        if not self.is_local:
            return ts // width * width
        hours, places = np.unique(ts // HOUR, return_inverse=True)
        return np.array([_start_of_day(int(hour)) for hour in hours], np.int64)[places]

    def counted(self, rows: Rows) -> Rows:
        """Return the rows that pass WHERE."""
        return rows if self.least is None else rows.where(rows.v >= self.least)

    def groups(self, rows: Rows) -> list[Shown]:
        """Return all groups over raw rows, with their counts in the end, also those that HAVING leaves out."""
        rows = self.counted(rows)
        if not len(rows.ts):
            return []
        columns = [self.buckets(rows.ts), *(getattr(rows, key) for key in self.keys)]
        order = np.lexsort([rows.ts, *columns[::-1]])
        columns = [column[order] for column in columns]
        v, count = rows.v[order], len(order)
        begins = np.ones(count, bool)
        begins[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
        ends = np.flatnonzero(begins).tolist()
        heads = list(zip(*(column[begins].tolist() for column in columns), strict=True))
        values = v.tolist()
        found = []
        for head, start, end in zip(heads, ends, [*ends[1:], count], strict=True):
            members = values[start:end]
            known = [value for value in members if value != NOTHING]
            total = sum(known) if known else None
            of = {"v": total, "n": end - start, "most": max(known, default=None)}
            of["mean"] = None if total is None else total / len(known)
            of["opened"], of["closed"] = _value(members[0]), _value(members[-1])
            keys = (text_of(value, key) for key, value in zip(self.keys, head[1:], strict=True))
            found.append((head[0], *keys, *(of[name] for name in self.measures), end - start))
        return found

    def shown(self, groups: list[Shown]) -> list[Shown]:
        """Return the output of all groups."""
        return [group[:-1] for group in groups if group[-1] > self.more]  # type: ignore[operator]


def text_of(number: int, key: str) -> str | None:
    """Return the value of a key as the table has it."""
    return None if number < 0 else f"{key[0]}{number}"


def drawn(choose: random.Random) -> list[Made]:
    """Return one to three definitions; the second may be a roll-up of the first."""
    made = [_raw(choose, "level0")]
    if choose.random() < 0.25:
        parent = made[0]
        keys = tuple(key for key in parent.keys if choose.random() < 0.6)
        grid = choose.choice(["1 day", parent.grid])
        more = choose.choice([0, 0, 3])
        rollup = Made("level1", "level0", grid, keys, parent.measures, parent.is_local, parent.least, more)
        made.append(rollup)
    if choose.random() < 0.35:
        made.append(_raw(choose, "beside"))
    return made


def _raw(choose: random.Random, name: str) -> Made:
    grid = choose.choice(["15 minutes", "1 hour", "1 hour", "1 hour", "1 day"])
    others = choose.choice([(), ("v",), ("v",), ("v", "most"), ("v", "mean"), ("opened", "closed", "most")])
    return Made(
        name,
        "events",
        grid,
        choose.choice([(), (), ("device",), ("device",), ("device", "region"), ("region",)]),
        ("n", *others),
        grid == "1 day" and choose.random() < 0.5,
        choose.choice([None, None, 20]),
        choose.choice([0, 0, 0, 1]),
    )


def _value(number: int) -> int | None:
    return None if number == NOTHING else number


@cache
def _start_of_day(hour: int) -> int:
    """Return when the day in Berlin begins to which an hour since the epoch belongs."""
    moment = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=hour)).astimezone(BERLIN)
    start = moment.replace(hour=0).astimezone(UTC)
    return round(start.timestamp()) * 1_000_000

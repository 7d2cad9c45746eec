"""Random definitions over raw rows, over partials and over outputs, each said twice: to the product and to a loop over raw rows."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

HOUR: Final = 3_600_000_000
WIDTHS: Final = (1, 2, 4, 12, 24)
"""Hours of a bucket; each divides the next."""
KEYS: Final = ("device", "region")
NAMED: Final = ("", "a", "b", "é", "d1", "d2", "d3")
"""Devices that a WHERE may name: a text with a backslash is left to Spark."""
DEVICES: Final = (None, "c'", *NAMED, *(f"e{i}" for i in range(20)))
REGIONS: Final = ("n", "s", None)
How: TypeAlias = Literal["raw", "rollup", "cascade"]


class Row(NamedTuple):
    """A raw row, or a row of an output that stands for *n* of them."""

    ts: int
    device: str | None
    region: str | None
    v: int | None
    n: int = 1
    most: int | None = None


Shown: TypeAlias = tuple[object, ...]
"""A row of an output: the bucket, the keys, the measures."""


class Made(Struct, frozen=True):
    """A definition.

    Args:
        name: Its name.
        source: ``events``, or an aggregate.
        how: What it reads of that: raw rows, partials or the output.
        hours: Width of a bucket.
        keys: What it groups by.
        least: Of raw rows, those below are left out.
        devices: Of a roll-up or a cascade, the devices that count; None for all.
        more: The least count of a shown group, less one.
        factor: What values are multiplied with before they are added.
        has_mean: Whether it has an average, which only partials can be merged to.
        has_most: Whether it has a maximum, from which no row can be subtracted.
        retained: Days that the output is retained; 0 for ever.
        ahead: Hours by which the zone of its days is ahead of UTC: Berlin's in 1970, or UTC's.
    """

    name: str
    source: str
    how: How
    hours: int
    keys: tuple[str, ...]
    least: int = -1_000_000
    devices: tuple[str, ...] | None = None
    more: int = 0
    factor: int = 1
    has_mean: bool = True
    has_most: bool = True
    retained: int = 0
    ahead: Literal[0, 1] = 0

    @property
    def sql(self) -> str:
        """The text of the definition."""
        time = "ts" if self.how == "raw" else "at"
        value = "v" if self.factor == 1 else f"v * {self.factor}"
        total = {"raw": f"sum({value})", "rollup": "rollup(v)", "cascade": "sum(v)"}[self.how]
        count = {"raw": "count(*)", "rollup": "rollup(n)", "cascade": "sum(n)"}[self.how]
        most = {"raw": "max(v)", "rollup": "rollup(most)", "cascade": "max(most)"}[self.how]
        mean = {"raw": "avg(v)", "rollup": "rollup(mean)", "cascade": ""}[self.how]
        grid = f"'1 day', {time}, 'Europe/Berlin'" if self.ahead else f"'{self.hours} hours', {time}"
        selected = [f"time_bucket({grid}) AS at", *self.keys]
        selected += [f"{total} AS v", f"{count} AS n"]
        selected += [f"{most} AS most"] if self.has_most else []
        selected += [f"{mean} AS mean"] if self.has_mean else []
        where = ""
        if self.how == "raw" and self.least > -1_000_000:
            where = f"WHERE v >= {self.least}"
        elif self.devices is not None:
            names = ", ".join(f"'{name}'" for name in self.devices)
            where = f"WHERE device IN ({names})"
        having = f"HAVING {count} > {self.more}" if self.more else ""
        retention = f"TBLPROPERTIES ('output.retention' = '{self.retained} days') " if self.retained else ""
        words = [
            f"CREATE MATERIALIZED VIEW {self.name} {retention}AS SELECT {', '.join(selected)} FROM {self.source}",
            where,
            "GROUP BY ALL",
            having,
        ]
        return " ".join(filter(None, words))

    def counts(self, row: Row) -> bool:
        """Whether a row passes WHERE."""
        if self.how == "raw":
            return self.least == -1_000_000 or (row.v is not None and row.v >= self.least)
        return self.devices is None or row.device in self.devices

    def shown(self, rows: Iterable[Row]) -> list[Shown]:
        """Return the output over rows that pass WHERE; those of a roll-up are raw."""
        groups: dict[tuple[object, ...], list[Row]] = defaultdict(list)
        for row in rows:
            width, ahead = self.hours * HOUR, self.ahead * HOUR
            groups[(row.ts + ahead) // width * width - ahead, *(getattr(row, key) for key in self.keys)].append(row)
        found = []
        for group, members in groups.items():
            known = [m.v for m in members if m.v is not None]
            most = [m.most for m in members if m.most is not None]
            count = sum(m.n for m in members)
            measures: list[object] = [sum(known) if known else None, count]
            measures += [max(most, default=None)] if self.has_most else []
            if self.has_mean:  # the factor does not touch the average, whose rows are raw
                measures.append(sum(most) / len(most) if most else None)
            if count > self.more:
                found.append((*group, *measures))
        return found


class Definitions(NamedTuple):
    """Some definitions by name, and what they give over raw rows."""

    of: dict[str, Made]

    def base(self, made: Made, raw: Sequence[Row], output: Callable[[Made], Sequence[Shown]]) -> list[Row]:
        """Return the rows that a definition aggregates: raw rows, or those of an output.

        Args:
            made: The definition.
            raw: The raw rows.
            output: Gives the rows that an aggregate has published, for a cascade that reads it.
        """
        if made.how == "raw":
            return [
                row._replace(v=None if row.v is None else row.v * made.factor, most=row.v)
                for row in raw
                if made.counts(row)
            ]
        parent = self.of[made.source]
        if made.how == "rollup":
            return [row for row in self.base(parent, raw, output) if made.counts(row)]
        rows = [_read(parent, shown) for shown in output(parent)]
        return [row for row in rows if made.counts(row)]

    def output(self, made: Made, raw: Sequence[Row]) -> list[Shown]:
        """Return the output of a definition over raw rows when everything is up to date."""
        return made.shown(self.base(made, raw, lambda parent: self.output(parent, raw)))


def _read(parent: Made, shown: Shown) -> Row:
    """Return a row of an output as a child reads it."""
    names = ("at", *parent.keys, "v", "n", *(["most"] if parent.has_most else []))
    of = dict(zip(names, shown, strict=False))
    return Row(of["at"], of.get("device"), of.get("region"), of["v"], of["n"], of.get("most"))  # type: ignore[arg-type]


def drawn(choose: random.Random) -> list[Made]:
    """Return a chain of two to four roll-ups and cascades over a raw aggregate, and often two more aggregates beside it."""
    keys = choose.choice([(), ("device",), ("device",), KEYS, KEYS])
    hours = choose.choice(WIDTHS[:2])
    least = choose.choice([-1_000_000, -1_000_000, 2])
    has_most = choose.random() < 0.6
    made = [Made("level0", "events", "raw", hours, keys, least, more=choose.choice([0, 0, 2]), has_most=has_most)]
    for depth in range(1, choose.randint(2, 4)):
        made.append(child(made[-1], f"level{depth}", choose))
    if choose.random() < 0.5:
        made.append(child(choose.choice(made[:-1]), "other", choose))
    if choose.random() < 0.6:  # may be computed from the partials of the first
        fewer = tuple(k for k in keys if choose.random() < 0.5)
        width = choose.choice([w for w in WIDTHS if w >= hours])
        made.append(Made("beside", "events", "raw", width, fewer, least, more=choose.choice([0, 3]), has_most=has_most))
    if choose.random() < 0.3:
        parents = {m.source for m in made}
        last = choose.choice([i for i, m in enumerate(made) if m.name not in parents])
        made[last] = replace(made[last], retained=choose.choice([2, 3]))
    return made


def child(parent: Made, name: str, choose: random.Random) -> Made:
    """Return a roll-up or a cascade of an aggregate: at a coarser or equal grid, with some of its keys."""
    how: How = "rollup" if parent.how == "rollup" else choose.choice(["rollup", "rollup", "cascade"])
    keys = tuple(k for k in parent.keys if choose.random() < 0.7)
    devices = None
    if "device" in parent.keys and choose.random() < 0.3:
        devices = tuple(choose.sample(NAMED, choose.randint(1, 3)))
    hours = choose.choice([w for w in WIDTHS if w >= parent.hours])
    in_zone = parent.ahead or (hours == WIDTHS[-1] and parent.hours == 1 and choose.random() < 0.5)
    return Made(
        name,
        parent.name,
        how,
        hours,
        keys,
        devices=devices,
        more=choose.choice([0, 0, 0, 3]),
        has_mean=how == "rollup" and parent.has_mean,
        has_most=parent.has_most,
        ahead=1 if in_zone else 0,
    )


def changed(made: Made, choose: random.Random) -> Made:
    """Return another definition of the same aggregate; its children may refuse it, or have to be applied again."""
    match choose.randrange(5):
        case 0 if made.how == "raw":
            return replace(made, least=choose.choice([-1_000_000, 1, 3]))
        case 1 if made.how == "raw":
            return replace(made, factor=choose.choice([1, 2]))
        case 2:
            return replace(made, hours=choose.choice(WIDTHS), ahead=0)
        case 3 if made.how != "raw" and made.devices is not None:
            return replace(made, devices=tuple(choose.sample(NAMED, 2)))
        case _:
            return replace(made, more=choose.choice([0, 1, 2, 4]))

"""A lake without a JVM over readings of devices, grouped by keys of any type."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from materializer.core.spec.spec import AggregateSpec
from materializer.lake.types import columns_of
from tests import tables
from tests.services.no_spark import Analysed, Field, Kind, LocalLake, NoSpark

HOUR: Final = 3_600_000_000
TIME: Final = pa.timestamp("us", "UTC")
SELECT: Final = "time_bucket('1 hour', ts) AS at, {keys}, sum(v) AS v, count(*) AS n, max(v) AS most"


class OfKeys(Analysed, frozen=True):
    """What Spark would say of a definition whose keys are columns."""

    kinds: dict[str, str]

    @property
    def key_types(self) -> list[tuple[str, str]]:
        """As the source has them; an expression is a text."""
        return [(k.name, self.kinds.get(k.sql, "string")) for k in self.spec.keys]

    @property
    def output_schema(self) -> list[Field]:
        """Keys have the types of their columns."""
        kinds = dict(self.key_types)
        return [Field(f.name, Kind(kinds.get(f.name, f.dataType.text))) for f in super().output_schema]


class Keyed(NoSpark):
    """Knows the types of columns."""

    def analyse(self, spec: AggregateSpec, schema_json: str) -> OfKeys:
        """See :class:`materializer.spark.run.spark.Spark`."""
        found = super().analyse(spec, schema_json)
        return OfKeys(found.spec, dict(columns_of(schema_json)))


class Readings(LocalLake):
    """A lake with an hourly aggregate ``hourly`` of readings.

    Args:
        root: Its folder.
        keys: The key columns of the source, with their Arrow types.
        select: The keys as the definition selects them; by default the columns.
        properties: Properties of the aggregate, as SQL.
        options: Options of the lake.
    """

    def __init__(
        self, root: Path, keys: dict[str, Any], select: str = "", properties: str = "", **options: Any
    ) -> None:
        self.keys = keys
        self.schema = pa.schema([("ts", TIME), *keys.items(), ("v", pa.int64())])
        tables.create(root / "readings", self.schema)
        super().__init__(root, engine=Keyed(), **options)
        by = select or ", ".join(keys)
        given = f"TBLPROPERTIES ({properties}) " if properties else ""
        self.apply(
            f"CREATE MATERIALIZED VIEW hourly {given}AS SELECT {SELECT.format(keys=by)} FROM readings GROUP BY ALL"
        )

    @property
    def readings(self) -> DeltaTable:
        """The source."""
        return DeltaTable(str(self.root / "readings"))

    def write(self, rows: Sequence[tuple[Any, ...]], mode: Any = "append") -> None:
        """Commit rows (microseconds, keys, value)."""
        write_deltalake(str(self.root / "readings"), self.table_of(rows), mode=mode)

    def table_of(self, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        """Return rows as a table."""
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(self.schema)
        times = pa.array(columns[0], pa.int64()).cast(TIME)
        others = [pa.array(c, f.type) for c, f in zip(columns[1:], list(self.schema)[1:], strict=True)]
        return pa.table([times, *others], schema=self.schema)

    def published(self, name: str = "hourly") -> list[tuple[Any, ...]]:
        """Return the rows of an output."""
        rows = DeltaTable(str(self.root / name / "output")).to_pyarrow_table()
        return in_order(rows.set_column(0, "at", rows["at"].cast(pa.int64())).to_pylist())

    def naive(self) -> list[tuple[Any, ...]]:
        """Return what the output must be, by a loop over all rows of the source."""
        groups: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
        rows = self.readings.to_pyarrow_table()
        for row in rows.set_column(0, "ts", rows["ts"].cast(pa.int64())).to_pylist():
            groups[row["ts"] // HOUR * HOUR, *(row[k] for k in self.keys)].append(row["v"])
        found = []
        for group, values in groups.items():
            known = [v for v in values if v is not None]
            found.append((*group, sum(known) if known else None, len(values), max(known, default=None)))
        return sorted(found, key=repr)


def in_order(rows: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return rows as tuples in an order that nulls do not disturb."""
    return sorted((tuple(row.values()) for row in rows), key=repr)

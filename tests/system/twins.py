"""A lake whose refreshes in the process are done again by Spark, in a copy: both then have the same tables."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from deltalake import DeltaTable

from materializer.api import Materializer
from materializer.config import Config
from materializer.services.refresh.reports import RefreshReport, RunDone
from materializer.services.schedule.policies import PolicyReport
from materializer.services.versions.build import BuildReport
from tests.local.comparing import same

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from materializer.services.commit.lake import OutputHandler

Report = TypeVar("Report")


class TwinLake(Materializer):
    """A lake that compares the executors at every refresh, backfill, build and run of a policy.

    A call is carried out here; if this process computed a run of it, Spark carries out the same call in a copy of the lake as it
    was before. What lies in partials and outputs must then be equal: bytes, and doubles within the law.

    Args:
        root: The lake, a folder.
        spark: The session.
        config: Settings.
        local_runs: Gets the name of the aggregate of each run that this process computed.
        on_checkpoint: Called with the name of each step; not in the copy.
        output_handlers: Output handlers by name; those of the copy do nothing with their rows.
    """

    def __init__(
        self,
        root: Path,
        spark: SparkSession,
        config: Config,
        local_runs: list[str],
        on_checkpoint: Callable[[str], None] = lambda _: None,
        output_handlers: Mapping[str, OutputHandler] = MappingProxyType({}),
    ) -> None:
        super().__init__(root, spark=spark, config=config, on_checkpoint=on_checkpoint, output_handlers=output_handlers)
        self.folder = root
        self.session = spark
        self.local_runs = local_runs
        self.ignoring = {name: lambda _rows, _version: None for name in output_handlers}

    def refresh(self, name: str, *window: Any, **options: Any) -> RefreshReport:
        """Refresh here, and if it was computed here, in a copy by Spark."""
        return self._twice(Materializer.refresh, lambda report: report.runs, name, *window, **options)

    def backfill(self, name: str, *window: Any, **options: Any) -> RefreshReport:
        """Backfill here, and if it was computed here, in a copy by Spark."""
        return self._twice(Materializer.backfill, lambda report: report.runs, name, *window, **options)

    def build(self, name: str, **options: Any) -> BuildReport:
        """Build the next version here, and if it was computed here, in a copy by Spark."""
        return self._twice(Materializer.build, lambda report: report.runs, name, **options)

    def run_policy(self, name: str, *policy: Any, **options: Any) -> PolicyReport:
        """Run a policy here, and if it was computed here, in a copy by Spark; :meth:`run_due` comes by here, too."""
        return self._twice(Materializer.run_policy, lambda done: done.report.runs, name, *policy, **options)

    def _twice(
        self,
        call: Callable[..., Report],
        runs_of: Callable[[Report], Iterable[RunDone]],
        name: str,
        *arguments: Any,
        **options: Any,
    ) -> Report:
        with tempfile.TemporaryDirectory(prefix="twin-") as folder:
            copy = Path(folder) / "lake"
            shutil.copytree(self.folder, copy)
            report = call(self, name, *arguments, **options)
            local = [name for run in runs_of(report) if run.report.executor == "local"]
            self.local_runs += local
            if local and not self.config.output_handlers:  # which would get the rows twice
                config = replace(self.config, executor="spark")
                twin = Materializer(copy, spark=self.session, config=config, output_handlers=self.ignoring)
                quiet = {key: value for key, value in options.items() if key not in {"on_plan", "on_run", "executor"}}
                call(twin, name, *arguments, **quiet)
                expect_same(self.folder / name, copy / name)
        return report


def expect_same(ours: Path, theirs: Path) -> None:
    """Assert that partials and outputs of an aggregate, also those that are built, have the same rows in two lakes."""
    tables = _tables(theirs)
    assert _tables(ours) == tables, f"there are {_tables(ours)}, of Spark {tables}"
    for table in tables:
        here, by_spark = _rows(ours / table), _rows(theirs / table)
        assert len(here) == len(by_spark), f"{table} has {len(here)} rows, of Spark {len(by_spark)}"
        for row, other in zip(here, by_spark, strict=True):
            assert same(row, other), f"{table} has {row}, of Spark {other}"


def _tables(home: Path) -> list[Path]:
    """Return the folders of the tables of an aggregate that have rows of its own."""
    places = ("output", "partials/*", "build/*")
    return sorted(log.parent.relative_to(home) for place in places for log in home.glob(f"{place}/_delta_log"))


def _rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a table by what identifies them; instants as numbers, because Python's begin with year 1."""
    table = DeltaTable(str(path)).to_pyarrow_table()
    for i, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):
            table = table.set_column(i, column.name, table.column(i).cast(pa.int64()))
    rows: list[dict[str, Any]] = table.to_pylist()
    return sorted(rows, key=lambda row: [repr(v) for v in row.values() if not isinstance(v, float | dict | list)])

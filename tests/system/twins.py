"""A lake whose refreshes in the process are done again by Spark, in a copy: both then have the same tables."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

import pyarrow as pa
from deltalake import DeltaTable
from msgspec.structs import replace

from materializer.api import Materializer
from materializer.config import Config
from materializer.lake import places
from materializer.services.refresh.reports import RefreshReport, RunDone
from materializer.services.schedule.policies import PolicyReport
from materializer.services.versions.build import BuildReport
from tests.local.comparing import same

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from materializer.services.commit.lake import OutputHandler

Report = TypeVar("Report")
_OF_ITS_OWN: Final = re.compile("output|(partials|build)/[^/]+")


class TwinLake(Materializer):
    """A lake that compares the executors at every refresh, backfill, build and run of a policy.

    A call is carried out here; if this process computed a run of it, Spark carries out the same call in a copy of the lake as it
    was before. What lies in partials and outputs must then be equal: bytes, and doubles within the law.

    Args:
        root: The lake: a folder, or a place on a store.
        spark: The session.
        config: Settings.
        local_runs: Gets the name of the aggregate of each run that this process computed.
        on_checkpoint: Called with the name of each step; not in the copy.
        output_handlers: Output handlers by name; those of the copy do nothing with their rows.
    """

    def __init__(
        self,
        root: Path | str,
        spark: SparkSession,
        config: Config,
        local_runs: list[str],
        on_checkpoint: Callable[[str], None] = lambda _: None,
        output_handlers: Mapping[str, OutputHandler] = MappingProxyType({}),
    ) -> None:
        super().__init__(root, spark=spark, config=config, on_checkpoint=on_checkpoint, output_handlers=output_handlers)
        self.place = str(root)
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
        with copied(self.place) as copy:
            report = call(self, name, *arguments, **options)
            local = [name for run in runs_of(report) if run.report.executor == "local"]
            self.local_runs += local
            if local and not self.config.output_handlers:  # which would get the rows twice
                config = replace(self.config, executor="spark")
                twin = Materializer(copy, spark=self.session, config=config, output_handlers=self.ignoring)
                quiet = {key: value for key, value in options.items() if key not in {"on_plan", "on_run", "executor"}}
                call(twin, name, *arguments, **quiet)
                expect_same(f"{self.place}/{name}", f"{copy}/{name}")
        return report


@contextmanager
def copied(lake: str) -> Iterator[str]:
    """Give a copy of a lake for a block: of a folder in a temporary one, of a place on a store beside it."""
    if places.is_local(lake):
        with tempfile.TemporaryDirectory(prefix="twin-") as folder:
            yield str(shutil.copytree(lake, Path(folder) / "lake"))
        return
    copy = f"{places.parent(lake)}/twin-{uuid4().hex}"
    try:
        for file in places.files(lake):
            places.put(f"{copy}/{file.name}", places.read(f"{lake}/{file.name}"))
        yield copy
    finally:
        places.delete_folder(copy)


def expect_same(ours: str, theirs: str) -> None:
    """Assert that partials and outputs of an aggregate, also those that are built, have the same rows in two lakes."""
    tables = _tables(theirs)
    assert _tables(ours) == tables, f"there are {_tables(ours)}, of Spark {tables}"
    for table in tables:
        here, by_spark = _rows(f"{ours}/{table}"), _rows(f"{theirs}/{table}")
        assert len(here) == len(by_spark), f"{table} has {len(here)} rows, of Spark {len(by_spark)}"
        for row, other in zip(here, by_spark, strict=True):
            assert same(row, other), f"{table} has {row}, of Spark {other}"


def _tables(home: str) -> list[str]:
    """Return the folders of the tables of an aggregate that have rows of its own."""
    folders = {file.name.partition("/_delta_log/")[0] for file in places.files(home) if "/_delta_log/" in file.name}
    return sorted(folder for folder in folders if _OF_ITS_OWN.fullmatch(folder))


def _rows(path: str) -> list[dict[str, Any]]:
    """Return the rows of a table by what identifies them; instants as numbers, because Python's begin with year 1."""
    table = DeltaTable(path).to_pyarrow_table()
    for i, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):
            table = table.set_column(i, column.name, table.column(i).cast(pa.int64()))
    rows: list[dict[str, Any]] = table.to_pylist()
    return sorted(rows, key=lambda row: [repr(v) for v in row.values() if not isinstance(v, float | dict | list)])

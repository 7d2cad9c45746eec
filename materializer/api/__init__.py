"""The façade: one lake, opened with one's own Spark session or none.

Its methods stand by topic in the modules of this package; :mod:`materializer.wiring` chooses adapters. Importing it loads no
engine; Spark is imported inside the function that builds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from materializer import config as configuration
from materializer.api.checking import Checking
from materializer.api.defining import Defining
from materializer.api.looking import Looking
from materializer.api.maintaining import Maintaining
from materializer.api.reading import Reading
from materializer.api.refreshing import Refreshing
from materializer.api.repairing import Repairing
from materializer.api.scheduling import Scheduling
from materializer.api.versioning import Versioning
from materializer.config import Config
from materializer.core.aggregates.python import PythonAggregate
from materializer.core.time.instants import Instant
from materializer.services.commit.lake import OutputHandler
from materializer.spark.runtime.jvm import watched
from materializer.wiring import wired

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from materializer.spark.run.spark import Spark

__all__ = ["Instant", "Materializer"]


@watched
class Materializer(Defining, Versioning, Refreshing, Scheduling, Looking, Reading, Checking, Maintaining, Repairing):
    """Continuous aggregates of one lake.

    Instants go in as ISO text (UTC where it says nothing else) or, for integer time columns, as whole numbers; they come
    out as :class:`~materializer.Span`, in microseconds since 1970-01-01T00:00:00Z or in the column's own numbers. Windows
    are half-open, open where an end is None. Durations in reports are seconds of wall time.

    What every method may raise besides what it says itself: UnknownAggregateError for a name that the lake does not have,
    RefreshWindowError for a window that cannot be read or is reversed, JournalError where the journal cannot be read, and,
    of those that write, LeaseHeldError while another live process works on the aggregate.

    Args:
        lake: Root folder; None takes it from the configuration.
        spark: A session to compute with. It is left as it is found; without one an embedded Spark is started when
            something has to be computed, and not before.
        config: Settings; None reads ``materializer.toml`` and the environment.
        python_aggregates: Aggregates written in Python, besides those that the configuration names.
        output_handlers: Functions that definitions name as ``output_handler``, by name, likewise.
        on_checkpoint: Told the name of each step of what writes before it is done; for tests.

    Raises:
        ForeignSettingError: If *spark* skips files that it cannot read.
        UsageError: If an aggregate in Python cannot be imported, or has an unfit name.

    Examples:
        >>> Materializer("no-lake-yet").status()
        []
    """

    def __init__(
        self,
        lake: str | Path | None = None,
        *,
        spark: SparkSession | None = None,
        config: Config | None = None,
        python_aggregates: Iterable[PythonAggregate] = (),
        output_handlers: Mapping[str, OutputHandler] = MappingProxyType({}),
        on_checkpoint: Callable[[str], None] = lambda _: None,
    ) -> None:
        config = configuration.read() if config is None else config
        root = config.lake if lake is None else lake
        super().__init__(*wired(root, config, spark, python_aggregates, output_handlers, on_checkpoint))

    def engine(self) -> Spark:
        """Return Spark, started on the first call, and once more after its process has died.

        Raises:
            SparkDiedError: If it has died again, or runs in a session that was given.
        """
        return self._executor.engine()

    @property
    def has_started_spark(self) -> bool:
        """Whether anything needed Spark so far."""
        return self._executor.started is not None

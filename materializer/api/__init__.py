"""The façade: one lake, with a Spark session of the caller or an embedded Spark.

The modules of this package have its methods by topic; :mod:`materializer.wiring` chooses adapters. Importing this package does
not import Spark, which is imported when it is started.
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
from materializer.api.reporting import Reporting
from materializer.api.scheduling import Scheduling
from materializer.api.versioning import Versioning
from materializer.config import Config
from materializer.core.time.instants import Instant
from materializer.spark.runtime.jvm import watched
from materializer.wiring import wired

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from materializer.core.aggregates.python import PythonAggregate
    from materializer.services.commit.lake import OutputHandler
    from materializer.spark.run.spark import Spark

__all__ = ["Instant", "Materializer"]


@watched
class Materializer(
    Defining, Versioning, Refreshing, Scheduling, Looking, Reading, Checking, Maintaining, Repairing, Reporting
):
    """Continuous aggregates of one lake.

    Arguments take an instant as ISO text, a ``datetime`` or a ``date`` (in UTC unless it has an offset) or, for integer time
    columns, as a whole number.
    Results have instants as :class:`~materializer.Span`, in microseconds since 1970-01-01T00:00:00Z or in the numbers of the
    column. Windows are half-open; None leaves an end open. Durations in reports are seconds of wall time.

    Every method may raise: UnknownAggregateError for a name that the lake does not have, RefreshWindowError for a window that
    cannot be read or is reversed, JournalError if the journal cannot be read. A method that writes may raise LeaseHeldError
    while another live process works on the aggregate.

    Args:
        lake: Root folder; None takes it from the configuration.
        spark: The session for computations; its settings are not changed. Without it an embedded Spark is started for the
            first computation.
        config: Settings; None reads ``materializer.toml`` and the environment.
        python_aggregates: Aggregates written in Python, in addition to those of the configuration.
        output_handlers: Output handlers by the names that definitions use, in addition to those of the configuration.
        on_checkpoint: Called with the name of each writing step before the step; for tests.

    Raises:
        ForeignSettingError: If *spark* skips unreadable files.
        UsageError: If a Python aggregate or an output handler cannot be imported, or has an unfit name.

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
        """Return Spark, which is started on the first call, and once more after its process died.

        Raises:
            SparkDiedError: If it died a second time, or belongs to the session of the caller.
        """
        return self._executor.engine()

    @property
    def has_started_spark(self) -> bool:
        """Whether Spark was started so far."""
        return self._executor.started is not None

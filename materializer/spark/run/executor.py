"""Spark as a lake uses it: started when something has to be computed, and not before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from threading import RLock
from typing import TYPE_CHECKING

from msgspec import Struct, field

from materializer.config import Config
from materializer.core.refresh.price import STARTING
from materializer.spark.runtime.jvm import watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from materializer.core.aggregates.python import PythonAggregate
    from materializer.spark.run.spark import Spark
    from materializer.spark.runtime.jvm import Death


@watched
class Executor(Struct):
    """Starts Spark.

    Args:
        config: Settings of the session that is started.
        session: The session that the user gave, or None.
        python: The user's Python aggregates, by name.
        stores: Returns the schemes of the stores that are read.
    """

    config: Config
    session: SparkSession | None
    python: Mapping[str, PythonAggregate]
    stores: Callable[[], Collection[str]] = frozenset
    started: Spark | None = None
    _died: Death | None = None
    _starting: RLock = field(default_factory=RLock)

    def starting(self) -> float:
        """Return the seconds that starting Spark here takes, about; 0 where it runs, or a server computes."""
        is_there = self.started is not None or self.session is not None or bool(self.config.spark.remote)
        return 0.0 if is_there else STARTING

    def start_again(self) -> None:
        """Let Spark be started anew the next time, however often its process has died; a session that was given stays as it is."""
        with self._starting:
            if self.session is None and (self._died is not None or (self.started is not None and self.started.death())):
                self.started, self._died = None, None

    def engine(self) -> Spark:
        """Return Spark, started on the first call, and once more after its process has died; over Connect after each loss.

        Raises:
            SparkDiedError: If it has died again, or runs in a session that was given.
        """
        with self._starting:
            if self.started is not None and (death := self.started.death()):
                if self.session is not None or self._died is not None:
                    raise death.error()
                # a server may be restarted any number of times; a session there takes little from it
                self.started, self._died = None, None if death.loss else death
            elif self.started is None and self._died is not None:
                raise self._died.error()  # what was to take its place did not start
            if self.started is None:
                from materializer.spark.runtime.session import start

                given = self.session
                loads = ["materializer.spark.run.spark"]
                spark = given if given is not None else start(self.config, loads=loads, stores=self.stores())
                from materializer.spark.run.spark import Spark

                self.started = Spark(spark, self.python, self.config.budget)
            return self.started

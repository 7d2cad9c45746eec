"""Clusters that do not compute: a master that does not answer, and one that gives no core, for which Spark waits for ever."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from materializer.errors import NOTHING, SparkUnreachableError

if TYPE_CHECKING:
    from pyspark import SparkContext

_STANDALONE: Final = "spark://"
_CONNECTING: Final = 5.0
"""Seconds to wait for a master; Spark itself looks for one for a minute."""
_LOOKING: Final = 1.0
"""Seconds between two looks at the running jobs."""


class CoreWatch:
    """Cancels the jobs of a session on a cluster when for some time none of their tasks ran.

    Args:
        context: The context of the session, of which all jobs are ours.
        patience: After so many seconds without a running task.
    """

    def __init__(self, context: SparkContext, patience: float) -> None:
        self._context = context
        self._patience = patience
        self.has_cancelled = False

    def start(self) -> None:
        """Look at the jobs from now on, in another thread, until the context is stopped."""
        threading.Thread(target=self._look, name="materializer-cluster", daemon=True).start()

    def _look(self) -> None:
        idle_since: float | None = None
        with suppress(Exception):  # the context has been stopped, or its process has ended
            while True:
                time.sleep(_LOOKING)
                if not self._waits():
                    idle_since = None
                elif idle_since is None:
                    idle_since = time.monotonic()
                elif time.monotonic() - idle_since >= self._patience:
                    self.has_cancelled = True
                    self._context.cancelAllJobs()
                    idle_since = None

    def _waits(self) -> bool:
        """Whether there are jobs, and no task of them runs."""
        tracker = self._context.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return bool(stages) and not any(stage.numActiveTasks for stage in stages if stage is not None)


def refuse_unreachable(master: str) -> None:
    """Refuse a standalone cluster of which no master takes a connection.

    Args:
        master: What ``spark.master`` says; other clusters than standalone ones are not asked.

    Raises:
        SparkUnreachableError: If none does.
    """
    if not master.startswith(_STANDALONE):
        return
    for place in master.removeprefix(_STANDALONE).split(","):
        host, _, port = place.rpartition(":")
        with suppress(OSError, ValueError), socket.create_connection((host.strip("[]"), int(port)), _CONNECTING):
            return
    raise SparkUnreachableError(
        f"no master answers at {master}",
        hint="start the cluster, or correct spark.master; then run the same command again",
        wrote=NOTHING,
    )

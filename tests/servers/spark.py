"""Processes of Spark's own that tests start: what they need, how they are started, and how they end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyspark
from msgspec import Struct, field

from materializer.errors import MaterializerError
from materializer.machine import cache_dir
from materializer.spark.runtime import jars
from materializer.spark.runtime.session import check_java

HOME: Final = Path(pyspark.__file__).parent
PATIENCE: Final = 120
"""Seconds until a process of Spark has to listen: most need five, beside other tests thirty."""


def why_not() -> str:
    """Return why this machine cannot start servers of Spark; "" if it can."""
    try:
        check_java()
    except MaterializerError as exc:
        return exc.message
    return "" if jars.find(None, cache_dir()) else "the Delta jars are not cached; `materializer setup` fetches them"


def free_port() -> int:
    """Return a port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def delta_options() -> dict[str, str]:
    """Return the options by which a server has Delta, as the embedded Spark has it."""
    found = jars.find(None, cache_dir())
    assert found is not None
    return {
        "spark.jars": ",".join(map(str, found)),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.shuffle.partitions": "2",
    }


class SparkProcess(Struct):
    """A process of Spark in a process group of its own.

    Args:
        arguments: What `spark-class` runs, and its arguments.
        folder: Where it works and writes its log.
        port: Where it listens when it has started.
        environ: Further environment.
    """

    arguments: Sequence[str]
    folder: Path
    port: int
    environ: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """The file of its output; a restart goes on in it."""
        return self.folder / "log.txt"

    def start(self) -> None:
        """Start it, and wait until it listens."""
        self.folder.mkdir(parents=True, exist_ok=True)
        ours = {"SPARK_HOME": str(HOME), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "TZ": "UTC"}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(HOME / "bin" / "spark-class"), *self.arguments],
                cwd=self.folder,
                env={**os.environ, **ours, **self.environ},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + PATIENCE
        while not self._listens():
            if self.process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise RuntimeError("\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]))
            time.sleep(0.1)

    def kill(self) -> None:
        """End it at once, with the processes that it has started."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def _listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

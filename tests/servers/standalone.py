"""A standalone cluster of Spark as tests use it: a master and workers, each a process of its own."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from tests.servers.spark import SparkProcess, free_port

_DEPLOY = "org.apache.spark.deploy"


class StandaloneCluster(Struct, frozen=True):
    """A master and its workers.

    Args:
        master: The master.
        workers: The workers, one core each.
    """

    master: SparkProcess
    workers: tuple[SparkProcess, ...]

    @property
    def url(self) -> str:
        """What `spark.master` is set to."""
        return f"spark://127.0.0.1:{self.master.port}"

    def start(self) -> None:
        """Start all processes."""
        for process in (self.master, *self.workers):
            process.start()

    def kill(self) -> None:
        """End all processes at once; executors end with their workers."""
        for process in (*self.workers, self.master):
            process.kill()


def standalone_cluster(folder: Path, *, workers: int = 2, memory: str = "1g") -> StandaloneCluster:
    """Return a cluster that is not started yet.

    Args:
        folder: Where its processes work and write their logs.
        workers: How many workers it has.
        memory: What each worker gives to its executors.
    """
    environ = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    port = free_port()
    at = ["--host", "127.0.0.1", "--webui-port", "0"]
    master = SparkProcess([f"{_DEPLOY}.master.Master", *at, "--port", str(port)], folder / "master", port, environ)
    found = []
    for i in range(workers):
        place, own = folder / f"worker_{i}", free_port()
        words = [f"{_DEPLOY}.worker.Worker", *at, "--port", str(own), "--cores", "1", "--memory", memory]
        words += ["--work-dir", str(place / "work"), f"spark://127.0.0.1:{port}"]
        found.append(SparkProcess(words, place, own, environ))
    return StandaloneCluster(master, tuple(found))

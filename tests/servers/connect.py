"""A Spark Connect server as tests use it: Spark's own, with Delta, in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tests.servers.spark import SparkProcess, delta_options, free_port


def url_of(server: SparkProcess) -> str:
    """Return what `spark.remote` is set to."""
    return f"sc://127.0.0.1:{server.port}"


def connect_server(
    folder: Path,
    *,
    master: str = "local[2]",
    options: Mapping[str, str] = MappingProxyType({}),
    has_delta: bool = True,
) -> SparkProcess:
    """Return a server that is not started yet.

    Args:
        folder: Where it works and writes its log.
        master: The cluster that computes for it.
        options: Further options of Spark.
        has_delta: Whether it has the Delta jars.
    """
    port = free_port()
    flags = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Duser.timezone=UTC"
    conf = {
        **(delta_options() if has_delta else {}),
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.extraJavaOptions": flags,
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **options,
    }
    arguments = ["org.apache.spark.deploy.SparkSubmit", "--master", master, "--driver-memory", "1g"]
    arguments += [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    arguments += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    return SparkProcess(arguments, folder, port)

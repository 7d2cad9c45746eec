"""A Hive metastore for tests: the one in Spark's own jars, with its database in a folder of the test.

``python -m tests.servers.hive FOLDER`` runs one until it is interrupted, and prints its address.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pyspark
from msgspec import Struct, field

PATIENCE: Final = 120
"""Seconds that a metastore may take to listen."""
_SETTINGS: Final = {
    "hive.async.log.enabled": "false",
    "datanucleus.schema.autoCreateAll": "true",
    "datanucleus.connectionPoolingType": "none",  # the pool of the default is not among Spark's jars
    "hive.metastore.schema.verification": "false",
}


def why_not() -> str:
    """Return why no metastore can be started here; "" if one can."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else shutil.which("java")
    return "" if java and Path(java).exists() else "a Hive metastore needs Java, and there is none"


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Metastore(Struct):
    """A metastore.

    Args:
        folder: Where its database, its warehouse and its log lie.
        port: The port that it listens on; free when the object is made.

    Any process that has the object can stop the server and start it again.
    """

    folder: Path
    port: int = field(default_factory=free_port)

    @property
    def options(self) -> Mapping[str, str]:
        """The options of a Spark session that has its session catalog here."""
        return {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.hive.metastore.uris": f"thrift://127.0.0.1:{self.port}",
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.hadoop.hive.metastore.connect.retries": "1",
            "spark.hadoop.hive.metastore.failure.retries": "1",
        }

    def start(self) -> None:
        """Start it, and wait until it listens; what it stored before is there again."""
        conf = self.folder / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        database = f"jdbc:derby:;databaseName={self.folder / 'derby'};create=true"
        settings = {
            **_SETTINGS,
            "javax.jdo.option.ConnectionURL": database,
            "hive.metastore.warehouse.dir": str(self.folder / "warehouse"),
        }
        properties = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in settings.items())
        (conf / "hive-site.xml").write_text(f"<configuration>{properties}</configuration>", encoding="utf-8")
        java = str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if os.environ.get("JAVA_HOME") else "java"
        jars = Path(pyspark.__file__).parent / "jars"
        memory = f"-Djava.io.tmpdir={self.folder}", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"
        main = "org.apache.hadoop.hive.metastore.HiveMetaStore"
        log = self.folder / "metastore.log"
        with log.open("ab") as said:
            process = subprocess.Popen(
                [java, *memory, "-cp", f"{conf}:{jars}/*", main, "-p", str(self.port)],
                cwd=self.folder,
                stdout=said,
                stderr=said,
            )
        (self.folder / "pid").write_text(str(process.pid), encoding="ascii")
        for _ in range(PATIENCE * 10):
            if self.listens():
                return
            if process.poll() is not None:
                break
            time.sleep(0.1)
        raise RuntimeError(f"the metastore does not listen:\n{log.read_text(encoding='utf-8')[-2000:]}")

    def stop(self) -> None:
        """End it, and wait until it does not listen any more."""
        with suppress(ProcessLookupError):
            os.kill(int((self.folder / "pid").read_text(encoding="ascii")), signal.SIGTERM)
        for _ in range(PATIENCE * 10):
            if not self.listens():
                return
            time.sleep(0.1)

    def listens(self) -> bool:
        """Whether it takes connections."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@contextmanager
def running(folder: Path) -> Iterator[Metastore]:
    """Run a metastore during the block."""
    metastore = Metastore(folder)
    metastore.start()
    try:
        yield metastore
    finally:
        metastore.stop()


def main() -> None:
    """Run a metastore until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="where its database lies; a temporary folder without it")
    folder = parser.parse_args().folder or Path(tempfile.mkdtemp(prefix="metastore-"))
    with running(folder.absolute()) as metastore:
        for name, value in metastore.options.items():
            print(f'"{name}" = "{value}"')
        try:
            while True:
                time.sleep(60)
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()

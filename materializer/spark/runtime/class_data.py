"""A class-data archive: classes of Spark and Delta that one JVM has loaded and verified, stored for later JVMs.

A small refresh in its own process spends much of its time on Java's loading of classes (`python -m tests.benchmarks.process`).
Mapping an archive into memory replaces this loading. An archive belongs to one Java and one class path. Java checks both, and
starts without the archive if they differ. So the Delta jars have to be on the class path itself.

Source: JEP 350, dynamic class-data archives.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

CLASS_PATH: Final = "spark.driver.extraClassPath"


def place(cache: Path, jars: Sequence[Path], environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of the archive for this Java, this Spark and *jars*; the archive need not exist.

    Args:
        cache: Our cache folder.
        jars: The Delta jars.
        environ: The environment that determines which Java runs; by default that of the process.
    """
    env = os.environ if environ is None else environ
    home = env.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java", path=env.get("PATH", os.defpath)) or ""
    parts = [_mark(Path(java).resolve()), *(_mark(p) for p in (_spark_jars(env), *jars))]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return cache / "classes" / f"{digest}.jsa"


def options(jars: Sequence[Path], given: str = "") -> dict[str, str]:
    """Return the Spark options that put *jars*, and then the user's class path *given*, on the class path of the JVM."""
    return {CLASS_PATH: os.pathsep.join([*(str(p) for p in jars), *([given] if given else [])])}


def using(archive: Path) -> str:
    """Return the JVM flag that maps an archive; "" if the archive does not exist."""
    return f"-XX:SharedArchiveFile={archive}" if archive.is_file() else ""


def making(archive: Path) -> str:
    """Return the JVM flag that writes an archive when the JVM ends."""
    return f"-XX:ArchiveClassesAtExit={archive}"


def _spark_jars(env: Mapping[str, str]) -> Path:
    if home := env.get("SPARK_HOME"):
        return Path(home) / "jars"
    import pyspark

    return Path(pyspark.__file__).parent / "jars"


def _mark(path: Path) -> str:
    try:
        stat = path.stat()
    except OSError:
        return str(path)
    return f"{path} {stat.st_size} {stat.st_mtime_ns}"

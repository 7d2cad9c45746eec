"""A class-data archive: what a JVM has loaded and checked of Spark's and Delta's classes once, for all that come after.

Much of what a small refresh costs in a process of its own is Java loading classes (`python -m tests.benchmarks.process`). An
archive of them is mapped into memory instead. It belongs to one Java and one class path; Java checks both, and starts without
it when they differ. So the Delta jars stand on the class path itself.

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
    """Return where the archive for this Java, this Spark and *jars* lies, or would lie.

    Args:
        cache: Our cache folder.
        jars: The Delta jars.
        environ: The environment that says which Java runs; the process's own by default.
    """
    env = os.environ if environ is None else environ
    home = env.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java", path=env.get("PATH", os.defpath)) or ""
    parts = [_mark(Path(java).resolve()), *(_mark(p) for p in (_spark_jars(env), *jars))]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return cache / "classes" / f"{digest}.jsa"


def options(jars: Sequence[Path], given: str = "") -> dict[str, str]:
    """Return the Spark options that put *jars*, then what the user has *given*, on the class path of the JVM."""
    return {CLASS_PATH: os.pathsep.join([*(str(p) for p in jars), *([given] if given else [])])}


def using(archive: Path) -> str:
    """Return the JVM flag that maps an archive, or nothing when there is none."""
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

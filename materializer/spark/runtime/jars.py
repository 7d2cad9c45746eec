"""The two jars that Delta needs in addition to Spark: their location, and how they are fetched once.

Spark ships all other dependencies of the Delta artifact, so these are excluded: two jars of 9 MB instead of 33 of
87 MB. Spark's own resolver fetches them at the first start. :func:`keep` copies them to a cache, so that later starts
need neither the resolver nor a network.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from materializer.errors import JarsUnreachableError

DELTA_VERSION: Final = "4.4.0"
PACKAGE: Final = f"io.delta:delta-spark_4.1_2.13:{DELTA_VERSION}"
NAMES: Final = (f"delta-spark_4.1_2.13-{DELTA_VERSION}.jar", f"delta-storage-{DELTA_VERSION}.jar")
EXCLUDES: Final = (
    "org.apache.*:*,com.*:*,org.slf4j:*,commons-*:*,javax.*:*,io.airlift:*,org.xerial*:*,org.roaringbitmap:*,"
    "io.unitycatalog:*,io.delta:delta-kernel*,org.locationtech*:*"
)
HINT: Final = (
    f"let this machine reach Maven Central once, or put {NAMES[0]} and {NAMES[1]} into a folder and name it in "
    "MATERIALIZER_JARS (or `jars` under [spark] in materializer.toml)"
)


def cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return our folder in the user's cache; it need not exist."""
    env = os.environ if environ is None else environ
    if home := env.get("XDG_CACHE_HOME"):
        return Path(home) / "materializer"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "materializer"
    return Path.home() / ".cache" / "materializer"


def find(given: Path | None, cache: Path) -> tuple[Path, ...] | None:
    """Return the paths of the two jars, or None if they have to be fetched.

    Args:
        given: The folder that the user named, or None.
        cache: Our cache folder.

    Raises:
        JarsUnreachableError: If the user's folder does not hold both jars; nothing is fetched without the user's consent.
    """
    if given is not None:
        paths = tuple(given / name for name in NAMES)
        missing = [p.name for p in paths if not p.is_file()]
        if missing:
            found = ", ".join(sorted(p.name for p in given.glob("delta-*.jar"))) or "no Delta jar"
            raise JarsUnreachableError(
                f"folder {str(given)!r} does not hold {' and '.join(missing)}, found {found}", hint=HINT
            )
        return paths
    paths = tuple(cache / "jars" / name for name in NAMES)
    return paths if all(p.is_file() for p in paths) else None


def options(paths: tuple[Path, ...] | None, cache: Path) -> dict[str, str]:
    """Return the Spark options that load *paths*, or that let Spark's resolver fetch them into *cache*."""
    if paths is not None:
        return {"spark.jars": ",".join(str(p) for p in paths)}
    return {
        "spark.jars.packages": PACKAGE,
        "spark.jars.excludes": EXCLUDES,
        "spark.jars.ivy": str(cache / "ivy"),
    }


def keep(cache: Path) -> None:
    """Copy the fetched jars to the cache that :func:`find` reads; if the cache is unwritable, the next start fetches again."""
    fetched = [next((cache / "ivy" / "jars").glob(f"*{name}"), None) for name in NAMES]
    target = cache / "jars"
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, path in zip(NAMES, fetched, strict=True):
            if path is not None:
                # another process may read the cache now: a jar must be there whole or not at all
                part = target / f".{name}.{os.getpid()}"
                shutil.copyfile(path, part)
                part.replace(target / name)
    except OSError:
        return

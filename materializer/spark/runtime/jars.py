"""The jars that Spark lacks for Delta, and for S3: their location, and how they are fetched once.

Spark ships all other dependencies of the Delta artifact, so these are excluded: two jars of 9 MB instead of 33 of
87 MB. For S3 the few modules of the AWS client that Hadoop calls take the place of its bundle: 36 jars of 13 MB instead of 642 MB.
They are fetched when a session needs S3, and not before. Spark's own resolver fetches at the first start. :func:`keep` copies
the jars to a cache, so that later starts need neither the resolver nor a network.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from materializer.errors import NOTHING, JarsUnreachableError

DELTA_VERSION: Final = "4.4.0"
PACKAGE: Final = f"io.delta:delta-spark_4.1_2.13:{DELTA_VERSION}"
NAMES: Final = (f"delta-spark_4.1_2.13-{DELTA_VERSION}.jar", f"delta-storage-{DELTA_VERSION}.jar")
EXCLUDES: Final = (
    "org.apache.*:*,com.*:*,org.slf4j:*,commons-*:*,javax.*:*,io.airlift:*,org.xerial*:*,org.roaringbitmap:*,"
    "io.unitycatalog:*,io.delta:delta-kernel*,org.locationtech*:*"
)
_SDK: Final = "2.29.52"
S3_PACKAGES: Final = (
    "org.apache.hadoop:hadoop-aws:3.4.2",
    *(f"software.amazon.awssdk:{name}:{_SDK}" for name in ("s3", "s3-transfer-manager", "sts")),
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.2.1",
    "org.wildfly.openssl:wildfly-openssl:2.1.4.Final",
)
"""What Hadoop 3.4.2 needs of S3; the versions are those that it was built with."""
S3_NAMES: Final = (
    "hadoop-aws-3.4.2.jar",
    "analyticsaccelerator-s3-1.2.1.jar",
    "wildfly-openssl-2.1.4.Final.jar",
    "eventstream-1.0.1.jar",
    "reactive-streams-1.0.4.jar",
    *(
        f"{name}-{_SDK}.jar"
        for name in [
            "annotations",
            "apache-client",
            "arns",
            "auth",
            "aws-core",
            "aws-query-protocol",
            "aws-xml-protocol",
            "checksums",
            "checksums-spi",
            "crt-core",
            "endpoints-spi",
            "http-auth",
            "http-auth-aws",
            "http-auth-aws-eventstream",
            "http-auth-spi",
            "http-client-spi",
            "identity-spi",
            "json-utils",
            "metrics-spi",
            "netty-nio-client",
            "profiles",
            "protocol-core",
            "regions",
            "retries",
            "retries-spi",
            "s3",
            "s3-transfer-manager",
            "sdk-core",
            "sts",
            "third-party-jackson-core",
            "utils",
        ]
    ),
)
S3_EXCLUDES: Final = (
    "software.amazon.awssdk:bundle,io.netty:*,org.apache.httpcomponents:*,org.slf4j:*,commons-codec:*,commons-logging:*,"
    "org.apache.hadoop:hadoop-common,org.apache.hadoop:hadoop-client*"
)
S3_SIZE: Final = "36 jars, 13 MB"
HINT: Final = (
    f"let this machine reach Maven Central once, or put {NAMES[0]} and {NAMES[1]} into a folder and name it in "
    "MATERIALIZER_JARS (or `jars` under [spark] in materializer.toml)"
)

S3_HINT: Final = "let this machine reach Maven Central once, or copy ~/.cache/materializer/jars from a machine that has started Spark for S3"


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
                f"folder {str(given)!r} does not hold {' and '.join(missing)}, found {found}", hint=HINT, wrote=NOTHING
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


def s3_options(given: Path | None, cache: Path) -> dict[str, str]:
    """Return the Spark options that load the jars for S3, or that let Spark's resolver fetch them into *cache*.

    The arguments are those of :func:`find`; the user's folder may have these jars, and need not.
    """
    for folder in (given, cache / "jars"):
        if folder is not None and all((folder / name).is_file() for name in S3_NAMES):
            return {"spark.jars": ",".join(str(folder / name) for name in S3_NAMES)}
    return {
        "spark.jars.packages": ",".join(S3_PACKAGES),
        "spark.jars.excludes": S3_EXCLUDES,
        "spark.jars.ivy": str(cache / "ivy"),
    }


def keep(cache: Path, names: Sequence[str] = NAMES) -> None:
    """Copy fetched jars to the cache that :func:`find` reads; if the cache is unwritable, the next start fetches again."""
    fetched = [next((cache / "ivy" / "jars").glob(f"*[-_.a-z0-9]_{name}"), None) for name in names]
    target = cache / "jars"
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, path in zip(names, fetched, strict=True):
            if path is not None:
                # another process may read the cache now: a jar must be there whole or not at all
                part = target / f".{name}.{os.getpid()}"
                shutil.copyfile(path, part)
                part.replace(target / name)
    except OSError:
        return

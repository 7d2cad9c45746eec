"""The options that an embedded Spark session starts with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from materializer.config import Config, Profile
from materializer.lake.store_settings import spark_options
from materializer.machine import cores
from materializer.spark.runtime import class_data, jars
from materializer.spark.runtime.planned import settled

S3: Final = "s3"
CONF: Final = Path(__file__).parent / "conf"
"""The folder with Spark's own configuration files for the JVM."""

# `short` trades peak speed for a fast start: half the time to the first result. Its compiler alone would keep 48 MB of code; a
# long session of small queries exceeds that and compiles the same code again and again. `long` is the JVM's default.
_FLAGS: Final[Mapping[Profile, str]] = {
    "short": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC -Xshare:auto -XX:-UsePerfData",
    "long": "-XX:+UseParallelGC",
}
_LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
WORK: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # other readers take INT96 as nanoseconds, which end in 2262
    "parquet.filter.dictionary.enabled": "false",  # it reads the dictionary of the times again for each limit of each span
    "spark.sql.variable.substitute": "false",  # or `${env:HOME}` in a literal would be the value of that variable
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.groupByAliases": "true",
    "spark.sql.groupByOrdinal": "true",
}
"""Settings in which all our queries run, so that a text means the same in every session."""


def embedded_options(
    config: Config,
    found: tuple[Path, ...] | None,
    *,
    cache: Path,
    scratch: Path,
    archive_to: Path | None = None,
    stores: Collection[str] = (),
) -> dict[str, str]:
    """Return the Spark options of an embedded session.

    An option of the user replaces ours, except for those of :data:`WORK`; jars, extensions and JVM flags are added to ours.

    Args:
        config: Settings.
        found: The Delta jars, or None if Spark has to fetch them.
        cache: The folder of jars and of the class-data archive.
        scratch: An empty folder of this process.
        archive_to: Where the JVM writes a class-data archive when it ends; it then uses none itself.
        stores: Schemes of the stores that Spark reads.
    """
    config = replace(config, spark=settled(config.spark))
    given = dict(config.spark.options)
    if config.spark.master:
        given["spark.master"] = config.spark.master
    loaded = jars.options(found, cache)
    archived = ""
    if found is not None and config.spark.profile == "short" and config.spark.is_local:
        loaded = class_data.options(found, given.pop(class_data.CLASS_PATH, ""))
        archived = class_data.making(archive_to) if archive_to else class_data.using(class_data.place(cache, found))
    # our flags come first: of two equal JVM flags the later one counts, and the user's flag is to win
    flags = f"{_FLAGS[config.spark.profile]} -Duser.timezone=UTC -Dlog4j2.configurationFile={CONF.as_uri()}/log4j2.properties"
    flags = f"{flags} {archived} {given.pop('spark.driver.extraJavaOptions', '')}".strip()
    extensions = ["io.delta.sql.DeltaSparkSessionExtension", *_split(given.pop("spark.sql.extensions", ""))]
    of_s3 = jars.s3_options(config.spark.jars, cache) if S3 in stores else {}
    if (
        "spark.jars.packages" in of_s3 and "spark.jars.packages" in loaded
    ):  # both are fetched: no exclusion hides the other
        loaded["spark.jars.excludes"] = loaded["spark.jars.excludes"].replace("org.apache.*:*", "org.apache.spark*:*")
    for key in ("spark.jars", "spark.jars.packages", "spark.jars.excludes"):
        if more := [*_split(of_s3.pop(key, "")), *_split(given.pop(key, ""))]:
            loaded[key] = ",".join([*_split(loaded.get(key, "")), *more])
    for scheme in stores:
        loaded |= spark_options(scheme)
    return {
        "spark.master": "local[*]",
        "spark.driver.memory": config.spark.memory,
        "spark.driver.maxResultSize": f"{_most_fetched(config)}b",
        **(_LOOPBACK if config.spark.is_local else {}),  # the executors of a cluster have to reach the driver
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(max(4, cores())),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # otherwise every call on a column sends its place in Python to the JVM: more than half of a small refresh's messages
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "2",
        **of_s3,
        **loaded,
        **given,
        **WORK,
        "spark.sql.extensions": ",".join(dict.fromkeys(extensions)),
        "spark.driver.extraJavaOptions": flags,
    }


def _most_fetched(config: Config) -> int:
    """Return how many bytes of rows Spark may send to the driver at once.

    Rows are about four times as large there as in files, and must not fill the JVM's heap on their way to Python.
    """
    number, unit = config.spark.memory[:-1], config.spark.memory[-1].lower()
    heap = int(number) << {"k": 10, "m": 20, "g": 30, "t": 40}[unit]
    return min(4 * config.budget.bytes, heap // 2)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]

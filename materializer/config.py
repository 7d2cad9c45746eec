"""Settings of a lake: `materializer.toml`, overlaid by `MATERIALIZER_*` environment variables.

Everything has a default, so a lake needs no file. All settings are validated together: one :class:`ConfigError` names every
problem with its file and key. Relative paths in the file are relative to the file; those in the environment are relative to
the working directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from msgspec import Struct, field

from materializer import setting_values as values
from materializer.budget import LEAST_BYTES, LEAST_ROWS, Budget
from materializer.errors import ConfigError
from materializer.machine import memory
from materializer.structs import PrintedInPart

FILE_NAME = "materializer.toml"
PREFIX = "MATERIALIZER_"

Profile = Literal["auto", "short", "long"]
BESIDE_A_CLUSTER = 1_000_000
"""Most rows that this process computes where a cluster, or a server, can compute instead."""
ExecutorChoice = Literal["auto", "local", "spark"]


class SparkConfig(PrintedInPart, Struct, frozen=True):
    """Which Spark computes, and how it is started; a session that the user supplies ignores all of this.

    Args:
        master: The cluster that computes for the driver in this process, such as ``spark://host:7077`` or ``local[4]``; ""
            for all cores of this machine.
        remote: The Spark Connect server that computes, such as ``sc://host:15002``; then no JVM is started here. "" for none.
        profile: ``short`` starts quickly, for commands that take seconds; ``long`` has the full compiler, for backfills; ``auto``
            is ``long`` where Spark is started for more than ten seconds of work.
        memory: Heap of the JVM in Spark's notation, such as ``2g``; ``auto`` is two gigabytes, and a quarter of the memory for long work.
        patience: Seconds to wait for a core of a cluster, while none of the tasks of a job runs.
        jars: Folder with the two Delta jars, or None for the user's cache.
        options: Spark options, passed on unchanged; they override ours.
    """

    _UNPRINTED: ClassVar = frozenset({"remote", "options"})

    master: str = ""
    remote: str = ""  # it may hold a token
    profile: Profile = "auto"
    memory: str = "auto"
    patience: int = 120
    jars: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)  # it may hold keys of a store

    @property
    def is_local(self) -> bool:
        """Whether the driver computes by itself, in this process's JVM."""
        return not self.remote and (self.master or self.options.get("spark.master", "local")).startswith("local")


class Limits(Struct, frozen=True):
    """Limits of a refresh; a refresh beyond them is refused before anything is written.

    Args:
        windows: The largest number of windows of one row. All rows of a run together may make ten times as many, and in
            addition ten times the windows that each of them makes in any case.
    """

    windows: int = 1_000_000


class CanaryConfig(Struct, frozen=True):
    """What computes the buckets of canaries again.

    Args:
        executor: ``auto`` what computed the run; ``local`` this process, where the run's rows are in it; ``spark`` Spark.
    """

    executor: ExecutorChoice = "auto"


class QualityConfig(Struct, frozen=True):
    """How quality is checked.

    Args:
        canaries: What computes canaries.
    """

    canaries: CanaryConfig = field(default_factory=CanaryConfig)


class OpenLineageConfig(PrintedInPart, Struct, frozen=True):
    """Where OpenLineage events go; without any of these nothing is sent.

    Args:
        enabled: Whether events are sent; None: if *url* or *file* is given.
        url: The server that gets them by HTTP; "" for what the official client's own configuration says.
        file: The file that they are appended to, one on a line.
        namespace: Namespace of the jobs; "" for what ``OPENLINEAGE_NAMESPACE`` says, else ``materializer``.
    """

    _UNPRINTED: ClassVar = frozenset({"url"})

    enabled: bool | None = None
    url: str = ""  # it may hold a token
    file: Path | None = None
    namespace: str = ""

    @property
    def is_on(self) -> bool:
        """Whether events are sent."""
        return bool(self.url or self.file) if self.enabled is None else self.enabled


class MetricsConfig(PrintedInPart, Struct, frozen=True):
    """Where metrics go; without any of these none are made.

    Args:
        textfile: Folder that the textfile collector of Prometheus' node_exporter reads.
        otlp: Whether they are sent by OTLP; None: if *endpoint* is given.
        endpoint: The URL that gets them by OTLP over HTTP; "" for what ``OTEL_EXPORTER_OTLP_ENDPOINT`` and the like say.
    """

    _UNPRINTED: ClassVar = frozenset({"endpoint"})

    textfile: Path | None = None
    otlp: bool | None = None
    endpoint: str = ""  # it may hold a token

    @property
    def is_otlp_on(self) -> bool:
        """Whether metrics are sent by OTLP."""
        return bool(self.endpoint) if self.otlp is None else self.otlp


class Config(PrintedInPart, Struct, frozen=True):
    """All settings of one lake.

    Args:
        lake: Root of the lake, a path or a URL.
        sources: Names for source tables: name → path, URI or catalog name (of two or three parts; one word is a path).
        sample: The newest length of time of which definitions that are applied read rows, such as ``1 day``; "" for all rows.
        spark: How the embedded Spark is started.
        limits: Limits of a refresh.
        quality: How quality is checked.
        lease_seconds: How long a lease lasts without renewal.
        driver_lane_rows: The driver fetches and writes results of up to this many rows; Spark writes larger ones.
        driver_bytes: The driver fetches and rewrites rows whose files have up to this many bytes; Spark takes larger ones.
        executor: What computes a refresh: ``local`` this process, ``spark`` Spark, ``auto`` this process what is small.
        local_rows: This process computes a refresh that needs up to this many rows of the source, if it takes less time than Spark.
        local_memory: Bytes that computing in this process takes at most; 0 for a quarter of the memory there is, 512 MB to 8 GB.
        price_tie_ms: Prices that differ by less than so many milliseconds do not decide; rows do.
        run_rows: Approximate number of source rows in one run of a backfill.
        log_max_entries: Entries of an invalidation log before neighbours are joined.
        snapshot_every: Journal commits between two snapshots.
        python_aggregates: Aggregates written in Python, as ``module:attribute``.
        output_handlers: Functions that definitions name as ``output_handler``, as ``module:function``.
        storage: Credentials and endpoints of stores, by the names of environment variables in small letters.
        single_writer: Whether a store without conditional writes may have a lake, because only one process writes to it.
        expectations: Folder of Great Expectations suites, a path or a URL: ``<aggregate>.json`` and ``<aggregate>.source.json``.
        openlineage: Where OpenLineage events go.
        metrics: Where metrics go.
        listener_seconds: How long a command waits for those who get events and metrics, when it ends.
        file: The configuration file that was read, or None.
        environments: Names of the environments of the file.
    """

    _UNPRINTED: ClassVar = frozenset({"storage"})

    lake: str = "lake"
    sources: Mapping[str, str] = field(default_factory=dict)
    sample: str = ""
    spark: SparkConfig = field(default_factory=SparkConfig)
    limits: Limits = field(default_factory=Limits)
    quality: QualityConfig = field(default_factory=QualityConfig)
    lease_seconds: int = 30
    driver_lane_rows: int = 1_000_000
    driver_bytes: int = 256 << 20
    executor: ExecutorChoice = "auto"
    local_rows: int = 20_000_000
    local_memory: int = 0
    price_tie_ms: int = 5
    run_rows: int = 4_000_000
    log_max_entries: int = 1_000
    snapshot_every: int = 20
    python_aggregates: tuple[str, ...] = ()
    output_handlers: tuple[str, ...] = ()
    expectations: str | Path = "expectations"
    storage: Mapping[str, str] = field(default_factory=dict)
    single_writer: bool = False
    openlineage: OpenLineageConfig = field(default_factory=OpenLineageConfig)
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    listener_seconds: int = 5
    file: Path | None = None
    environments: tuple[str, ...] = ()

    def driver_holds(self, rows: float, size: float) -> bool:
        """Whether the driver may hold *rows* at once, which take *size* bytes in files."""
        return rows <= self.driver_lane_rows and size <= self.driver_bytes

    @property
    def read_bytes(self) -> int:
        """Bytes that the rows of a run have in this process at most: a quarter of what computing here takes."""
        return (self.local_memory or min(max(memory() // 4, 512 << 20), 8 << 30)) // 4

    @property
    def rows_here(self) -> int:
        """Rows of a refresh that this process computes at most; fewer where a cluster or a server computes."""
        return self.local_rows if self.spark.is_local else min(self.local_rows, BESIDE_A_CLUSTER)

    @property
    def budget(self) -> Budget:
        """What the driver holds of the rows that it reads."""
        return Budget(max(self.driver_lane_rows, LEAST_ROWS), max(self.driver_bytes, LEAST_BYTES))


def read(
    file: str | Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
    env: str | None = None,
) -> Config:
    """Return the settings in force.

    Args:
        file: The configuration file. By default the one that `MATERIALIZER_CONFIG` names, else `materializer.toml` in
            *directory* if it exists, else none.
        environ: Environment to read; by default that of the process.
        directory: Folder of `materializer.toml`, to which relative paths in the environment are relative; by default the
            working directory.
        env: The environment of the file whose tables `[env.NAME]` override its settings; by default the one that
            `MATERIALIZER_ENV` names, else none.

    Raises:
        ConfigError: With all problems at once: a named file that is missing or no TOML, every unknown key or invalid value,
            and an environment that the file does not have.
    """
    given = os.environ if environ is None else environ
    here = Path.cwd() if directory is None else directory
    path = _file(file, given, here)
    problems: list[str] = []
    data = {} if path is None else _parsed(path)
    tables = data.pop("env", {})
    found = {} if path is None else _Table(str(path), path.parent, problems).read(data)
    _override(found, tables, env or given.get(PREFIX + "ENV") or "", path or here / FILE_NAME, problems)
    found |= _Table("environment", here, problems).read_environment(given)
    problems += _contradictions(found)
    if problems:
        raise ConfigError("\n".join(problems), hint="mend the settings named above", problems=len(problems))
    source, spark, limits, canaries, lineage, metrics = (
        {k.removeprefix(f"{name}."): found.pop(k) for k in list(found) if k.startswith(f"{name}.")}
        for name in ("source", "spark", "limits", "quality.canaries", "openlineage", "metrics")
    )
    return Config(
        **source,
        spark=SparkConfig(**spark),
        limits=Limits(**limits),
        quality=QualityConfig(CanaryConfig(**canaries)),
        openlineage=OpenLineageConfig(**lineage),
        metrics=MetricsConfig(**metrics),
        file=path,
        environments=tuple(sorted(tables)),
        **found,
    )


def _override(found: dict[str, Any], tables: Any, name: str, path: Path, problems: list[str]) -> None:
    """Put the settings of one environment in place of the file's; of tables, name by name. Other environments are checked."""
    if not isinstance(tables, Mapping) or not all(isinstance(table, Mapping) for table in tables.values()):
        problems.append(f"{path}: 'env' must have a table for each environment, such as [env.dev]")
        return
    read = {each: _Table(f"{path} [env.{each}]", path.parent, problems).read(table) for each, table in tables.items()}
    if name and name not in read:
        problems.append(f"{path}: there is no [env.{name}]; it has {', '.join(map(repr, sorted(read))) or 'none'}")
    for key, value in read.get(name, {}).items():
        found[key] = {**found.get(key, {}), **value} if isinstance(value, dict) else value


def _contradictions(found: Mapping[str, Any]) -> list[str]:
    """Return the problems of settings that are valid alone and not together."""
    options = found.get("spark.options", {})
    named = [key for key in ("spark.master", "spark.remote") if key in found]
    named += [f"{key} under [spark.options]" for key in ("spark.master", "spark.remote") if key in options]
    where = (
        [f"{' and '.join(named)} are given, but only one of them can say where Spark runs"] if len(named) > 1 else []
    )
    both = {"openlineage.url", "openlineage.file"} <= set(found)
    return where + (["openlineage.url and openlineage.file are given, but events go to one place"] if both else [])


def _file(file: str | Path | None, env: Mapping[str, str], here: Path) -> Path | None:
    named = (env.get(PREFIX + "CONFIG") or None) if file is None else file
    if named is not None:
        path = here / Path(named).expanduser()
        if not path.is_file():
            raise ConfigError(f"configuration file {str(path)!r} does not exist", hint="name a file that exists")
        return path
    path = here / FILE_NAME
    return path if path.is_file() else None


def _parsed(path: Path) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - many lakes have no such file

    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path}: not valid TOML: {exc}", hint="mend the file at that place") from exc
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply", hint="write it in fewer brackets") from None
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read: {exc.strerror}", hint="make the file readable") from exc


class _Table:
    """One source of settings, a file or the environment; collects values and problems."""

    def __init__(self, place: str, base: Path, problems: list[str]) -> None:
        self.place = place
        self.base = base
        self.problems = problems

    def read(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a parsed file by key; problems are added to the list."""
        found: dict[str, Any] = {}
        for key, value in _flat(data):
            convert = KEYS.get(key)
            if key in _SECTIONS:
                self.problems.append(f"{self.place}: {key!r} must be a table, found {value!r}")
            elif convert is None:
                self._unknown(key, [*KEYS, *_SECTIONS])
            else:
                self._take(found, key, key, convert, value)
        return found

    def read_environment(self, env: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of the environment by key; a variable with almost the name of a known one is a problem."""
        found: dict[str, Any] = {}
        suffixes = [name.removeprefix(PREFIX) for name in VARIABLES]
        for name, text in env.items():
            if name in VARIABLES:
                key = VARIABLES[name]
                self._take(found, key, name, KEYS[key], text)
            elif name.startswith(PREFIX) and (near := _near(name.removeprefix(PREFIX), suffixes, 0.85)):
                self.problems.append(
                    f"{self.place}: unknown variable {name!r}; the nearest known one is {PREFIX + near[0]!r}"
                )
        return found

    def _take(self, found: dict[str, Any], key: str, name: str, convert: values.Convert, value: Any) -> None:
        try:
            found[key] = convert(value, self.base)
        except values.Invalid as wanted:
            shown = "another value, which is not shown" if key in _SECRET else repr(value)
            self.problems.append(f"{self.place}: {name!r} must be {wanted}, found {shown}")

    def _unknown(self, key: str, known: list[str]) -> None:
        near = _near(key, known, 0.6)
        advice = f"the nearest known one is {near[0]!r}" if near else f"known are {', '.join(sorted(known))}"
        self.problems.append(f"{self.place}: unknown key {key!r}; {advice}")


def _near(name: str, known: list[str], at_least: float) -> list[str]:
    from difflib import get_close_matches  # noqa: PLC0415 - only for what is wrong

    return get_close_matches(name, known, 1, at_least)


def _flat(data: Mapping[str, Any], section: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        key = section + name
        if key in _SECTIONS and isinstance(value, Mapping):
            yield from _flat(value, f"{key}.")
        else:
            yield key, value


_SECTIONS = ("source", "spark", "limits", "quality", "quality.canaries", "openlineage", "metrics")
_SECRET = ("spark.remote", "spark.options", "storage", "openlineage.url", "metrics.endpoint")
KEYS: dict[str, values.Convert] = {
    "lake": values.location,
    "sources": values.sources,
    "source.sample": values.length,
    "lease_seconds": values.count,
    "driver_lane_rows": values.count,
    "driver_bytes": values.size,
    "executor": values.one_of("auto", "local", "spark"),
    "local_rows": values.count,
    "local_memory": values.size,
    "price_tie_ms": values.count,
    "run_rows": values.count,
    "log_max_entries": values.count,
    "snapshot_every": values.count,
    "python_aggregates": values.names,
    "output_handlers": values.names,
    "expectations": values.location,
    "quality.canaries.executor": values.one_of("auto", "local", "spark"),
    "limits.windows": values.count,
    "spark.master": values.master,
    "spark.remote": values.remote,
    "spark.profile": values.one_of("auto", "short", "long"),
    "spark.memory": values.memory,
    "spark.patience": values.count,
    "spark.jars": values.folder,
    "spark.options": values.options,
    "openlineage.enabled": values.truth,
    "openlineage.url": values.url,
    "openlineage.file": values.file,
    "openlineage.namespace": values.word,
    "metrics.textfile": values.folder,
    "metrics.otlp": values.truth,
    "metrics.endpoint": values.url,
    "listener_seconds": values.count,
    "storage": values.storage,
    "single_writer": values.truth,
}
"""Every setting with what reads its value."""
VARIABLES: dict[str, str] = {
    PREFIX + key.replace(".", "_").upper(): key
    for key in KEYS
    if key not in {"sources", "spark.options", "spark.jars", "storage"}
} | {PREFIX + "JARS": "spark.jars"}
"""Every environment variable with the setting that it sets."""

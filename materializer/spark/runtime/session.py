"""Spark sessions: the embedded one of commands and tests, and the own session state that work runs in.

A user's session is taken as it is and left as it was found; :func:`work_session` gives the state that every query of
ours runs in: UTC, ANSI on. :func:`start` is only for those who bring no session.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from materializer.config import Config, Profile
from materializer.errors import (
    ForeignSettingError,
    JarsUnreachableError,
    JavaMissingError,
    JavaTooOldError,
    SparkError,
    StorageError,
)
from materializer.spark.runtime import class_data, jars, jvm

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

JAVA_NEEDED: Final = 17
_JAVA_HINT: Final = f"install Java {JAVA_NEEDED} or newer (a JRE is enough) and put it on PATH or name it in JAVA_HOME"
_HOME_HINT: Final = (
    f"let JAVA_HOME name a Java {JAVA_NEEDED} or newer (a JRE is enough), or unset it to take the one on PATH"
)
_CONF: Final = Path(__file__).parent / "conf"

# `short` trades peak speed for start: half the time to the first result; its compiler alone would keep 48 MB of code, which a
# long session of small queries outgrows and compiles again and again. `long` is the JVM as it comes.
_FLAGS: Final[Mapping[Profile, str]] = {
    "short": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC -Xshare:auto -XX:-UsePerfData",
    "long": "-XX:+UseParallelGC",
}
_UNSAFE: Final = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")
_WORK: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # others read INT96 as nanoseconds, which end in 2262
}
# set at run time by users to reach their stores and catalogs; new session state would not know them
_CARRIED: Final = ("fs.", "spark.sql.catalog.")


def start(config: Config, *, archive_to: Path | None = None, loads: Sequence[str] = ()) -> SparkSession:
    """Start the embedded Spark with Delta, or return the session that this process already has.

    Sets the process's time zone to UTC and `PYSPARK_PYTHON` to this interpreter, because Python workers and
    `collect` follow them. What the JVM prints goes to a file; its end is quoted when the start fails.

    Args:
        config: Settings.
        archive_to: Where the JVM writes a class-data archive when it ends; it uses none itself then.
        loads: Modules that are needed next; they are imported while the JVM starts, which leaves Python idle for a second.

    Raises:
        JavaMissingError: If there is no Java on PATH or in `JAVA_HOME`.
        JavaTooOldError: If it is older than 17.
        JarsUnreachableError: If the Delta jars are neither cached nor given, and cannot be fetched.
        ForeignSettingError: If the options switch on what loses rows without a word.
        SparkDiedError: If the session of this process is somebody else's, and its JVM is dead.
        SparkError: If Spark does not start for another reason.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    refuse_unsafe_options(config.spark.options)
    died = jvm.forget()
    if died is not None and not died.is_ours:
        raise died.error()
    running = _running()
    if running is not None:
        return running
    check_java()
    _load_meanwhile(loads)
    cache = jars.cache_dir()
    found = jars.find(config.spark.jars, cache)
    scratch = _scratch()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["TZ"] = "UTC"
    if hasattr(time, "tzset"):
        time.tzset()
    options = _options(config, found, cache, scratch, archive_to)
    log = scratch / "jvm.log"
    logging.getLogger().addFilter(jvm.QUIET)
    try:
        with _quiet_launch(log):
            # pyspark's own handler for Ctrl-C comes with the context and must not see the seconds until the session
            conf = SparkConf().setAppName("materializer").setAll(list(options.items()))
            _stop_by_hand(SparkContext.getOrCreate(conf))
            spark = SparkSession.builder.getOrCreate()
    except (PySparkException, OSError) as exc:
        raise _failed(log, fetching=found is None) from exc
    except Exception as exc:
        # py4j's own errors (a constructor of the JVM that failed) have no common root but Exception
        if type(exc).__module__.startswith("py4j"):
            raise _failed(log, fetching=found is None, said=str(exc)) from exc
        raise
    finally:
        launcher: Any = SparkContext
        jvm.launched(launcher._gateway, log)  # noqa: SLF001 (nothing public leads to the process)
    if found is None:
        jars.keep(cache)
    return spark


def end(spark: SparkSession, *, seconds: float = 300) -> bool:
    """Stop the embedded Spark and wait until its JVM has ended, which first writes an archive if it was told to.

    The next :func:`start` of this process launches a JVM of its own.

    Args:
        spark: What :func:`start` returned.
        seconds: How long to wait.

    Returns:
        Whether it has ended.
    """
    context: Any = type(spark.sparkContext)
    gateway: Any = context._gateway  # noqa: SLF001 (nothing public waits for the JVM)
    spark.stop()
    gateway.shutdown()
    context._gateway = context._jvm = None  # noqa: SLF001 (else pyspark's next context talks to the JVM that has ended)
    gateway.proc.stdin.close()  # what Spark's launcher waits for
    try:
        return bool(gateway.proc.wait(seconds) == 0)
    except subprocess.TimeoutExpired:
        return False


def _load_meanwhile(modules: Sequence[str]) -> None:
    """Import modules in another thread, which is safe as all of pyspark that both need is loaded: neither waits for the other."""

    def load() -> None:
        for name in modules:
            with suppress(Exception):  # who needs it imports it again, and is told
                import_module(name)

    if modules:
        threading.Thread(target=load, name="materializer-imports", daemon=True).start()


def _stop_by_hand(context: SparkContext) -> None:
    """Have Ctrl-C cancel all jobs and raise KeyboardInterrupt.

    pyspark's own handler asks the JVM over the very connection that the interrupted call waits on, which fails with an
    error of the bridge; another thread has a connection of its own.
    """
    if threading.current_thread() is not threading.main_thread():
        return

    def cancel() -> None:
        with suppress(Exception):  # it has ended already
            context.cancelAllJobs()

    def stop(_signal: int, _frame: FrameType | None) -> NoReturn:
        threading.Thread(target=cancel, daemon=True).start()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)


def work_session(spark: SparkSession) -> SparkSession:
    """Return own session state over *spark*'s engine: UTC, ANSI on, none of the user's temporary views or settings.

    Raises:
        ForeignSettingError: If *spark* ignores missing or corrupt files.
    """
    refuse_unsafe_settings(spark)
    if is_connect(spark):
        work: SparkSession = spark.cloneSession()  # type: ignore[attr-defined]  # only Connect's class has it
    else:
        work = spark.newSession()
        for key, value in spark.conf.getAll.items():
            if key.startswith(_CARRIED):
                work.conf.set(key, value)
    for key, value in _WORK.items():
        work.conf.set(key, value)
    return work


def is_connect(spark: SparkSession) -> bool:
    """Whether *spark* talks to a server over Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def refuse_unsafe_settings(spark: SparkSession) -> None:
    """Refuse a session that skips files it cannot read: changes would vanish without a word.

    Raises:
        ForeignSettingError: Naming the setting.
    """
    refuse_unsafe_options({key: spark.conf.get(key, "false") or "false" for key in _UNSAFE})


def jvm_pid(spark: SparkSession) -> int | None:
    """Return the process id of the driver's JVM when it runs on this host beside us, else None.

    It is our child when Python started it, our parent under `spark-submit`; over Connect it is somebody else's.
    """
    if is_connect(spark):
        return None
    me, parent = os.getpid(), os.getppid()
    for pid, ppid, command in _processes():
        if (ppid == me or pid == parent) and "org.apache.spark.deploy.SparkSubmit" in command:
            return pid
    return None


def check_java(environ: Mapping[str, str] | None = None) -> int:
    """Return the major version of the Java that Spark will use: `JAVA_HOME`'s, else the one on PATH.

    Raises:
        JavaMissingError: If there is none, or it does not run.
        JavaTooOldError: If it is older than 17.
    """
    env = os.environ if environ is None else environ
    home = env.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=env.get("PATH", os.defpath))
    hint = _HOME_HINT if home else _JAVA_HINT
    if java is None:
        raise JavaMissingError("no Java found: JAVA_HOME is not set and there is no `java` on PATH", hint=hint)
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - the user's own Java
    except (OSError, subprocess.TimeoutExpired) as exc:
        where = f"JAVA_HOME is {home!r}, but {java!r} does not run" if home else f"{java!r} does not run"
        raise JavaMissingError(f"no Java found: {where}", hint=hint) from exc
    version = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    if said.returncode != 0 or version is None:
        raise JavaMissingError(f"no Java found: {java!r} does not tell its version", hint=hint)
    major = int(version.group(1))
    if major < JAVA_NEEDED:
        raise JavaTooOldError(f"{java!r} is Java {major}, Spark needs {JAVA_NEEDED} or newer", hint=hint, found=major)
    return major


def refuse_unsafe_options(options: Mapping[str, str]) -> None:
    """Refuse options that skip files which cannot be read; raises as :func:`refuse_unsafe_settings`."""
    for key in _UNSAFE:
        value = options.get(key, "false")
        if value.strip().lower() == "true":
            raise ForeignSettingError(
                f"Spark option {key!r} is {value!r}, must be 'false': rows of lost files would vanish without a word",
                hint=f"unset {key} in the session or under [spark.options]",
                option=key,
            )


def is_running() -> bool:
    """Whether this process has a Spark session."""
    return _running() is not None


def _running() -> SparkSession | None:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkException:
        return None


def _options(
    config: Config, found: tuple[Path, ...] | None, cache: Path, scratch: Path, archive_to: Path | None
) -> dict[str, str]:
    given = dict(config.spark.options)
    loaded = jars.options(found, cache)
    archived = ""
    if found is not None and config.spark.profile == "short" and given.get("spark.master", "local").startswith("local"):
        loaded = class_data.options(found, given.pop(class_data.CLASS_PATH, ""))
        archived = class_data.making(archive_to) if archive_to else class_data.using(class_data.place(cache, found))
    # ours first: of two equal JVM flags the later one counts, and that is to be the user's
    flags = f"{_FLAGS[config.spark.profile]} -Duser.timezone=UTC -Dlog4j2.configurationFile={_CONF.as_uri()}/log4j2.properties"
    flags = f"{flags} {archived} {given.pop('spark.driver.extraJavaOptions', '')}".strip()
    extensions = ["io.delta.sql.DeltaSparkSessionExtension", *_split(given.pop("spark.sql.extensions", ""))]
    for key in ("spark.jars", "spark.jars.packages"):
        if more := _split(given.pop(key, "")):
            loaded[key] = ",".join([*_split(loaded.get(key, "")), *more])
    cores = os.cpu_count() or 2
    return {
        "spark.master": "local[*]",
        "spark.driver.memory": config.spark.memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(max(4, cores)),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # else every call on a column tells the JVM where it stands in Python: more than half of what a small refresh says to it
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "2",
        **loaded,
        **given,
        **_WORK,
        "spark.sql.extensions": ",".join(dict.fromkeys(extensions)),
        "spark.driver.extraJavaOptions": flags,
    }


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _scratch() -> Path:
    try:
        folder = Path(tempfile.mkdtemp(prefix="materializer-"))
    except OSError as exc:
        raise StorageError(
            f"no temporary folder can be made: {exc.strerror}", hint="free some space or set TMPDIR"
        ) from exc
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def _quiet_launch(log: Path) -> Iterator[None]:
    """While inside, Spark's start script reads our `spark-env.sh`, which sends the JVM's output to *log*."""
    ours = {"SPARK_CONF_DIR": str(_CONF), "MATERIALIZER_JVM_LOG": str(log)}
    if theirs := os.environ.get("SPARK_CONF_DIR"):
        ours["MATERIALIZER_SPARK_CONF_DIR"] = theirs
    before = {key: os.environ.get(key) for key in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def _failed(log: Path, *, fetching: bool, said: str = "") -> JarsUnreachableError | SparkError:
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    lines = [line for line in (text + said).splitlines() if line.strip()]
    if fetching and re.search(r"unresolved dependenc|not found.*io\.delta|download failed", text, re.IGNORECASE):
        return JarsUnreachableError(
            f"the Delta jars ({jars.PACKAGE}) are not cached and cannot be fetched", hint=jars.HINT
        )
    reason = next((line.strip() for line in lines if re.search(r"^(Error|Caused by|Exception)|rror:", line)), "")
    reason = reason or (lines[-1].strip() if lines else "the JVM ended without a word")
    return SparkError(
        f"Spark did not start: {reason}",
        hint="look at [spark] in the configuration (memory, options), then try again",
        log="\n".join(lines[-20:]),
    )


def _processes() -> Iterator[tuple[int, int, str]]:
    """Yield (pid, parent's pid, command line) of every process of this host that can be seen."""
    proc = Path("/proc")
    if not (proc / "self" / "stat").exists():
        shown = subprocess.run(["ps", "-axo", "pid=,ppid=,command="], capture_output=True, text=True, check=False)  # noqa: S607
        for line in shown.stdout.splitlines():
            first, second, command = line.split(None, 2)
            yield int(first), int(second), command
        return
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            stat = (folder / "stat").read_text()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has just ended, or is not ours to see
        # the name in parentheses may hold spaces and parentheses; what follows the last one does not
        yield int(folder.name), int(stat.rpartition(")")[2].split()[1]), command

"""Spark sessions: the embedded session of commands and tests, and the separate session state for our work.

A user's session is used as it is and is not changed. :func:`work_session` creates the session state in which all our
queries run: UTC, ANSI on. :func:`start` is only for callers without a session.
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
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from materializer.config import Config
from materializer.errors import (
    NOTHING,
    ForeignSettingError,
    JarsUnreachableError,
    JavaMissingError,
    JavaTooOldError,
    SparkError,
    StorageError,
)
from materializer.lake.store_settings import spark_environment
from materializer.machine import cache_dir
from materializer.spark.runtime import cluster, connect, jars, jvm
from materializer.spark.runtime.connect import is_connect
from materializer.spark.runtime.options import CONF, S3, WORK, embedded_options

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

JAVA_NEEDED: Final = 17
_LOG: Final = logging.getLogger(__name__)
_JAVA_HINT: Final = f"install Java {JAVA_NEEDED} or newer (a JRE is enough) and put it on PATH or name it in JAVA_HOME"
_HOME_HINT: Final = (
    f"let JAVA_HOME name a Java {JAVA_NEEDED} or newer (a JRE is enough), or unset it to take the one on PATH"
)

_UNSAFE: Final = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")
# users set these at run time to reach their stores and catalogs; new session state would not have them
_CARRIED: Final = ("fs.", "spark.sql.catalog.")


def start(
    config: Config, *, archive_to: Path | None = None, loads: Sequence[str] = (), stores: Collection[str] = ()
) -> SparkSession:
    """Start the embedded Spark with Delta, or return the session that this process already has.

    If the configuration names a Spark Connect server, open a session there instead.

    The call sets the process's time zone to UTC and `PYSPARK_PYTHON` to this interpreter, because Python workers and
    `collect` use them. The JVM's output goes to a file, and the error of a failed start quotes its last lines.

    Args:
        config: Settings.
        archive_to: Where the JVM writes a class-data archive when it ends; this JVM uses no archive itself.
        loads: Modules that are needed next; they are imported while the JVM starts, when Python is idle for a second.
        stores: Schemes of the stores that the session reads; what it needs for them is fetched at the first start.

    Raises:
        JavaMissingError: If there is no Java on PATH or in `JAVA_HOME`.
        JavaTooOldError: If Java is older than 17.
        JarsUnreachableError: If the jars for Delta, or for S3, are neither cached nor given, and cannot be fetched.
        ForeignSettingError: If the options switch on a setting that loses rows silently.
        SparkDiedError: If another caller created this process's session, and its JVM is dead.
        SparkUnreachableError: If no Spark Connect server or no master of a standalone cluster answers where the configuration
            names one.
        SparkError: If Spark does not start for another reason.
    """
    refuse_unsafe_options(config.spark.options)
    if config.spark.remote:
        jvm.RECORD.is_client = True
        return connect.open_session(config)
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    died = jvm.forget()
    if died is not None and not died.is_ours:
        raise died.error()
    if (found_session := running()) is not None:
        return found_session
    check_java()
    cluster.refuse_unreachable(config.spark.master or config.spark.options.get("spark.master", ""))
    _load_meanwhile(loads)
    cache = cache_dir()
    found = jars.find(config.spark.jars, cache)
    scratch = _scratch()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["TZ"] = "UTC"
    if hasattr(time, "tzset"):
        time.tzset()
    options = embedded_options(config, found, cache=cache, scratch=scratch, archive_to=archive_to, stores=stores)
    fetches_s3 = S3 in stores and jars.S3_PACKAGES[0] in options.get("spark.jars.packages", "")
    if fetches_s3:
        _LOG.warning("fetching once what Spark needs for S3: %s, into %s", jars.S3_SIZE, cache)
    lacking = [] if found is not None else [f"the Delta jars ({jars.PACKAGE})"]
    lacking += [f"the jars for S3 ({jars.S3_SIZE})"] if fetches_s3 else []
    begun = time.monotonic()
    log = scratch / "jvm.log"
    handler = signal.getsignal(signal.SIGINT)
    logging.getLogger().addFilter(jvm.QUIET)
    try:
        with _quiet_launch(log), _credentials(stores):
            # the context brings pyspark's own Ctrl-C handler; ours has to replace it before the session, which takes seconds
            conf = SparkConf().setAppName("materializer").setAll(list(options.items()))
            _stop_by_hand(SparkContext.getOrCreate(conf), handler)
            spark = SparkSession.builder.getOrCreate()
    except (PySparkException, OSError) as exc:
        raise _failed(log, lacking) from exc
    except Exception as exc:
        # py4j's own errors (a constructor of the JVM that failed) have no common base but Exception
        if type(exc).__module__.startswith("py4j"):
            raise _failed(log, lacking, said=str(exc)) from exc
        raise
    finally:
        launcher: Any = SparkContext
        jvm.launched(launcher._gateway, log)  # noqa: SLF001 (there is no public way to the process)
    if not config.spark.is_local:
        watch = cluster.CoreWatch(spark.sparkContext, config.spark.patience)
        watch.start()
        jvm.RECORD.waits = lambda: watch.has_cancelled
    if found is None:
        jars.keep(cache)
    if fetches_s3:
        jars.keep(cache, jars.S3_NAMES)
        _LOG.warning("fetched, and started Spark, in %.0f s", time.monotonic() - begun)
    return spark


def end(spark: SparkSession, *, seconds: float = 300) -> bool:
    """Stop the embedded Spark and wait until its JVM has ended; if asked to, the JVM writes its archive first.

    The next :func:`start` of this process launches a JVM of its own.

    Args:
        spark: The session that :func:`start` returned.
        seconds: How long to wait at most.

    Returns:
        Whether the JVM has ended.
    """
    context: Any = type(spark.sparkContext)
    gateway: Any = context._gateway  # noqa: SLF001 (there is no public way to wait for the JVM)
    spark.stop()
    gateway.shutdown()
    context._gateway = context._jvm = None  # noqa: SLF001 (else pyspark's next context would use the JVM that has ended)
    gateway.proc.stdin.close()  # Spark's launcher waits for this
    try:
        return bool(gateway.proc.wait(seconds) == 0)
    except subprocess.TimeoutExpired:
        return False


@contextmanager
def _credentials(stores: Collection[str]) -> Iterator[None]:
    """Give a JVM that is launched in the block the credentials of stores, in its environment."""
    before = dict(os.environ)
    for scheme in stores:
        os.environ.update(spark_environment(scheme))
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _load_meanwhile(modules: Sequence[str]) -> None:
    """Import modules in another thread; no thread waits for the other, because all of pyspark that both need is loaded."""

    def load() -> None:
        for name in modules:
            with suppress(Exception):  # the code that needs the module imports it again and gets the error
                import_module(name)

    if modules:
        threading.Thread(target=load, name="materializer-imports", daemon=True).start()


def _stop_by_hand(context: SparkContext, handler: Any) -> None:
    """Make Ctrl-C cancel all jobs and raise KeyboardInterrupt; a handler that has an attribute ``stays`` is put back instead.

    pyspark's own handler calls the JVM over the connection on which the interrupted call waits, so that it fails with an
    error of the bridge. Here another thread cancels the jobs over its own connection.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if hasattr(handler, "stays"):
        signal.signal(signal.SIGINT, handler)
        return

    def cancel() -> None:
        with suppress(Exception):  # the JVM may have ended already
            context.cancelAllJobs()

    def stop(_signal: int, _frame: FrameType | None) -> NoReturn:
        threading.Thread(target=cancel, daemon=True).start()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)


def work_session(spark: SparkSession) -> SparkSession:
    """Return separate session state in *spark*'s application: UTC, ANSI on, without the user's temporary views and settings.

    Raises:
        ForeignSettingError: If *spark* ignores missing or corrupt files.
    """
    refuse_unsafe_settings(spark)
    if is_connect(spark):
        work: SparkSession = spark.cloneSession()  # type: ignore[attr-defined]  # only Connect's class has it
        connect.wait_at_most(work, connect.PATIENCE)
        connect.let_go_of(work)
    else:
        work = spark.newSession()
        for key, value in spark.conf.getAll.items():
            if key.startswith(_CARRIED):
                work.conf.set(key, value)
    for key, value in WORK.items():
        work.conf.set(key, value)
    return work


def computes_here(spark: SparkSession) -> bool:
    """Whether the Python functions of *spark* run on this machine, beside this process."""
    return not is_connect(spark) and (spark.conf.get("spark.master", "local") or "local").startswith("local")


def refuse_unsafe_settings(spark: SparkSession) -> None:
    """Refuse a session that skips unreadable files, because changes would vanish silently.

    Raises:
        ForeignSettingError: With the name of the setting.
    """
    refuse_unsafe_options({key: spark.conf.get(key, "false") or "false" for key in _UNSAFE})


def jvm_pid(spark: SparkSession) -> int | None:
    """Return the process id of the driver's JVM if it runs on this host beside this process, else None.

    The JVM is a child if Python started it, and the parent under `spark-submit`; over Connect it is neither.
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
        JavaMissingError: If there is no Java, or it does not run.
        JavaTooOldError: If it is older than 17.
    """
    env = os.environ if environ is None else environ
    home = env.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=env.get("PATH", os.defpath))
    hint = _HOME_HINT if home else _JAVA_HINT
    if java is None:
        raise JavaMissingError(
            "no Java found: JAVA_HOME is not set and there is no `java` on PATH", hint=hint, wrote=NOTHING
        )
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - the user's own Java
    except (OSError, subprocess.TimeoutExpired) as exc:
        where = f"JAVA_HOME is {home!r}, but {java!r} does not run" if home else f"{java!r} does not run"
        raise JavaMissingError(f"no Java found: {where}", hint=hint, wrote=NOTHING) from exc
    version = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    if said.returncode != 0 or version is None:
        raise JavaMissingError(f"no Java found: {java!r} does not tell its version", hint=hint, wrote=NOTHING)
    major = int(version.group(1))
    if major < JAVA_NEEDED:
        raise JavaTooOldError(
            f"{java!r} is Java {major}, Spark needs {JAVA_NEEDED} or newer", hint=hint, found=major, wrote=NOTHING
        )
    return major


def refuse_unsafe_options(options: Mapping[str, str]) -> None:
    """Refuse options that skip unreadable files; the errors are those of :func:`refuse_unsafe_settings`."""
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
    return running() is not None


def running() -> SparkSession | None:
    """Return the Spark session of this process, None without one."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkException:
        return None


def _scratch() -> Path:
    try:
        folder = Path(tempfile.mkdtemp(prefix="materializer-"))
    except OSError as exc:
        raise StorageError(
            f"no temporary folder can be made: {exc.strerror}", hint="free some space or set TMPDIR", wrote=NOTHING
        ) from exc
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def _quiet_launch(log: Path) -> Iterator[None]:
    """Make Spark's start script read our `spark-env.sh` inside the block; it sends the JVM's output to *log*."""
    ours = {"SPARK_CONF_DIR": str(CONF), "MATERIALIZER_JVM_LOG": str(log)}
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


def _failed(log: Path, lacking: Sequence[str], *, said: str = "") -> JarsUnreachableError | SparkError:
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    lines = [line for line in (text + said).splitlines() if line.strip()]
    if lacking and re.search(r"unresolved dependenc|not found.*io\.delta|download failed", text, re.IGNORECASE):
        hint = jars.HINT if jars.PACKAGE in lacking[0] else jars.S3_HINT
        return JarsUnreachableError(
            f"{' and '.join(lacking)} are not cached and cannot be fetched", hint=hint, wrote=NOTHING
        )
    reason = next((line.strip() for line in lines if re.search(r"^(Error|Caused by|Exception)|rror:", line)), "")
    reason = reason or (lines[-1].strip() if lines else "the JVM ended without a word")
    return SparkError(
        f"Spark did not start: {reason}",
        hint="look at [spark] in the configuration (memory, options), then try again",
        log="\n".join(lines[-20:]),
        wrote=NOTHING,
    )


def _processes() -> Iterator[tuple[int, int, str]]:
    """Yield (pid, parent's pid, command line) of every visible process of this host."""
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
            continue  # the process has just ended, or is not visible to this user
        # the name in parentheses may hold spaces and parentheses itself; the text after the last parenthesis does not
        yield int(folder.name), int(stat.rpartition(")")[2].split()[1]), command

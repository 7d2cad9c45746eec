"""Sessions of a Spark Connect server: how one is opened, how long a lost server is waited for, and how it is released.

No JVM is started here. A server keeps a session for an hour after its client has gone, so a session of ours is released at the
end of the process.
"""

from __future__ import annotations

import atexit
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from materializer.config import Config
from materializer.errors import NOTHING, ConfigError, ConnectLibraryMissingError, SparkError, SparkUnreachableError
from materializer.errors.base import masked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_NEEDED: Final = (4, 1)
FIRST_PATIENCE: Final = 3
"""Attempts to reach a server for the first time: about one second."""
PATIENCE: Final = 10
"""Attempts to reach a server that a session was open on: about half a minute, in which a broken connection heals."""


_WARNINGS: Final = (
    r"\[RETRIES_EXCEEDED\]",  # the failure itself is raised, too
    "WARN WindowExpression: No Partition Defined",  # without keys there is one partition on purpose
)


def is_connect(spark: SparkSession) -> bool:
    """Whether *spark* talks to a server over Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def place_of(remote: str) -> str:
    """Return host and port of a server's address; what follows may hold a token and is never shown.

    Examples:
        >>> place_of("sc://host:443/;use_ssl=true;token=secret")
        'sc://host:443'
    """
    return masked("sc://" + remote.removeprefix("sc://").partition("/")[0])


def open_session(config: Config) -> SparkSession:
    """Open a session on the server that the configuration names.

    Args:
        config: Settings; of those under ``[spark]`` only ``remote`` and ``options`` count.

    Raises:
        ConnectLibraryMissingError: If the libraries of Spark's client are not installed.
        SparkUnreachableError: If no server answers.
        ConfigError: If an option cannot be set in a session.
        SparkError: If the server refuses, or is too old.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    place = place_of(config.spark.remote)
    active: Any = SparkSession.getActiveSession()
    if active is not None and is_connect(active) and is_lost(active):
        _release(active)  # pyspark asks the active session for settings, whichever session a call is for
    try:
        spark: Any = SparkSession.builder.remote(config.spark.remote).create()
    except ImportError as exc:
        raise ConnectLibraryMissingError(f"{place} needs the client of Spark Connect: {exc}", wrote=NOTHING) from exc
    except PySparkException as exc:
        raise SparkError(
            f"no session can be opened on {place}: {exc}", hint="give spark.remote another form", wrote=NOTHING
        ) from exc
    let_go_of(spark)
    try:
        wait_at_most(spark, FIRST_PATIENCE)
        version = str(spark.version)
    except PySparkException as exc:
        raise _unreachable(place, exc) from exc
    if tuple(int(part) for part in version.split(".")[:2]) < SPARK_NEEDED:
        needed = ".".join(map(str, SPARK_NEEDED))
        raise SparkError(
            f"{place} runs Spark {version}", hint=f"name a server that runs Spark {needed} or newer", wrote=NOTHING
        )
    wait_at_most(spark, PATIENCE)
    for key, value in config.spark.options.items():
        try:
            spark.conf.set(key, value)
        except PySparkException as exc:
            raise ConfigError(
                f"Spark option {key!r} cannot be set in a session of {place}: {exc.getCondition() or exc}",
                hint="set it where the server is started, or take it out of [spark.options]",
            ) from exc
    return spark  # type: ignore[no-any-return]


_ENDED: Final = ("INVALID_HANDLE.SESSION", "RESPONSE_ALREADY_RECEIVED", "NO_ACTIVE_SESSION")


def loss_behind(exc: BaseException) -> str:
    """Return how contact with a server was lost, if that is why *exc* was raised, as the end of a sentence; else "".

    Args:
        exc: An exception of Spark's client.
    """
    if not type(exc).__module__.startswith("pyspark.errors"):
        return ""
    code = getattr(getattr(exc, "getGrpcStatusCode", lambda: None)(), "name", "")
    condition = getattr(exc, "getCondition", lambda: None)() or ""
    # the client itself finds a session changed, and then says by an assertion of its own
    if condition.startswith(_ENDED) or "Received incorrect server side session" in str(exc):
        return "does not know the session any more: it was restarted, or the session has ended"
    return "does not answer any more" if code == "UNAVAILABLE" else ""


def is_lost(spark: Any) -> bool:
    """Return whether a server does not know a session any more, or still does not answer, by asking it."""
    wait_at_most(spark, FIRST_PATIENCE)
    try:
        spark.conf.get("spark.sql.session.timeZone")
    except Exception as exc:
        if loss_behind(exc):
            return True
        raise
    wait_at_most(spark, PATIENCE)
    return False


def wait_at_most(spark: Any, attempts: int) -> None:
    """Let a session ask a server that does not answer this many times; Spark's own client would go on for ten minutes."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    for message in _WARNINGS:
        warnings.filterwarnings("ignore", message=message)
    spark.client.set_retry_policies([DefaultPolicy(max_retries=attempts, max_backoff=5_000)])


def let_go_of(spark: Any) -> None:
    """Release a session on its server when the process ends, and keep it until then.

    A session that Python collects closes its connection in whichever thread that happens, and waits for ever where it is the
    thread that the connection itself is starting. What pyspark registers for the end of the process asks the server once more;
    registered later, this comes first and leaves it nothing to ask.
    """
    atexit.register(_release, spark)


def _release(spark: Any) -> None:
    client = spark.client
    if client.is_closed:
        return
    client.set_retry_policies([])  # a server that is gone holds no session
    with suppress(Exception):  # the server ends the session later by itself
        client.release_session()
    client.close()


def _unreachable(place: str, exc: Exception) -> SparkError:
    code = getattr(exc, "getGrpcStatusCode", lambda: None)()
    name = getattr(code, "name", "")
    if name == "UNAVAILABLE":
        return SparkUnreachableError(f"no Spark Connect server answers at {place}", wrote=NOTHING)
    if name in {"UNAUTHENTICATED", "PERMISSION_DENIED"}:
        return SparkError(
            f"{place} refuses the session: {name}",
            hint="give spark.remote a token that the server accepts",
            wrote=NOTHING,
        )
    return SparkError(
        f"{place} does not open a session: {name or type(exc).__name__}", hint="look at the server's log", wrote=NOTHING
    )

"""The settings of the generated DAGs: arguments of :func:`dags_of`, or environment variables."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct, field

from materializer.errors import ConfigError
from materializer.lake import places

PREFIX: Final = "MATERIALIZER_AIRFLOW_"


class Settings(Struct, frozen=True):
    """The settings for the DAGs of one lake.

    Args:
        lake: Root of the lake, a path or a URL.
        definitions: Folder of the definitions, a path or a URL; None takes them from the lake's journal.
        interpreter: The Python with which tasks run the command line.
        config: Configuration file for tasks, or None.
        environment: Environment variables of tasks, in addition to those of Airflow.
        prefix: Prefix of the names of DAGs and assets; it separates two lakes.
        pool: Airflow pool that limits how many JVMs run at once.
        check_pool: Airflow pool of the checks that a schedule starts; None for *pool*.
        owner: Owner of a DAG whose aggregate does not name one.
        tags: Tags of all DAGs.
        start: Start of the schedules, and the earliest date for ``airflow backfill``.
        poll_seconds: Interval between two checks of a watched source.
        retries: Maximum number of retries of a task, if a retry may help.
        retry_seconds: Wait before the first retry; each further wait is twice as long, up to ten minutes.
        deadline: Dotted path of an awaitable that is called when an aggregate is staler than its promise; "" for no deadlines.
        tells_last: Whether the page of a DAG shows the last refresh. Airflow stores a new version of the DAG whenever
            its page changes, so this is for lakes that are refreshed a few times a day.
    """

    lake: str
    definitions: str | None = None
    interpreter: str = sys.executable
    config: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    pool: str = "materializer"
    check_pool: str | None = None
    owner: str = "materializer"
    tags: tuple[str, ...] = ("materializer",)
    start: datetime = datetime(2000, 1, 1, tzinfo=UTC)
    poll_seconds: float = 30.0
    retries: int = 4
    retry_seconds: float = 20.0
    deadline: str = "materializer.adapters.airflow.tasks.deadlines.tell_stale"
    tells_last: bool = False

    @property
    def root(self) -> str:
        """The lake's root, as an absolute path or a URL."""
        return places.resolved(self.lake)


def from_environment(environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return arguments of :func:`dags_of` from ``MATERIALIZER_LAKE``, ``MATERIALIZER_CONFIG`` and ``MATERIALIZER_AIRFLOW_*``.

    Args:
        environ: Variables to read; by default those of the process.

    Raises:
        ConfigError: If a variable is invalid or unknown, or no lake is named; the error lists all problems.
    """
    env = os.environ if environ is None else environ
    options: dict[str, Any] = {}
    problems = []
    for name, text in sorted(env.items()):
        key = name.removeprefix(PREFIX).lower()
        if not name.startswith(PREFIX):
            continue
        try:
            options[key] = _READ[key](text)
        except KeyError:
            known = ", ".join(PREFIX + k.upper() for k in _READ)
            problems.append(f"there is no setting {name} (known: {known})")
        except ValueError as exc:
            problems.append(f"{name}: {exc}, got {text!r}")
    for key, name in (("lake", "MATERIALIZER_LAKE"), ("config", "MATERIALIZER_CONFIG")):
        if name in env:
            options.setdefault(key, env[name])
    if "lake" not in options:
        problems.append("no lake is named")
    if problems:
        raise ConfigError("; ".join(problems), hint="set MATERIALIZER_LAKE and mend what is named")
    return options


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)  # a date without a zone is in UTC


def _truth(text: str) -> bool:
    if text.lower() not in {"true", "false", "1", "0"}:
        raise ValueError("expected true or false")
    return text.lower() in {"true", "1"}


def _pairs(text: str) -> dict[str, str]:
    pairs = [word.partition("=") for word in _words(text)]
    if not all(sign for _, sign, _ in pairs):
        raise ValueError("expected NAME=value, NAME=value")
    return {name: value for name, _, value in pairs}


_READ: Final[dict[str, Callable[[str], Any]]] = dict.fromkeys(Settings.__struct_fields__, str) | {
    "environment": _pairs,
    "tags": _words,
    "start": _moment,
    "poll_seconds": float,
    "retries": int,
    "retry_seconds": float,
    "tells_last": _truth,
}

"""The listener that makes metrics of activities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from materializer.adapters.metrics.catalogue import Sample
from materializer.adapters.metrics.samples import samples_of
from materializer.errors import MaterializerError, UsageError
from materializer.services.activity import Activity, ActivityEnd, ActivityRun
from materializer.services.report.status import Looker

if TYPE_CHECKING:
    from materializer.adapters.metrics.scraped import Scraped
    from materializer.config import Config
    from materializer.journal.journal import Journal

Way: TypeAlias = Callable[[str, str, Sequence[Sample]], None]
"""Takes the samples of a lake and an aggregate."""


class Metrics:
    """Makes samples of each activity that ended, and passes them on.

    Args:
        journal: The journal of the lake.
        way: Takes the samples.
    """

    def __init__(self, journal: Journal, way: Way) -> None:
        self.journal = journal
        self.way = way

    def began(self, activity: Activity) -> None:
        """Do nothing: metrics count what ended."""

    def ran(self, activity: Activity, runs: Sequence[ActivityRun]) -> None:
        """Do nothing: runs are counted when the activity ends."""

    def ended(self, activity: Activity, end: ActivityEnd) -> None:
        """Add the activity to the metrics."""
        status = None
        if not activity.state.builds:
            with suppress(
                MaterializerError
            ):  # it was dropped, or its journal cannot be read: that is not for us to say
                status = Looker(activity.root, self.journal).status(activity.state.name)[0]
        self.way(activity.root, activity.state.name, list(samples_of(activity, end, status)))


def in_files(config: Config, journal: Journal) -> Metrics:
    """Return the listener that writes files for node_exporter.

    Raises:
        UsageError: If `prometheus_client` is not installed.
    """
    folder = config.metrics.textfile
    if folder is None:
        msg = "no folder is configured"
        raise ValueError(msg)
    try:
        from materializer.adapters.metrics.textfile import Textfile  # noqa: PLC0415 (an optional library)
    except ModuleNotFoundError as exc:
        raise _missing(exc) from exc
    return Metrics(journal, Textfile(folder).take)


def scraped(lake: str) -> Scraped:
    """Return what Prometheus scrapes; its ``take`` is a way.

    Args:
        lake: Root of the lake.

    Raises:
        UsageError: If `prometheus_client` is not installed.
    """
    try:
        from materializer.adapters.metrics.scraped import Scraped  # noqa: PLC0415 (an optional library)
    except ModuleNotFoundError as exc:
        raise _missing(exc) from exc
    return Scraped(lake)


def by_otlp(config: Config, journal: Journal) -> Metrics:
    """Return the listener that sends metrics by OTLP.

    Raises:
        UsageError: If the SDK of OpenTelemetry or its exporter is not installed.
    """
    from materializer.installed import __version__  # noqa: PLC0415 (the package imports this module's callers)

    try:
        from materializer.adapters.metrics.otlp import Otlp  # noqa: PLC0415 (an optional library)
    except ModuleNotFoundError as exc:
        raise _missing(exc) from exc
    otlp = Otlp(config.metrics.endpoint, config.listener_seconds, __version__)
    return Metrics(journal, lambda _lake, _aggregate, samples: otlp.take(samples))


def _missing(exc: ModuleNotFoundError) -> UsageError:
    hint = "install the extra: pip install 'delta-materializer[metrics]'"
    return UsageError(f"metrics need a package that is not installed ({exc.name}): {hint}", hint=hint)

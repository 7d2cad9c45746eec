"""The composition root: builds a lake with its executor, its expectation library, its output handlers and its listeners.

No other module chooses adapters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from materializer.config import BESIDE_A_CLUSTER
from materializer.errors import UsageError
from materializer.errors.base import know
from materializer.journal.journal import Journal
from materializer.lake import places
from materializer.lake.reads import SharedReads
from materializer.lake.store_settings import configure
from materializer.local.connection import CONNECTIONS
from materializer.local.executor import LocalExecutor
from materializer.services.activity import Listener, Listeners, Listening, Phase, meanwhile
from materializer.services.commit.lake import Lake
from materializer.services.delivery.handlers import by_name as handlers_by_name
from materializer.spark.run.executor import Executor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from materializer.config import Config
    from materializer.core.aggregates.python import PythonAggregate
    from materializer.core.quality.library import ExpectationLibrary
    from materializer.services.commit.lake import OutputHandler
    from materializer.services.report.page.pages import Pages
    from materializer.services.report.page.ports import ReportServer
    from materializer.services.schedule.health import Health
    from materializer.spark.run.spark import Spark


def wired(
    root: str | Path,
    config: Config,
    session: SparkSession | None,
    python_aggregates: Iterable[PythonAggregate],
    output_handlers: Mapping[str, OutputHandler],
    on_checkpoint: Callable[[str], None],
) -> tuple[Lake, Executor]:
    """Return a lake and the executor that computes in it.

    Raises:
        ConfigError: If *root* is a URL that cannot be a lake's.
        ForeignSettingError: If *session* skips unreadable files.
        UsageError: If a Python aggregate or an output handler cannot be imported, or has an unfit name.
    """
    configure(config.storage)
    addresses = (config.spark.remote, config.openlineage.url, config.metrics.endpoint)
    know("settings", config.spark.options, filter(None, addresses))
    folder = places.resolved(root)
    if session is not None:
        from materializer.spark.runtime.session import refuse_unsafe_settings

        refuse_unsafe_settings(session)
    journal = Journal(
        folder,
        snapshot_every=config.snapshot_every,
        on_checkpoint=on_checkpoint,
        single_writer=config.single_writer,
    )

    def stores() -> frozenset[str]:
        sources = (state.source.path for state in journal.last_view.all.values())
        return frozenset(filter(None, map(places.scheme, (folder, *config.sources.values(), *sources))))

    executor = Executor(config, session, _by_name([*config.python_aggregates, *python_aggregates]), stores)

    def engine() -> Spark:
        if not executor.starting():
            return executor.engine()
        with meanwhile(Phase.STARTING):
            return executor.engine()

    master = "local" if session is None else getattr(getattr(session, "sparkContext", None), "master", "")
    rows = config.rows_here if str(master).startswith("local") else min(config.local_rows, BESIDE_A_CLUSTER)
    local = LocalExecutor(rows, config.read_bytes, executor.starting)
    CONNECTIONS.memory = local.memory
    reads = SharedReads(rows, local.size)
    handlers = handlers_by_name(config.output_handlers, output_handlers)
    lake = Lake(
        folder,
        journal,
        config,
        engine,
        _library,
        on_checkpoint,
        handlers,
        local,
        reads,
        listeners(config, journal),
        executor.starting,
    )
    return lake, executor


def listeners(config: Config, journal: Journal) -> Listeners:
    """Return the listeners that the settings ask for; each is loaded by the first activity."""
    listening: list[Listening] = []
    if config.openlineage.is_on:

        def lineage() -> Listener:
            from materializer.adapters.openlineage.listener import openlineage

            return openlineage(config)

        listening.append(Listening("OpenLineage", lineage))
    if config.metrics.textfile is not None:

        def textfile() -> Listener:
            from materializer.adapters.metrics.listener import in_files

            return in_files(config, journal)

        listening.append(Listening("the textfile of metrics", textfile))
    if config.metrics.is_otlp_on:

        def otlp() -> Listener:
            from materializer.adapters.metrics.listener import by_otlp

            return by_otlp(config, journal)

        listening.append(Listening("OTLP of metrics", otlp))
    return Listeners(listening, config.listener_seconds)


def _library() -> ExpectationLibrary:
    """Return the adapter of Great Expectations, which imports that library on first use."""
    from materializer.adapters.great_expectations import auditor

    return auditor


def write_page(pages: Pages, out: str | Path) -> Path:
    """Write the report page into a folder; see :func:`materializer.adapters.page.files.write`."""
    from materializer.adapters.page.files import write

    return write(pages, out)


def page_server(pages: Pages, port: int) -> ReportServer:
    """Return a server of the report page; see :class:`materializer.adapters.page.server.PageServer`."""
    from materializer.adapters.page.server import PageServer

    return PageServer(pages, port)


def follow_server(lake: Lake, health: Health, port: int) -> ReportServer:
    """Return the same server with ``/metrics`` and ``/healthz`` about a process that stays; it reads by a journal of its own.

    Args:
        lake: The lake that the process follows; its activities are counted from now on.
        health: How the process is doing.
        port: The port.
    """
    from materializer.adapters.metrics.listener import Metrics, scraped
    from materializer.adapters.page.probes import Probes
    from materializer.adapters.page.server import PageServer
    from materializer.services.report.page.pages import Pages

    beside, _ = wired(lake.root, lake.config, None, (), {}, lambda _: None)
    try:
        counted = scraped(lake.root)
    except UsageError:
        counted = None  # which '/metrics' says
    server = PageServer(Pages(beside), port, Probes(health, None if counted is None else counted.text))
    if counted is not None:
        heard = Metrics(lake.journal, counted.take)
        lake.listeners.add(Listening("what is scraped", lambda: heard))
    return server


def _by_name(aggregates: list[PythonAggregate | str]) -> Mapping[str, PythonAggregate]:
    if not aggregates:
        return {}
    from materializer.core.aggregates.python import by_name  # few lakes have one

    return by_name(aggregates)

"""DAGs, one for each aggregate that has policies, generated while Airflow parses a file in ``dags/``: no Spark, no JVM.

A DAG has one task, ``refresh``, and at most one run at a time: an aggregate has one writer, so runs of a schedule, a form and
``airflow backfill`` wait for their turn. A definition that cannot be read also becomes a DAG under its name: the DAG has the
tag *broken*, its page shows the problem, and its task fails with it. If the file raised an error instead, Airflow would lose
all other DAGs of the lake.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from airflow.sdk import (
    DAG,
    Asset,
    AssetWatcher,
    AsyncCallback,
    DeadlineAlert,
    DeadlineReference,
    get_parsing_context,
)

from materializer import config as configuration
from materializer.adapters.airflow.dags.catalog import CatalogEntry, output_of, read_folder, read_lake
from materializer.adapters.airflow.dags.form import form
from materializer.adapters.airflow.dags.pages import broken_page, page
from materializer.adapters.airflow.dags.scheduled import BrokenOperator, PoliciesOperator
from materializer.adapters.airflow.dags.schedules import clock_of, crons_of, schedule_of
from materializer.adapters.airflow.dags.settings import Settings
from materializer.adapters.airflow.tasks.operators import CheckOperator
from materializer.adapters.airflow.tasks.triggers import DeltaTableTrigger
from materializer.core.policy.policies import Policy, policies_of, promise_of
from materializer.core.spec.spec import ID, NAME, AggregateSpec
from materializer.lake import places
from materializer.lake.store_settings import configure

TASK: Final = "refresh"
CHECKS: Final = ".check"
"""Suffix of the id of a DAG that runs checks."""
REFRESHES_FIRST: Final = 2
"""Priority of a refresh; a check has Airflow's default of 1, and so waits in the pool behind refreshes that wait too."""
_LONGEST_WAIT: Final = timedelta(minutes=10)
_MICROSECOND: Final = timedelta(microseconds=1)
_DAYS_IN_MONTH: Final = 30


def dags_of(lake: str | Path, **options: Any) -> dict[str, DAG]:
    """Return the DAGs of a lake by id; a file in ``dags/`` adds them to its globals.

    Args:
        lake: Root of the lake, a path or a URL.
        options: Further fields of :class:`~materializer.adapters.airflow.dags.settings.Settings`.

    Raises:
        ConfigError: If the lake or the folder of definitions is a URL that cannot be one.
        MaterializerError: If the journal as a whole, or the folder of definitions on a store, cannot be read.
    """
    settings = Settings(str(lake), **options)
    asked = get_parsing_context().dag_id
    if asked is not None and not asked.startswith(settings.prefix):
        return {}
    # a task needs only its own DAG, but finding the readers of an aggregate needs all of them
    cache = _home() / "materializer"
    config = _config_of(settings)
    entries = (
        read_folder(settings.definitions, settings.root, cache=cache, sources=config.sources)
        if settings.definitions
        else read_lake(settings.root, cache=cache)
    )
    factory = _Factory(settings, entries)
    wanted = [e for e in entries if asked is None or asked in _ids(settings, e)]
    return {
        dag.dag_id: dag for entry in wanted for dag in (factory.dag(entry), factory.check(entry)) if dag is not None
    }


def _config_of(settings: Settings) -> configuration.Config:
    """Return the configuration if sources or credentials of stores are needed, and put the credentials in force."""
    if settings.definitions is None and places.is_local(settings.root):
        return configuration.Config()
    config = configuration.read(settings.config)
    configure(config.storage)
    return config


class _Factory:
    """Generates the DAGs of one lake, which share assets."""

    def __init__(self, settings: Settings, entries: list[CatalogEntry]) -> None:
        self.settings = settings
        self.root = settings.root
        self.policies: dict[str, tuple[Policy, ...]] = {}
        self.problems: dict[str, str] = {}
        for entry in entries:
            try:
                self.policies[entry.name] = policies_of(entry.spec) if entry.spec else ()
                self.problems[entry.name] = entry.problem
            except Exception as exc:  # noqa: BLE001 - what a journal holds never costs the DAGs of other aggregates
                self.problems[entry.name] = f"its refresh policies cannot be read: {exc}"
        self.outputs = {output_of(self.root, e.name): e.name for e in entries}
        self.awaited = {
            e.source
            for e in entries
            if not self.problems[e.name] and any(p.schedule is None for p in self.policies[e.name])
        }
        """Sources with a DAG that waits for them: Airflow uses one of several equal assets, so all must have the watcher."""

    def dag(self, entry: CatalogEntry) -> DAG | None:
        """Return the DAG of an aggregate; None if the aggregate has no policies."""
        problem = self.problems[entry.name]
        if problem or entry.spec is None:
            return self._broken(entry, problem)
        if not self.policies[entry.name]:
            return None
        return self._made(entry, partial(self._dag, entry, entry.spec))

    def _made(self, entry: CatalogEntry, make: Callable[[], DAG], suffix: str = "") -> DAG:
        try:
            return make()
        except Exception as exc:  # noqa: BLE001 - as in the constructor
            return self._broken(entry, f"no DAG can be made of it: {exc}", suffix)

    def _dag(self, entry: CatalogEntry, spec: AggregateSpec) -> DAG:
        settings, policies = self.settings, self.policies[entry.name]
        source = self._source(entry)
        with DAG(
            settings.prefix + entry.name,
            description=spec.comment or f"Keeps {entry.name} true",
            schedule=schedule_of(policies, source),
            start_date=settings.start,
            catchup=False,
            max_active_runs=1,
            doc_md=page(entry, spec, policies, settings),
            tags=sorted(settings.tags),
            deadline=self._deadline(entry, spec),
        ) as dag:
            PoliciesOperator(
                task_id=TASK,
                policies={p.name: p.schedule for p in policies},
                inlets=[source] if source is not None else [],
                outlets=[self._output(entry.name)],
                max_active_tis_per_dag=1,
                priority_weight=REFRESHES_FIRST,
                retries=settings.retries,
                retry_delay=timedelta(seconds=settings.retry_seconds),
                retry_exponential_backoff=2.0,
                max_retry_delay=_LONGEST_WAIT,
                **self._common(entry),
            )
        # the constructor would validate these against their schema for every DAG (3/4 of the time of parsing), and copy them
        # into the task, so they are set afterwards
        dag.params.update(form(spec.time_type))
        return dag

    def check(self, entry: CatalogEntry) -> DAG | None:
        """Return the DAG that checks an aggregate's output; None if its definition names no schedule for checks."""
        schedule = entry.spec.property_map.get("quality.schedule") if entry.spec else None
        if schedule is None or self.problems[entry.name]:
            return None
        return self._made(entry, partial(self._check, entry, schedule), CHECKS)

    def _check(self, entry: CatalogEntry, schedule: str) -> DAG:
        settings = self.settings
        with DAG(
            settings.prefix + entry.name + CHECKS,
            description=f"Checks what {entry.name} publishes",
            schedule=clock_of([schedule]),
            start_date=settings.start,
            catchup=False,
            max_active_runs=1,
            tags=sorted({*settings.tags, "check"}),
        ) as dag:
            CheckOperator(
                task_id="check",
                retries=settings.retries,
                retry_delay=timedelta(seconds=settings.retry_seconds),
                **{**self._common(entry), "pool": settings.check_pool or settings.pool},
            )
        return dag

    def _broken(self, entry: CatalogEntry, problem: str, suffix: str = "") -> DAG:
        with DAG(
            self.settings.prefix + _plain(entry.name) + suffix,
            dag_display_name=f"{self.settings.prefix}{_plain(entry.name)}{suffix} (broken definition)",
            description="Its definition cannot be read",
            schedule=None,
            start_date=self.settings.start,
            doc_md=broken_page(entry.name, problem),
            tags=sorted({*self.settings.tags, "broken"}),
        ) as dag:
            BrokenOperator(task_id=TASK, problem=problem, **self._common(entry))
        return dag

    def _common(self, entry: CatalogEntry) -> Mapping[str, Any]:
        settings = self.settings
        return {
            "lake": self.root,
            "aggregate": _plain(entry.name),  # a template of Airflow, so it must never be one of Jinja
            "interpreter": settings.interpreter,
            "config": settings.config,
            "environment": settings.environment,
            "pool": settings.pool,
            "owner": settings.owner,
        }

    def _output(self, name: str) -> Asset:
        return Asset(self.settings.prefix + name, uri=_uri(output_of(self.root, name)), group="materializer")

    def _source(self, entry: CatalogEntry) -> Asset | None:
        """Return the asset of an aggregate's source; it has a watcher if a DAG waits for it and no DAG of ours emits it."""
        if not entry.source:
            return None
        parent = self.outputs.get(entry.source)
        if parent is not None and self.policies.get(parent):
            return self._output(parent)
        name = self.settings.prefix + (parent or entry.source.removeprefix(f"{self.root}/"))
        watchers = []
        if entry.source in self.awaited:
            config = None if places.is_local(entry.source) else self.settings.config
            changes = DeltaTableTrigger(entry.source, self.settings.poll_seconds, config)
            watchers.append(AssetWatcher(name=f"{name} changes", trigger=changes))
        return Asset(name, uri=_uri(entry.source), group="materializer", watchers=watchers)

    def _deadline(self, entry: CatalogEntry, spec: AggregateSpec) -> DeadlineAlert | None:
        promise = promise_of(spec)
        if promise is None or promise.ticks is not None or not self.settings.deadline:
            return None
        # a run that an asset triggered has no logical date, so a deadline from it would never be due
        is_clocked = all(p.schedule for p in self.policies[entry.name]) and crons_of(self.policies[entry.name])
        arguments = {"lake": self.root, "aggregate": entry.name, "config": self.settings.config}
        return DeadlineAlert(
            reference=DeadlineReference.DAGRUN_LOGICAL_DATE if is_clocked else DeadlineReference.DAGRUN_QUEUED_AT,
            interval=timedelta(days=promise.months * _DAYS_IN_MONTH + promise.days) + promise.micros * _MICROSECOND,
            callback=AsyncCallback(self.settings.deadline, kwargs=arguments),
            name=f"{self.settings.prefix}{entry.name} is stale",
        )


def _ids(settings: Settings, entry: CatalogEntry) -> tuple[str, str]:
    """Return the ids of the DAGs that an aggregate may have: one that refreshes it, and one that checks it."""
    name = settings.prefix + _plain(entry.name)
    return name, name + CHECKS


def _plain(name: str) -> str:
    """Return the name of an aggregate; in place of one that no aggregate can have, a name that is neither refused nor a template."""
    if NAME.match(name) or ID.match(name):
        return name
    return f"unnamed-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:12]}"


def _uri(path: str) -> str:
    return Path(path).absolute().as_uri() if places.is_local(path) else path


def _home() -> Path:
    return Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()

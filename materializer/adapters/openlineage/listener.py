"""The listener that sends OpenLineage events: START, RUNNING after each run but the last, and COMPLETE, FAIL or ABORT."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from materializer.errors import MaterializerError, UsageError
from materializer.errors.base import masked

try:
    from openlineage.client.client import OpenLineageClient
    from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
    from openlineage.client.facet_v2 import (
        JobFacet,
        RunFacet,
        documentation_job,
        error_message_run,
        job_type_job,
        nominal_time_run,
        parent_run,
        processing_engine_run,
        sql_job,
    )
    from openlineage.client.uuid import generate_new_uuid
except ModuleNotFoundError as exc:
    hint = "install the extra: pip install 'delta-materializer[openlineage]'"
    raise UsageError(f"OpenLineage needs a package that is not installed ({exc.name}): {hint}", hint=hint) from exc

from materializer.adapters.openlineage import datasets
from materializer.adapters.openlineage.run_facet import MaterializerRunFacet
from materializer.core.policy.policies import has_clock, micros_of
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.grid import Grid
from materializer.core.time.spans import NEG_INF, POS_INF, Span
from materializer.journal.state import AggregateState
from materializer.services.activity import Activity, ActivityEnd, ActivityKind, ActivityRun, Ending
from materializer.services.aggregate import Aggregate

if TYPE_CHECKING:
    from materializer.config import Config

PARENT: Final = "OPENLINEAGE_PARENT_ID"
"""The variable that names the run that started this one, as ``namespace/job/run``; tools of OpenLineage share it."""
ROOT: Final = "OPENLINEAGE_ROOT_PARENT_ID"
"""The variable that names the run at the root of that one."""
NAMESPACE: Final = "OPENLINEAGE_NAMESPACE"
"""The standard variable for the namespace of jobs."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Begun(Struct, frozen=True):
    """An activity that began, with its run.

    Args:
        activity: The activity.
        run_id: Id of its run.
    """

    activity: Activity
    run_id: str


class Lineage:
    """Sends the events of activities.

    Args:
        client: The official client.
        namespace: Namespace of the jobs.
        version: Version of this package.
        environ: The environment, which may name a parent run.
    """

    def __init__(self, client: OpenLineageClient, namespace: str, version: str, environ: Mapping[str, str]) -> None:
        self.client = client
        self.namespace = namespace
        self.version = version
        self.parent = _parent(environ)
        self._begun: dict[int, Begun] = {}

    def began(self, activity: Activity) -> None:
        """Send START."""
        begun = Begun(activity, str(generate_new_uuid()))
        self._begun[id(activity)] = begun
        window = None
        if activity.start is not None and activity.end is not None and activity.start < activity.end:
            window = Span(activity.start, activity.end)
        self._send(RunState.START, begun, activity.at, window, (), {})

    def ran(self, activity: Activity, runs: Sequence[ActivityRun]) -> None:
        """Send RUNNING with what the runs did so far."""
        begun = self._begun.get(id(activity))
        if begun is not None:
            ends = [run.plan.window for run in runs]
            window = Span(min(w.start for w in ends), max(w.end for w in ends))
            at = datetime.now(tz=UTC).timestamp()
            self._send(RunState.RUNNING, begun, at, window, runs, self._told(activity, runs, ""))

    def ended(self, activity: Activity, end: ActivityEnd) -> None:
        """Send COMPLETE, FAIL or ABORT."""
        begun = self._begun.pop(id(activity), None)
        if begun is None:  # its START was not sent
            begun = Begun(activity, str(generate_new_uuid()))
        state = {
            Ending.COMPLETE: RunState.COMPLETE,
            Ending.FAIL: RunState.FAIL,
            Ending.ABORT: RunState.ABORT,
        }[end.ending]
        facets = self._told(activity, end.runs, end.outcome)
        if end.error is not None:
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(_message(end.error), "python")
        self._send(state, begun, end.at, end.window, end.runs, facets, end)

    @staticmethod
    def _told(activity: Activity, runs: Sequence[ActivityRun], outcome: str) -> dict[str, RunFacet]:
        facet = MaterializerRunFacet(
            outcome=outcome,
            runs=len(runs),
            strategies=sorted({run.report.strategy for run in runs}),
            executors=sorted({run.report.executor or "spark" for run in runs}),
            rowsRead=sum(run.report.rows_read for run in runs),
            rowsWritten=sum(run.report.rows_written for run in runs),
            buckets=sum(run.report.buckets for run in runs),
            seconds=sum(run.report.seconds for run in runs),
            predictedSeconds=sum(run.report.predicted for run in runs),
            refreshes=[run.plan.n for run in runs],
            policy=activity.policy,
        )
        return {"materializer": facet}

    def _send(
        self,
        state: RunState,
        begun: Begun,
        at: float,
        window: Span | None,
        runs: Sequence[ActivityRun],
        facets: dict[str, RunFacet],
        end: ActivityEnd | None = None,
    ) -> None:
        activity = begun.activity
        now = activity.state if end is None else end.state
        run_facets: dict[str, RunFacet] = {
            "processing_engine": processing_engine_run.ProcessingEngineRunFacet(self.version, "materializer"),
            **facets,
        }
        if self.parent is not None:
            run_facets["parent"] = self.parent
        if (nominal := _nominal(window, Aggregate.of(activity.state, activity.root).definition.grid)) is not None:
            run_facets["nominalTime"] = nominal
        inputs, outputs = _tables(activity, now, runs, end)
        event = RunEvent(
            eventTime=(_EPOCH + timedelta(seconds=at)).isoformat(),
            producer=f"urn:materializer:{self.version}",
            run=Run(begun.run_id, run_facets),
            job=Job(self.namespace, f"{activity.state.name}.{activity.kind}", _job_facets(activity)),
            eventType=state,
            inputs=inputs,
            outputs=outputs,
        )
        self.client.emit(event)


def openlineage(config: Config) -> Lineage:
    """Return the listener for the settings."""
    from materializer.installed import __version__  # noqa: PLC0415 (the package imports this module's callers)

    namespace = config.openlineage.namespace or os.environ.get(NAMESPACE) or "materializer"
    return Lineage(_client(config), namespace, __version__, os.environ)


def _client(config: Config) -> OpenLineageClient:
    """Return the client: by our settings, or by those that the client has by itself."""
    settings = config.openlineage
    if settings.file is not None:
        file = {"type": "file", "log_file_path": str(settings.file), "append": True}
        return OpenLineageClient(config={"transport": file})
    if settings.url:
        http: dict[str, Any] = {
            "type": "http",
            "url": settings.url,
            "timeout": float(config.listener_seconds),
            "retry": {"total": 1, "backoff_factor": 0.1},
        }
        if key := os.environ.get("OPENLINEAGE_API_KEY"):
            http["auth"] = {"type": "api_key", "api_key": key}
        return OpenLineageClient(config={"transport": http})
    client = OpenLineageClient()
    if client.transport.kind == "console" and not (client.config.transport or {}).get("type"):
        hint = "give openlineage.url or openlineage.file, or set OPENLINEAGE_URL"
        raise UsageError(f"OpenLineage is on, and nothing says where events go: {hint}", hint=hint)
    return client


def _tables(
    activity: Activity, now: AggregateState, runs: Sequence[ActivityRun], end: ActivityEnd | None
) -> tuple[list[InputDataset], list[OutputDataset]]:
    root, is_done = activity.root, end is not None and end.ending is Ending.COMPLETE
    if activity.kind is ActivityKind.CHECK:
        if end is not None and end.verdict is not None:
            return [datasets.checked(now, root, end.verdict)], []
        return [datasets.published(now, root)], []
    if activity.kind is ActivityKind.SWITCH:
        inputs = [datasets.built(now, root)] if is_done else []
        return inputs, [datasets.output(now, root, has_version=is_done)]
    verdicts = [run.verdict for run in runs] if end is None else end.verdicts
    version = runs[-1].plan.source_version if runs else now.cursor if is_done else None
    return (
        [datasets.source(now, root, version, verdicts)],
        [datasets.output(now, root, runs, verdicts, has_version=is_done or bool(runs))],
    )


def _job_facets(activity: Activity) -> dict[str, JobFacet]:
    spec = AggregateSpec.from_json(activity.state.spec)
    facets: dict[str, JobFacet] = {
        "jobType": job_type_job.JobTypeJobFacet("BATCH", "MATERIALIZER", str(activity.kind).upper()),
    }
    if spec.comment:
        facets["documentation"] = documentation_job.DocumentationJobFacet(spec.comment)
    if spec.sql:
        facets["sql"] = sql_job.SQLJobFacet(query=masked(spec.sql), dialect="spark")
    return facets


def _nominal(window: Span | None, grid: Grid) -> nominal_time_run.NominalTimeRunFacet | None:
    """Return the window of a refresh as times; None if it is open at its start, or if its instants are plain numbers."""
    if window is None or window.start == NEG_INF or not has_clock(grid):
        return None
    end = None if window.end == POS_INF else _time(micros_of(window.end, grid))
    start = _time(micros_of(window.start, grid))
    return None if start is None else nominal_time_run.NominalTimeRunFacet(start, end)


def _time(micros: int) -> str | None:
    try:
        return (_EPOCH + timedelta(microseconds=micros)).isoformat()
    except OverflowError:
        return None


def _parent(environ: Mapping[str, str]) -> parent_run.ParentRunFacet | None:
    """Return the parent run that the environment names, None without one or if the text is malformed."""
    named = _split(environ.get(PARENT, ""))
    if named is None:
        return None
    top = _split(environ.get(ROOT, ""))
    root = None
    if top is not None:
        root = parent_run.Root(parent_run.RootRun(top[2]), parent_run.RootJob(top[0], top[1]))
    return parent_run.ParentRunFacet(parent_run.Run(named[2]), parent_run.Job(named[0], named[1]), root)


def _split(text: str) -> tuple[str, str, str] | None:
    """Return namespace, job and run of ``namespace/job/run``; the namespace may have slashes."""
    parts = text.rsplit("/", 2)
    if len(parts) != 3 or not all(parts):
        return None
    try:
        from uuid import UUID  # noqa: PLC0415 (only with a parent)

        UUID(parts[2])
    except ValueError:
        return None
    return parts[0], parts[1], parts[2]


def _message(error: BaseException) -> str:
    """Return what an event says of an error: of one of ours its text, of any other its name, as the text may hold anything."""
    if isinstance(error, MaterializerError):
        return f"{error.code}: {error.message}"
    return type(error).__name__

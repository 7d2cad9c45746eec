"""The task of a generated DAG: it runs one aggregate's policies, the form of a manual run, or a backfill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.exceptions import AirflowFailException

from materializer.adapters.airflow.dags.form import Asked, read
from materializer.adapters.airflow.dags.schedules import is_due, previous_point
from materializer.adapters.airflow.dags.windows import run_window, window_arguments
from materializer.adapters.airflow.tasks.looking import grid_of, now_of, policy_windows
from materializer.adapters.airflow.tasks.operators import RefreshingOperator, judge, options
from materializer.adapters.airflow.tasks.results import planned
from materializer.errors import MaterializerError

if TYPE_CHECKING:
    from airflow.sdk import Context

_BACKFILL: Final = "backfill"
_BY_CLOCK: Final = "scheduled"
_BY_ASSET: Final = frozenset({"asset_triggered", "asset_materialization"})


class PoliciesOperator(RefreshingOperator):
    """Runs the due policies of an aggregate, or the request of a manual run's form or of ``airflow backfill``.

    Args:
        policies: Schedule of each policy, by name; None for a policy that runs after changes of its source.
        kwargs: Arguments of :class:`~materializer.adapters.airflow.tasks.operators.CommandOperator`.
    """

    def __init__(self, *, policies: Mapping[str, str | None], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.policies = dict(policies)

    def execute(self, context: Context) -> dict[str, Any]:
        """See the class."""
        try:
            asked = read(context["params"])
            if asked.dry_run:
                self.preview(context, self._plans(context, asked))
            commands = self._commands(context, asked)
        except MaterializerError as exc:
            raise AirflowFailException(f"{exc.message} (hint: {exc.hint})") from exc
        if not commands:
            self.skip_with(context, {"refreshes": []}, "nothing is due")
        return self.refresh(context, commands)

    def preview(self, context: Context, plans: Mapping[str, Sequence[str]]) -> None:
        """Put plans into the log and the result, and skip the task, because nothing was done.

        Args:
            context: Context of the task.
            plans: Options of ``plan``, by policy; under ``""`` if the form asks for a window.

        Raises:
            AirflowSkipException: Always, unless planning fails.
        """
        documents = {}
        for name, window in plans.items():
            outcome = self.run_command(["plan", self.aggregate, *window])
            judge([outcome])
            documents[name] = outcome.document
            for line in planned(outcome.document):
                self.log.info("%s", f"policy {name}: {line}" if name else line)
        self.skip_with(context, documents.get("", {"policies": documents}), "dry run: nothing was done")

    def _plans(self, context: Context, asked: Asked) -> dict[str, list[str]]:
        if asked.mode != "policies":
            return {"": options(start=asked.start, end=asked.end, force=asked.force)}
        run: Any = context["dag_run"]
        now = self._now(run)
        if now is None:
            return {}
        grid = grid_of(self.lake, self.aggregate, self.config)
        windows = policy_windows(self.lake, self.aggregate, now, self.config)
        for name in (n for n, span in windows.items() if span is None):
            self.log.info("policy %s: its window holds no whole bucket", name)
        return {name: window_arguments(span, grid) for name, span in windows.items() if span is not None}

    def _commands(self, context: Context, asked: Asked) -> list[Sequence[str]]:
        run: Any = context["dag_run"]
        kind = getattr(run.run_type, "value", run.run_type)
        if kind == _BACKFILL:
            return self._backfilled(run.logical_date, asked)
        window = {"start": asked.start, "end": asked.end, "force": asked.force}
        if asked.mode == "refresh":
            return [["refresh", self.aggregate, *options(**window)]]
        if asked.mode == "backfill":
            how = {"order": asked.order, "buckets_per_run": asked.buckets_per_run}
            return [["backfill", self.aggregate, *options(**window, **how)]]
        now = self._now(run)
        if now is None:
            return []
        due = self._due(kind, run.logical_date, context)
        return [["policy", "run", self.aggregate, "--policy", name, "--now", now] for name in due]

    def _now(self, run: Any) -> str | None:
        return now_of(self.lake, self.aggregate, (run.logical_date or run.run_after).isoformat(), self.config)

    def _due(self, kind: str, at: datetime | None, context: Context) -> list[str]:
        if kind in _BY_ASSET:
            return [name for name, cron in self.policies.items() if cron is None]
        if kind != _BY_CLOCK or at is None:
            return list(self.policies)
        # since the last successful run, so that a later run makes up for a point that Airflow skipped
        since = context.get("prev_data_interval_end_success") or None
        return [name for name, cron in self.policies.items() if cron is not None and is_due(cron, since, at)]

    def _backfilled(self, point: datetime, asked: Asked) -> list[Sequence[str]]:
        crons = [cron for cron in self.policies.values() if cron is not None]
        grid = grid_of(self.lake, self.aggregate, self.config)
        window = run_window(grid, previous_point(crons, point), point)
        if window is None:
            return []
        how = options(order=asked.order, buckets_per_run=asked.buckets_per_run, force=asked.force)
        return [["backfill", self.aggregate, *window_arguments(window, grid), *how]]


class BrokenOperator(RefreshingOperator):
    """The only task of a DAG whose definition is broken; it fails with the problem.

    Args:
        problem: The problem.
        kwargs: Arguments of :class:`~materializer.adapters.airflow.tasks.operators.CommandOperator`.
    """

    def __init__(self, *, problem: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.problem = problem

    def execute(self, context: Context) -> None:
        """See the class."""
        del context
        raise AirflowFailException(self.problem)

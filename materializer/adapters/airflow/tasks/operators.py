"""Operators: commands of the command line as tasks, for generated and hand-written DAGs.

A task runs its command in a separate process (:mod:`materializer.adapters.airflow.tasks.command`). So the memory of the JVM is
free when the command ends, and the interpreter may belong to another environment. The command's progress goes to the log, and
its JSON document is the result of the task. The end of the command determines the end of the task:

=========================================  ===============================================================
the command                                the task
=========================================  ===============================================================
did something                              succeeds and emits its outlets, with what was done
found nothing to do (3)                    is skipped with its summary; emits nothing
conflict, busy lease (75), storage (74),   fails and is retried, as its ``retries`` say
lost Spark (71 ``spark.failed``, ``spark.died``, ``spark.unreachable``, ``spark.result-too-large``), signal
everything else                            fails at once: the same call would fail again
=========================================  ===============================================================
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from materializer.adapters.airflow.tasks import lineage, results
from materializer.adapters.airflow.tasks.command import Command, Outcome, TaskVerdict

if TYPE_CHECKING:
    from airflow.sdk import Context

RESULT: Final = "return_value"
_OWED: Final = "materializer.owed"


class CommandFailedError(AirflowException):
    """The command failed, but a retry may succeed."""


class CommandOperator(BaseOperator):
    """Runs one command about one aggregate.

    Args:
        lake: Root folder of the lake (templated).
        aggregate: Name of the aggregate (templated).
        interpreter: The Python that has materializer installed; by default the one that runs the task.
        config: Configuration file (templated); by default ``materializer.toml`` in the working directory.
        environment: Environment variables (templated), in addition to those of the task.
        kwargs: Arguments of every operator.
    """

    template_fields: Sequence[str] = ("lake", "aggregate", "config", "environment")
    ui_color = "#dfeef7"

    def __init__(
        self,
        *,
        lake: str,
        aggregate: str,
        interpreter: str | None = None,
        config: str | None = None,
        environment: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.lake = lake
        self.aggregate = aggregate
        self.interpreter = interpreter
        self.config = config
        self.environment = environment
        self._command: Command | None = None

    def run_command(self, arguments: Iterable[str]) -> Outcome:
        """Run one command to its end with its progress in the log; the caller judges the outcome."""
        environment = lineage.variables() | dict(self.environment or {})
        self._command = Command(
            list(arguments), self.lake, self.interpreter or sys.executable, self.config, environment
        )
        self.log.info("Running %s", self._command.text)
        outcome = self._command.run(self.log.info)
        if outcome.verdict in {TaskVerdict.FAIL, TaskVerdict.RETRY}:
            for line in outcome.problem_lines:
                self.log.error("%s", line)
        return outcome

    def on_kill(self) -> None:
        """End the command and its JVM; the next command repairs what this one leaves unfinished."""
        if self._command is not None:
            self.log.warning("Ending the command; the next one repairs what it leaves half done")
            self._command.stop()


def judge(outcomes: Sequence[Outcome]) -> None:
    """Fail the task if a command failed; the task is retried if a retry of any failed command may succeed.

    Raises:
        CommandFailedError: If a retry may succeed.
        AirflowFailException: If a retry would fail again.
    """
    failed = [o for o in outcomes if o.verdict in {TaskVerdict.FAIL, TaskVerdict.RETRY}]
    problem = "\n".join(o.problem for o in failed)
    if any(o.verdict is TaskVerdict.RETRY for o in failed):
        raise CommandFailedError(problem)
    if failed:
        raise AirflowFailException(problem)


class RefreshingOperator(CommandOperator):
    """Runs commands that change an aggregate, and emits its outlets if they did, or if an earlier task still owes an event.

    A task that dies or fails after a publication emits nothing, and its retry finds nothing to do. Readers of the outlet must
    be triggered nevertheless. So a task writes a note into the outlet's state store before it runs, which says that it owes an
    event; it deletes the note when the outcome is known.
    """

    def refresh(self, context: Context, commands: Iterable[Sequence[str]]) -> dict[str, Any]:
        """Run commands one after the other, even if one fails, and end the task by their outcomes."""
        is_owed = self._note_debt(context)
        outcomes = [self.run_command(arguments) for arguments in commands]
        judge(outcomes)
        document = results.shortened(results.merged(o.document for o in outcomes))
        summary = results.summary(document)
        if all(o.verdict is TaskVerdict.IDLE for o in outcomes) and not is_owed:
            self._settle_debt(context)
            self.skip_with(context, document, summary)
        self.log.info("%s", summary)
        for asset in self._assets():
            context["outlet_events"][asset].extra.update(results.event_of(document) | {"owed": is_owed})
        self._settle_debt(context)
        return document

    def skip_with(self, context: Context, document: Mapping[str, Any], summary: str) -> None:
        """End the task as skipped, with a result.

        Raises:
            AirflowSkipException: Always.
        """
        self.log.info("%s", summary)  # Airflow shows the reason of a skip only in a folded part of the log
        context["ti"].xcom_push(key=RESULT, value=document)
        raise AirflowSkipException(summary)

    def _assets(self) -> list[Asset]:
        return [outlet for outlet in self.outlets if isinstance(outlet, Asset)]

    def _note_debt(self, context: Context) -> bool:
        is_owed = False
        for asset in self._assets():
            store = context["asset_state_store"][asset]
            is_owed = bool(store.get(_OWED, default=False)) or is_owed
            store.set(_OWED, True)
        return is_owed

    def _settle_debt(self, context: Context) -> None:
        for asset in self._assets():
            context["asset_state_store"][asset].delete(_OWED)


class RefreshOperator(RefreshingOperator):
    """Refreshes an aggregate: a window of it, or everything that is dirty.

    Args:
        start: First instant (templated); open if omitted.
        end: First instant after the window (templated); by default the end of the newest bucket.
        force: Compute clean buckets again, too.
        strict: Refuse a refresh that is not incremental.
        max_runs: Maximum number of runs; the rest stays dirty.
        kwargs: Arguments of :class:`CommandOperator`.
    """

    template_fields: Sequence[str] = (*CommandOperator.template_fields, "start", "end")

    def __init__(
        self,
        *,
        start: str | None = None,
        end: str | None = None,
        force: bool = False,
        strict: bool = False,
        max_runs: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.start = start
        self.end = end
        self.force = force
        self.strict = strict
        self.max_runs = max_runs

    def execute(self, context: Context) -> dict[str, Any]:
        """See the class."""
        flags = options(start=self.start, end=self.end, force=self.force, strict=self.strict, max_runs=self.max_runs)
        return self.refresh(context, [["refresh", self.aggregate, *flags]])


class BackfillOperator(RefreshingOperator):
    """Refreshes a window in runs; after an interruption the next backfill continues with the rest.

    Args:
        start: First instant (templated); open if omitted.
        end: First instant after the window (templated); by default the end of the newest bucket.
        buckets_per_run: Buckets of one run; by default runs are sized by source rows.
        order: The end to start from, ``newest`` or ``oldest``.
        max_runs: Maximum number of runs; the rest stays dirty.
        force: Compute clean buckets again, too.
        kwargs: Arguments of :class:`CommandOperator`.
    """

    template_fields: Sequence[str] = (*CommandOperator.template_fields, "start", "end")

    def __init__(
        self,
        *,
        start: str | None = None,
        end: str | None = None,
        buckets_per_run: int | None = None,
        order: str = "newest",
        max_runs: int | None = None,
        force: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.start = start
        self.end = end
        self.buckets_per_run = buckets_per_run
        self.order = order
        self.max_runs = max_runs
        self.force = force

    def execute(self, context: Context) -> dict[str, Any]:
        """See the class."""
        flags = options(
            start=self.start,
            end=self.end,
            buckets_per_run=self.buckets_per_run,
            order=self.order,
            max_runs=self.max_runs,
            force=self.force,
        )
        return self.refresh(context, [["backfill", self.aggregate, *flags]])


class VerifyOperator(CommandOperator):
    """Compares an aggregate with plain Spark; fails at once if they differ.

    Args:
        start: First instant (templated); open if omitted.
        end: First instant after the window (templated); open if omitted.
        kwargs: Arguments of :class:`CommandOperator`.
    """

    template_fields: Sequence[str] = (*CommandOperator.template_fields, "start", "end")
    ui_color = "#e6f4e1"

    def __init__(self, *, start: str | None = None, end: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start = start
        self.end = end

    def execute(self, context: Context) -> dict[str, Any]:
        """See the class."""
        del context
        outcome = self.run_command(["verify", self.aggregate, *options(start=self.start, end=self.end)])
        judge([outcome])
        return dict(outcome.document)


class CheckOperator(CommandOperator):
    """Checks the output of an aggregate with its suite; fails at once if a critical expectation is not met.

    Args:
        start: First instant (templated); open if omitted.
        end: First instant after the window (templated); open if omitted.
        docs: Folder for Data Docs (templated); none are written if omitted.
        kwargs: Arguments of :class:`CommandOperator`.
    """

    template_fields: Sequence[str] = (*CommandOperator.template_fields, "start", "end", "docs")
    ui_color = "#e6f4e1"

    def __init__(
        self, *, start: str | None = None, end: str | None = None, docs: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.start = start
        self.end = end
        self.docs = docs

    def execute(self, context: Context) -> dict[str, Any]:
        """See the class."""
        del context
        flags = options(start=self.start, end=self.end, docs=self.docs)
        outcome = self.run_command(["check", self.aggregate, *flags])
        judge([outcome])
        return dict(outcome.document)


def options(**given: str | int | bool | None) -> list[str]:
    """Return options of a command; an option that is None, empty or False is omitted.

    Examples:
        >>> options(start="2024-03-01", force=True, max_runs=None)
        ['--start', '2024-03-01', '--force']
    """
    words: list[str] = []
    for name, value in given.items():
        if value is None or value is False or value == "":
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(str(value))
    return words

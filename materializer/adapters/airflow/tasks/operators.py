"""Operators: the command line's commands as tasks, for generated DAGs and for people's own.

A task runs its command in a process of its own (:mod:`materializer.adapters.airflow.tasks.command`), so that the memory of its
JVM is free when it ends, and the interpreter may be another environment's. The lines that it tells go to the log, its JSON
document is the task's result. How it ends decides how the task ends:

=========================================  ===============================================================
the command                                the task
=========================================  ===============================================================
did something                              succeeds and emits its outlets, with what was done
found nothing to do (3)                    is skipped with its summary; emits nothing
conflict, lease held (75), storage (74),   fails and is retried, as its ``retries`` say
lost Spark (71 ``spark.failed``, ``spark.died``, ``spark.result-too-large``), signal
everything else                            fails at once: the same call would fail again
=========================================  ===============================================================
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from materializer.adapters.airflow.tasks import results
from materializer.adapters.airflow.tasks.command import Command, Outcome, Verdict

if TYPE_CHECKING:
    from airflow.sdk import Context

RESULT: Final = "return_value"
_OWED: Final = "materializer.owed"


class CommandFailedError(AirflowException):
    """The command failed in a way that the next try may not."""


class CommandOperator(BaseOperator):
    """Runs one command about one aggregate.

    Args:
        lake: Root folder of the lake (templated).
        aggregate: Name of the aggregate (templated).
        interpreter: The Python that has materializer installed; the one that runs the task by default.
        config: Configuration file (templated); ``materializer.toml`` of the working directory by default.
        environment: Environment variables besides those of the task.
        kwargs: As of every operator.
    """

    template_fields: Sequence[str] = ("lake", "aggregate", "config")
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
        """Run one command to its end, its progress going to the log; does not judge how it ended."""
        self._command = Command(
            list(arguments), self.lake, self.interpreter or sys.executable, self.config, self.environment or {}
        )
        self.log.info("Running %s", self._command.text)
        outcome = self._command.run(self.log.info)
        if outcome.verdict in {Verdict.FAIL, Verdict.RETRY}:
            for line in outcome.problem_lines:
                self.log.error("%s", line)
        return outcome

    def on_kill(self) -> None:
        """End the command and its JVM; what it leaves half done is repaired by the next one."""
        if self._command is not None:
            self.log.warning("Ending the command; the next one repairs what it leaves half done")
            self._command.stop()


def judge(outcomes: Sequence[Outcome]) -> None:
    """Fail the task if a command failed, for another try if any of them may succeed then.

    Raises:
        CommandFailedError: To be retried.
        AirflowFailException: Not to be retried.
    """
    failed = [o for o in outcomes if o.verdict in {Verdict.FAIL, Verdict.RETRY}]
    problem = "\n".join(o.problem for o in failed)
    if any(o.verdict is Verdict.RETRY for o in failed):
        raise CommandFailedError(problem)
    if failed:
        raise AirflowFailException(problem)


class RefreshingOperator(CommandOperator):
    """Runs commands that change an aggregate, and emits its outlets if they did, or if an earlier task owed it.

    A task that dies or fails after it has published something emits nothing, and its retry finds nothing to do. So that
    whoever waits for the outlet is woken all the same, a task notes in the outlet's state store that it owes an event
    before it runs, and clears the note when it knows.
    """

    def refresh(self, context: Context, commands: Iterable[Sequence[str]]) -> dict[str, Any]:
        """Run commands one after the other, all of them also when one fails, and end the task as they did."""
        is_owed = self._note_debt(context)
        outcomes = [self.run_command(arguments) for arguments in commands]
        judge(outcomes)
        document = results.shortened(results.merged(o.document for o in outcomes))
        told = results.summary(document)
        if all(o.verdict is Verdict.IDLE for o in outcomes) and not is_owed:
            self._settle_debt(context)
            self.skip_with(context, document, told)
        self.log.info("%s", told)
        for asset in self._assets():
            context["outlet_events"][asset].extra.update(results.event_of(document) | {"owed": is_owed})
        self._settle_debt(context)
        return document

    def skip_with(self, context: Context, document: Mapping[str, Any], told: str) -> None:
        """End the task as skipped, with a result.

        Raises:
            AirflowSkipException: Always.
        """
        self.log.info("%s", told)  # Airflow hides the reason of a skip in a part of the log that is folded
        context["ti"].xcom_push(key=RESULT, value=document)
        raise AirflowSkipException(told)

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
        start: First instant (templated); open when left out.
        end: First instant after the window (templated); the end of the newest bucket when left out.
        force: Compute clean buckets again too.
        strict: Refuse what is not incremental.
        max_runs: Stop after so many runs; the rest stays dirty.
        kwargs: As of :class:`CommandOperator`.
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
    """Refreshes a window in runs; one that is stopped goes on where it was.

    Args:
        start: First instant (templated); open when left out.
        end: First instant after the window (templated); the end of the newest bucket when left out.
        buckets_per_run: Buckets of one run; sized by source rows when left out.
        order: Which end is done first, ``newest`` or ``oldest``.
        max_runs: Stop after so many runs; the rest stays dirty.
        force: Compute clean buckets again too.
        kwargs: As of :class:`CommandOperator`.
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
    """Compares an aggregate with plain Spark; fails at once when they differ.

    Args:
        start: First instant (templated); open when left out.
        end: First instant after the window (templated); open when left out.
        kwargs: As of :class:`CommandOperator`.
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
    """Answers the suite of an aggregate about what it publishes; fails at once when something critical is not met.

    Args:
        start: First instant (templated); open when left out.
        end: First instant after the window (templated); open when left out.
        docs: Folder for Data Docs (templated); none are written when left out.
        kwargs: As of :class:`CommandOperator`.
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
    """Return options of a command; one that is None, empty or False is left out.

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

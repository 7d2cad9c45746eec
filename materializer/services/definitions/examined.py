"""Which definitions of a command are right: first as far as this process knows, since starting Spark takes seconds.

Spark is asked of the rest only where nothing is wrong yet: who has a mistake to mend need not wait for it to start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.spec.spec import AggregateSpec
from materializer.errors import DefinitionError, Problem
from materializer.services.activity import Phase, tell_each
from materializer.services.definitions.batch import Batch
from materializer.services.definitions.changes import CheckedDefinition

if TYPE_CHECKING:
    from materializer.spark.run.spark import Spark


class SparkNeededError(Exception):
    """Spark has to be asked of a definition, and does not run."""


class LaterSpark:
    """Spark for the checks of definitions, which is not started while it is closed.

    Args:
        engine: Starts Spark on first use.
        starting: Returns the seconds that starting it takes, 0 where it runs.
    """

    def __init__(self, engine: Callable[[], Spark], starting: Callable[[], float]) -> None:
        self._engine, self._starting = engine, starting
        self.is_closed = False

    def __call__(self) -> Spark:
        """Return Spark.

        Raises:
            SparkNeededError: If it is closed, and does not run.
        """
        if self.is_closed and self._starting():
            raise SparkNeededError
        return self._engine()


class Examined(Struct, frozen=True):
    """What was found out about the definitions of a command.

    Args:
        prepared: Those that are right, aggregates that others read before these.
        problems: What is wrong with others.
        left: Names of those that were not checked to the end, because Spark has to be asked and something is wrong already.
    """

    prepared: list[CheckedDefinition]
    problems: list[Problem]
    left: tuple[str, ...] = ()


def examined(
    batch: Batch, spark: LaterSpark, check: Callable[[AggregateSpec], CheckedDefinition], *, is_wrong: bool | None
) -> Examined:
    """Return what is found out about the definitions of a batch.

    Args:
        batch: The definitions.
        spark: Spark, as *check* has it.
        check: Checks one of them.
        is_wrong: Whether something is wrong already, so that Spark is not started; None to start it whatever is wrong.
    """
    specs = list(batch.ordered())
    spark.is_closed = is_wrong is not None
    try:
        found, left = _round(specs, batch, check)
        if left and not is_wrong and not found.problems:
            spark.is_closed = False
            rest, left = _round(left, batch, check)
            at = {spec.name.lower(): place for place, spec in enumerate(specs)}
            prepared = sorted([*found.prepared, *rest.prepared], key=lambda each: at[each.spec.name.lower()])
            found = Examined(prepared, rest.problems)
    finally:
        spark.is_closed = False
    return replace(found, left=tuple(spec.name for spec in left))


def _round(
    specs: Sequence[AggregateSpec], batch: Batch, check: Callable[[AggregateSpec], CheckedDefinition]
) -> tuple[Examined, list[AggregateSpec]]:
    """Check definitions, and return what was found beside those that were left to Spark, and those that read these."""
    found, left, names = Examined([], []), list[AggregateSpec](), set[str]()
    for spec in tell_each(Phase.DEFINING, specs):
        if problems := batch.problems_of(spec):
            found.problems.extend(problems)
            batch.refuse(spec)
            continue
        parent = batch.parent(spec) if left else None
        if parent is not None and parent.name in names:
            left.append(spec)
            names.add(spec.name)
            continue
        try:
            checked = check(spec)
        except SparkNeededError:
            left.append(spec)
            names.add(spec.name)
        except DefinitionError as exc:
            found.problems.extend(_of(spec, problem) for problem in exc.problems)
            batch.refuse(spec)
        else:
            found.prepared.append(checked)
            batch.accept(checked.spec, checked.source, checked.schemas)
    return found, left


def _of(spec: AggregateSpec, problem: Problem) -> Problem:
    """Return a problem that names its aggregate, when it has no place of its own."""
    if problem.line or problem.message.startswith(f"{spec.name}:"):
        return problem
    return replace(problem, message=f"{spec.name}: {problem.message}")

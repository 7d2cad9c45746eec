"""What computes a run: this process if it is small and has local forms, else Spark; and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.compiled.definition import Definition
from materializer.core.engines.work import Work
from materializer.core.quality.builtin import built_in
from materializer.core.quality.compiled import CompiledSuite
from materializer.core.quality.gates import has_gate, is_on
from materializer.core.refresh.plan import OPENED, ExecutorKind, Lane, Plan
from materializer.core.time.spans import Span, SpanSet
from materializer.errors import DefinitionError, NotLocalError
from materializer.local.executor import LocalExecutor
from materializer.local.kinds import BUG
from materializer.services.aggregate import Aggregate
from materializer.services.definitions import suites


class Needs(Struct, frozen=True):
    """What computing a plan in this process needs, beside what its estimate says.

    Args:
        rows: Rows of the source that all runs of the request need, about.
        read: Bytes that the rows of the run have in memory, about.
        results: Bytes that its groups have, at most; 0 for an engine, whose lane tells.
    """

    rows: float = 0
    read: float = 0
    results: float = 0

    def shares(self, local: LocalExecutor) -> float:
        """Return into how many runs the run has to be cut to fit into the memory, at least."""
        return max(self.read, self.results) / max(local.size, 1)


def chosen(
    aggregate: Aggregate,
    plan: Plan,
    work: Work | None,
    wanted: str,
    local: LocalExecutor | None,
    needs: Needs,
) -> tuple[ExecutorKind, str]:
    """Return what computes a plan, and why.

    Args:
        aggregate: The aggregate.
        plan: The plan, with its lane.
        work: The work of an engine.
        wanted: The executor that is asked for, or ``auto``.
        local: The local executor; None if there is none.
        needs: What the plan needs.

    Raises:
        NotLocalError: If the local executor was asked for and cannot compute the plan. Nothing was written.
    """
    if wanted == "spark" or local is None:
        return ExecutorKind.SPARK, "the settings say so" if wanted == "spark" else "nothing else is there"
    reason = _too_large(plan, work, local, needs) or _no_form(aggregate, plan, local)
    if not reason:
        rows, likely = plan.estimate.rows, plan.estimate.likely_rows
        what = f"reads {rows:,} rows" if rows <= local.rows else f"needs about {likely:,} of {rows:,} rows"
        return ExecutorKind.LOCAL, f"it {what}, and up to {local.rows:,} are computed here"
    if wanted == "local":
        raise NotLocalError(
            f"'{aggregate.name}' cannot be computed without Spark: {reason}", hint="leave the choice to 'auto'"
        )
    return ExecutorKind.SPARK, reason


def is_only_too_large(aggregate: Aggregate, plan: Plan, local: LocalExecutor, needs: Needs) -> bool:
    """Return whether this process could compute smaller parts of a plan of a continuous aggregate, but not the whole plan."""
    few = replace(needs, read=0, results=0)
    return needs.shares(local) > 1 and not _too_large(plan, None, local, few) and not _no_form(aggregate, plan, local)


def _too_large(plan: Plan, work: Work | None, local: LocalExecutor, needs: Needs) -> str:
    rows, size = plan.estimate.rows, plan.estimate.bytes
    # rows of other buckets and keys are skipped while files are read, and never in memory together
    is_by_key = work is not None and work.only is not None
    needed = max(round(needs.rows), plan.estimate.likely_rows)
    if needed > local.rows and not is_by_key:
        return f"it reads {needed:,} rows, and up to {local.rows:,} are computed here"
    if needs.shares(local) > 1 and not is_by_key:
        most = max(needs.read, needs.results)
        return f"its rows take about {most:,.0f} bytes, and up to {local.size:,} fit here"
    if rows > OPENED * local.rows:
        return f"it opens files of {rows:,} rows, and up to {OPENED * local.rows:,} are opened here"
    if size > OPENED * local.size:
        return f"it opens files of {size:,} bytes, and up to {OPENED * local.size:,} are opened here"
    is_large = work is not None and plan.lane is Lane.SPARK
    return "its result may be larger than what the driver holds" if is_large else ""


def why_not_here(aggregate: Aggregate, plan: Plan, local: LocalExecutor) -> str:
    """Return why this process cannot compute the rows of a plan of a continuous aggregate that is never written; "" if it can."""
    return _too_large(plan, None, local, Needs()) or _no_form_of_rows(aggregate, local)


def _no_form_of_rows(aggregate: Aggregate, local: LocalExecutor) -> str:
    if aggregate.source.name:
        return f"its source is read by its name {aggregate.source.name}, which a catalog guards"
    found = local.why_not(aggregate.definition)
    return found if not found or found.startswith(BUG) else f"the local executor has no form for {found}"


def _no_form(aggregate: Aggregate, plan: Plan, local: LocalExecutor) -> str:
    if found := _no_form_of_rows(aggregate, local):
        return found
    given = suites.values(aggregate.definition, plan.n, plan.source_version, plan.window)
    return next(_of_gate(aggregate.definition, given, plan.spans), "")


def obstacles(aggregate: Aggregate) -> tuple[str, ...]:
    """Return which parts of an aggregate only Spark can compute or check; none if this process can do what is small."""
    from materializer.local.forms import obstacles as of_definition  # noqa: PLC0415 (it loads a parser)

    definition, instant = aggregate.definition, Span(0, 1)
    name = aggregate.source.name
    by_name = [f"its source is read by its name {name}, which a catalog guards"] if name else []
    given = suites.values(definition, 1, 1, instant)  # of the kinds that a refresh gives
    return (*by_name, *of_definition(definition), *_of_gate(definition, given, SpanSet.of(instant)))


def _of_gate(definition: Definition, given: Mapping[str, Any], spans: SpanSet) -> Iterator[str]:
    """Yield which checks of a gate only Spark can make."""
    spec, columns = definition.spec, dict(definition.output_columns)
    if not has_gate(spec):
        return
    from materializer.local.audit import why_not  # noqa: PLC0415 (it loads a parser)

    known = suites.of(spec)
    if suites.SOURCE in known:
        yield "its gate checks rows of the source"
    try:
        suite = CompiledSuite.of(known.get(suites.OUTPUT), given, columns)
    except DefinitionError as exc:
        yield f"its suite has no form: {exc.message}"
        return
    yield from (f"Great Expectations checks {e.type}, over rows of Spark" for e in suite.left)
    own = built_in(definition, columns, spans, 0) if is_on(spec.property_map, "quality.checks") else []
    for check in (*own, *suite.checks):
        if why := why_not(check, columns):
            yield f"the local executor has no form for {check.type}: {why}"

"""What a resolved definition may not ask for: policies that do not fit it, and frozen history computed again."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

from materializer.core.policy import retention
from materializer.core.policy.policies import Refusal, policies_of, problems_of, split_key
from materializer.core.spec.spec import AggregateSpec, TimeType
from materializer.core.time.instants import render, shown_as
from materializer.core.time.spans import NEG_INF
from materializer.errors import DefinitionError, FrozenHistoryError, Problem
from materializer.journal.state import AggregateState
from materializer.services.definitions import cron


def refuse_policies(spec: AggregateSpec, schemas: Mapping[str, Any] | None = None) -> None:
    """Refuse policies that do not fit a resolved definition, now that the type of time and slices are known.

    Args:
        spec: The definition.
        schemas: Column names and Spark types of its tables, None before they are known.

    Raises:
        DefinitionError: With every problem of the policies.
    """
    found = list(problems_of(spec.property_map, spec.grid, spec.resolution))
    found += retention.problems_of(spec.property_map, spec.grid, spec.resolution)
    if spec.is_engine:
        found += _retention_of_engines(spec, schemas and [name for name, _ in schemas["partials"]])
    for policy in policies_of(spec):
        if policy.schedule is not None and (why := cron.refusal(policy.schedule)):
            message = f"the schedule '{policy.schedule}' of policy '{policy.name}' cannot be read: {why}"
            hint = "write five cron fields such as '*/5 * * * *'"
            found.append((policy.schedule, "definition.property", message, hint))
    if found:
        raise DefinitionError(
            Problem(code, f"{spec.name}: {message}", hint, about=(split_key(key) or [key])[0])
            for key, code, message, hint in found
        )


def refuse_unstorable(spec: AggregateSpec, schemas: Mapping[str, Any]) -> None:
    """Refuse a definition whose tables cannot be made, or which could not be read from a journal again.

    Args:
        spec: The definition, resolved.
        schemas: Column names and Spark types of its tables.

    Raises:
        DefinitionError: If it is one.
    """
    from materializer.core.compiled.trusted import problems_of as why_not_read  # noqa: PLC0415 (only new definitions)
    from materializer.lake.write.commit import why_no_table  # noqa: PLC0415 (it loads the library)

    for columns in schemas.values():
        for name, kind in columns:
            if why := why_no_table([(name, kind)]):
                hint = "give its fields other names, or take what is needed of it"
                raise DefinitionError(
                    [Problem("definition.wrong-type", f"{spec.name}: `{name}`: {why}", hint, about=name)]
                )
    if why := next(why_not_read(spec), ""):
        raise DefinitionError([Problem("definition.invalid", f"{spec.name}: {why}", "write it another way")])


def _retention_of_engines(spec: AggregateSpec, stored: Container[str] | None) -> Iterator[Refusal]:
    """Yield why the raw rows of a resolved definition of an engine cannot go, if they cannot."""
    from materializer.core.engines.compile import check_params  # noqa: PLC0415 (only engines)

    hint = "leave it away, and keep the rows of the source"
    if retention.SOURCE in spec.property_map and (why := check_params(spec).why_not_freezable(spec.lateness, stored)):
        message = f"'{retention.SOURCE}': it needs the raw rows of its history: {why}"
        yield retention.SOURCE, "definition.retention", message, hint


def refuse_frozen(state: AggregateState, what: str) -> None:
    """Refuse what would compute an aggregate again whose raw rows may be gone.

    Args:
        state: The aggregate.
        what: What was asked, in words.

    Raises:
        FrozenHistoryError: If its history is frozen.
    """
    if state.frozen == NEG_INF:
        return
    spec = AggregateSpec.from_json(state.spec)
    bound = render(state.frozen, shown_as(spec.time_type or TimeType.TIMESTAMP, spec.resolution))
    raise FrozenHistoryError(
        f"'{state.name}' is frozen below {bound}: {what} would hold what its source still has and no more",
        hint=f"apply it under another name, or give its history up with 'materializer thaw {state.name} --yes'",
    )

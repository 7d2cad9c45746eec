"""What no state may have: names, definitions and kinds of values that `apply` and the protocol never write.

Who can write to the journal could else have any path written, any function run, or stop every command of the lake.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Final

from materializer.core.compiled.trusted import problems_of
from materializer.core.spec.spec import ID, NAME
from materializer.errors import NOTHING, JournalVersionError
from materializer.journal.state import AggregateState, spec_of

_WHOLE: Final = (
    "cursor",
    "threshold",
    "extent_end",
    "followed_end",
    "last_n",
    "written_n",
    "frozen",
    "retired",
    "expired_rows",
    "null_times",
    "delivered",
)
_MISSING: Final = ("expired_rows", "null_times", "delivered")
"""Of these, what need not be known."""
_OBJECTS: Final = (
    "spec",
    "schemas",
    "tables",
    "engine",
    "engine_next",
    "verdict",
    "policy_runs",
    "maintained",
    "canaries",
    "mark.commits",
)
_of_whole: Final = attrgetter(*_WHOLE)
_of_objects: Final = attrgetter(*_OBJECTS)


def refuse_definition(state: AggregateState) -> None:
    """Refuse a definition that `apply` would have refused, or that only another version reads."""
    try:
        spec = spec_of(state)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError) as exc:
        msg = f"its definition cannot be read: {type(exc).__name__}: {exc}"
        raise ValueError(msg) from exc
    if spec.is_engine and not _is_known(spec.engine):
        raise JournalVersionError(
            f"'{state.name}' is computed by the engine {spec.engine[:60]!r}, which this version does not know",
            hint="use the materializer version that wrote it, or a newer one",
            wrote=NOTHING,
        )
    if problem := next(problems_of(spec), ""):
        msg = f"its definition is one that 'apply' refuses: {problem}"
        raise ValueError(msg)


def _is_known(engine: str) -> bool:
    from materializer.core.engines.registry import ENGINES  # noqa: PLC0415 - few aggregates have an engine

    return engine in ENGINES


def refuse_kinds(state: AggregateState) -> None:
    """Refuse values of another kind than all that uses them expects: no decoder looks at whole numbers, texts and objects."""
    whole = _of_whole(state)
    for name, value in zip(_WHOLE, whole, strict=True) if set(map(type, whole)) != {int} else ():
        if type(value) is not int and not (value is None and name in _MISSING):
            msg = f"`{name}` is {str(value)[:60]!r} and no whole number"
            raise TypeError(msg)
    objects = _of_objects(state)
    for name, value in zip(_OBJECTS, objects, strict=True) if set(map(type, objects)) != {dict} else ():
        if not isinstance(value, Mapping):
            msg = f"`{name}` is {str(value)[:60]!r} and no object"
            raise TypeError(msg)
    for ended in state.ended[-1:]:
        if type(ended.n) is not int or type(ended.outcome) is not str or not isinstance(ended.verdict, Mapping):
            msg = "what is said of an ended refresh is none"
            raise TypeError(msg)


def refuse_names(state: AggregateState) -> None:
    """Refuse names that are made of more than a folder may be named: our tables lie in folders of these names."""
    if not NAME.match(state.name):
        msg = f"it has the name {state.name[:60]!r}"
        raise ValueError(msg)
    for each in (state.id, state.data_version, *(str(version["data_version"]) for version in state.previous)):
        if not ID.match(each):
            msg = f"it has the id {each[:60]!r}"
            raise ValueError(msg)

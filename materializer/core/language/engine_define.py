"""The Python form of an engine's definition: the parts of every definition, plus the engine's parameters in snake case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace
from sqlglot import exp

from materializer.core.engines.compile import output_columns
from materializer.core.engines.daily_time_series import dated
from materializer.core.engines.registry import ENGINES, LATENESS, read_params
from materializer.core.language.define import define
from materializer.core.language.properties import HANDLER, read_properties
from materializer.core.policy.policies import problems_of
from materializer.core.spec.spec import AggregateSpec, Resolution
from materializer.core.sql.functions import nearest
from materializer.core.sql.tokens import fragment_of
from materializer.errors import DefinitionError, Problem

LASTING: Final = tuple(name for name, module in ENGINES.items() if module == "interval_windows")
"""The engines over events with a start and an end."""
DAILY: Final = "daily_time_series"
"""The engine whose windows lie in trading days."""
ROWS: Final = "reactive_state"
"""The engine whose measures are computed for each row, without windows."""


def define_engine(
    name: str,
    source: str,
    *,
    engine: str,
    time: str,
    keys: Mapping[str, str] | Sequence[str] = (),
    measures: Mapping[str, str] | Sequence[Mapping[str, str]],
    where: str | None = None,
    sequence: str | None = None,
    lateness: str = "recompute",
    resolution: Resolution | str | None = None,
    comment: str = "",
    properties: Mapping[str, str] | None = None,
    known_python: frozenset[str] = frozenset(),
    **params: Any,
) -> AggregateSpec:
    """Return the definition of an engine, equal to the one that SQL gives for the same parts.

    Args:
        name: Name of the aggregate.
        source: A path or a name.
        engine: One of :data:`~materializer.core.engines.registry.ENGINES`.
        time: Column of the event time; for events with a start and an end, the column of the start.
        keys: Expressions by output name, or names of columns.
        measures: Expressions by output name; with several window sizes, one mapping for each size.
        where: Row filter, applied before anything else.
        sequence: Column that orders rows of equal time, and rows of one commit.
        lateness: ``recompute``, ``strict`` or ``delay``.
        resolution: Meaning of one tick of an integer time column.
        comment: Text for people.
        properties: The same properties as in the SQL form.
        known_python: Names of the user's Python aggregates.
        params: The engine's parameters; ``slice`` sets the length of time that a refresh replaces as a unit.

    Raises:
        DefinitionError: With all problems, if there is any.
    """
    if engine not in ENGINES:
        hint = nearest(engine, list(ENGINES)) or f"the engines are {', '.join(ENGINES)}"
        raise DefinitionError([Problem("definition.engine", f"{name}: there is no engine '{engine}'", hint)])
    problems: list[Problem] = []
    if lateness not in LATENESS:
        message = f"{name}: there is no lateness '{lateness}'"
        problems.append(Problem("definition.lateness", message, f"write one of {', '.join(LATENESS)}"))
    elif lateness != "recompute" and engine in LASTING:
        message = f"{name}: events that last have no lateness '{lateness}'"
        problems.append(Problem("definition.lateness", message, "write 'recompute'"))
    flat, given = _flat(measures, params)
    stored = dict(properties or {}) | {n: str(_plain(given[n])) for n in HANDLER if given.get(n) is not None}
    policies = _policies({n: v for n, v in stored.items() if n.lower().startswith("refresh.")}, problems)
    stored = {n: v for n, v in stored.items() if not n.lower().startswith("refresh.")}
    given = {n: v for n, v in given.items() if n not in HANDLER}
    texts: Mapping[str, str] = {"rows": "count(*)"} if engine == ROWS else flat
    try:
        spec = define(
            name, source, time=time, width="1 hour", keys=keys, measures=texts, where=where, bucket="slice",
            sequence=sequence, resolution=resolution, comment=comment,
            properties=stored, known_python=known_python,
        )  # fmt: skip
    except DefinitionError as exc:
        problems += exc.problems
        counts = {f"m{i}": "count(*)" for i in range(len(flat))}
        try:  # the parameters are checked as well, with other keys and measures
            spec = define(
                name, source, time=time, width="1 hour", measures=counts, bucket="slice", resolution=resolution
            )
        except DefinitionError:
            raise DefinitionError(problems) from exc
    spec = replace(spec, properties=tuple(sorted((*spec.properties, *policies))))
    return engine_spec(spec, engine, given, lateness, flat if engine == ROWS else None, problems)


def engine_spec(
    spec: AggregateSpec,
    engine: str,
    params: Mapping[str, Any],
    lateness: str,
    row_measures: Mapping[str, str] | None,
    problems: list[Problem],
) -> AggregateSpec:
    """Return *spec* as the definition of an engine, with its parameters checked.

    Raises:
        DefinitionError: With *problems* and all problems of the parameters, if there is any.
    """
    reads = set(spec.reads) | {str(params[p]) for p in ("end",) if params.get(p) is not None}
    if row_measures is not None:
        params = {**params, "metrics": [[n, text] for n, text in row_measures.items()]}
        shown = str(params.get("filter") or "true")
        reads |= {c for text in row_measures.values() for c in _columns(text)}
        reads |= {c for c in _columns(shown) if c not in row_measures}
    given = {n: v if n == "metrics" else _plain(v) for n, v in params.items() if v is not None}
    if engine == DAILY:
        given |= dated(given)
    stored = tuple(sorted((n, v) for n, v in given.items() if (n, v) != ("label", "time")))
    spec = replace(
        spec,
        engine=engine,
        params=stored,
        lateness=lateness,
        measures=() if row_measures is not None else spec.measures,
        reads=tuple(sorted(reads)),
        bucket_start="slice",
        bucket_end=None,
    )
    spec = replace(spec, columns=output_columns(spec))
    _, troubles = read_params(spec)
    problems += [Problem(t.code, f"{spec.name}: {t.message}", t.hint, about=t.about) for t in troubles]
    if problems:
        raise DefinitionError(list(dict.fromkeys(problems)))
    return spec


def _flat(
    measures: Mapping[str, str] | Sequence[Mapping[str, str]], params: dict[str, Any]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return all measures as one mapping, and the parameters with the window size of each measure added."""
    if isinstance(measures, Mapping):
        return dict(measures), params
    flat = {name: text for group in measures for name, text in group.items()}
    sizes = [i for i, group in enumerate(measures) for _ in group]
    return flat, {**params, "measure_sizes": sizes}


def _policies(given: Mapping[str, str], problems: list[Problem]) -> tuple[tuple[str, str], ...]:
    """Return the properties of refresh policies, with the checks that need no grid, because slices are not known yet."""
    settings = read_properties([(n, v, fragment_of("", "properties")) for n, v in given.items()], problems)
    for key, *refusal in problems_of(settings.sound, None, Resolution.NONE):
        problems.append(settings.places[key].problem(*refusal))
    return settings.stored


def _columns(text: str) -> set[str]:
    """Return the columns of an expression over rows."""
    return {column.name for column in fragment_of(text, "measure").tree().find_all(exp.Column)}


def _plain(value: Any) -> Any:
    """Return a value in its SQL form, so that both forms store the same: a text, or a list joined by commas."""
    if isinstance(value, (list, tuple)):
        parts = [_plain(v) for v in value]
        is_flat = all(isinstance(p, str) and "," not in p for p in parts)
        return ",".join(parts) if is_flat and parts else parts
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)

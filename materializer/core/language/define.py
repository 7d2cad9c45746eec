"""The Python form of a definition: the same checks and an equal spec, from expressions without a `SELECT` around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from materializer.core.dialect import is_name
from materializer.core.language.assemble import assemble, name_problem
from materializer.core.language.draft import Draft, OutputColumn
from materializer.core.language.properties import read_properties
from materializer.core.language.statement import Source, read_source
from materializer.core.spec.spec import AggregateSpec, GridSpec, Resolution, Width
from materializer.core.sql.time_bucket import read_instant, read_width
from materializer.core.sql.tokens import Fragment, Refused, fragment_of
from materializer.errors import DefinitionError, Problem


def define(
    name: str,
    source: str,
    *,
    time: str,
    width: str | int,
    keys: Mapping[str, str] | Sequence[str] = (),
    measures: Mapping[str, str],
    where: str | None = None,
    having: str | None = None,
    timezone: str | None = None,
    origin: str | int | None = None,
    offset: str | int | None = None,
    bucket: str = "bucket",
    bucket_end: str | None = None,
    bucket_time: str | None = None,
    sequence: str | None = None,
    resolution: Resolution | str | None = None,
    comment: str = "",
    properties: Mapping[str, str] | None = None,
    align: Literal["time_bucket", "window"] = "time_bucket",
    known_python: frozenset[str] = frozenset(),
) -> AggregateSpec:
    """Return the definition, equal to the one that SQL gives for the same parts.

    The output columns are the bucket, its end if requested, the keys and the measures, in this order.

    Args:
        name: Name of the aggregate.
        source: A path (with a slash), ``delta.`path```, or a name with or without dots.
        time: Column that holds the event time.
        width: Length of a bucket, such as ``"15 minutes"``; a whole number for bare integer time.
        keys: Expressions by output name, or names of columns.
        measures: Expressions over aggregate calls, by output name.
        where: Row filter.
        having: Group filter; it may name measures and keys.
        timezone: Zone whose local time is divided into buckets.
        origin: An instant on an edge (UTC unless the text names another zone), or a whole number.
        offset: Shift of every edge.
        bucket: Output name of the bucket's start.
        bucket_end: Output name of the bucket's end, or None to leave it out.
        bucket_time: Output name of the bucket's last instant (`window_time`), or None to leave it out.
        sequence: Column that orders rows of equal time.
        resolution: Meaning of one tick of an integer time column.
        comment: Text for people.
        properties: The same properties as in the SQL form.
        align: ``window`` starts at the epoch like Spark's `window`, unless *origin* is given.
        known_python: Names of the user's Python aggregates.

    Raises:
        DefinitionError: With all problems, each naming its argument, if there is any.
    """
    problems: list[Problem] = []
    place = fragment_of("", "definition")
    refusal = name_problem(name, "aggregate")
    if refusal:
        problems.append(place.problem(*refusal))
    grid = _grid(problems, width, timezone, origin, offset, align)
    found = _source(problems, source)
    named = keys if isinstance(keys, Mapping) else {key: f"`{key}`" if not key.isidentifier() else key for key in keys}
    outputs = [OutputColumn(bucket, "start", None, fragment_of("", "bucket"))]
    outputs += [OutputColumn(bucket_end, "end", None, fragment_of("", "bucket_end"))] if bucket_end else []
    outputs += [OutputColumn(bucket_time, "time", None, fragment_of("", "bucket_time"))] if bucket_time else []
    outputs += _outputs(problems, "key", named)
    outputs += _outputs(problems, "measure", measures)
    items = dict(properties or {}) | {
        key: str(value) for key, value in (("sequence", sequence), ("time.resolution", resolution)) if value is not None
    }
    settings = read_properties([(key, value, fragment_of("", "properties")) for key, value in items.items()], problems)
    draft = Draft(
        name=name,
        source=found.name,
        qualifiers=found.qualifiers,
        time_column=_time(problems, time),
        grid=grid,
        bucket=None,
        outputs=tuple(outputs),
        where=_fragment(problems, where, "where"),
        having=_fragment(problems, having, "having"),
        comment=comment,
        settings=settings,
        place=place,
        is_origin_text=isinstance(origin, str),
    )
    spec = assemble(draft, known_python, problems, [])
    if problems or spec is None:
        raise DefinitionError(dict.fromkeys(problems))
    return spec


def _grid(
    problems: list[Problem],
    width: str | int,
    timezone: str | None,
    origin: str | int | None,
    offset: str | int | None,
    align: str,
) -> GridSpec:
    grid = GridSpec(Width(days=1), timezone, 0 if align == "window" else None)
    if align not in ("time_bucket", "window"):
        problems.append(
            fragment_of("", "align").problem(
                "definition.width", f"'{align}' is unknown", "write 'time_bucket' or 'window'"
            )
        )
    try:
        grid = replace(grid, width=read_width(_literal(width, "width")))
        if origin is not None:
            grid = replace(grid, origin=read_instant(_literal(origin, "origin")))
        if offset is not None:
            grid = replace(grid, offset=read_width(_literal(offset, "offset"), what="offset", may_be_zero=True))
    except Refused as refused:
        problems.append(refused.problem)
    return grid


def _literal(value: str | int, label: str) -> Fragment:
    """Return a number as digits, and a text as the string literal of SQL."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'") if isinstance(value, str) else ""
    return fragment_of(f"'{escaped}'" if isinstance(value, str) else str(value), label)


def _source(problems: list[Problem], source: str) -> Source:
    try:
        if "`" not in source and ("/" in source or ":" in source):
            return Source(source, frozenset())
        return read_source(fragment_of(source, "source"))
    except Refused as refused:
        problems.append(refused.problem)
        return Source(source, frozenset())


def _time(problems: list[Problem], time: str) -> str:
    fragment = _fragment(problems, time, "time")
    if fragment is not None and len(fragment) == 1 and is_name(fragment.tokens[0]):
        return fragment.tokens[0].text
    if fragment is not None:
        problem = (
            "definition.time-column",
            f"the time must be a column of the source, got `{time}`",
            "name one column",
        )
        problems.append(fragment.problem(*problem))
    return time


def _outputs(problems: list[Problem], kind: Literal["key", "measure"], texts: Mapping[str, str]) -> list[OutputColumn]:
    found = []
    for name, text in texts.items():
        fragment = _fragment(problems, text, f"{kind} '{name}'")
        if not name:
            problems.append(
                fragment_of("", kind).problem("definition.missing-alias", f"`{text}` has no name", "name it")
            )
        elif fragment is not None:
            found.append(OutputColumn(name, kind, fragment, fragment_of("", f"{kind} '{name}'")))
    return found


def _fragment(problems: list[Problem], text: str | None, label: str) -> Fragment | None:
    try:
        return fragment_of(text, label) if text is not None else None
    except Refused as refused:
        problems.append(refused.problem)
        return None

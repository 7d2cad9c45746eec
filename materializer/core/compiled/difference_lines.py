"""The differences between two definitions, as lines for people."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from materializer.core.compiled.sample import text_of, typed_where
from materializer.core.spec.spec import AggregateSpec, Resolution, TimeType
from materializer.core.time.grid import build
from materializer.core.time.trading_days import DAYS, changed

_PARTIAL = "type of the partial p_"
"""How the part of a definition begins that is the type of a partial which a roll-up reads."""


def differences(old: AggregateSpec, new: AggregateSpec) -> tuple[str, ...]:
    """Return the differences between two definitions, one ``-`` and one ``+`` line for each part.

    Args:
        old: The current definition, resolved.
        new: The definition that replaces it, resolved.
    """
    lines: list[str] = []
    before, after = dict(_parts(old)), dict(_parts(new))
    for part in dict.fromkeys((*before, *after)):
        was, is_now = before.get(part), after.get(part)
        if was == is_now:
            continue
        if part.startswith(_PARTIAL) and not (was and is_now):  # where it is another one, a measure says so
            continue
        shown = f"type of a partial of {new.source}" if part.startswith(_PARTIAL) else part
        lines += [f"- {shown}: {was}"] if was else []
        lines += [f"+ {shown}: {is_now}"] if is_now else []
    calendars = [str(dict(spec.params).get(DAYS, "")) for spec in (old, new)]
    return (*lines, *(changed(*calendars) if all(calendars) else ()))


def _parts(spec: AggregateSpec) -> Iterator[tuple[str, str]]:
    yield "source", spec.source
    yield "time", spec.time_column
    if spec.resolution is not Resolution.NONE:
        yield "resolution", spec.resolution.value
    if spec.is_engine:
        yield "engine", spec.engine
        yield "lateness", spec.lateness
    else:
        yield "buckets", build(spec.grid, spec.time_type or TimeType.TIMESTAMP, spec.resolution).describe()
    for name, value in spec.params:
        yield from _param(name, value)
    for key in spec.keys:
        yield f"key {key.name}", key.sql
    for measure in spec.measures:
        yield f"measure {measure.name}", measure.formula.fill([call.text for call in measure.formula.calls])
    if spec.rolls_up is not None:
        yield from _merged(spec, spec.rolls_up)
    yield "columns", ", ".join(spec.columns)
    yield "where", typed_where(spec) or ""
    yield "sample", text_of(spec)
    yield "having", spec.having.fill([call.text for call in spec.having.calls]) if spec.having else ""
    yield "sequence", spec.sequence or ""
    yield "comment", spec.comment
    for kind, text in spec.suites:
        yield from _suite(kind, text)
    for name, text in spec.properties:
        yield f"property {name}", text
    for name, text in spec.read_types:
        yield (
            f"{_PARTIAL}{name[2:]}" if spec.rolls_up is not None and name.startswith("p_") else f"type of {name}",
            text,
        )


def _merged(spec: AggregateSpec, parent: AggregateSpec) -> Iterator[tuple[str, str]]:
    """Yield the measures of its parent whose partials a roll-up merges."""
    used = {arg for m in spec.measures for call in m.formula.calls for arg in call.args}
    for measure in parent.measures:
        if measure.name in used:
            text = measure.formula.fill([call.text for call in measure.formula.calls])
            yield f"measure {measure.name} of {spec.source}", text


def _suite(kind: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a suite: its name and each expectation."""
    data = json.loads(text)
    yield f"suite of the {kind}", data.pop("name", "")
    seen: Counter[str] = Counter()
    for expectation in data.pop("expectations", []):
        kwargs = dict(expectation.get("kwargs", {}))
        column = kwargs.pop("column", None)
        name = f"suite of the {kind}, {expectation.get('type', '')}" + (f" of {column}" if column else "")
        seen[name] += 1
        more = {**kwargs, **{key: value for key, value in expectation.items() if key not in {"type", "kwargs"}}}
        values = [f"{key} {value if isinstance(value, str) else json.dumps(value)}" for key, value in more.items()]
        yield f"{name} ({seen[name]})" if seen[name] > 1 else name, ", ".join(values) or "expected"
    for key, value in data.items():
        yield f"suite of the {kind}, {key}", json.dumps(value)


def _param(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if name == "metrics":  # the measures of an engine without groups
        for measure, text in value:
            yield f"measure {measure}", text
    elif name != DAYS:  # the text of ten years takes four kilobytes
        yield f"parameter {name}", value if isinstance(value, str) else json.dumps(value)

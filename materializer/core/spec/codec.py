"""The JSON form of a definition, as the journal stores it.

Every field is written, so a stored definition keeps its meaning when a default changes. Reading is strict: a missing field
is a ``KeyError``, which the journal reports as corruption.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from materializer.core.spec.spec import (
    AggregateSpec,
    Call,
    Formula,
    GridSpec,
    Key,
    Measure,
    Resolution,
    TimeType,
    Width,
)


def encode(spec: AggregateSpec) -> dict[str, Any]:
    """Return *spec* as plain JSON values."""
    return {
        "name": spec.name,
        "source": spec.source,
        "time_column": spec.time_column,
        "time_type": spec.time_type.value if spec.time_type else None,
        "resolution": spec.resolution.value,
        "grid": encode_grid(spec.grid),
        "bucket_start": spec.bucket_start,
        "bucket_end": spec.bucket_end,
        "keys": [{"name": key.name, "sql": key.sql} for key in spec.keys],
        "measures": [{"name": m.name, "formula": encode_formula(m.formula)} for m in spec.measures],
        "columns": list(spec.columns),
        "where": spec.where,
        "having": encode_formula(spec.having) if spec.having else None,
        "sequence": spec.sequence,
        "reads": list(spec.reads),
        "read_types": [list(pair) for pair in spec.read_types],
        "comment": spec.comment,
        "properties": [list(pair) for pair in spec.properties],
        "engine": spec.engine,
        "params": [[name, value] for name, value in spec.params],
        "lateness": spec.lateness,
        "suites": [list(pair) for pair in spec.suites],
        "sql": spec.sql,
    }


def decode(data: Mapping[str, Any]) -> AggregateSpec:
    """Return the spec that :func:`encode` wrote.

    Raises:
        KeyError: If a field is missing.
        ValueError: If the name of a type or of a resolution is unknown.
    """
    return AggregateSpec(
        name=data["name"],
        source=data["source"],
        time_column=data["time_column"],
        time_type=TimeType(data["time_type"]) if data["time_type"] else None,
        resolution=Resolution(data["resolution"]),
        grid=_decode_grid(data["grid"]),
        bucket_start=data["bucket_start"],
        bucket_end=data["bucket_end"],
        keys=tuple(Key(key["name"], key["sql"]) for key in data["keys"]),
        measures=tuple(Measure(m["name"], _decode_formula(m["formula"])) for m in data["measures"]),
        columns=tuple(data["columns"]),
        where=data["where"],
        having=_decode_formula(data["having"]) if data["having"] else None,
        sequence=data["sequence"],
        reads=tuple(data["reads"]),
        read_types=tuple((name, kind) for name, kind in data["read_types"]),
        comment=data["comment"],
        properties=tuple((name, value) for name, value in data["properties"]),
        engine=data["engine"],
        params=tuple((name, value) for name, value in data["params"]),
        lateness=data["lateness"],
        suites=tuple((name, text) for name, text in data.get("suites", ())),  # not in the first journals
        sql=data["sql"],
    )


def encode_grid(grid: GridSpec) -> dict[str, Any]:
    """Return a grid as plain JSON values."""
    return {
        "width": _encode_width(grid.width),
        "timezone": grid.timezone,
        "origin": grid.origin,
        "offset": _encode_width(grid.offset) if grid.offset else None,
    }


def encode_formula(formula: Formula) -> dict[str, Any]:
    """Return a formula as plain JSON values."""
    return {"pieces": list(formula.pieces), "calls": [_encode_call(call) for call in formula.calls]}


def _decode_grid(data: Mapping[str, Any]) -> GridSpec:
    offset = _decode_width(data["offset"]) if data["offset"] else None
    return GridSpec(_decode_width(data["width"]), data["timezone"], data["origin"], offset)


def _encode_width(width: Width) -> dict[str, int | None]:
    return {"months": width.months, "days": width.days, "micros": width.micros, "ticks": width.ticks}


def _decode_width(data: Mapping[str, Any]) -> Width:
    return Width(data["months"], data["days"], data["micros"], data["ticks"])


def _decode_formula(data: Mapping[str, Any]) -> Formula:
    return Formula(tuple(data["pieces"]), tuple(_decode_call(call) for call in data["calls"]))


def _encode_call(call: Call) -> dict[str, Any]:
    return {
        "function": call.function,
        "args": list(call.args),
        "distinct": call.distinct,
        "where": call.where,
        "order_by": call.order_by,
        "text": call.text,
        "types": list(call.types),
    }


def _decode_call(data: Mapping[str, Any]) -> Call:
    return Call(
        data["function"],
        tuple(data["args"]),
        data["distinct"],
        data["where"],
        data["order_by"],
        data["text"],
        tuple(data["types"]),
    )

"""Two fingerprints of a definition: of the parts that can change a result, and of the other parts.

The data fingerprint covers everything that can change a row of the output; another data fingerprint means a new data version.
The metadata fingerprint covers the rest: comment, properties and suites. Spark SQL is compared by its tokens, so spaces,
comments and the case of names and keywords do not matter. Types from resolving are left out, so that a definition has the same
fingerprint before and after; a type change of the source is detected where the source is observed.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from materializer.core.aggregates.parts import normalised
from materializer.core.codec import as_json
from materializer.core.spec.spec import AggregateSpec, Call, Formula


def data_fingerprint(spec: AggregateSpec) -> str:
    """Return the SHA-256, in hex, of everything that can change a result; the aggregate's own name is left out."""
    return _digest(
        {
            "source": spec.source,
            "time_column": spec.time_column.lower(),
            "resolution": spec.resolution.value,
            "grid": None if spec.is_engine else as_json(spec.grid),
            "bucket": [spec.bucket_start, spec.bucket_end, *([spec.bucket_time] if spec.bucket_time else [])],
            "keys": [[key.name, normalised(key.sql)] for key in spec.keys],
            "measures": [[measure.name, _formula(measure.formula)] for measure in spec.measures],
            "columns": list(spec.columns),
            "where": normalised(spec.where) if spec.where else None,
            "having": _formula(spec.having) if spec.having else None,
            "sequence": spec.sequence.lower() if spec.sequence else None,
            "engine": spec.engine,
            "params": [list(p) for p in spec.params],
            "lateness": spec.lateness,
        }
    )


def metadata_fingerprint(spec: AggregateSpec) -> str:
    """Return the SHA-256, in hex, of the parts that people, policies and gates read: comment, properties, suites."""
    suites = {"suites": sorted(spec.suites)} if spec.suites else {}
    calendar = {
        name: value for name, value in spec.params if name == "calendar_days"
    }  # the same calendar may list more days later
    return _digest({"comment": spec.comment, "properties": sorted(spec.properties), **suites, **calendar})


def _formula(formula: Formula) -> dict[str, Any]:
    """Return a formula by its tokens, with each call as one token.

    Pieces are joined around marks before they are normalised, because a piece alone may end inside brackets.
    """
    marks = [f" `call {number}` " for number in range(len(formula.calls))]
    return {"text": normalised(formula.fill(marks)), "calls": [_call(call) for call in formula.calls]}


def _call(call: Call) -> list[Any]:
    return [
        call.function,
        [normalised(arg) for arg in call.args],
        call.distinct,
        normalised(call.where) if call.where else None,
        normalised(call.order_by) if call.order_by else None,
    ]


def _digest(value: dict[str, Any]) -> str:
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()

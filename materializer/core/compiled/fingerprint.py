"""Two identities of a definition: what changes a result, and what does not.

The data fingerprint covers everything that can change a row of the output; a difference means a new data version. The
metadata fingerprint covers the rest: comment, properties and suites. Spark SQL is compared by its tokens, so spaces, comments
and the case of names and keywords are noise. Types that resolving fills in are left out: a definition has the same
fingerprint before and after, and a source that changed its types is found on the source's side.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from materializer.core.spec.codec import encode_grid
from materializer.core.spec.spec import AggregateSpec, Call, Formula


def normalised(text: str) -> str:
    """Return Spark SQL as its tokens; see :func:`materializer.core.sql.tokens.normalised`."""
    # sqlglot takes longer to import than a refresh that finds nothing takes
    from materializer.core.sql.tokens import normalised as tokens  # noqa: PLC0415

    return tokens(text)


def data_fingerprint(spec: AggregateSpec) -> str:
    """Return the SHA-256, in hex, of everything that can change a result; the aggregate's own name is not part of it."""
    return _digest(
        {
            "source": spec.source,
            "time_column": spec.time_column.lower(),
            "resolution": spec.resolution.value,
            "grid": None if spec.is_engine else encode_grid(spec.grid),
            "bucket": [spec.bucket_start, spec.bucket_end],
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
    """Return the SHA-256, in hex, of what people, policies and gates read: comment, properties, suites."""
    suites = {"suites": sorted(spec.suites)} if spec.suites else {}
    calendar = {
        name: value for name, value in spec.params if name == "calendar_days"
    }  # it may know more days than it did
    return _digest({"comment": spec.comment, "properties": sorted(spec.properties), **suites, **calendar})


def _formula(formula: Formula) -> dict[str, Any]:
    """Return a formula by its tokens, each call as a token of its own.

    Pieces are joined around a mark before they are normalised, because a piece alone may end inside brackets.
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

"""First windows of the time-series engine: the printed tables, looked up row by row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from tests.paths import ROOT

TABLES: Final = ROOT / "tests" / "cases" / "data" / "alignment_tables.json"


@cache
def _tables() -> Mapping[str, Any]:
    read: Mapping[str, Any] = json.loads(TABLES.read_text(encoding="utf-8"))
    return read


def size(time_type: str, step: int, *, round_time: bool = True, profile: str = "en") -> int:
    """Return the alignment size in ticks; 1, which moves nothing, where there is no table.

    Raises:
        ValueError: If the step is below 1.
    """
    if step < 1:
        message = f"step must be at least 1, got {step}"
        raise ValueError(message)
    if time_type not in _tables()["tables"]:
        return 12 if time_type == "MONTH" else 1
    variant = _tables()["variants"]["cn_tutorial"]
    table = _tables()["tables"][time_type]["roundTime_true" if round_time else "roundTime_false"]
    if profile == "cn" and round_time and time_type in variant["applies_to"]:
        table = variant["roundTime_true"]
    fits = [r for r in table if r["step_from"] <= step and (r["step_to"] is None or step <= r["step_to"])]
    return int(fits[0]["alignmentSize"])


def origin(first: int, time_type: str, step: int, *, round_time: bool = True, profile: str = "en") -> int:
    """Return the instant on which windows end, from the first accepted row; the first window ends one step later."""
    aligned = size(time_type, step, round_time=round_time, profile=profile)
    return first // aligned * aligned

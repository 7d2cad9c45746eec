"""Whether the reasons of a plan agree with what it chose: none may speak against it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from materializer.core.refresh.plan import Estimate, Plan, Recompute, Settle, Step, strategy_of

_SAME: Final = {"rebuild": "recompute", "discard": "recompute"}
"""Names of one strategy."""
_READS: Final = re.compile(r"would read ([\d,]+) raw rows")
_AGGREGATES: Final = re.compile(r"would aggregate about ([\d,]+) of ([\d,]+) raw rows")
_COMPARED: Final = re.compile(
    r"about ([\d,]+) .* out of ([\d,]+) would not be cheaper than ([\d,]+) .* out of ([\d,]+)"
)
_LONGER: Final = re.compile(r"would take longer|takes longer")


def contradictions(plan: Plan, tie: float) -> list[str]:
    """Return each reason of a plan that speaks against what was chosen.

    Args:
        plan: The plan.
        tie: Prices that differ by fewer seconds do not decide.
    """
    return [f"{strategy_of(step)}: {why}" for step in plan.steps for why in _of_step(step, tie)]


def _of_step(step: Step, tie: float) -> Iterator[str]:
    if isinstance(step, Settle):
        return
    chosen, seen = _name(strategy_of(step)), set[str]()
    if isinstance(step, Recompute) and not step.reason:
        yield "no reason"
    for rejected in step.rejected:
        if not rejected.reason:
            continue
        what = f"not {rejected.strategy}: {rejected.reason}"
        if _name(rejected.strategy) == chosen:
            yield f"{what} (it was chosen)"
        if rejected.strategy in seen and rejected.strategy != "roll-up":  # of which there may be several
            yield f"{what} (told twice)"
        seen.add(rejected.strategy)
        if not _fits(rejected.reason, step.estimate):
            yield f"{what} (reads {step.estimate})"
        if rejected.seconds is not None and rejected.seconds < step.seconds - tie - 1e-9:
            yield f"{what} ({rejected.seconds} s, and what was chosen {step.seconds} s)"
        if _LONGER.search(rejected.reason) and rejected.seconds is None:
            yield f"{what} (without a price)"


def _fits(reason: str, chosen: Estimate) -> bool:
    """Return whether the numbers of a reason are greater than what was chosen."""
    if found := _READS.search(reason):
        return _number(found[1]) > chosen.rows
    if found := _AGGREGATES.search(reason):
        return _number(found[1]) > chosen.likely_rows
    if found := _COMPARED.search(reason):
        likely, rows, other, others = map(_number, found.groups())
        return Estimate(rows, 0, 1, likely).cost >= Estimate(others, 0, 1, other).cost
    return True


def _name(strategy: str) -> str:
    return _SAME.get(strategy, strategy)


def _number(text: str) -> int:
    return int(text.replace(",", ""))

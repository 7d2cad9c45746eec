"""Trades of five hours, and their hourly aggregate as it is when no row is ever forgotten."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Any

from tests.system.builders import Trade, at

HOURS = [(f"{hour:02}:{minute:02}", sym, hour) for hour in range(5) for minute in (5, 35) for sym in "AB"]


BOUND = "2024-03-01T02:00:00Z"


def remembered(trades: list[Trade]) -> list[tuple[Any, ...]]:
    """Return the hourly aggregate of trades as somebody knows it who never forgets one."""
    groups: dict[tuple[datetime, str], list[int]] = defaultdict(list)
    for when, sym, price in trades:
        time = at(when)
        assert time is not None
        groups[time.replace(minute=0, second=0, tzinfo=None), str(sym)].append(price or 0)
    return sorted((hour, sym, len(p), sum(p), max(p)) for (hour, sym), p in groups.items())

"""Counters of what a run costs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """What one run did and when it began."""

    commits: int = 0
    files_rewritten: int = 0
    started: float = field(default_factory=time.perf_counter)

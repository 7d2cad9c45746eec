"""For how long Spark will compute: a JVM that is started for it gets the flags and the heap for that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from msgspec.structs import replace

from materializer.config import SparkConfig
from materializer.machine import memory

AUTO: Final = "auto"
LONG: Final = 10.0
"""Seconds of Spark from which the full compiler is worth its start."""
HEAP: Final = 2 << 30
"""Bytes of heap for short work, and at least for long."""
_SECONDS: ContextVar[float] = ContextVar("seconds", default=0.0)


@contextmanager
def planned(seconds: float) -> Iterator[None]:
    """Let Spark, if it is started in the block, be started for so many seconds of work."""
    token = _SECONDS.set(seconds)
    try:
        yield
    finally:
        _SECONDS.reset(token)


def settled(config: SparkConfig) -> SparkConfig:
    """Return settings in which the profile and the heap are decided; those of the user stay."""
    is_long = _SECONDS.get() > LONG
    profile = config.profile if config.profile != AUTO else "long" if is_long else "short"
    heap = max(memory() // 4, HEAP) if profile == "long" else HEAP
    return replace(config, profile=profile, memory=f"{heap >> 20}m" if config.memory == AUTO else config.memory)

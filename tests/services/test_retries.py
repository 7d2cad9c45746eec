"""What a refresh does when its computation fails: it takes another way where there is one; no JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest
from msgspec.structs import replace

from materializer.core.refresh.invalidation import Cause, Entry, InvalidationLog
from materializer.core.refresh.plan import Plan
from materializer.core.time.instants import DAY
from materializer.core.time.spans import POS_INF, Span
from materializer.errors import (
    DataError,
    MaterializerError,
    ResultTooLargeError,
    SourceDamagedError,
    SparkDiedError,
    SparkError,
)
from tests.services.no_spark import Lake, NoSpark, each, view

WORDS = "spark.driver.maxResultSize OutOfMemory"


class Failing(NoSpark):
    """An engine whose computations all fail.

    Args:
        error: What it raises.
    """

    def __init__(self, error: MaterializerError) -> None:
        self.error = error
        self.plans: list[tuple[str, str]] = []

    def jvm_pid(self) -> int:
        """There is no process."""
        return 0

    def compute(self, definition: Any, source: Any, partials: str, plan: Plan, **_: Any) -> NoReturn:  # noqa: ARG002
        """See :class:`materializer.spark.run.spark.Spark`; remembers lane and strategy."""
        self.plans.append((plan.lane.value, plan.strategy))
        raise self.error


def tried(root: Path, error: MaterializerError) -> list[tuple[str, str]]:
    """Return lane and strategy of each plan of a refresh that could merge, where each computation fails."""
    engine = Failing(error)
    lake = Lake(root, engine)
    lake.apply(view("days", each("1 day")))
    lake.add(*((n, n) for n in range(1000)))
    log = InvalidationLog().add([Entry(Span(DAY, POS_INF), None, Cause.NEW)])
    lake.put(replace(lake.state("days"), cursor=1, threshold=DAY, log=log))
    lake.add((1, 1))
    with pytest.raises(type(error)):
        lake.opened.refresh("days", "1970-01-01", "1970-01-02")
    state = lake.state("days")
    assert (None, None) == (state.plan, state.lease), "each plan has been ended, and the lease was given back"
    return engine.plans


@pytest.mark.parametrize(
    ("error", "plans"),
    [
        (ResultTooLargeError("x"), [("driver", "merge"), ("spark", "merge")]),
        (SourceDamagedError(WORDS), [("driver", "merge"), ("driver", "recompute")]),
        (SparkError(WORDS), [("driver", "merge")]),
        (SparkDiedError(WORDS), [("driver", "merge")]),
        (DataError(WORDS), [("driver", "merge")]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_retries_are_decided_by_types(tmp_path: Path, error: MaterializerError, plans: list[tuple[str, str]]) -> None:
    """
    A result that was too large stays in Spark, once; damaged changes are not merged, once. Nothing else is tried again so,
    whatever its message says.
    """
    assert plans == tried(tmp_path, error)

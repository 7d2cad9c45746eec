"""Cases of every known format, run side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from tests.cases import aggregates, buckets, engines
from tests.cases.reading import Case, Outcome, kind_of, run_guarded
from tests.cases.world import How

WITH_SPARK = ("scenario", "continuousAggregate")
"""Cases of continuous aggregates."""


def run_all(
    cases: Iterable[Case], how: Callable[[], How], jobs: int = 1, *, recut: int | None = None
) -> Iterator[Outcome]:
    """Yield the outcome of each case, in order.

    Args:
        cases: What to run.
        how: Called once if a case needs Spark, and not otherwise.
        jobs: How many cases run at once; they share the session.
        recut: Seed with which engine cases are cut into commits anew.
    """
    given = list(cases)
    with_spark = how() if any(kind_of(case) in (*WITH_SPARK, *engines.WITH_SPARK) for case in given) else None
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        yield from pool.map(lambda case: run_guarded(case, lambda c: _run(c, with_spark, recut)), given)


def _run(case: Case, how: How | None, recut: int | None) -> Outcome:
    kind = kind_of(case)
    if kind == "time-bucket":
        return buckets.run(case)
    if kind in engines.WITHOUT_SPARK or kind in engines.WITH_SPARK:
        return engines.run(case, how, recut)
    if how is not None and kind == "scenario":
        return aggregates.run_scenario(case, how)
    if how is not None and kind == "continuousAggregate":
        return aggregates.run_engine_case(case, how)
    what = kind if kind == "no known format" else f"engine not known yet: {kind}"
    return Outcome(case["id"], passed=False, expected="a case that can be run", found=what)

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

from tests.system.stateful import explore

HOW = settings(
    max_examples=12,
    stateful_step_count=12,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],  # making a failing example small takes minutes: `python -m tests.system.stateful --shrink`
    suppress_health_check=list(HealthCheck),
)


def test_random_work_and_deaths_leave_the_truth(spark, tmp_path) -> None:
    """
    After any sequence of commits, commands and deaths: what is clean is true, and a refresh of everything mends the rest.
    """
    seen = explore(spark, tmp_path, HOW)

    # the interesting cases occurred
    happened = " ".join(seen)
    for what in ("died at", "recovered: finished", "recovered: aborted", "strategy merge", "lane driver", "lane spark"):
        assert what in happened, f"never {what}: {dict(seen)}"

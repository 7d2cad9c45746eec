"""Refreshes of the history table, in the form in which the state of an aggregate has its last ones."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from materializer.core.refresh.plan import RunReport
from materializer.core.time.spans import EVERYTHING, Span
from materializer.journal.fold import policy_of
from materializer.journal.state import Ended


def folded(rows: Iterable[Mapping[str, Any]], known: Container[int]) -> Iterator[Ended]:
    """Yield the refreshes of one aggregate that ended and lie in the history table, oldest first.

    Args:
        rows: Its rows there, as :meth:`~materializer.journal.journal.Journal.history` returns them.
        known: Numbers of refreshes that are left out, because the state of the aggregate has them.
    """
    plans: dict[int, Mapping[str, Any]] = {}
    verdicts: dict[int, Mapping[str, Any]] = {}
    for row in rows:
        n = row["n"]
        if row["kind"] == "planned":
            plans[n] = row
        elif row["kind"] == "audited":
            verdicts[n] = row["verdict"]
        elif row["kind"] == "switched" and n not in known:
            yield Ended(n, row["at"], "switched", EVERYTHING, RunReport(**row["report"]))
        elif n not in known and n in plans:
            window, policy = Span.from_json(plans[n]["plan"]["window"]), policy_of(plans[n]["options"])
            report = RunReport(**row["report"]) if row["kind"] == "done" else RunReport(-1)
            reason, verdict = row.get("reason", ""), verdicts.get(n, {})
            yield Ended(n, row["at"], row["kind"], window, report, reason, verdict, policy)

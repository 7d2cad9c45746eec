"""What programs ask a process that stays, at fixed addresses: ``/healthz`` and ``/metrics``.

They need no token, because a scraper and a supervisor are configured once. So they have names of aggregates, codes of errors, numbers
and times, and no row, SQL or text of an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import TypeAlias

from msgspec import Struct

from materializer.services.schedule.health import Health

NO_METRICS = b"metrics need a package that is not installed: pip install 'delta-materializer[metrics]'"

Answer: TypeAlias = tuple[HTTPStatus, str, bytes]
"""Status, kind and content of an answer."""


class Probes(Struct, frozen=True):
    """Answers about a process that stays; it reads nothing but memory.

    Args:
        health: How the process is doing.
        metrics: Returns the metrics of aggregates, given whether the process is healthy; None where their library is missing.
    """

    health: Health
    metrics: Callable[[Collection[str], bool], bytes] | None

    def answer(self, path: str) -> Answer | None:
        """Return the answer to a path; None for one that is not a probe's."""
        if path == "/healthz":
            return self._healthz()
        return self._metrics() if path == "/metrics" else None

    def _healthz(self) -> Answer:
        reasons = self.health.reasons()
        found = {"healthy": not reasons, "follows": len(self.health.followed), "reasons": reasons}
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        return status, ".json", json.dumps(found).encode()

    def _metrics(self) -> Answer:
        if self.metrics is None:
            return HTTPStatus.NOT_IMPLEMENTED, ".txt", NO_METRICS
        return HTTPStatus.OK, ".prom", self.metrics(self.health.followed, not self.health.reasons())

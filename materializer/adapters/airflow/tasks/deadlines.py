"""The callback for an aggregate that is staler than its promise (``refresh.max_staleness``)."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime

from materializer.adapters.airflow.tasks.looking import describe

_LOG = logging.getLogger(__name__)


async def tell_stale(*, lake: str, aggregate: str, config: str | None = None) -> str:
    """Write to the triggerer's log how stale an aggregate is, and return it as the result of the callback.

    To notify people, name another awaitable as ``deadline`` of :func:`~materializer.adapters.airflow.dags.factory.dags_of`.
    It gets the same arguments, and may call this one for the text.

    Args:
        lake: Root folder of the lake.
        aggregate: Name of the aggregate.
        config: Configuration file, or None.
    """
    is_broken, text = await asyncio.to_thread(describe, lake, aggregate, datetime.now(UTC).isoformat(), config)
    # Airflow counts from a run's logical date, which is long ago in a backfill, but the promise is about the present
    _LOG.log(logging.ERROR if is_broken else logging.INFO, "%s", text)
    return text

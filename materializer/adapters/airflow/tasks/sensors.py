"""Sensors: wait until an aggregate is fresh, without a worker's slot and without a JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException

from materializer.adapters.airflow.tasks.looking import why_stale
from materializer.adapters.airflow.tasks.triggers import FreshnessTrigger
from materializer.errors import MaterializerError

if TYPE_CHECKING:
    from airflow.sdk import Context


class FreshnessSensor(BaseSensorOperator):
    """Waits until every version of the source is captured and nothing is dirty; the sensor refreshes nothing itself.

    An aggregate that was never materialized is not fresh.

    Args:
        lake: Root folder of the lake (templated).
        aggregate: Name of the aggregate (templated).
        until: Only the time before this instant has to be clean (templated), such as ``{{ ds }}``; by default everything.
            Without it, an aggregate whose policies leave out the newest buckets is never fresh.
        config: Configuration file (templated).
        deferrable: Wait in the triggerer instead of in a worker.
        kwargs: Arguments of every sensor; ``poke_interval`` and ``timeout`` apply with and without *deferrable*.
    """

    template_fields: Sequence[str] = ("lake", "aggregate", "until", "config")
    ui_color = "#f7efdf"

    def __init__(
        self,
        *,
        lake: str,
        aggregate: str,
        until: str | None = None,
        config: str | None = None,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.lake = lake
        self.aggregate = aggregate
        self.until = until
        self.config = config
        self.deferrable = deferrable

    def poke(self, context: Context) -> bool:
        """Check once."""
        del context
        try:
            why = why_stale(self.lake, self.aggregate, self.until, self.config)
        except MaterializerError as exc:
            raise AirflowFailException(f"{exc.message} (hint: {exc.hint})") from exc
        self.log.info("%s", why or f"{self.aggregate} is fresh")
        return not why

    def execute(self, context: Context) -> None:
        """See the class."""
        if not self.deferrable:
            super().execute(context)
        elif not self.poke(context):
            self.defer(
                trigger=FreshnessTrigger(self.lake, self.aggregate, self.until, self.config, self.poke_interval),
                method_name="execute_complete",
                timeout=timedelta(seconds=self.timeout),
            )

    def execute_complete(self, context: Context, event: Mapping[str, str]) -> None:
        """Handle the event of the trigger."""
        del context
        if event["problem"]:
            raise AirflowFailException(event["problem"])
        self.log.info("%s is fresh", self.aggregate)

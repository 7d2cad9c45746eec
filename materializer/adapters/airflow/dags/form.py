"""The form of a manual run, as parameters with a JSON schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, cast

from airflow.sdk import Param
from msgspec import Struct

from materializer.core.spec.spec import TimeType
from materializer.errors import UsageError

Mode = Literal["policies", "refresh", "backfill"]


class Asked(Struct, frozen=True):
    """The values of a form.

    Args:
        mode: The policies, one refresh, or a backfill in runs.
        start: First instant, or None for an open start.
        end: First instant after the window, or None for the end of the newest bucket.
        force: Compute clean buckets again too.
        order: Which end a backfill does first.
        buckets_per_run: Buckets of one run of a backfill, or None to size runs by rows.
        dry_run: Only show the plan.
    """

    mode: Mode = "policies"
    start: str | None = None
    end: str | None = None
    force: bool = False
    order: str = "newest"
    buckets_per_run: int | None = None
    dry_run: bool = False


_KEYS: Final = Asked.__struct_fields__
_LINEAGE: Final = "openlineage"
"""A key that Airflow's own `TriggerDagRunOperator` adds."""


def form(time_type: TimeType | None) -> dict[str, Param]:
    """Return the parameters of a DAG; their defaults are those of a scheduled run.

    Args:
        time_type: Time type of the aggregate; None if it is not known yet.
    """
    is_open = "; leave it empty for an open start"
    return {
        "mode": Param(
            "policies",
            type="string",
            enum=["policies", "refresh", "backfill"],
            title="What",
            source="dag",
            description="policies: the windows that its policies have now. refresh: the window below. backfill: that window, in runs.",
        ),
        "start": _instant("Start", f"First instant of the window{is_open}.", time_type),
        "end": _instant(
            "End", "First instant after the window; leave it empty for the end of the newest bucket.", time_type
        ),
        "force": Param(
            False,
            type="boolean",
            source="dag",
            title="Force",
            description="Compute clean buckets of the window again too.",
        ),
        "order": Param(
            "newest",
            type="string",
            enum=["newest", "oldest"],
            title="Order",
            source="dag",
            description="Which end a backfill does first.",
        ),
        "buckets_per_run": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Buckets per run",
            source="dag",
            description="Of a backfill; leave it empty to size its runs by source rows.",
        ),
        "dry_run": Param(
            False,
            type="boolean",
            source="dag",
            title="Dry run",
            description="Only put the plan into the log and the result.",
        ),
    }


def read(params: Mapping[str, Any]) -> Asked:
    """Return the values of a run's parameters.

    Raises:
        UsageError: If they contradict each other, or if one is not of the form.
    """
    if unknown := sorted(set(params) - {*_KEYS, _LINEAGE}):
        raise UsageError(
            f"a run takes no {', '.join(map(repr, unknown))}",
            hint=f"the keys of its configuration are {', '.join(_KEYS)}",
        )
    asked = Asked(
        mode=cast("Mode", params["mode"]),
        start=_text(params["start"]),
        end=_text(params["end"]),
        force=bool(params["force"]),
        order=str(params["order"]),
        buckets_per_run=params["buckets_per_run"],
        dry_run=bool(params["dry_run"]),
    )
    if asked.mode == "policies" and (asked.start is not None or asked.end is not None or asked.force):
        raise UsageError(
            "policies have windows of their own and take no start, end or force",
            hint="choose refresh or backfill, or leave these fields empty",
        )
    return asked


def _instant(title: str, description: str, time_type: TimeType | None) -> Param:
    if time_type is not None and time_type.is_integer:
        return Param(None, type=["null", "integer"], source="dag", title=title, description=description)
    formats = {TimeType.TIMESTAMP: "date-time", TimeType.DATE: "date"}
    schema = {"format": formats[time_type]} if time_type in formats else {}
    return Param(None, type=["null", "string"], source="dag", title=title, description=description, **schema)


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)

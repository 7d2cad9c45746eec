"""What ``expire`` and ``thaw`` found as JSON values; see :mod:`materializer.adapters.cli.render.json_forms`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from materializer.core.spec.spec import TimeType
from materializer.core.time.instants import render
from materializer.core.time.spans import NEG_INF, POS_INF, SpanSet

if TYPE_CHECKING:
    from materializer.core.refresh.plan import Estimate
    from materializer.services.maintenance.expire import Expiry, Thaw
    from materializer.services.observe.source_deletes import Reader
    from materializer.services.report.status import Status


def expiry(e: Expiry) -> dict[str, Any]:
    """Return the document of ``expire``."""
    return {
        "name": e.name,
        "dry_run": e.is_dry_run,
        "before": _instant(e.before, e.time_type),
        "frozen_below": _instant(e.bound, e.time_type),
        "was_frozen_below": _instant(e.was, e.time_type),
        "source": e.source,
        "source_version": e.source_version,
        "source_below": _reads(e.below),
        "waiting": _spans(e.waiting, e.time_type),
        "as_stored": _spans(e.as_stored, e.time_type),
        **let_go(e.delete, e.readers),
        "notes": list(e.notes),
    }


def thaw(t: Thaw) -> dict[str, Any]:
    """Return the document of ``thaw``."""
    return {
        "name": t.name,
        "dry_run": t.is_dry_run,
        "was_frozen_below": _instant(t.was, t.time_type),
        "dirty": _spans(t.dirty, t.time_type),
        "kept_below": _reads(t.kept),
        "source_below": _reads(t.below),
        "expired_rows": t.expired_rows,
        "stuck": _spans(t.stuck, t.time_type),
        "follows": t.follows,
    }


def status(s: Status) -> dict[str, Any]:
    """Return what ``status`` says of the bounds."""
    return {
        "frozen_below": _instant(s.frozen, s.time_type),
        "kept_from": _instant(s.retired, s.time_type),
        "expired_rows": s.expired_rows,
        "past_clock": None
        if s.past_clock is None
        else {
            "newest": _instant(s.past_clock.newest, s.time_type),
            "rows": s.past_clock.rows,
            "files": s.past_clock.files,
        },
        **let_go(s.delete, s.readers),
        "stuck": [
            {"start": _instant(span.start, s.time_type), "end": _instant(span.end, s.time_type), "reason": why}
            for span, why in s.stuck
        ],
    }


def below(frozen: int, stuck: SpanSet, kind: TimeType) -> dict[str, Any]:
    """Return what ``plan`` and ``refresh`` say of the time that they do not compute again."""
    return {"frozen_below": _instant(frozen, kind), "stuck": _spans(stuck, kind)}


def let_go(delete: str, readers: Iterable[Reader]) -> dict[str, Any]:
    """Return how the owner of the source deletes raw rows, and who else needs them."""
    return {"delete": delete or None, "readers": [asdict(r) for r in readers]}


def _reads(found: Estimate) -> dict[str, int]:
    return {"rows": found.rows, "bytes": found.bytes, "files": found.files}


def _spans(spans: SpanSet, kind: TimeType) -> list[dict[str, Any]]:
    return [{"start": _instant(s.start, kind), "end": _instant(s.end, kind)} for s in spans]


def _instant(value: int, kind: TimeType) -> str | int | None:
    if value in {NEG_INF, POS_INF}:
        return None
    return value if kind.is_integer else render(value, kind)

"""``expire`` and ``thaw``: what becomes of history when its raw rows go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from materializer.adapters.cli.render.plan import reads_text
from materializer.adapters.cli.render.refresh import let_go_form
from materializer.adapters.cli.render.result import DONE, IDLE, Result, estimate_form, instant_form, spans_form
from materializer.adapters.cli.words import count, instant, labelled, spans, wrapped
from materializer.core.refresh.plan import Estimate
from materializer.core.time.spans import NEG_INF

if TYPE_CHECKING:
    from materializer.services.maintenance.expire import Expiry, Thaw

_DRY = "nothing was written; --yes does it"


class ExpireResult(Result, frozen=True):
    """What ``expire`` did, or would do."""

    expiry: Expiry

    @property
    def exit_status(self) -> int:
        return IDLE if self.expiry.bound <= self.expiry.was else DONE

    def form(self) -> dict[str, Any]:
        e = self.expiry
        return {
            "name": e.name,
            "dry_run": e.is_dry_run,
            "before": instant_form(e.before, e.time_type),
            "frozen_below": instant_form(e.bound, e.time_type),
            "was_frozen_below": instant_form(e.was, e.time_type),
            "source": e.source,
            "source_version": e.source_version,
            "source_below": estimate_form(e.below),
            "waiting": spans_form(e.waiting, e.time_type),
            "as_stored": spans_form(e.as_stored, e.time_type),
            **let_go_form(e.delete, e.readers),
            "notes": list(e.notes),
        }

    def lines(self, width: int) -> Iterator[str]:
        e, kind, at = self.expiry, self.expiry.time_type, instant(self.expiry.bound, self.expiry.time_type)
        done = f"{'would be frozen' if e.is_dry_run else 'frozen'} below {at}"
        yield from wrapped(f"frozen below {at} already" if e.bound <= e.was else done, f"{e.name}: ", width=width)
        pairs = [
            ("until now", "nothing was frozen" if e.was == NEG_INF else f"frozen below {instant(e.was, kind)}"),
            ("source", f"{e.source}\nversion {e.source_version}, {_there(e.below)} below"),
            ("waits", f"{spans(e.waiting, kind)}; the next refresh merges it" if e.waiting else ""),
            ("as stored", f"{spans(e.as_stored, kind)}; whatever its raw rows say" if e.as_stored else ""),
            *(("note", note) for note in e.notes),
        ]
        yield from labelled(pairs, width=width)
        if e.readers:
            yield from wrapped("it would take history from these too; freeze them first:", "  ", width=width)
            for reader in e.readers:
                yield from wrapped(reader.why, f"    {reader.name}: ", width=width)
        if e.delete:
            then = "after that" if e.is_dry_run else "now"
            yield from wrapped(f"{then} the owner of the source may delete its rows, in Spark SQL:", "  ", width=width)
            yield f"    {e.delete}"  # never wrapped: it is copied
        if e.is_dry_run:
            yield _DRY


class ThawResult(Result, frozen=True):
    """What ``thaw`` did, or would do."""

    thaw: Thaw

    @property
    def exit_status(self) -> int:
        return IDLE if self.thaw.was == NEG_INF else DONE

    def form(self) -> dict[str, Any]:
        t = self.thaw
        return {
            "name": t.name,
            "dry_run": t.is_dry_run,
            "was_frozen_below": instant_form(t.was, t.time_type),
            "dirty": spans_form(t.dirty, t.time_type),
            "kept_below": estimate_form(t.kept),
            "source_below": estimate_form(t.below),
            "expired_rows": t.expired_rows,
            "stuck": spans_form(t.stuck, t.time_type),
            "follows": t.follows,
        }

    def lines(self, width: int) -> Iterator[str]:
        t = self.thaw
        if t.was == NEG_INF:
            yield f"{t.name}: nothing is frozen"
            return
        next_ = (
            f"the next refresh computes everything below {instant(t.was, t.time_type)} from what the source still has"
        )
        yield from wrapped(f"{'would be thawed' if t.is_dry_run else 'thawed'}: {next_}", f"{t.name}: ", width=width)
        gone = f"; {count(t.expired_rows, 'row')} went since it was frozen" if t.expired_rows else ""
        pairs = [
            ("source below", f"{_there(t.below)}{gone}"),
            ("kept below", f"{_there(t.kept)}; what has no rows in the source any more is lost then"),
            ("stuck", f"{spans(t.stuck, t.time_type)} can be computed again" if t.stuck else ""),
            ("follows", "source.retention freezes it again; take it out of the definition first" if t.follows else ""),
        ]
        yield from labelled(pairs, width=width)
        if t.is_dry_run:
            yield _DRY


def _there(estimate: Estimate) -> str:
    return reads_text(estimate) if estimate.files else "no rows"

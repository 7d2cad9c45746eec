"""What ``expire`` and ``thaw`` say, and what other commands say of the bounds, as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from materializer.adapters.cli.render.text_plan import let_go_text, reads
from materializer.adapters.cli.words import count, instant, labelled, spans, wrapped
from materializer.core.time.spans import NEG_INF, SpanSet

if TYPE_CHECKING:
    from materializer.services.maintenance.expire import Expiry, Thaw
    from materializer.services.report.status import Status

DRY = "nothing was written; --yes does it"


def expiry_lines(e: Expiry, width: int) -> Iterator[str]:
    """Yield what freezing does; the statement stands on a line of its own, never wrapped."""
    kind, at = e.time_type, instant(e.bound, e.time_type)
    if e.bound <= e.was:
        done = f"frozen below {at} already"
    else:
        done = ("would be frozen" if e.is_dry_run else "frozen") + f" below {at}"
    yield from wrapped(done, f"{e.name}: ", width=width)
    pairs = [
        ("until now", "nothing was frozen" if e.was == NEG_INF else f"frozen below {instant(e.was, kind)}"),
        ("source", f"{e.source}\nversion {e.source_version}, {_there(reads(e.below))} below"),
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
        yield f"    {e.delete}"
    if e.is_dry_run:
        yield DRY


def thaw_lines(t: Thaw, width: int) -> Iterator[str]:
    """Yield what thawing does, and what it endangers."""
    if t.was == NEG_INF:
        yield f"{t.name}: nothing is frozen"
        return
    at = instant(t.was, t.time_type)
    done = "would be thawed" if t.is_dry_run else "thawed"
    yield from wrapped(
        f"{done}: the next refresh computes everything below {at} from what the source still has",
        f"{t.name}: ",
        width=width,
    )
    gone = f"; {count(t.expired_rows, 'row')} went since it was frozen" if t.expired_rows else ""
    pairs = [
        ("source below", f"{_there(reads(t.below))}{gone}"),
        ("kept below", f"{_there(reads(t.kept))}; what has no rows in the source any more is lost then"),
        ("stuck", f"{spans(t.stuck, t.time_type)} can be computed again" if t.stuck else ""),
        ("follows", "source.retention freezes it again; take it out of the definition first" if t.follows else ""),
    ]
    yield from labelled(pairs, width=width)
    if t.is_dry_run:
        yield DRY


def status_pairs(s: Status) -> list[tuple[str, str]]:
    """Return what ``status NAME`` says of both bounds and of what is stuck below the frozen one."""
    kind = s.time_type
    gone = f"; {count(s.expired_rows, 'raw row')} went below it" if s.expired_rows else ""
    pairs = [
        ("frozen", "" if s.frozen == NEG_INF else f"below {instant(s.frozen, kind)}{gone}"),
        ("kept", "" if s.retired == NEG_INF else f"from {instant(s.retired, kind)} on (output.retention)"),
    ]
    if s.past_clock is not None:
        past = s.past_clock
        many = "" if past.rows is None else f", at most {count(past.rows, 'row')} in {count(past.files, 'file')}"
        pairs.append(
            ("past the clock", f"newest time {instant(past.newest, kind)} in the source{many}; no retention follows")
        )
    if s.delete:
        pairs.append(("raw rows", f"{let_go_text(s.readers)}\n{s.delete}"))
    stuck: dict[str, SpanSet] = {}
    for span, why in s.stuck:
        stuck[why] = stuck.get(why, SpanSet()) | SpanSet.of(span)
    return pairs + [("stuck", f"{spans(found, kind)}: {why}") for why, found in stuck.items()]


def _there(text: str) -> str:
    return text if text != "nothing" else "no rows"

"""``status``: how fresh aggregates are, and how late the rows of their sources come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from materializer.adapters.cli.render.gate import gate_text
from materializer.adapters.cli.render.history import ended_form, ended_text
from materializer.adapters.cli.render.maintain import maintained_text
from materializer.adapters.cli.render.policy import policy_form, policy_text
from materializer.adapters.cli.render.refresh import let_go_form, let_go_text
from materializer.adapters.cli.render.result import Result, instant_form, span_form, spans_form, value_form, window_form
from materializer.adapters.cli.words import count, duration, instant, labelled, number, span, spans, table, wrapped
from materializer.core.policy.policies import describe_offset
from materializer.core.quality.canaries import CONFIDENCE, Canaries
from materializer.core.refresh.lateness import Advice, in_words
from materializer.core.spec.table_names import table_text
from materializer.core.time.instants import Shown
from materializer.core.time.spans import NEG_INF, Span, SpanSet
from materializer.structs import as_dict

if TYPE_CHECKING:
    from materializer.services.report.chain import Ancestor
    from materializer.services.report.freshness import Freshness
    from materializer.services.report.source_lateness import SourceLateness
    from materializer.services.report.status import Status
    from materializer.services.versions.progress import NextVersion

_STATES = {
    "fresh": "everything up to the newest row is materialised",
    "behind": "the source has versions that are not captured yet; a refresh looks at them",
    "dirty": "some buckets below the newest row are dirty",
    "empty": "nothing has been materialised yet; refresh or backfill it",
    "unfinished": "a refresh has not ended; the next command that writes ends it first",
    "source-unreadable": "the source cannot be read",
    "output-unreadable": "the output cannot be read",
}


class StatusResult(Result, frozen=True):
    """How fresh aggregates are, and how late the rows of their sources come.

    *is_detailed* when one was asked for by name, *is_broken* where errors of the journal follow, *no_folder* the folder of a lake that does not exist.
    """

    items: tuple[Status, ...]
    is_detailed: bool = False
    sources: tuple[SourceLateness, ...] = ()
    is_broken: bool = False
    no_folder: str = ""

    def form(self) -> dict[str, Any]:
        return {
            "aggregates": [_status_form(s) for s in self.items],
            "sources": [_source_form(s) for s in self.sources],
        }

    def lines(self, width: int) -> Iterator[str]:
        if self.is_detailed:
            yield f"{self.items[0].name}: {self.items[0].state}"
            yield from labelled(_pairs(self.items[0]), width=width)
            if self.items[0].delete:
                yield "  raw rows are deleted, in Spark SQL, by"
                yield f"    {self.items[0].delete}"  # never wrapped: it is copied
            return
        if not self.items:
            if self.no_folder:
                yield from wrapped(f"there is no folder {self.no_folder}: is the lake's name right?", width=width)
            if not self.is_broken:
                yield "no aggregates are defined in this lake; 'materializer apply sql/' defines them"
            return
        header = ("aggregate", "state", "rows", "source version", "dirty", "last refresh")
        yield from table(header, [_row(s) for s in self.items], right=[2])
        for s in self.items:
            if s.problem:
                yield from wrapped(s.problem, f"{s.name}: ", width=width)
            if s.waits_for is not None and s.state != "empty":
                yield from wrapped(_waits_text(s, s.waits_for), f"{s.name}: ", width=width)
            if s.table_problem:
                yield from wrapped(s.table_problem, f"{s.name}: ", width=width)
            if s.next is not None:
                yield from wrapped(_next_text(s, s.next).split("\n")[0], f"{s.name}, next version: ", width=width)
        folders = [s.source.rstrip("/").rpartition("/")[2] for s in self.sources]
        for source, folder in zip(self.sources, folders, strict=True):
            name = folder if folders.count(folder) == 1 else source.source
            yield from wrapped(_source_text(source), f"{name}: ", width=width)


def _status_form(s: Status) -> dict[str, Any]:
    kind = s.time_type
    return {
        "name": s.name,
        "state": s.state,
        "problem": s.problem,
        "waits_for": None if s.waits_for is None else {"name": s.waits_for.name, "state": s.waits_for.state},
        "source": s.source,
        "grid": s.grid,
        "time_type": kind.value,
        "cursor": s.cursor,
        "newest": s.newest,
        "threshold": instant_form(s.threshold, kind),
        "newest_bucket_end": instant_form(s.newest_bucket_end, kind),
        "dirty": spans_form(s.dirty, kind),
        "log_entries": s.entries,
        "changed_keys": s.changed_keys,
        "null_times": s.null_times,
        "rows": s.rows,
        "open_refresh": s.open_refresh,
        "holder": s.holder,
        "last": None if s.last is None else ended_form(s.last, kind),
        "held": spans_form(s.held, kind),
        "last_check": None if s.last_check is None else _check_form(s.last_check, kind),
        "canaries": None if s.canaries is None else _canaries_form(s.canaries, kind),
        "lateness": None if s.advice is None else _lateness_form(s, s.advice),
        "maintained": value_form(s.maintained) if s.maintained else None,
        "policies": [policy_form(p) for p in s.policies],
        "outside_policies": None if s.outside is None else spans_form(s.outside, kind),
        **_promise_form(s.freshness),
        "frozen_below": instant_form(s.frozen, kind),
        "kept_from": instant_form(s.retired, kind),
        "expired_rows": s.expired_rows,
        "past_clock": None
        if s.past_clock is None
        else as_dict(s.past_clock) | {"newest": instant_form(s.past_clock.newest, kind)},
        **let_go_form(s.delete, s.readers),
        "stuck": [span_form(span, kind) | {"reason": why} for span, why in s.stuck],
        "next": None if s.next is None else _next_form(s.next),
        "previous": [as_dict(p) for p in s.previous],
        "table": s.table or None,
        "table_problem": s.table_problem or None,
        "only_spark": None if s.only_spark is None else list(s.only_spark),
    }


def _waits_text(s: Status, above: Ancestor) -> str:
    first = f"it reads '{above.name}', which is {above.state}"
    if above.is_withheld:
        return f"{first}: its gate withholds that; 'materializer doctor {above.name}' says which buckets, why, and what to do"
    return f"{first}; 'materializer refresh {s.name} --chain' refreshes that first"


def _row(s: Status) -> tuple[str, ...]:
    dirty = count(len(s.dirty), "span") if s.dirty else "-"
    rows = "?" if s.rows is None else number(s.rows)
    return (s.name, s.state, rows, s.versions, dirty, s.last.at if s.last else "never")


def _pairs(s: Status) -> Iterator[tuple[str, str]]:
    kind, last = s.time_type, s.last
    newest = "not readable" if s.newest is None else f"version {s.newest}"
    captured = "captured" if s.newest == s.cursor else f"captured up to version {s.cursor}"
    keys = "" if s.changed_keys is None or not s.dirty else f"; {count(s.changed_keys, 'changed key')}"
    is_behind_above = s.state == "behind" and s.newest == s.cursor
    yield "", s.problem or ("" if is_behind_above else _STATES.get(s.state, ""))
    yield "waits for", "" if s.waits_for is None else _waits_text(s, s.waits_for)
    yield "source", f"{table_text(s.source)}\n{newest}, {captured}"
    yield "table", "\n".join(filter(None, (s.table, s.table_problem)))
    yield "buckets", s.grid
    yield "rows", "unknown" if s.rows is None else number(s.rows)
    yield "materialised", "nothing yet" if last is None else f"below {instant(s.threshold, kind)}"
    yield "newest bucket", f"ends {instant(s.newest_bucket_end, kind)}" if last else ""
    yield "dirty", f"{spans(s.dirty, kind)}{keys}"
    if s.only_spark is not None:
        yield "computed here", "\n".join(f"no: {part}" for part in s.only_spark) or "yes, what is small"
    yield "log", count(s.entries, "entry", "entries")
    yield "null times", f"{count(s.null_times, 'row')} without a time, left out" if s.null_times else ""
    yield "withheld", f"{spans(s.held, kind)}; 'materializer doctor {s.name}' says why" if s.held else ""
    yield from _retention_pairs(s)
    yield "next version", "" if s.next is None else _next_text(s, s.next)
    back = f"kept; 'materializer rollback {s.name}' publishes the last one again"
    yield "before", f"{count(len(s.previous), 'version')} {back}" if s.previous else ""
    yield "policies", "\n".join(policy_text(p) for p in s.policies)
    yield "not covered", f"{spans(s.outside, kind)}: outside every policy" if s.outside else ""
    yield "promise", "" if s.freshness is None else _promise_text(s.freshness)
    yield "open refresh", "" if s.open_refresh is None else f"{s.open_refresh} has not ended"
    yield "worked on by", s.holder
    yield "last refresh", f"{last.n}, {last.outcome} {last.at}: {ended_text(last)}" if last else "never"
    yield "gate", gate_text(last.verdict, kind) if last else ""
    yield "canaries", "" if s.canaries is None else _canaries_text(s.canaries, kind)
    yield "lateness", "" if s.advice is None else _lateness_text(s, s.advice)
    yield "last check", _check_text(s.last_check, kind) if s.last_check else ""
    yield "maintained", maintained_text(s.maintained) if s.maintained else ""


def _retention_pairs(s: Status) -> Iterator[tuple[str, str]]:
    """Yield both boundaries, and what cannot be computed again below the frozen one."""
    kind, past = s.time_type, s.past_clock
    gone = f"; {count(s.expired_rows, 'raw row')} went below it" if s.expired_rows else ""
    yield "frozen", "" if s.frozen == NEG_INF else f"below {instant(s.frozen, kind)}{gone}"
    yield "kept", "" if s.retired == NEG_INF else f"from {instant(s.retired, kind)} on (output.retention)"
    if past is not None:
        many = "" if past.rows is None else f", at most {count(past.rows, 'row')} in {count(past.files, 'file')}"
        newest = f"newest time {instant(past.newest, kind)} in the source"
        yield "past the clock", f"{newest}{many}; no retention follows"
    yield "raw rows", let_go_text(s.readers) if s.delete else ""
    by_reason: dict[str, SpanSet] = {}
    for at, why in s.stuck:
        by_reason[why] = by_reason.get(why, SpanSet()) | SpanSet.of(at)
    for why, dirty in by_reason.items():
        yield "stuck", f"{spans(dirty, kind)}: {why}"


def _next_form(n: NextVersion) -> dict[str, Any]:
    return as_dict(n) | {"missing": spans_form(n.missing, n.time_type), "time_type": n.time_type.value}


def _next_text(s: Status, n: NextVersion) -> str:
    missing = f"; {spans(n.missing, n.time_type)} missing" if n.missing else ""
    state = {
        "building": f"{n.built:.0%} built, about {count(n.rows, 'row')} to read{missing}",
        "ready": f"ready; 'materializer switch {s.name}' publishes it",
        "switching": "being published; the next command that writes ends that",
    }[n.state]
    behind = f"; at version {n.cursor}, what is published at {s.cursor}" if n.behind else ""
    holder = f"; {n.holder} builds it" if n.holder else ""
    return "\n".join([f"{state}{behind}{holder}", *n.differences])


def _promise_form(f: Freshness | None) -> dict[str, Any]:
    return {
        "max_staleness": None if f is None else describe_offset(f.promise),
        "staleness": None if f is None else f.staleness,
        "promise_kept": None if f is None else f.is_kept,
    }


def _promise_text(f: Freshness) -> str:
    stale = f.staleness
    text = (
        "it is not known" if stale is None else f"it is {number(stale) if isinstance(stale, int) else duration(stale)}"
    )
    outcome = {True: "kept", False: "broken", None: "nobody can tell"}[f.is_kept]
    return f"{outcome}: at most {describe_offset(f.promise)} stale, and {'nothing is missing' if stale == 0 else text}"


def _check_form(check: Mapping[str, Any], kind: Shown) -> dict[str, Any]:
    window = None if check["window"] is None else Span.from_json(check["window"])
    return {**value_form(check), "window": window_form(window, kind)}


def _check_text(check: Mapping[str, Any], kind: Shown) -> str:
    where = f" in {span(Span.from_json(check['window']), kind)}" if check["window"] else ""
    met = f"{count(len(check['failed']), 'expectation')} not met" if check["failed"] else "all met"
    return f"{check['at']}, version {check['version']}{where}: {met}"


def _canaries_form(c: Canaries, kind: Shown) -> dict[str, Any]:
    return {**as_dict(c), "differed": spans_form(c.differed, kind), "at_most": c.at_most, "confidence": CONFIDENCE}


def _canaries_text(c: Canaries, kind: Shown) -> str:
    """Return what canaries found so far, and what it bounds."""
    when = "in every refresh" if c.every == 1 else f"once in {c.every} refreshes"
    parts = [f"{count(c.count, 'published bucket')} and {c.count} about to be, {when}"]
    if c.n:
        parts[0] += f"; last in refresh {c.n}, {c.at}"
    since = f" since refresh {c.differed_n}" if c.differed_n else ""
    if c.at_most is not None:
        parts.append(
            f"{count(c.clean, 'random published bucket')} sampled clean{since}: at most {c.at_most:.2%} of all as they were "
            "then are wrong, with 95 % confidence"
        )
    elif c.clean:
        parts.append(f"{c.clean} of {count(c.clean, 'random published bucket')} equal{since}")
    else:
        parts.append("no published bucket sampled clean yet: nothing is bounded")
    if c.touched:
        parts.append(f"{count(c.touched, 'bucket')} about to be published sampled clean")
    if c.differed_n:
        parts.append(f"refresh {c.differed_n} found a difference in {spans(c.differed, kind)}")
    return "\n".join(parts)


def _lateness_form(s: Status, advice: Advice) -> dict[str, Any]:
    return {
        "rows": s.lateness.total,
        "half": s.lateness.within(0.5),
        "most": s.lateness.within(0.99),
        "start_offset": advice.start_offset,
        "end_offset": advice.end_offset,
        "feed_retention": advice.feed_retention,
    }


def _lateness_text(s: Status, advice: Advice) -> str:
    half, most = (in_words(s.lateness.within(share) or 0) for share in (0.5, 0.99))
    feed = f", retention of the source's log and feed >= {advice.feed_retention}" if advice.feed_retention else ""
    return (
        f"of {count(s.lateness.total, 'row')} half were known within {half}, 99 % within {most}\n"
        f"this suggests start_offset {advice.start_offset}, end_offset {advice.end_offset}{feed}"
    )


def _source_form(s: SourceLateness) -> dict[str, Any]:
    shares = {"half": 0.5, "most": 0.99, "nearly_all": 0.999, "all": 1.0}
    return {
        "source": s.source,
        "time_column": s.time_column,
        "aggregate": s.aggregate,
        "readers": s.readers,
        "rows": s.lateness.total,
        **{name: s.lateness.within(share) for name, share in shares.items()},
        "longest_wait": s.longest_wait,
    }


def _source_text(s: SourceLateness) -> str:
    half, most, every = (in_words(s.lateness.within(share) or 0) for share in (0.5, 0.99, 1.0))
    waited = f"; a commit waited for its capture up to {in_words(s.longest_wait)}" if s.longest_wait else ""
    rows = f"of {count(s.lateness.total, 'row')} half were known within {half} of their {s.time_column}"
    return f"{rows}, 99 % within {most}, all within {every}, as {s.aggregate} saw them{waited}"

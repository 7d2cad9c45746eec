"""Results as lines for people, at a given width; pure, without colour."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, assert_never

from materializer.adapters.cli.render.results import (
    Abandoned,
    Applied,
    BackedUp,
    Built,
    ChangedRows,
    CheckedRows,
    Dropped,
    Engines,
    Examined,
    Expired,
    History,
    Invalidated,
    Maintained,
    Planned,
    PolicyList,
    Published,
    Refreshed,
    Repaired,
    Restored,
    Result,
    SetUp,
    Shown,
    Statuses,
    Thawed,
    Verified,
    Versions,
)
from materializer.adapters.cli.render.text_engines import guide_lines, list_lines
from materializer.adapters.cli.render.text_maintain import maintain_lines, maintained_text
from materializer.adapters.cli.render.text_mending import backup_lines, repair_lines, restore_lines
from materializer.adapters.cli.render.text_plan import plan_lines, refresh_lines
from materializer.adapters.cli.render.text_policies import policy_lines, status_pairs
from materializer.adapters.cli.render.text_quality import canaries_text, check_lines, gate_text
from materializer.adapters.cli.render.text_retention import expiry_lines, thaw_lines
from materializer.adapters.cli.render.text_retention import status_pairs as retention_pairs
from materializer.adapters.cli.render.text_versions import build_lines, change_lines, switch_lines, version_pairs
from materializer.adapters.cli.words import (
    count,
    duration,
    instant,
    labelled,
    number,
    size,
    span,
    spans,
    table,
    wrapped,
)
from materializer.core.refresh.lateness import in_words
from materializer.core.time.spans import NEG_INF, Span

if TYPE_CHECKING:
    from materializer.core.spec.spec import TimeType
    from materializer.demo.prepare import Prepared
    from materializer.errors import Problem
    from materializer.journal.state import Ended
    from materializer.services.quality.verify import VerifyReport
    from materializer.services.report.source_lateness import SourceLateness
    from materializer.services.report.status import Status
    from materializer.services.report.tables import Finding

_STATES = {
    "fresh": "everything up to the newest row is materialised",
    "behind": "the source has versions that are not captured yet; a refresh looks at them",
    "dirty": "some buckets below the newest row are dirty",
    "empty": "nothing has been materialised yet; refresh or backfill it",
    "unfinished": "a refresh has not ended; the next command that writes ends it first",
    "source-unreadable": "the source cannot be read",
}
_LOOSE = {"float": "within 1e-9 of the magnitudes in it", "rank": "within rank error"}


def lines(result: Result, *, width: int) -> list[str]:
    """Return *result* as lines of at most about *width* columns."""
    match result:
        case Applied():
            return list(_applied(result, width))
        case Planned(preview=preview):
            return list(plan_lines(preview, width))
        case Refreshed(report=report, time_type=time_type, policy=policy, now=now):
            head = [] if policy is None else wrapped(f"policy {policy} at {now}", f"{report.name}: ", width=width)
            return [*head, *refresh_lines(report, time_type, width)]
        case PolicyList(items=policies):
            return list(policy_lines(policies, width))
        case Statuses(items=items, is_detailed=is_detailed, sources=sources):
            return list(_status(items[0], width) if is_detailed else _statuses(items, sources, width))
        case History():
            return list(_history(result, width))
        case Shown():
            return list(_shown(result, width))
        case ChangedRows():
            return list(_changes(result, width))
        case Verified(report=report, time_type=time_type):
            return list(_verified(report, time_type, width))
        case CheckedRows(report=report, time_type=time_type):
            return list(check_lines(report, time_type, width))
        case Invalidated(name=name, time_type=time_type, span=declared):
            return wrapped(
                f"{name}: {span(declared, time_type)} is dirty now; the next refresh computes it again", width=width
            )
        case Expired(expiry=expiry):
            return list(expiry_lines(expiry, width))
        case Thawed(thaw=thaw):
            return list(thaw_lines(thaw, width))
        case Maintained(report=report):
            return list(maintain_lines(report, width))
        case Built(report=report):
            return list(build_lines(report, width))
        case Published(report=report):
            return list(switch_lines(report, width))
        case Abandoned(name=name):
            return [f"{name}: the next version is given up; what is published stays"]
        case Dropped(name=name, readers=readers):
            first = [f"{reader}: dropped with its tables" for reader in readers]
            return [*first, f"{name}: dropped with its tables; its source was not touched"]
        case Examined(findings=findings):
            return list(_examined(findings, width))
        case Repaired(report=repair):
            return list(repair_lines(repair, width))
        case BackedUp(report=backup):
            return list(backup_lines(backup, width))
        case Restored(report=restored):
            return list(restore_lines(restored, width))
        case SetUp(prepared=prepared):
            return list(_set_up(prepared, width))
        case Versions(versions=versions):
            return list(labelled(versions.items(), width=width, indent=0))
        case Engines(guides=guides, is_detailed=is_detailed):
            return list(guide_lines(guides[0], width) if is_detailed else list_lines(guides, width))
        case _:
            assert_never(result)


# -- apply ---------------------------------------------------------------------------------------------------------------


def problem_lines(problem: Problem, width: int) -> list[str]:
    """Return a problem with its place, code and hint."""
    place = (
        f"{problem.file or 'definition'}:{problem.line}:{problem.column}: "
        if problem.line
        else (f"{problem.file}: " if problem.file else "")
    )
    head = f"{place}{problem.code}"
    hint = wrapped(problem.hint, "    hint: ", width=width) if problem.hint else []
    return [head, *wrapped(problem.message, "    ", width=width), *hint]


def _applied(result: Applied, width: int) -> Iterator[str]:
    for problem in result.warnings:
        first, *rest = problem_lines(problem, width)
        yield f"warning: {first}"
        yield from rest
    for change in result.changes:
        yield from change_lines(change, width, is_dry_run=result.is_dry_run)
    for build in result.builds:
        yield from build_lines(build, width)
    if not result.changes:
        yield "no definitions found"
    if result.is_dry_run:
        yield "dry run: nothing was written"


# -- status and history --------------------------------------------------------------------------------------------------


def _statuses(items: tuple[Status, ...], sources: tuple[SourceLateness, ...], width: int) -> Iterator[str]:
    if not items:
        yield "no aggregates are defined in this lake; 'materializer apply sql/' defines them"
        return
    header = ("aggregate", "state", "rows", "source version", "dirty", "last refresh")
    yield from table(header, [_status_row(s) for s in items], right=[2])
    for s in items:
        if s.problem:
            yield from wrapped(s.problem, f"{s.name}: ", width=width)
        if s.next is not None:
            yield from wrapped(version_pairs(s)[0][1].split("\n")[0], f"{s.name}, next version: ", width=width)
    folders = [s.source.rstrip("/").rpartition("/")[2] for s in sources]
    for source, folder in zip(sources, folders, strict=True):
        name = folder if folders.count(folder) == 1 else source.source
        yield from wrapped(_late_rows(source), f"{name}: ", width=width)


def _late_rows(s: SourceLateness) -> str:
    half, most, every = (in_words(s.lateness.within(share) or 0) for share in (0.5, 0.99, 1.0))
    waited = f"; a commit waited for its capture up to {in_words(s.longest_wait)}" if s.longest_wait else ""
    rows = f"of {count(s.lateness.total, 'row')} half were known within {half} of their {s.time_column}"
    return f"{rows}, 99 % within {most}, all within {every}, as {s.aggregate} saw them{waited}"


def _status_row(s: Status) -> tuple[str, ...]:
    behind = "" if s.newest in {None, s.cursor} else f" of {s.newest}"
    dirty = count(len(s.dirty), "span") if s.dirty else "-"
    rows = "?" if s.rows is None else number(s.rows)
    return (s.name, s.state, rows, f"{s.cursor}{behind}", dirty, s.last.at if s.last else "never")


def _status(s: Status, width: int) -> Iterator[str]:
    yield f"{s.name}: {s.state}"
    null_times = f"{count(s.null_times, 'row')} without a time, left out" if s.null_times else ""
    newest = "not readable" if s.newest is None else f"version {s.newest}"
    captured = "captured" if s.newest == s.cursor else f"captured up to version {s.cursor}"
    pairs = [
        ("", s.problem or _STATES.get(s.state, "")),
        ("source", f"{s.source}\n{newest}, {captured}"),
        ("buckets", s.grid),
        ("rows", "unknown" if s.rows is None else number(s.rows)),
        ("materialised", "nothing yet" if s.last is None else f"below {instant(s.threshold, s.time_type)}"),
        ("newest bucket", f"ends {instant(s.newest_bucket_end, s.time_type)}" if s.last else ""),
        (
            "dirty",
            spans(s.dirty, s.time_type)
            + ("" if s.changed_keys is None or not s.dirty else f"; {count(s.changed_keys, 'changed key')}"),
        ),
        ("log", count(s.entries, "entry", "entries")),
        ("null times", null_times),
        ("held back", f"{spans(s.held, s.time_type)} by the gate" if s.held else ""),
        *retention_pairs(s),
        *version_pairs(s),
        *status_pairs(s),
        ("open refresh", "" if s.open_refresh is None else f"{s.open_refresh} has not ended"),
        ("worked on by", s.holder),
        ("last refresh", _last(s.last) if s.last else "never"),
        ("gate", gate_text(s.last.verdict, s.time_type) if s.last else ""),
        ("canaries", canaries_text(s.canaries, s.time_type) if s.canaries else ""),
        ("lateness", _lateness(s)),
        ("last check", _last_check(s.last_check, s.time_type) if s.last_check else ""),
        ("maintained", maintained_text(s.maintained) if s.maintained else ""),
    ]
    yield from labelled(pairs, width=width)


def _lateness(s: Status) -> str:
    if s.advice is None:
        return ""
    half, most = (in_words(s.lateness.within(share) or 0) for share in (0.5, 0.99))
    kept = f", retention of the source's log and feed >= {s.advice.feed_retention}" if s.advice.feed_retention else ""
    return (
        f"of {count(s.lateness.total, 'row')} half were known within {half}, 99 % within {most}\n"
        f"this suggests start_offset {s.advice.start_offset}, end_offset {s.advice.end_offset}{kept}"
    )


def _last_check(check: Mapping[str, Any], kind: TimeType) -> str:
    failed = count(len(check["failed"]), "expectation")
    where = f" in {span(Span.from_json(check['window']), kind)}" if check["window"] else ""
    met = f"{failed} not met" if check["failed"] else "all met"
    return f"{check['at']}, version {check['version']}{where}: {met}"


def _last(e: Ended) -> str:
    return f"{e.n}, {e.outcome} {e.at}: {_what(e)}"


def _what(e: Ended) -> str:
    r = e.report
    if e.outcome == "switched":
        return f"version {r.source_version} of another definition, {count(r.commits, 'commit')}, {duration(r.seconds)}"
    if e.outcome != "done":
        return e.reason or "given back; its buckets are dirty again"
    read = f"read {count(r.rows_read, 'row')}, wrote {number(r.rows_written)} in {count(r.buckets, 'bucket')}"
    lane = f", committed by {'the driver' if r.lane == 'driver' else 'Spark'}" if r.lane else ""
    return f"version {r.source_version}, {read}, {count(r.jobs, 'Spark job')}, {count(r.commits, 'commit')}, {duration(r.seconds)}{lane}"


def _history(result: History, width: int) -> Iterator[str]:
    if not result.refreshes:
        yield f"{result.name}: no refresh has ended yet"
        return
    rows = [(str(e.n), e.at, e.outcome, e.report.strategy) for e in result.refreshes]
    head, *body = table(("refresh", "ended", "outcome", "strategy"), rows, right=[0])
    yield head
    for line, e in zip(body, result.refreshes, strict=True):
        yield line
        policy = f"policy {e.policy}, " if e.policy else ""
        yield from wrapped(f"{policy}{span(e.window, result.time_type)}, {_what(e)}", " " * 9, width=width)
        if gate := gate_text(e.verdict, result.time_type):
            yield from wrapped(f"gate: {gate}", " " * 9, width=width)


# -- show ----------------------------------------------------------------------------------------------------------------


def cell(value: Any) -> str:
    """Return one value of a row as text; instants in ISO form.

    Examples:
        >>> cell(None), cell(1.5), cell(True), cell(datetime(2013, 3, 10, 5, tzinfo=UTC)), cell([1, None])
        ('null', '1.5', 'true', '2013-03-10T05:00:00Z', '[1, null]')
    """
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float():
            return "NaN" if math.isnan(value) else f"{value:.15g}"
        case datetime():
            return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z" if value.tzinfo else value.isoformat()
        case date():
            return value.isoformat()
        case bytes():
            return value.hex()
        case list() | tuple():
            return "[" + ", ".join(cell(v) for v in value) + "]"
        case dict():
            return "{" + ", ".join(f"{cell(k)}: {cell(v)}" for k, v in value.items()) + "}"
        case _:
            return str(value)


def _shown(result: Shown, width: int) -> Iterator[str]:
    yield from _rows(result, width)
    if result.fresh is not None:
        cost, took = result.fresh, result.fresh.measured
        done = (
            f"{count(cost.pieces, 'dirty span')} by {cost.strategy}, {count(took.rows_read, 'source row')} aggregated"
        )
        done = (
            f"{done if cost.pieces else 'nothing is dirty'}, {count(took.jobs, 'Spark job')}, {duration(took.seconds)}"
        )
        yield from wrapped(done, f"as of source version {cost.source_version}: ", width=width)
        if cost.pieces:
            read = cost.estimate
            most = f"at most {count(read.rows, 'row')}, {size(read.bytes)} in {count(read.files, 'file')}"
            yield from wrapped(most, f"planned in {duration(cost.planning)}: ", width=width)


def _changes(result: ChangedRows, width: int) -> Iterator[str]:
    if not result.rows:
        yield f"{result.name}: no changes there"
        return
    yield from _rows(result, width)
    if left := result.total - len(result.rows):
        yield f"{count(left, 'change')} more: raise --limit, or go on with --after"


def _rows(result: Shown | ChangedRows, width: int) -> Iterator[str]:
    if not result.rows:
        yield f"{result.name}: no rows there"
        return
    texts = [tuple(cell(v) for v in row) for row in result.rows]
    right = [i for i in range(len(result.columns)) if any(isinstance(r[i], (int, float)) for r in result.rows)]
    whole = table(result.columns, texts, right=right)
    if max(map(len, whole)) <= width:
        yield from whole
        return
    for at, row in enumerate(texts):
        if at:
            yield ""
        yield from labelled(zip(result.columns, row, strict=True), width=width, indent=0)


def _set_up(prepared: Prepared, width: int) -> Iterator[str]:
    yield from labelled([("jars", ", ".join(prepared.jars) or "none")], width=width, indent=0)
    if prepared.archive is None:
        yield from wrapped(f"none: {prepared.reason}", "archive  ", width=width)
        return
    done = f"made in {duration(prepared.seconds)}" if prepared.is_new else "there already"
    yield from wrapped(f"{prepared.archive}, {size(prepared.bytes)}, {done}", "archive  ", width=width)


# -- verify and doctor ---------------------------------------------------------------------------------------------------


def _verified(report: VerifyReport, time_type: Any, width: int) -> Iterator[str]:
    if not report.compared:
        yield f"{report.name}: nothing to compare, all of it is dirty, frozen or not materialised yet"
        return
    against = f"plain Spark at source version {report.source_version}"
    if report.is_equal:
        text = f"{report.name}: equal to {against}, {count(report.rows, 'row')}, {duration(report.seconds)}"
    else:
        text = f"{report.name}: {number(report.differing)} of {count(report.rows, 'row')} differ from {against}, {duration(report.seconds)}"
    yield from wrapped(text, width=width)
    loose = [f"{measure} {_LOOSE.get(how, how)}" for measure, how in report.tolerances.items() if how != "exact"]
    pairs = [
        ("left out", spans(report.left_out, time_type) + _frozen(report, time_type) if report.left_out else ""),
        ("compared", "exactly" + (f", but {', '.join(loose)}" if loose else "")),
    ]
    yield from labelled(pairs, width=width)
    for difference in report.examples:
        where = ", ".join(f"{k}={v}" for k, v in difference.row.items())
        what = "; ".join(f"{c} is {was}, should be {wanted}" for c, (was, wanted) in difference.columns.items())
        yield from wrapped(f"{where}" + (f": {what}" if what else ""), f"  {difference.kind}  ", width=width)
    if report.differing > len(report.examples) > 0:
        yield f"  and {number(report.differing - len(report.examples))} more"


def _frozen(report: VerifyReport, time_type: Any) -> str:
    at = instant(report.frozen, time_type)
    return "" if report.frozen == NEG_INF else f"; below {at} raw rows may be gone"


def _examined(findings: tuple[Finding, ...], width: int) -> Iterator[str]:
    subject = None
    for f in findings:
        if f.subject != subject:
            subject = f.subject
            yield subject
        yield from wrapped(f.message, f"  {f.level:<8} ", width=width)
        if f.hint:
            yield from wrapped(f.hint, "           mend: ", width=width)
    wrong = sum(f.level == "error" for f in findings)
    warned = sum(f.level == "warning" for f in findings)
    yield (
        f"{count(wrong, 'error')}, {count(warned, 'warning')}"
        if wrong or warned
        else "nothing stands in the way of the next refresh"
    )

"""Lines about versions of an aggregate: what apply changes, what a build came to, what status says of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from materializer.adapters.cli.render.text_plan import refresh_lines
from materializer.adapters.cli.words import count, duration, number, size, spans, wrapped

if TYPE_CHECKING:
    from materializer.services.definitions.apply import Change
    from materializer.services.report.status import Status
    from materializer.services.versions.build import BuildReport
    from materializer.services.versions.versions import SwitchReport

_NEXT = {
    "started": ("would be built beside what is published", "is the next version"),
    "replaced": ("would replace the version that is being built", "is the next version instead of the one before"),
    "building": ("is being built", "is being built"),
    "switched": (
        "would be published at once, as nothing was refreshed yet",
        "is published, as nothing was refreshed yet",
    ),
    "abandoned": ("would give the next version up", "the next version is given up; what is published stays"),
}


def change_lines(change: Change, width: int, *, is_dry_run: bool) -> Iterator[str]:
    """Yield what applying one definition does: the kind of change, its cost, what differs, and what comes next."""
    yield from wrapped(_kind(change, is_dry_run=is_dry_run), f"{change.name}: ", width=width)
    if change.kind in {"new", "data"} and change.source:
        text = f"source {change.source}, changes count from version {change.source_version}"
        yield from wrapped(text, "    ", width=width)
    for line in change.differences:
        yield from wrapped(line, "    ", width=width)
    if change.next in {"started", "replaced", "building"}:
        yield from wrapped(f"{_cost(change)}; what is published is refreshed and read meanwhile", "    ", width=width)
        if not is_dry_run:
            yield from wrapped(f"'materializer build {change.name}' builds and publishes it", "    ", width=width)


def _kind(change: Change, *, is_dry_run: bool) -> str:
    done = {
        "new": ("would be created", "created")[not is_dry_run] + "; everything is dirty, backfill or refresh it",
        "unchanged": "unchanged",
        "metadata": ("would change", "changed")[not is_dry_run] + " in its metadata; nothing is computed again",
        "measures": ("would change", "changed")[not is_dry_run] + " in what it shows of its stored partials",
        "data": ("would change", "changed")[not is_dry_run] + " in its data",
    }
    what = _NEXT.get(change.next, ("", ""))[not is_dry_run]
    return done.get(change.kind, change.kind) + (f"; {what}" if what else "")


def _cost(change: Change) -> str:
    if change.kind == "measures":
        return f"made from stored partials{_copied(change)}; no row of the source is read but what changed since the last refresh"
    reads = change.reads
    if reads is None:
        return ""
    return (
        f"building it reads about {count(reads.rows, 'row')} ({size(reads.bytes)} in {count(reads.files, 'file')}) "
        f"in about {count(reads.runs, 'run')}"
    )


def _copied(change: Change) -> str:
    kept = change.kept
    if kept is None:
        return ""
    read = f"{count(kept.rows, 'row')} ({size(kept.bytes)} in {count(kept.files, 'file')})"
    return f": {read} to copy, and its output to write from them"


def build_lines(report: BuildReport, width: int) -> Iterator[str]:
    """Yield what a build came to."""
    for refresh in report.refreshes[:1] if not report.runs else [r for r in report.refreshes if r.runs]:
        yield from refresh_lines(refresh, report.time_type, width)
    if report.switched is not None:
        yield from switch_lines(report.switched, width)
    elif report.lack.spans:
        text = f"not published yet: {spans(report.lack.spans, report.time_type)} to be built; 'materializer build {report.name}' goes on"
        yield from wrapped(text, f"{report.name}: ", width=width)
    elif report.why_not == "asked":
        text = f"the next version is ready; 'materializer switch {report.name}' publishes it"
        yield from wrapped(text, f"{report.name}: ", width=width)
    else:
        yield from wrapped(f"not published: {report.why_not}", f"{report.name}: ", width=width)


def switch_lines(report: SwitchReport, width: int) -> Iterator[str]:
    """Yield what publishing a version came to."""
    rows = "" if report.rows is None else f", {number(report.rows)} rows"
    text = f"the next version is published at source version {report.source_version}{rows}, {duration(report.seconds)}"
    yield from wrapped(text, f"{report.name}: ", width=width)
    for line in report.differences:
        yield from wrapped(line, "    ", width=width)
    if report.previous:
        back = f"the version before is kept; 'materializer rollback {report.name}' publishes it again"
        yield from wrapped(back, "    ", width=width)


def version_pairs(s: Status) -> list[tuple[str, str]]:
    """Return what status says of the versions beside what is published."""
    pairs = []
    if s.next is not None:
        n = s.next
        state = {
            "building": f"{n.built:.0%} built, about {count(n.rows, 'row')} to read"
            + (f"; {spans(n.missing, n.time_type)} missing" if n.missing else ""),
            "ready": f"ready; 'materializer switch {s.name}' publishes it",
            "switching": "being published; the next command that writes ends that",
        }[n.state]
        behind = f"; at version {n.cursor}, what is published at {s.cursor}" if n.behind else ""
        holder = f"; {n.holder} builds it" if n.holder else ""
        pairs.append(("next version", "\n".join([f"{state}{behind}{holder}", *n.differences])))
    if s.previous:
        kept = (
            f"{count(len(s.previous), 'version')} kept; 'materializer rollback {s.name}' publishes the last one again"
        )
        pairs.append(("before", kept))
    return pairs

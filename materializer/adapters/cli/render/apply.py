"""``apply``, ``policy add`` and ``policy remove``: what changes in definitions, and what a problem in one looks like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from materializer.adapters.cli.render.build import BuildResult
from materializer.adapters.cli.render.result import DONE, IDLE, Result
from materializer.adapters.cli.words import count, size, wrapped
from materializer.core.spec.table_names import table_text
from materializer.structs import as_dict

if TYPE_CHECKING:
    from materializer.errors import Problem
    from materializer.services.definitions.changes import DefinitionChange
    from materializer.services.definitions.sources import MissingFeed
    from materializer.services.versions.build import BuildReport

_KINDS = {
    "new": ("would be created", "created", "; everything is dirty, backfill or refresh it"),
    "unchanged": ("unchanged", "unchanged", ""),
    "metadata": ("would change", "changed", " in its metadata; nothing is computed again"),
    "measures": ("would change", "changed", " in what it shows of its stored partials"),
    "data": ("would change", "changed", " in its data"),
}
_NEXT = {
    "started": ("would be built beside what is published", "is the next version"),
    "replaced": ("would replace the version that is being built", "is the next version instead of the one before"),
    "building": ("is the next version already", "is the next version already"),
    "switched": (
        "would be published at once, as nothing was refreshed yet",
        "is published, as nothing was refreshed yet",
    ),
    "abandoned": ("would give the next version up", "the next version is given up; what is published stays"),
}


FEW_UNCHANGED: Final = 10
"""Unchanged definitions that have a line each; of more there is the number, so that what changed is seen."""


class ApplyResult(Result, frozen=True):
    """What ``apply`` did, or would do.

    Args:
        changes: The changes of definitions.
        warnings: Problems that stop nothing.
        is_dry_run: Whether nothing was written.
        builds: What ``--build`` built.
        building: The aggregates that ``--build`` builds.
        is_announced: Whether people were shown the changes before the builds.
    """

    changes: tuple[DefinitionChange, ...]
    warnings: tuple[Problem, ...] = ()
    is_dry_run: bool = False
    builds: tuple[BuildReport, ...] = ()
    building: tuple[str, ...] = ()
    is_announced: bool = False

    @property
    def _feeds(self) -> tuple[MissingFeed, ...]:
        """How the sources get a change feed, each source once."""
        return tuple(dict.fromkeys(c.feed for c in self.changes if c.feed is not None))

    @property
    def exit_status(self) -> int:
        return IDLE if all(map(_is_unchanged, self.changes)) else DONE

    def form(self) -> dict[str, Any]:
        return {
            "dry_run": self.is_dry_run,
            "changes": [_change_form(c) for c in self.changes],
            "change_feeds": [as_dict(feed) for feed in self._feeds],
            "warnings": [_problem_form(w) for w in self.warnings],
            "builds": [BuildResult(b).form() for b in self.builds],
        }

    def lines(self, width: int) -> Iterator[str]:
        if not self.is_announced:
            yield from self._changes(width)
        for build in self.builds:
            yield from BuildResult(build).lines(width)

    def _changes(self, width: int) -> Iterator[str]:
        for problem in self.warnings:
            first, *rest = problem_lines(problem, width)
            yield f"warning: {first}"
            yield from rest
        same = sum(_is_unchanged(change) for change in self.changes)
        few = same <= FEW_UNCHANGED
        for change in self.changes if few else [change for change in self.changes if not _is_unchanged(change)]:
            is_built = change.name in self.building or any(
                build.name == change.name and build.switched for build in self.builds
            )
            yield from _change_lines(change, width, is_dry_run=self.is_dry_run, is_built=is_built)
        if not few:
            yield f"{same} definitions: unchanged"
        if self._feeds:
            from materializer.adapters.cli.render.feed import feed_lines  # noqa: PLC0415 (every command loads this module)

            for feed in self._feeds:
                yield from feed_lines(feed, width)
        if not self.changes:
            yield "no definitions found"
        if self.is_dry_run:
            yield "dry run: nothing was written"


def _is_unchanged(change: DefinitionChange) -> bool:
    return change.kind == "unchanged" and not change.next


def _change_form(change: DefinitionChange) -> dict[str, Any]:
    form = as_dict(change)
    del form["feed"]  # several definitions may read one source
    return form


def _problem_form(problem: Problem) -> dict[str, Any]:
    return {f: getattr(problem, f) for f in ("code", "message", "hint", "file", "line", "column")}


def problem_lines(problem: Problem, width: int) -> Iterator[str]:
    """Yield a problem with its place, code and hint."""
    place = f"{problem.file}: " if problem.file else ""
    if problem.line:
        place = f"{problem.file or 'definition'}:{problem.line}:{problem.column}: "
    yield f"{place}{problem.code}"
    yield from wrapped(problem.message, "    ", width=width)
    yield from wrapped(problem.hint or more_about(problem.code), "    hint: ", width=width)


def more_about(code: str) -> str:
    """Return what is hinted at where an error or a problem has nothing of its own to hint at."""
    return f"'materializer explain {code}' says more"


def _change_lines(change: DefinitionChange, width: int, *, is_dry_run: bool, is_built: bool) -> Iterator[str]:
    """Yield what applying one definition does: the kind of change, its cost, what differs, and what comes next, if it has not come."""
    yield from wrapped(_kind_text(change, is_dry_run=is_dry_run), f"{change.name}: ", width=width)
    details = list(change.differences)
    if change.kind in {"new", "data"} and change.source:
        details.insert(0, f"source {table_text(change.source)}, changes count from version {change.source_version}")
    if change.sample:
        details.append(change.sample)
    if change.next in {"started", "replaced", "building"} and not is_built:
        details.append(f"{_cost_text(change)}; what is published is refreshed and read meanwhile")
        if not is_dry_run:
            details.append(f"'materializer build {change.name}' builds and publishes it, and so does 'apply --build'")
    if not is_built:
        details += [f"not active before that: {check.text}" for check in change.waiting_checks]
    for text in details:
        yield from wrapped(text, "    ", width=width)


def _kind_text(change: DefinitionChange, *, is_dry_run: bool) -> str:
    would, done, rest = _KINDS.get(change.kind, (change.kind, change.kind, ""))
    next_ = _NEXT.get(change.next, ("", ""))[not is_dry_run]
    return (would if is_dry_run else done) + rest + (f"; {next_}" if next_ else "")


def _cost_text(change: DefinitionChange) -> str:
    reads, stored = change.reads, change.kept
    if change.kind == "measures":
        copied = ""
        if stored is not None:
            read = f"{count(stored.rows, 'row')} ({size(stored.bytes)} in {count(stored.files, 'file')})"
            copied = f": {read} to copy, and its output to write from them"
        return (
            f"made from stored partials{copied}; no row of the source is read but what changed since the last refresh"
        )
    if reads is None:
        return ""
    return (
        f"building it reads about {count(reads.rows, 'row')} ({size(reads.bytes)} in {count(reads.files, 'file')}) "
        f"in about {count(reads.runs, 'run')}"
    )

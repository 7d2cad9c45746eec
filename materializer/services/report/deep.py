"""Findings of ``doctor`` about files: where they lie and, with ``--deep``, whether they hold what the logs say of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from materializer.core.spec.spec import AggregateSpec
from materializer.errors import MaterializerError
from materializer.journal.events import SourceIdentity
from materializer.journal.state import AggregateState
from materializer.lake import places
from materializer.lake.rows import folders_elsewhere
from materializer.lake.statistics_check import Compared, compare_statistics
from materializer.lake.table import DeltaFolder
from materializer.services.aggregate import Aggregate
from materializer.services.report.tables import DoctorFinding

_NAMED = 3
"""How many files a finding names."""


def look_deep(states: Sequence[AggregateState], root: str) -> Iterator[DoctorFinding]:
    """Yield what is found when all files of the sources and of the lake's own tables are read, each source once.

    Args:
        states: The aggregates.
        root: The root of the lake.
    """
    tables = {(state.name, which): path for state in states for which, path in Aggregate.of(state, root).paths.items()}
    for source, readers in _sources(states).items():
        if source.path in tables.values():
            continue  # a roll-up reads a table of ours
        first, columns = next(iter(readers)), sorted(set().union(*readers.values()))
        what = f"its source {source.path}"
        hint = "write these files anew (a table that is copied gets new statistics), then run 'materializer invalidate NAME --all-time' and refresh"
        again = f"restore these files, or delete their rows from {source.path}"
        yield from _table(first, what, source.path, columns, hint.replace("NAME", first), again)
    for (name, which), path in tables.items():
        hint = f"move '{path}' away, then run 'materializer repair {name} --yes' and refresh"
        if places.is_folder(path):  # one that lacks is another finding, if it has to be there
            yield from _table(name, which, path, None, hint, hint)


def files_elsewhere(states: Sequence[AggregateState]) -> Iterator[DoctorFinding]:
    """Yield a note for each source whose log names files outside of its folder, as that of a shallow clone does, or reaches them by links."""
    for source, readers in _sources(states).items():
        try:
            folders = folders_elsewhere(source.path)
        except MaterializerError:  # that the source cannot be read is another finding
            continue
        if folders:
            more = f", and {len(folders) - _NAMED:,} more folders" if len(folders) > _NAMED else ""
            message = f"files of its source {source.path} lie in {', '.join(folders[:_NAMED])}{more}"
            hint = "right for a shallow clone, and for links that you made: they are read with the rights of this process, and a VACUUM there removes them"
            yield DoctorFinding("note", next(iter(readers)), "doctor.files-elsewhere", message, hint)


def _sources(states: Sequence[AggregateState]) -> dict[SourceIdentity, dict[str, set[str]]]:
    """Return what each aggregate reads of each source: names of columns, by the name of the aggregate."""
    found: dict[SourceIdentity, dict[str, set[str]]] = {}
    for state in states:
        reads = {name for name, _ in AggregateSpec.from_json(state.spec).read_types}
        found.setdefault(state.source, {})[state.name] = reads
    return found


def _table(
    subject: str, what: str, path: str, columns: Sequence[str] | None, hint: str, again: str
) -> Iterator[DoctorFinding]:
    try:
        version = DeltaFolder.at(path).head().version
        found = compare_statistics(path, version, columns)
    except MaterializerError as exc:
        yield DoctorFinding("error", subject, exc.code, exc.message, exc.hint)
        return
    if found.lies:
        yield DoctorFinding("error", subject, "doctor.statistics", f"{what}: {_named(found.lies)}", hint)
    if found.unreadable:
        yield DoctorFinding("error", subject, "doctor.unreadable", f"{what}: {_named(found.unreadable)}", again)
    if not found.lies and not found.unreadable:
        yield DoctorFinding("ok", subject, "doctor.statistics", f"{what} at version {version}: {_read(found)}")


def _read(found: Compared) -> str:
    result = "hold as many rows as the log says; bounds are not compared in a table with deletion vectors"
    result = result if found.is_marked else "hold what the log says of them"
    return f"{found.files:,} files of {found.rows:,} rows were read, and {result}"


def _named(files: Sequence[tuple[str, str]]) -> str:
    more = f", and {len(files) - _NAMED:,} more" if len(files) > _NAMED else ""
    return f"{len(files):,} files: " + "; ".join(f"'{name}': {why}" for name, why in files[:_NAMED]) + more

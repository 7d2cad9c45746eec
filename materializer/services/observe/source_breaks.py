"""In which way a source is not the one that was captured: the words that plans give as the reason, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from materializer.core.spec.widening import is_same_type, is_wider
from materializer.errors import SourceSchemaChangedError
from materializer.journal.state import AggregateState, spec_of
from materializer.lake.capture import source_marks
from materializer.lake.table import DeltaFolder, TableHead
from materializer.services.definitions.replaced import goes_on


class SourceBreak(Struct, frozen=True):
    """A source that is not the one that was captured.

    Args:
        reason: In which way, in words.
        code: ``source.replaced``, ``source.diverged`` or ``source.columns``.
        table_id: Its id, if that is another one; else "".
    """

    reason: str
    code: str
    table_id: str = ""


class Misfit(Struct, frozen=True):
    """A column that is read and that the source does not have as it was.

    Args:
        column: Its name.
        expected: Its type as it is read.
        found: Its type now; None if it is gone.
        words: What became of it.
    """

    column: str
    expected: str
    found: str | None
    words: str

    @property
    def is_wider(self) -> bool:
        """Whether a refresh may go on with it."""
        return self.found is not None and is_wider(self.found, self.expected)

    def text(self, name: str) -> str:
        """Return what is wrong for the aggregate *name*."""
        return f"'{name}' reads column '{self.column}' as {self.expected}, but in its source it {self.words}"


def found(state: AggregateState, version: int, reads: Iterable[str]) -> SourceBreak | None:
    """Return in which way a source at its newest *version* is not the one that was captured; None if it is.

    Args:
        state: The aggregate that reads it.
        version: Its newest version.
        reads: The columns that the aggregate reads.
    """
    table, known = DeltaFolder.at(state.source.path), state.mark
    names, table_id = list(reads), table.head().table_id
    if table_id != state.source.table_id:
        at = source_marks.replaced_at(table, state.cursor, version, state.source.table_id)
        return SourceBreak(f"version {at} of the source replaced the table", "source.replaced", table_id)
    if source_marks.has_other_commit(table, state.cursor, known):
        common = source_marks.last_common(table, known)
        since = "another one" if common is None else f"another one after version {common}"
        reason = f"the history of the source is {since}: it was put back from a copy, or a copy was written to"
        return SourceBreak(reason, "source.diverged")
    if version == state.cursor:
        return None
    before = source_marks.columns_before(table, state.cursor, known, names)
    now = source_marks.names_underneath(table.schema_json())
    there = [name for name in names if name.lower() in now]
    others = [n for n in there if before.get(n.lower(), now[n.lower()]) != now[n.lower()]]
    if not others:
        return None
    called = {underneath: name for name, underneath in now.items()}
    words = (_what(name, called.get(before[name.lower()])) for name in others)
    return SourceBreak(f"since version {state.cursor} of the source {'; '.join(words)}", "source.columns")


def problem(state: AggregateState, head: TableHead) -> str:
    """Return why the source is not the one that was captured, where its newest version does not say that anything changed."""
    if head.table_id != state.source.table_id and not goes_on(state):
        table = DeltaFolder.at(state.source.path)
        return source_marks.what_happened(table, state.cursor, state.source.table_id, state.mark)
    if head.version < state.cursor:
        return "the source is older than what was captured"
    broken = to_come(state) if head.version == state.cursor else None
    return "" if broken is None else broken.reason


def to_come(state: AggregateState) -> SourceBreak | None:
    """Return in which way the source, which is there, is not the one that was captured, where a refresh would go on with it."""
    head = DeltaFolder.at(state.source.path).head()
    if head.version < state.cursor or (head.table_id != state.source.table_id and not goes_on(state)):
        return None
    return found(state, head.version, [name for name, _ in spec_of(state).read_types])


def misfits(state: AggregateState) -> Iterator[Misfit]:
    """Yield the columns that are read and that the source no longer has, or has with another type."""
    now = {name.lower(): kind for name, kind in DeltaFolder.at(state.source.path).schema()}
    for name, kind in spec_of(state).read_types:
        found = now.get(name.lower())
        if not is_same_type(found, kind):
            other = now_called(state, name) if found is None else None
            gone = "is gone" if other is None else f"is called '{other}' now"
            yield Misfit(name, kind, found, gone if found is None else f"is {found} now")


def refuse_misfits(state: AggregateState) -> None:
    """Refuse a source of which a column that is read is gone, or has another type.

    Raises:
        SourceSchemaChangedError: If there is one; of several that of which no refresh goes on.
    """
    for misfit in sorted(misfits(state), key=lambda each: each.is_wider):
        hint = f"apply a definition of '{state.name}' that fits the source"
        if misfit.is_wider:
            hint = f"refresh '{state.name}', which goes on where its output keeps its types"
        raise SourceSchemaChangedError(
            misfit.text(state.name),
            hint=hint,
            column=misfit.column,
            found=misfit.found,
            expected=misfit.expected,
        )


def now_called(state: AggregateState, name: str) -> str | None:
    """Return what a column that was captured is called in the source now; None if it is not known, or not there."""
    now = source_marks.names_underneath(DeltaFolder.at(state.source.path).schema_json())
    before = state.mark.columns.get(name.lower())
    return next((other for other, underneath in now.items() if underneath == before), None)


def _what(name: str, other: str | None) -> str:
    became = "is not there any more" if other is None else f"is called '{other}' now"
    return f"another column is called '{name}', and what was called that {became}"

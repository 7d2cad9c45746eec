"""Dropping aggregates: the journal forgets an aggregate first, under its lease, and then its folders are removed.

A drop that dies between leaves folders that the journal does not know. They carry a mark, by which the next drop removes them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from materializer.errors import CatalogRefusedError, HasReadersError, MaterializerError
from materializer.journal.events import Dropped, Event
from materializer.journal.state import AggregateState
from materializer.journal.view import View
from materializer.services.activity import log
from materializer.services.definitions import tables
from materializer.services.definitions.lineage import dropped_with, readers_of
from materializer.services.delivery import registration
from materializer.services.versions.versions import Versions


def drop(versions: Versions, name: str, *, cascade: bool = False) -> list[str]:
    """Remove an aggregate with all its versions; its source is never touched.

    Args:
        versions: Changes versions.
        name: The aggregate.
        cascade: Whether the aggregates that read it are removed, too, before it. If only the build of an aggregate reads it,
            the build is given up.

    Returns:
        The names of the removed aggregates, in order.

    Raises:
        HasReadersError: If others read it, without *cascade*.
        LeaseHeldError: If another process works on one of them; those before it are removed.
        CatalogRefusedError: If the name of an output stays in its catalog; all of them are removed.
    """
    lake = versions.lake
    view = lake.journal.view()
    if tables.was_dropped(lake.root, name, view):
        tables.remove(lake.root, name)
        return [name]
    state = view.named(name)
    readers = dropped_with(state, lake.root, view.all)
    if readers and not cascade:
        raise _has_readers(state, readers, lake.root, view)
    together = {s.id for s in readers}
    gone = [s.name for s in readers if not s.builds]
    done: list[str] = []
    problems: list[str] = []
    try:
        for reader in readers:
            if not reader.builds:
                problems.append(_drop(versions, reader.name, together))
                done.append(reader.name)
            elif reader.name not in gone:
                versions.abandon(reader.name)
        problems.append(_drop(versions, state.name, together))
    except MaterializerError as exc:
        if done:
            exc.follows(f"{', '.join(done)} {'are' if done[1:] else 'is'} dropped")
        raise
    log(lake.journal.tidy())
    if problem := "; ".join(filter(None, problems)):
        hint = "drop the name there when the catalog answers: DROP TABLE removes no file"
        names = [*done, state.name]
        raise CatalogRefusedError(problem, hint=hint, wrote=f"{', '.join(names)} {'are' if done else 'is'} dropped")
    return [*done, state.name]


def _drop(versions: Versions, name: str, together: Collection[str]) -> str:
    """Drop one aggregate that nothing reads but *together*; return why the name of its output stays in the catalog, or ""."""
    lake = versions.lake

    def decide(view: View) -> list[tuple[str, Event]]:
        state = view.named(name)
        readers = dropped_with(state, lake.root, view.all)
        if any(s.id not in together for s in readers):
            raise _has_readers(state, readers, lake.root, view)
        build = view.build_of(state)
        if build is not None:
            versions.refuse_busy(build)
        return [(s.id, Dropped()) for s in (build, state) if s is not None]

    with lake.lease(name) as lease:
        state = lease.state
        decide(lake.journal.view())  # may refuse
        problem = registration.give_up(lake, state)
        lake.on_checkpoint("drop_mark")
        with tables.dropping(lake.root, state, lake.journal):
            lake.on_checkpoint("drop_journal")
            lease.transact(decide)
        lake.on_checkpoint("drop_folders")
        tables.remove(lake.root, state.name)
    return problem


def _has_readers(state: AggregateState, readers: Iterable[AggregateState], root: str, view: View) -> HasReadersError:
    direct = readers_of(state.name, root, view.all)
    names = [f"the next version of {s.name}" if s.builds else s.name for s in direct]
    readers_text = ", ".join(dict.fromkeys(names))
    aggregates = ", ".join(s.name for s in readers if not s.builds)
    what = f"drops {aggregates} with it" if aggregates else "gives that up"
    hint = f"drop them first, or run 'materializer drop {state.name} --cascade --yes', which {what}"
    return HasReadersError(
        f"'{state.name}' is read by {readers_text}", hint=hint, name=state.name, readers=readers_text
    )

"""The same random work, while tables are lost, harmed and put back from old copies, and the journal from backups; all is repaired."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from deltalake import DeltaTable, write_deltalake
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from materializer.api import Materializer
from materializer.errors import JournalError
from materializer.journal.codec import Row
from materializer.journal.store import JournalStore
from materializer.lake import places
from tests.system.lake import AGGREGATES, Death, Died, dying, leave_behind
from tests.system.stateful import MAYBE, NAMES, Commit, Work

REPAIRS: Final = ("repair_partials", "repair_output", "repair_swap", "repair_journal", "repair_clean", "repair_events")
RECOVERIES: Final = ("lease", "recover", "fence", "abort", "aborted", "finish", "finished")
RESTORES: Final = ("restore_copy", "restore_aside", "restore_put", "restore_clean", "lease")


def deaths(*places: tuple[str, ...]) -> st.SearchStrategy[Death | None]:
    """Return deaths at some checkpoints, and often none."""
    return st.none() | st.builds(
        Death, st.one_of(map(st.sampled_from, places)), st.sampled_from([1, 1, 2]), st.booleans()
    )


TABLES: Final = st.sampled_from(["partials", "output"])
HARMS: Final = st.lists(
    st.tuples(TABLES, st.sampled_from(["missing", "missing", "file", "foreign", "old", "old"]))
    | st.just(("journal", "unreadable")),
    min_size=1,
    max_size=2,
)


def copied(folder: str, to: str) -> None:
    """Copy all files below a folder."""
    for file in places.files(folder):
        places.copy(f"{folder}/{file.name}", f"{to}/{file.name}")


class Mending(Work):
    """One lake whose tables and journal are harmed, and repaired by processes any of which may die."""

    def __init__(self) -> None:
        super().__init__()
        self.copies: dict[tuple[str, str], str] = {}
        self.backup: str | None = None
        self.backed_up = -1
        self.holders: set[str] = set()
        self.number = 0

    @rule(name=NAMES, which=TABLES)
    def copy(self, name: str, which: str) -> None:
        """Somebody keeps a copy of a table."""
        if places.exists(place := self.place(name, which)):
            self.copies[(name, which)] = self.fresh("copy")
            copied(place, self.copies[(name, which)])

    @rule(name=NAMES, harms=HARMS, death=deaths(REPAIRS, RECOVERIES))
    def repair(self, name: str, harms: list[tuple[str, str]], death: Death | None) -> None:
        """Harm an aggregate, and repair it."""
        for which, harm in harms:
            self.harm(name, which, harm)
        self.again_when_dead("repair", death, lambda m: m.repair(name))
        self.mended()

    @precondition(lambda self: self.journal_version() > self.backed_up + 6)
    @rule()
    def back_up(self) -> None:
        """Keep a copy of the journal."""
        self.backup, self.backed_up = self.fresh("backup"), self.journal_version()
        self.materializer.backup(self.backup)
        Work.seen["backup"] += 1

    @rule(commits=MAYBE, death=deaths(RESTORES))
    def restore(self, commits: list[Commit], death: Death | None) -> None:
        """Put the journal back that was kept, perhaps just now, and repair what disagrees with it."""
        if self.backup is None:
            self.back_up()
        self.committed(commits)
        self.again_when_dead("restore", death, lambda m: m.restore(self.backup or ""))
        for name in AGGREGATES:
            self.again_when_dead("repair", None, lambda m, name=name: m.repair(name))  # type: ignore[misc]
        self.mended()

    def again_when_dead(self, what: str, death: Death | None, do: Callable[[Materializer], Any]) -> None:
        """Run a command in a process that may die; when it does, another runs the same command."""
        Work.seen[what] += 1
        if death is not None:
            try:
                with dying(death) as on_checkpoint:
                    do(self.new(self.watched(on_checkpoint)))
            except Died as died:
                Work.seen[f"died at {died}"] += 1
                self.dead |= self.holders
        self.materializer = self.new()
        report = do(self.materializer)
        Work.seen[f"{what}: {report.outcome}"] += 1

    def watched(self, on_checkpoint: Callable[[str], None]) -> Callable[[str], None]:
        """Note who holds leases at each checkpoint: where a restore dies the journal may be away."""
        self.holders.clear()

        def told(name: str) -> None:
            with suppress(JournalError):
                leave_behind(self.new(), self.holders)
            on_checkpoint(name)

        return told

    def mended(self) -> None:
        """Nothing is left to repair, and what was held back before counts for nothing."""
        for name in AGGREGATES:
            report = self.materializer.repair(name, dry_run=True)
            assert report.outcome == "sound", f"{name} is still to be repaired: {report.mending.wrong}"
        self.before = {}

    def harm(self, name: str, which: str, harm: str) -> None:
        """Do harm to a table of an aggregate, or to its events."""
        if which == "journal":
            store, state = JournalStore(f"{self.home}/lake"), self.materializer.journal.view().all
            aggregate = next((s.id for s in state.values() if s.name == name), None)
            if aggregate is not None:
                store.append([Row(aggregate, "captured", "", "{")], expected_version=store.read().version)
                Work.seen["harm: journal"] += 1
            return
        place = self.place(name, which)
        if not places.is_folder(f"{place}/_delta_log") or not DeltaTable.is_deltatable(place):
            return
        match harm:
            case "missing":
                places.delete_folder(place)
            case "foreign":
                places.delete_folder(place)
                write_deltalake(place, DeltaTable(self.source.path).to_pyarrow_table())
            case "old" if (name, which) in self.copies:
                places.delete_folder(place)
                copied(self.copies[(name, which)], place)
            case "file" if uris := DeltaTable(place).file_uris():
                with suppress(FileNotFoundError):  # harmed twice
                    places.delete(uris[0])
            case _:
                return
        Work.seen[f"harm: {which} {harm}"] += 1

    def place(self, name: str, which: str) -> str:
        """Return the folder of a table of an aggregate."""
        folder = f"{self.home}/lake/{name}/{which}"
        if which == "output":
            return folder
        state = next((s for s in self.materializer.journal.view().all.values() if s.name == name), None)
        return f"{folder}/{state.data_version}" if state else folder

    def journal_version(self) -> int:
        """Return the newest version of the journal."""
        return self.materializer.journal.view().version

    def fresh(self, what: str) -> str:
        """Return a folder that is not there yet."""
        self.number += 1
        return f"{self.home}/{what}{self.number}"

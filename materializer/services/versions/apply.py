"""Applying definitions: all are read and checked before the first is written."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct

from materializer.core.spec.spec import AggregateSpec
from materializer.errors import CatalogRefusedError, DefinitionError, MaterializerError, Problem
from materializer.services.activity import Phase, log, tell_each
from materializer.services.definitions.apply import Definitions
from materializer.services.definitions.changes import CheckedDefinition, DefinitionChange
from materializer.services.definitions.repeated import CROWD
from materializer.services.definitions.texts import Given, Texts
from materializer.services.delivery import registration
from materializer.services.versions.versions import Versions


class Applier(Struct, frozen=True):
    """Applies definitions to one lake."""

    texts: Texts
    definitions: Definitions
    versions: Versions

    def apply(self, what: Given, *, dry_run: bool = False, publish_anyway: str = "") -> list[DefinitionChange]:
        """Apply definitions to the lake, one by one.

        Args:
            what: SQL text, a file, a folder, specs, or several of these.
            dry_run: Only return what would change.
            publish_anyway: See :meth:`Versions.apply`.

        Raises:
            DefinitionError: With every problem of every definition; nothing was written.
            FrozenHistoryError: If data changed and history is frozen; nothing was written.
            MaterializerError: If writing fails; the error says which definitions are applied.
        """
        specs, _, problems = self.texts.examine(what)
        if problems:
            more, left = self._problems_of(specs)
            raise DefinitionError([*problems, *more], left)
        prepared = self._prepared(specs)
        if dry_run:
            return [p.change for p in prepared]
        if self.versions.end_open_switches(prepared):
            prepared = self._prepared(specs)
        self.versions.refuse_frozen(prepared)
        changes: list[DefinitionChange] = []
        try:
            for each in tell_each(Phase.APPLYING, prepared):
                changes.append(self.versions.apply(each, publish_anyway))  # noqa: PERF401 (an error says how far it came)
        except MaterializerError as exc:
            if changes:
                exc.follows(f"{', '.join(c.name for c in changes)} {'are' if changes[1:] else 'is'} applied")
            raise
        finally:
            log(self.versions.lake.journal.tidy())
        self._register(changes)
        self._note(prepared)
        return changes

    def _note(self, applied: Sequence[CheckedDefinition]) -> None:
        """Note definitions that are applied, if they are many, so that they are not parsed again as long as nothing changes."""
        read = self.texts.pieces
        found = [(read[p.spec.sql], p.spec.name) for p in applied if p.spec.sql in read and not p.change.next]
        if len(found) >= CROWD:
            self.definitions.repeated.note(found)

    def _register(self, changes: Sequence[DefinitionChange]) -> None:
        """Give the outputs the names that the definitions ask for, and take away those that they had before."""
        lake, names = self.versions.lake, dict.fromkeys(change.name for change in changes)
        states = [lake.journal.view().named(name) for name in names]
        try:
            problems = [(s.name, registration.follow(lake, s, asks=True)) for s in states]
        except MaterializerError as exc:
            exc.follows("the definitions are applied")
            raise
        if failed := [f"{name}: {problem}" for name, problem in problems if problem]:
            raise CatalogRefusedError("; ".join(failed), wrote="the definitions are applied")

    def _problems_of(self, specs: Sequence[AggregateSpec]) -> tuple[list[Problem], tuple[str, ...]]:
        """Return what is wrong with definitions whose texts are right, as far as it can be found out without Spark, and which are left."""
        with suppress(MaterializerError):
            found = self.definitions.examine(specs, is_wrong=True)
            return [self.texts.placed(p, specs) for p in found.problems], found.left
        return [], ()

    def _prepared(self, specs: Sequence[AggregateSpec]) -> list[CheckedDefinition]:
        try:
            return self.definitions.prepare(specs)
        except DefinitionError as exc:
            raise DefinitionError((self.texts.placed(p, specs) for p in exc.problems), exc.left) from exc

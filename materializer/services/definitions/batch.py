"""Definitions that are applied together: which reads which, in what order they are made, and what is there before they are.

A source is looked up as ever, but an aggregate that the same command makes is found, too; it has no table yet, so what is
known of its output stands in for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from materializer.core.spec.spec import AggregateSpec
from materializer.errors import Problem
from materializer.journal.events import SourceIdentity
from materializer.journal.state import AggregateState, NamedStates
from materializer.journal.view import View
from materializer.lake import places
from materializer.lake.features import TableFeatures
from materializer.lake.table import TableHead
from materializer.lake.types import schema_of
from materializer.services.aggregate import output_path
from materializer.services.definitions import lineage
from materializer.services.definitions.lineage import Form


class Awaited:
    """The output of an aggregate that is made by the same command; it answers as its folder will.

    Args:
        columns: Name and Spark type of each column.
    """

    def __init__(self, columns: Sequence[Sequence[str]]) -> None:
        self._columns = [(str(name), str(kind)) for name, kind in columns]

    def head(self) -> TableHead:
        """Return the version that it begins with, without an id."""
        return TableHead(0, "")

    def schema(self) -> list[tuple[str, str]]:
        """Return (name, Spark type text) of each column, in order."""
        return self._columns

    def schema_json(self) -> str:
        """Return the schema as Spark's JSON."""
        return schema_of(self._columns)

    def features(self) -> TableFeatures:
        """Return what a table of ours has."""
        return TableFeatures(
            has_deletion_vectors=False,
            has_column_mapping=False,
            is_clustered=False,
            has_row_tracking=False,
            is_catalog_managed=False,
            partition_columns=(),
            names=frozenset(),
        )


class _Together(NamedStates):
    """The aggregates of a lake, and new ones beside them.

    Args:
        there: The aggregates of the lake.
    """

    def __init__(self, there: NamedStates) -> None:
        self._there = there
        self._new: dict[str, AggregateState] = {}
        self._named: dict[str, AggregateState] = {}

    def add(self, state: AggregateState) -> None:
        """Add a new one."""
        self._new[state.id] = self._named[state.name.lower()] = state

    def __getitem__(self, key: str) -> AggregateState:
        return self._new[key] if key in self._new else self._there[key]

    def __iter__(self) -> Iterator[str]:
        yield from self._there
        yield from self._new

    def __len__(self) -> int:
        return len(self._there) + len(self._new)

    def find(self, name: str) -> AggregateState | None:
        """Return the aggregate called *name*, in letters of any case, or None."""
        return self._named.get(name.lower()) or self._there.find(name)

    def mentioning(self, *texts: str) -> Iterator[AggregateState]:
        """Yield the new aggregates, and those whose events may have all of some texts."""
        yield from self._new.values()
        yield from self._there.mentioning(*texts)


class Batch:
    """The definitions of one command, over what a lake has.

    Args:
        root: The lake's root.
        sources: Named sources of the configuration.
        view: The journal.
        specs: The definitions, as given.
    """

    def __init__(self, root: str, sources: Mapping[str, str], view: View, specs: Sequence[AggregateSpec]) -> None:
        self.view = view
        self.states = _Together(view.states)
        """The aggregates of the lake, and those of the batch that are checked already and new."""
        self._root = root
        self._sources = sources
        self._specs = {spec.name.lower(): spec for spec in specs}
        self._refused: set[str] = set()
        self._checked: dict[str, AggregateSpec] = {}
        self._read_at: dict[str, list[str]] = {}
        self._outputs = {self.output(spec.name): spec for spec in reversed(self._specs.values())}

    # -- what reads what -------------------------------------------------------------------------------------------------

    def parent(self, spec: AggregateSpec) -> AggregateSpec | None:
        """Return the definition of the batch that makes what *spec* reads, or None."""
        if spec.source not in self._sources:
            named = self._specs.get(spec.source.lower())
            is_folder = (
                named is not None and named.name == spec.name and places.exists(places.inside(self._root, spec.source))
            )
            if named is not None and not is_folder:
                return named
            if named is None and self.view.find(spec.source) is not None:
                return None
        given = self._sources.get(spec.source, spec.source)
        if given not in self._read_at:
            self._read_at[given] = [places.resolved(place) for place in (places.inside(self._root, given), given)]
        return next((self._outputs[path] for path in self._read_at[given] if path in self._outputs), None)

    def ordered(self) -> Iterator[AggregateSpec]:
        """Yield the definitions, those that others read before these, else as they were given."""
        done: set[str] = set()
        for spec in self._specs.values():
            waiting: list[AggregateSpec] = []
            at: AggregateSpec | None = spec
            while at is not None and at.name.lower() not in done:
                done.add(at.name.lower())
                waiting.append(at)
                at = self.parent(at)
            yield from reversed(waiting)

    def cycle(self, spec: AggregateSpec) -> list[str]:
        """Return the names of the aggregates through which *spec* would read itself, it first and last; [] when it does not."""
        names, at = [spec.name], self._parent_name(spec.name)
        while at is not None and at not in names[1:]:  # else a damaged journal holds a circle
            names.append(at)
            if at.lower() == spec.name.lower():
                return names
            at = self._parent_name(at)
        return []

    def _parent_name(self, name: str) -> str | None:
        spec = self._specs.get(name.lower())
        if spec is not None and (parent := self.parent(spec)) is not None:
            return parent.name
        if spec is not None:
            state = None if spec.source in self._sources else self.view.find(spec.source)
            return None if state is None else state.name
        state = self.view.find(name)
        found = None if state is None else lineage.parent_of(state.source.path, self._root, self.view.states)
        return None if found is None else found.name

    def problems_of(self, spec: AggregateSpec) -> list[Problem]:
        """Return why *spec* cannot be checked: it would read itself, or what it reads has problems of its own."""
        if names := self.cycle(spec):
            message = f"{spec.name}: it would read '{names[1]}', which reads it: {' reads '.join(names)}"
            return [Problem("definition.cycle", message, "name another source in one of them", about=names[1])]
        parent = self.parent(spec)
        if parent is None or parent.name.lower() not in self._refused or self.view.find(parent.name):
            return []
        message = f"{spec.name}: it reads '{parent.name}', whose definition has problems of its own"
        return [Problem("definition.source-refused", message, f"mend '{parent.name}' first", about=parent.name)]

    # -- what is checked -------------------------------------------------------------------------------------------------

    def refuse(self, spec: AggregateSpec) -> None:
        """Note that *spec* has problems."""
        self._refused.add(spec.name.lower())

    def accept(self, spec: AggregateSpec, source: SourceIdentity, schemas: Mapping[str, Any]) -> None:
        """Note that *spec*, resolved, has none."""
        self._checked[spec.name.lower()] = spec
        if self.view.find(spec.name) is None:
            self.states.add(AggregateState(f"new {spec.name}", spec.name, spec.as_json(), "", source, schemas, {}, 0))

    def awaited(self, spec: AggregateSpec) -> tuple[SourceIdentity, Awaited] | None:
        """Return the output that *spec* reads when it is made by this command: where it will lie, and what it will hold."""
        parent = self.parent(spec)
        state = None if parent is None else self.states.get(f"new {parent.name}")
        if state is None:
            return None
        return SourceIdentity(self.output(state.name), ""), Awaited(state.schemas["output"])

    # -- grids that have to fit ------------------------------------------------------------------------------------------

    def output(self, name: str) -> str:
        """Return where the output of an aggregate lies."""
        return places.resolved(output_path(self._root, name))

    def misfits_of_child(self, spec: AggregateSpec, path: str) -> list[Problem]:
        """Return why *spec* may not divide what the aggregate at *path* divides, published or not yet."""
        parent = lineage.parent_of(path, self._root, self.states)
        return [] if parent is None else lineage.misfits_of_child(spec, self._forms(parent.name))

    def misfits_of_parent(self, spec: AggregateSpec) -> list[Problem]:
        """Return why *spec*, resolved, may not divide time as it does: who reads it."""
        children = lineage.readers_of(spec.name, self._root, self.view.all)
        forms = (f for s in children for f in self._forms(s.name))
        readers = [f for f in forms if lineage.maker_of(f.path, self._root) == spec.name]
        return lineage.misfits_of_parent(spec, readers)

    def _forms(self, name: str) -> list[Form]:
        """Return the definitions of an aggregate that are in force once this batch is applied, but for one not checked yet."""
        checked = self._checked.get(name.lower())
        state = self.view.find(name)
        forms = [] if checked is None else [Form(checked, "")]
        if state is None:
            return forms
        is_given = name.lower() in self._specs
        build = self.view.build_of(state)
        if not is_given or lineage.is_materialised(state):
            forms.append(Form.of(state, "as it is published" if is_given or build is not None else ""))
        if build is not None and not is_given:
            forms.append(Form.of(build, "in its next version"))
        return forms

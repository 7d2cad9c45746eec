"""From a definition to an aggregate in the lake: resolve, check whole, create the tables, tell the journal.

Everything is checked before anything is written. The tables are created first and the journal gets its events last, so a crash
leaves folders that no aggregate owns and the next ``apply`` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from uuid import uuid4

from msgspec.structs import replace

from materializer.config import Config
from materializer.core.compiled.difference_lines import differences
from materializer.core.compiled.fingerprint import metadata_fingerprint
from materializer.core.compiled.resolve import known_at_problems, resolve
from materializer.core.compiled.sample import text_of
from materializer.core.language.properties import refusals
from materializer.core.quality.library import Library
from materializer.core.spec.spec import AggregateSpec
from materializer.core.spec.table_names import table_text
from materializer.core.time.spans import NEG_INF
from materializer.errors import (
    AmbiguousNameError,
    CatalogManagedError,
    DefinitionError,
    MaterializerError,
    NotADeltaTableError,
    Problem,
    TableNotFoundError,
)
from materializer.journal.events import Defined, Described, Event, SourceIdentity
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState
from materializer.journal.view import View
from materializer.lake import places
from materializer.lake.failures import translated
from materializer.lake.log import feed_reaches_back
from materializer.lake.table import DeltaFolder
from materializer.services.aggregate import output_path, partials_path
from materializer.services.definitions import calendars, impact, lineage, outputs, rolled_up, samples, suites, waiting
from materializer.services.definitions.batch import Awaited, Batch
from materializer.services.definitions.changes import CheckedDefinition, DefinitionChange, Reads, ReusedPartials
from materializer.services.definitions.examined import Examined, LaterSpark, examined
from materializer.services.definitions.refusals import refuse_policies, refuse_unstorable
from materializer.services.definitions.repeated import Repeated
from materializer.services.definitions.sources import missing_feed, named_in, resolve_source
from materializer.services.definitions.tables import create_tables, refuse_taken, taken, types_of

if TYPE_CHECKING:
    from materializer.spark.run.spark import Spark


class LeasedAggregate(Protocol):
    """A lease of an aggregate, as the room above gives it."""

    @property
    def state(self) -> AggregateState:
        """The aggregate, as the journal knows it now."""
        ...

    def append(self, *events: tuple[str, Event]) -> None:
        """Append events, (id, event), in one commit, if the lease was not lost meanwhile."""


Leases: TypeAlias = Callable[[str], AbstractContextManager[LeasedAggregate]]
"""Holds the lease of an aggregate, by its name, while the block writes."""


class Definitions:
    """Applies and drops definitions in one lake.

    Args:
        root: The lake's root.
        journal: Its journal.
        config: Settings; ``sources`` names tables.
        engine: Starts Spark on first use.
        library: Loads the library of expectations on first use.
        on_checkpoint: Called with the name of each step of making an aggregate before the step.
        starting: Returns the seconds that starting Spark takes, 0 where it runs.
    """

    def __init__(
        self,
        root: str,
        journal: Journal,
        config: Config,
        engine: Callable[[], Spark],
        library: Library,
        on_checkpoint: Callable[[str], None] = lambda _: None,
        starting: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._root, self._journal, self._library = root, journal, library
        self._config, self._engine = config, LaterSpark(engine, starting)
        self._shelf = suites.Shelf(places.normalised(config.expectations))
        self.repeated = Repeated(root, journal, config)
        self._checkpoint = on_checkpoint

    def prepare(self, specs: Sequence[AggregateSpec]) -> list[CheckedDefinition]:
        """Check all definitions against their sources, the journal and each other; writes nothing.

        Returns:
            What was checked, aggregates that others read before these.

        Raises:
            DefinitionError: With every problem of every definition.
        """
        found = self.examine(specs)
        if found.problems:
            raise DefinitionError(found.problems, found.left)
        return found.prepared

    def examine(self, specs: Sequence[AggregateSpec], *, is_wrong: bool | None = False) -> Examined:
        """Check as :meth:`prepare` does, and return what was checked beside the problems of all others.

        A problem that has no place names its aggregate: its message begins with the name.

        Args:
            specs: The definitions.
            is_wrong: Whether something is wrong already, so that Spark is not started; None to start it whatever is wrong.
        """
        batch = Batch(self._root, self._config.sources, self._journal.view(), specs)
        self._shelf = suites.Shelf(places.normalised(self._config.expectations))  # as it is now

        def check(spec: AggregateSpec) -> CheckedDefinition:
            checked = self._prepare(spec, batch)
            outputs.refuse_name(checked.spec, checked.existing, batch.states, self._root, self._engine)
            return checked

        return examined(batch, self._engine, check, is_wrong=is_wrong)

    def refuse_misfit(self, state: AggregateState) -> None:
        """Refuse to make the definition of *state* the next one of its aggregate where buckets would not lie in one another.

        Raises:
            DefinitionError: Naming what it reads, or who reads it.
        """
        spec = AggregateSpec.from_json(state.spec)
        batch = Batch(self._root, self._config.sources, self._journal.view(), [spec])
        if problems := [*batch.misfits_of_child(spec, str(state.source.path)), *batch.misfits_of_parent(spec)]:
            raise DefinitionError(problems)

    def settled(self, prepared: CheckedDefinition) -> CheckedDefinition:
        """Return a checked definition whose source was made by the same command since, with the table that this is."""
        if prepared.source.table_id:
            return prepared
        source = prepared.source
        parent = lineage.parent_of(source.path, self._root, self._journal.view().states)
        if parent is not None and prepared.spec.rolls_up is not None:
            source = rolled_up.partials_of(parent, self._root)
        head = DeltaFolder.at(source.path).head()
        source = replace(source, table_id=head.table_id)
        return replace(prepared, source=source, change=replace(prepared.change, source_version=head.version))

    def apply(self, prepared: CheckedDefinition, *, lease: Leases) -> DefinitionChange:
        """Write one prepared definition that is new, or changes metadata only.

        Args:
            prepared: From :meth:`prepare`.
            lease: Holds the lease of a named aggregate, recovered.

        Raises:
            ForeignTableError: If the folders of a new aggregate hold something already.
        """
        match prepared.change.kind:
            case "new":
                self._create(prepared)
            case "metadata":
                with lease(prepared.spec.name) as leased:
                    self._describe(leased, prepared)
        return prepared.change

    def edit_properties(
        self, name: str, edit: Callable[[Mapping[str, str]], Mapping[str, str]], *, lease: Leases
    ) -> DefinitionChange:
        """Change properties that never change a result, of an aggregate that is applied already.

        Args:
            name: The aggregate.
            edit: Returns the properties that it shall have; it may refuse.
            lease: See :meth:`apply`.

        Raises:
            DefinitionError: With every problem of the properties; nothing was written.
        """
        prepared = self._edited(self._journal.view().named(name), edit)
        if prepared.change.kind == "metadata":
            with lease(name) as leased:
                state = leased.state
                prepared = self._edited(state, edit)
                versions = [prepared]
                build = self._journal.view().build_of(state)
                if build is not None:  # or what is said of the old version would be forgotten with it
                    with suppress(MaterializerError):  # the next version may say so already
                        versions.append(self._edited(build, edit))
                self._describe(leased, *versions)
        return prepared.change

    def _edited(
        self, state: AggregateState, edit: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> CheckedDefinition:
        spec = AggregateSpec.from_json(state.spec)
        properties = edit(spec.property_map)
        if wrong := refusals(properties):
            raise DefinitionError(Problem(code, f"{spec.name}: {text}", hint) for _, code, text, hint in wrong)
        return self._same_data(replace(spec, properties=tuple(sorted(properties.items()))), state, None)

    def _prepare(self, spec: AggregateSpec, batch: Batch) -> CheckedDefinition:
        view = batch.view
        existing = view.find(spec.name)
        if existing is None:
            view.refuse_broken(spec.name)
        if (repeated := self.repeated.checked(spec, existing)) is not None:
            return repeated
        build = None if existing is None else view.build_of(existing)
        spec = spec if existing is None else replace(spec, name=existing.name)  # names are the same in any letters
        source, folder = batch.awaited(spec) or self._source_of(spec)
        spec = _read_again(spec, folder)
        if rolled_up.is_rollup(spec):
            spec, source, folder = self._rolled_up(spec, source, batch)
        spec = lineage.over_final_rows(spec, source.path, self._root, batch.states)
        if self._config.sample and not lineage.parent_of(source.path, self._root, batch.states):
            spec = samples.newest_part(spec, self._config.sample, folder, (existing, build))
        spec = calendars.looked_up(spec, self._resolve_source) if spec.is_engine else spec
        if unfit := batch.misfits_of_child(spec, source.path):
            raise DefinitionError([*lineage.problems_of(spec, source.path, self._root, batch.states), *unfit])
        if existing is not None and impact.is_same(spec, existing, source, folder):
            # a later commit replaced the table at this path: the next refresh sees it
            is_there = source.path == existing.source.path
            at = replace(source, table_id=existing.source.table_id) if is_there else source
            prepared = self._same_data(spec, existing, folder, at)
            return prepared if build is None else _going_on(prepared, prepared.change, "abandoned", build)
        if existing is not None and build is not None and impact.is_same(spec, build, source, folder):
            prepared = self._same_data(spec, build, folder, source)
            change = self._changed(existing, prepared.spec, source, prepared.schemas, folder.head().version)
            return _going_on(prepared, replace(change, kept=None), "building", build, existing)  # that is done
        if folder.features().is_catalog_managed:
            msg = f"the source '{spec.source}' is managed by a catalog and cannot be read by path"
            raise _problem(spec, CatalogManagedError.code, msg, CatalogManagedError.default_hint, spec.source)
        if spec.lateness != "recompute" and not feed_reaches_back(source.path):
            message = f"{spec.name}: lateness '{spec.lateness}' depends on arrival, and the source's change feed does not begin with it"
            hint = "create the source with delta.enableChangeDataFeed = true, or write 'recompute'"
            raise DefinitionError([Problem("definition.lateness", message, hint, about=spec.lateness)])
        if problems := lineage.problems_of(spec, source.path, self._root, batch.states):
            raise DefinitionError(problems)
        resolved = _resolved(spec, folder)
        if problems := batch.misfits_of_parent(resolved):
            raise DefinitionError(problems)
        refuse_policies(resolved)
        typed, schemas = types_of(resolved, folder, self._config, self._engine)
        version = folder.head().version
        refuse_policies(resolved, schemas)
        refuse_unstorable(typed, schemas)
        applied = AggregateSpec.from_json(existing.spec).suites if existing else ()
        checked = replace(typed, suites=self._suites(typed, schemas, folder, applied))
        parent = lineage.parent_of(source.path, self._root, batch.states)
        reads = "" if parent is None else parent.name
        if existing is None:
            feed = missing_feed(source, self._root)
            change = DefinitionChange(spec.name, "new", (), source.path, version, feed=feed, sample=text_of(checked))
            return CheckedDefinition(change, checked, source, schemas, None, reads=reads)
        change = self._changed(existing, checked, source, schemas, version)
        what = "switched" if existing.threshold == NEG_INF else "started" if build is None else "replaced"
        return CheckedDefinition(replace(change, next=what), checked, source, schemas, existing, build, reads)

    def _rolled_up(
        self, spec: AggregateSpec, source: SourceIdentity, batch: Batch
    ) -> tuple[AggregateSpec, SourceIdentity, DeltaFolder | Awaited]:
        """Return a roll-up over the partials of the aggregate that it names, and these partials."""
        parent = lineage.parent_of(source.path, self._root, batch.states)
        spec = rolled_up.over_partials_of(spec, parent)
        if parent is None or not source.table_id:
            return spec, source, Awaited([] if parent is None else parent.schemas["partials"])
        source = rolled_up.partials_of(parent, self._root)
        return spec, source, DeltaFolder.at(source.path)

    def _changed(
        self,
        existing: AggregateState,
        spec: AggregateSpec,
        source: SourceIdentity,
        schemas: dict[str, Any],
        version: int,
    ) -> DefinitionChange:
        """Return what another definition of the data does to an aggregate, and what building it costs."""
        lines = differences(AggregateSpec.from_json(existing.spec), spec)
        if source != existing.source:
            lines += _sources(existing.source, source)
        change = DefinitionChange(spec.name, "data", lines, source.path, version, reads=Reads(0, 0, 0, 0))
        if lineage.is_materialised(existing):
            checks = waiting.waiting_checks(existing, spec, schemas, source.path)
            change = replace(change, waiting_checks=tuple(checks))
        if impact.is_of_partials(existing, spec, source, schemas, version):
            reused = None
            with suppress(MaterializerError):  # who starts it says what is wrong with them
                reused = ReusedPartials(*impact.rows_to_copy(existing, self._root))
            return replace(change, kind="measures", kept=reused)
        if source.table_id:  # else it is made by the same command, and empty
            reads = Reads(*impact.rows_to_read(existing, spec, source, version, self._config.run_rows))
            change = replace(change, reads=reads)
        return replace(change, feed=missing_feed(source, self._root))

    def _same_data(
        self,
        spec: AggregateSpec,
        existing: AggregateState,
        folder: DeltaFolder | Awaited | None,
        source: SourceIdentity | None = None,
    ) -> CheckedDefinition:
        """Prepare a change of metadata; without the source's *folder* the suites stay as they are."""
        old, source = AggregateSpec.from_json(existing.spec), source or existing.source
        new = replace(
            old, source=spec.source, params=spec.params, comment=spec.comment, properties=spec.properties, sql=spec.sql
        )
        if folder:
            new = replace(new, suites=self._suites(new, existing.schemas, folder, old.suites))
            if problems := known_at_problems(new, folder.schema(), new.time_type):
                raise DefinitionError(problems)
        refuse_policies(new, existing.schemas)
        is_named_alike = (old.source, existing.source) == (new.source, source)
        is_unchanged = is_named_alike and metadata_fingerprint(old) == metadata_fingerprint(new)
        kind = "unchanged" if is_unchanged else "metadata"
        moved = (
            ()
            if source.path == existing.source.path
            else (f"- source {table_text(existing.source.path)}", f"+ source {table_text(source.path)}")
        )
        change = DefinitionChange(existing.name, kind, differences(old, new) + moved, source.path, existing.cursor)
        return CheckedDefinition(change, new, source, dict(existing.schemas), existing)

    def _suites(
        self,
        spec: AggregateSpec,
        schemas: Mapping[str, Any],
        folder: DeltaFolder | Awaited,
        applied: Iterable[tuple[str, str]] = (),
    ) -> tuple[tuple[str, str], ...]:
        columns = {"output": dict(schemas["output"]), "source": dict(folder.schema())}
        return suites.found(spec, self._shelf, columns, self._library, applied)

    def _resolve_source(self, name: str) -> SourceIdentity:
        return resolve_source(name, self._root, self._config.sources, self._journal.view().states, self._engine)

    def _source_of(self, spec: AggregateSpec) -> tuple[SourceIdentity, DeltaFolder]:
        try:
            source = self._resolve_source(spec.source)
            return source, DeltaFolder.at(source.path)
        except (TableNotFoundError, NotADeltaTableError, CatalogManagedError, AmbiguousNameError) as exc:
            raise _problem(spec, exc.code, exc.message, exc.hint, named_in(exc, spec.source)) from exc

    def _create(self, prepared: CheckedDefinition) -> None:
        spec, data_version, aggregate_id = prepared.spec, uuid4().hex, uuid4().hex
        folder = f"{self._root}/{spec.name}"
        self._checkpoint("apply_tables")
        self._journal.missing_probe()  # before the first file
        with translated(folder, "creating", wrote="nothing was written"):
            try:
                places.make_new_folder(folder)  # of two processes one makes it, and only that one may remove it again
            except FileExistsError:
                raise taken(self._root, spec.name, self._journal) from None
        try:
            defined = self._defined(prepared, data_version, aggregate_id)
            self._checkpoint("apply_journal")
            self._make_known(prepared, defined, aggregate_id)
        except MaterializerError:
            if aggregate_id not in self._journal.view().all:  # or it could not be applied again
                places.delete_folder(folder, ignore_errors=True)
            raise

    def _make_known(self, prepared: CheckedDefinition, defined: Defined, aggregate_id: str) -> None:
        def decide(view: View) -> list[tuple[str, Event]]:
            prepared.refuse_orphan(view)
            refuse_taken(defined.name, view)
            return [(aggregate_id, defined)]

        self._journal.transact(decide)

    def _defined(self, prepared: CheckedDefinition, data_version: str, aggregate_id: str) -> Defined:
        """Create the tables of a new aggregate and return the event that makes them known."""
        spec, schemas = prepared.spec, prepared.schemas
        partials = partials_path(self._root, spec.name, data_version)
        paths = {"partials": partials, "output": output_path(self._root, spec.name)}
        tables = create_tables(paths, spec, schemas, aggregate_id)
        version = prepared.change.source_version
        return Defined(spec.name, spec.as_json(), data_version, prepared.source, version, schemas, tables)

    def _describe(self, leased: LeasedAggregate, *versions: CheckedDefinition) -> None:
        """Tell the journal, in one commit, what is said of an aggregate, of its next version too where that is given."""
        self._checkpoint("describe")
        leased.append(*((p.existing.id, _described(p, p.existing)) for p in versions if p.existing is not None))
        self._checkpoint("described")


def _described(prepared: CheckedDefinition, existing: AggregateState) -> Described:
    return Described(prepared.spec.as_json(), None if prepared.source == existing.source else prepared.source)


def _read_again(spec: AggregateSpec, folder: DeltaFolder | Awaited) -> AggregateSpec:
    """Return a statement as it reads over its source, whose columns may have the names of its aliases."""
    from materializer.core.language.parse import read_again  # noqa: PLC0415 (loads the parser)

    return read_again(spec, [name for name, _ in folder.schema()]) if spec.sql else spec


def _resolved(spec: AggregateSpec, folder: DeltaFolder | Awaited) -> AggregateSpec:
    resolved = resolve(spec, folder.schema())
    if not resolved.is_engine:
        return resolved
    from materializer.core.engines.compile import check_params, with_slices  # noqa: PLC0415 (only engines)

    sliced = with_slices(resolved)
    check_params(sliced)  # again, now that the type of time is known
    return sliced


def _going_on(
    prepared: CheckedDefinition,
    change: DefinitionChange,
    what: str,
    build: AggregateState,
    existing: AggregateState | None = None,
) -> CheckedDefinition:
    return replace(prepared, change=replace(change, next=what), build=build, existing=existing or prepared.existing)


def _problem(spec: AggregateSpec, code: str, message: str, hint: str, about: str) -> DefinitionError:
    return DefinitionError([Problem(code, f"{spec.name}: {message}", hint, about=about)])


def _sources(old: SourceIdentity, new: SourceIdentity) -> tuple[str, str]:
    """Return both tables of a changed source; of partials that are other ones since their aggregate changed, when they were made."""
    was, is_now = (table_text(source.path) for source in (old, new))
    if was == is_now != new.path:
        return f"- source {was}, as they were", f"+ source {is_now}, as they are now"
    return f"- source {was} ({old.table_id})", f"+ source {is_now} ({new.table_id})"

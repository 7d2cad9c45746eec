"""What applying definitions would do: the kind of each change, its price, and who reads it; for a review before anything is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.printed import Printed, PrintedTable, facts
from materializer.core.refresh.plan import Estimate, ExecutorKind
from materializer.core.refresh.price import unlearned
from materializer.core.spec.spec import AggregateSpec
from materializer.core.time.spans import NEG_INF
from materializer.errors import FrozenHistoryError, MaterializerError, Problem
from materializer.journal.state import AggregateState, States
from materializer.lake import places
from materializer.services.aggregate import Aggregate, output_path
from materializer.services.definitions import impact, lineage, rolled_up
from materializer.services.definitions.apply import Definitions
from materializer.services.definitions.changes import CheckedDefinition, DefinitionChange
from materializer.services.definitions.suites import unused
from materializer.services.definitions.texts import Given, Texts
from materializer.services.planning.executors import obstacles
from materializer.services.planning.prices import GROUPS_PER_ROW, groups_per_row, prices_of
from materializer.services.versions.versions import Versions

RECOMPUTE = "recompute"
COPY = "stored partials"


class ChangePrice(Struct, frozen=True):
    """What computing one definition takes, as predicted from file statistics and the rates of the lake.

    Args:
        strategy: ``recompute`` (from the source) or ``stored partials`` (these are copied).
        executor: ``local`` if this process computes a run of it, ``spark`` if Spark does.
        reason: Why Spark computes it; "" for this process.
        rows: Rows that are read, about: of the source, or of the stored partials.
        bytes: Bytes of their files.
        files: How many.
        runs: Runs that this takes, about.
        seconds: How long all of them take, without the start of Spark.
    """

    strategy: str
    executor: str
    reason: str
    rows: int
    bytes: int
    files: int
    runs: int
    seconds: float


class ChangedReader(Struct, frozen=True):
    """An aggregate that reads a changed one.

    Args:
        name: The aggregate.
        is_direct: Whether it reads the changed one itself, and not another one that does.
        problem: Why it could not go on over the changed definition; "" if it could.
    """

    name: str
    is_direct: bool
    problem: str = ""


class PlannedChange(Struct, frozen=True):
    """What applying one definition would do.

    Args:
        change: The change.
        parts: The parts of the definition that differ, such as ``measure total``.
        price: What computing it takes; None if nothing is computed, or if its source does not exist yet.
        reads: The aggregates that it reads, the one over raw rows first; it is refreshed after them.
        readers: The aggregates that read it, and those that read these.
        follows: The aggregate that it rolls up, where that changes: once its next version is published, this one is built from it.
    """

    change: DefinitionChange
    parts: tuple[str, ...] = ()
    price: ChangePrice | None = None
    reads: tuple[str, ...] = ()
    readers: tuple[ChangedReader, ...] = ()
    follows: str = ""

    @property
    def is_unchanged(self) -> bool:
        """Whether nothing at all becomes of it."""
        return self.change.kind == "unchanged" and not self.change.next and not self.follows


class DefinitionsPlan(Printed, Struct, frozen=True):
    """What applying definitions would do; nothing was written.

    Args:
        changes: What was checked, aggregates that others read before these.
        warnings: Warnings about texts, and about suites that belong to no aggregate.
        problems: Why the other definitions cannot be applied. While there is one, ``apply`` applies none.
    """

    changes: tuple[PlannedChange, ...]
    warnings: tuple[Problem, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def seconds(self) -> float:
        """The predicted seconds of all changes."""
        return sum(c.price.seconds for c in self.changes if c.price is not None)

    def _tables(self) -> list[PrintedTable]:
        rows = [
            (
                c.change.name,
                f"{c.change.kind}; built after '{c.follows}'" if c.follows else c.change.kind,
                "\n".join(c.change.differences) or None,
                None
                if c.price is None
                else f"{c.price.strategy}, {c.price.rows:,} rows, about {c.price.seconds:.2f} s",
                "\n".join(": ".join(filter(None, (r.name, r.problem))) for r in c.readers) or None,
            )
            for c in self.changes
        ]
        problems = [("problem", f"{p.message}; {p.hint}") for p in self.problems]
        problems += [("warning", f"{p.message}; {p.hint}") for p in self.warnings]
        header = ("aggregate", "change", "definition", "to compute", "read by")
        return [PrintedTable("", header, rows), *([facts("", problems)] if problems else [])]


class Proposer(Struct, frozen=True):
    """Says what applying definitions would do.

    Args:
        texts: Reads them.
        definitions: Checks them.
        versions: Says whether frozen history stands against a change.
    """

    texts: Texts
    definitions: Definitions
    versions: Versions

    def propose(self, what: Given) -> DefinitionsPlan:
        """Return what :meth:`Applier.apply` would do with *what*; writes nothing.

        Raises:
            UsageError: If a file is not there or cannot be read.
            MaterializerError: If the lake or a source cannot be read.
        """
        specs, warnings, problems = self.texts.examine(what)
        lake = self.versions.lake
        warnings += unused(lake.config.expectations, lake.journal, specs, partial(self.texts.beside, what))
        examined = self.definitions.examine(specs, is_wrong=None)
        checked = examined.prepared
        problems += [self.texts.placed(p, specs) for p in examined.problems]
        states = self._states_after(checked)
        changes: list[PlannedChange] = []
        switched: set[str] = set()
        for each in checked:
            try:
                self.versions.refuse_frozen([each])
            except FrozenHistoryError as exc:
                problems.append(Problem(exc.code, exc.message, exc.hint))
            else:
                planned = self._planned(each, states)
                above = planned.reads[-1] if planned.reads and each.spec.rolls_up is not None else ""
                if above in switched and planned.change.kind in {"unchanged", "metadata"}:
                    planned = replace(planned, follows=above)
                if planned.follows or planned.change.next in {"started", "replaced", "building"}:
                    switched.add(planned.change.name)
                changes.append(planned)
        follows = {planned.change.name: planned.follows for planned in changes if planned.follows}
        changes = [replace(planned, readers=_not_broken(planned, follows)) for planned in changes]
        return DefinitionsPlan(tuple(changes), tuple(warnings), tuple(problems))

    def _states_after(self, checked: Sequence[CheckedDefinition]) -> States:
        """Return the aggregates as they are once all is applied and built; new ones have no table yet."""
        states = dict(self.versions.lake.journal.view().states)
        for each in checked:
            states[_state_of(each).id] = _state_of(each)
        return states

    def _planned(self, checked: CheckedDefinition, states: States) -> PlannedChange:
        root, change = self.versions.lake.root, checked.change
        state = _state_of(checked)
        reads = tuple(s.name for s in lineage.chain_of(state, root, states)[:-1])
        # a change of metadata changes no row, and new aggregates have readers only among other new ones
        is_computed = change.kind in {"new", "measures", "data"}
        readers = tuple(self._readers(checked, states)) if is_computed else ()
        price = self._price(checked, state) if is_computed else None
        return PlannedChange(change, _parts(change.differences), price, reads, readers)

    def _readers(self, checked: CheckedDefinition, states: States) -> Iterator[ChangedReader]:
        root, name = self.versions.lake.root, checked.spec.name
        direct = lineage.readers_of(name, root, states)
        for state in direct:
            yield ChangedReader(state.name, is_direct=True, problem=_problem_of(state, checked, root))
        seen = {name, *(s.name for s in direct)}
        waiting = list(direct)
        while waiting:
            for state in lineage.readers_of(waiting.pop(0).name, root, states):
                if state.name not in seen:
                    seen.add(state.name)
                    waiting.append(state)
                    yield ChangedReader(state.name, is_direct=False)

    def _price(self, checked: CheckedDefinition, state: AggregateState) -> ChangePrice | None:
        lake, change, existing = self.versions.lake, checked.change, checked.existing
        if change.kind == "measures":
            if (stored := change.kept) is None:
                return None
            estimate = Estimate(stored.rows, stored.bytes, stored.files, stored.rows)
            reason = "a copy of stored partials is finalised by Spark"
            return self._priced(COPY, ExecutorKind.SPARK, reason, estimate, 1, float(stored.rows))
        if not checked.source.table_id:  # the same command makes it
            return None
        rows, size, files, runs = (
            impact.rows_to_read(None, checked.spec, checked.source, change.source_version, lake.config.run_rows)
            if change.reads is None
            else (change.reads.rows, change.reads.bytes, change.reads.files, change.reads.runs)
        )
        estimate = Estimate(rows, size, files, rows)
        reason = self._why_spark(state, estimate, max(runs, 1))
        executor = ExecutorKind.SPARK if reason else ExecutorKind.LOCAL
        ratio = (groups_per_row(existing) if existing is not None else None) or GROUPS_PER_ROW
        return self._priced(RECOMPUTE, executor, reason, estimate, max(runs, 1), rows * ratio)

    def _priced(
        self, strategy: str, executor: ExecutorKind, reason: str, estimate: Estimate, runs: int, written: float
    ) -> ChangePrice:
        prices = prices_of(self.versions.lake.journal.view().states)
        each = Estimate(
            estimate.rows // runs, estimate.bytes // runs, -(-estimate.files // runs), estimate.likely_rows // runs
        )
        seconds = unlearned(executor, RECOMPUTE, each, written / runs, 1, {RECOMPUTE: 1})
        seconds *= runs * prices.factor(executor, RECOMPUTE)
        found = ChangePrice(
            strategy, executor.value, reason, estimate.rows, estimate.bytes, estimate.files, runs, seconds
        )
        return found if estimate.rows else replace(found, runs=0, seconds=0.0)

    def _why_spark(self, state: AggregateState, estimate: Estimate, runs: int) -> str:
        """Return why Spark computes a run of an aggregate; "" if this process does."""
        lake, local = self.versions.lake, self.versions.lake.local
        if lake.config.executor == "spark" or local is None:
            return "the settings say so" if lake.config.executor == "spark" else "nothing else is there"
        if estimate.rows > runs * local.rows:
            return f"a run reads {estimate.rows // runs:,} rows, and up to {local.rows:,} are computed here"
        if estimate.bytes > runs * local.size:
            return f"a run reads {estimate.bytes // runs:,} bytes, and up to {local.size:,} are computed here"
        try:
            found = obstacles(Aggregate.of(state, lake.root))
        except MaterializerError as exc:
            return exc.message
        return f"the local executor has no form for {found[0]}" if found else ""


def _not_broken(planned: PlannedChange, follows: Mapping[str, str]) -> tuple[ChangedReader, ...]:
    """Return the readers of a change, without the problems of those that are built again after it."""
    name = planned.change.name
    return tuple(replace(r, problem="") if follows.get(r.name) == name else r for r in planned.readers)


def _state_of(checked: CheckedDefinition) -> AggregateState:
    """Return the aggregate that a checked definition would be."""
    spec, existing = checked.spec, checked.existing
    known = "" if existing is None else existing.id
    return AggregateState(
        id=known or f"proposed {spec.name}",
        name=spec.name,
        spec=spec.as_json(),
        data_version=f"proposed {spec.name}",
        source=checked.source,
        schemas=checked.schemas,
        tables={},
        cursor=checked.change.source_version,
        threshold=NEG_INF,
    )


def _parts(differences: Sequence[str]) -> tuple[str, ...]:
    """Return the parts of a definition that lines of differences are about, each once.

    Examples:
        >>> _parts(("- measure n: count(1)", "+ measure n: count(*)", "+ where: a > 1"))
        ('measure n', 'where')
    """
    named = (line[2:].partition(": ")[0] for line in differences if line[:2] in {"- ", "+ "})
    return tuple(dict.fromkeys(named))


def _problem_of(state: AggregateState, checked: CheckedDefinition, root: str) -> str:
    """Return why a reader could not go on over a changed definition; "" if it could."""
    if checked.existing is None:
        return ""
    spec = AggregateSpec.from_json(state.spec)
    if spec.rolls_up is not None:
        columns = {str(name): str(kind) for name, kind in checked.schemas["partials"]}
        return rolled_up.why_not_over(state, checked.spec, columns)
    if state.source.path != places.resolved(output_path(root, checked.spec.name)):
        return ""
    output = {str(name).lower(): str(kind) for name, kind in checked.schemas["output"]}
    for name, kind in spec.read_types:
        found = output.get(name.lower())
        if found is None:
            return f"it reads the column `{name}`, which would be gone"
        if found != kind:
            return f"it reads the column `{name}` as {kind}, which would be {found}"
    return ""

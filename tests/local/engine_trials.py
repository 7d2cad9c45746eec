"""Trials of engines: whether the process and Spark compute the same of each definition of a scene, refresh by refresh.

One aggregate has the measures of all definitions: the process plans and computes its refreshes, and Spark computes each of its plans
once, because a query of it takes a second whatever it computes. The local executor computes each definition by itself from the same
plans, with the layout that it has alone. What it computes does not hang on the other measures; how often its rows were revised
does, and is compared where all measures are together. What the local executor leaves to Spark is left out, so that Spark may not raise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable
from msgspec import Struct, field
from msgspec.structs import replace

from materializer.adapters.great_expectations import auditor
from materializer.adapters.memory.store import memory_stores
from materializer.config import Config
from materializer.core.compiled.definition import SLICE, Definition
from materializer.core.engines.compile import (
    carried_columns,
    compile_engine,
    measure_names,
    output_columns,
    result_layout,
)
from materializer.core.engines.reactive_state import FUNCTIONS, ReactiveState
from materializer.core.engines.work import Work
from materializer.core.refresh.plan import Plan
from materializer.core.time.spans import EVERYTHING, NEG_INF, Span, SpanSet
from materializer.errors import DefinitionError, MaterializerError, NotLocalError
from materializer.journal.events import SourceIdentity
from materializer.journal.journal import Journal
from materializer.lake.computed import Computed
from materializer.local.executor import LocalExecutor
from materializer.local.kinds import NotLocal
from materializer.services.aggregate import Aggregate
from materializer.services.commit import lake as commit
from materializer.spark.run.executor import Executor
from materializer.spark.run.spark import Spark
from tests import tables
from tests.local.engine_scenes import EACH, EngineScene
from tests.local.scenes import LOCAL, Drawn, Found, alike, plain
from tests.services.no_spark import Opened

ALL: Final = 99
"""The number of the definition that has the measures of all."""
NAME: Final = "made"
STATES: Final = {"cumavg": 2, "ema": 2}
"""How many columns the state of a function has, if not one."""
IDENTITY: Final = ("w_start", "w_end", "label", "x_ordinal", "window_start", "window_end", "time", SLICE)


class Asked(Struct, frozen=True):
    """What the local executor was asked to compute of all definitions."""

    definition: Definition
    source: SourceIdentity
    path: str
    plan: Plan
    hull: Span | None
    work: Work


class Tapped(LocalExecutor):
    """A local executor that remembers what it was asked, and what it answered."""

    asked: list[Asked] = field(default_factory=list)
    answers: list[Computed] = field(default_factory=list)

    def compute(
        self,
        definition: Definition,
        source: SourceIdentity,
        partials_path: str,
        plan: Plan,
        *,
        hull: Span | None,
        work: Work | None = None,
    ) -> Computed:
        """See :meth:`LocalExecutor.compute`."""
        assert work is not None
        self.asked.append(Asked(definition, source, partials_path, plan, hull, work))
        self.answers.append(super().compute(definition, source, partials_path, plan, hull=hull, work=work))
        return self.answers[-1]


class Without(Exception):  # noqa: N818 (no error: the history begins again)
    """Some definitions have to be left out, because one executor has no answer."""

    def __init__(self, numbers: Collection[int]) -> None:
        super().__init__()
        self.numbers = frozenset(numbers)


class Part(Struct, frozen=True):
    """One definition beside the one that has the measures of all.

    Args:
        one: What was drawn.
        definition: It alone.
        columns: Of its stored results: their names among those of all.
    """

    one: Drawn
    definition: Definition
    columns: dict[str, str]

    @classmethod
    def of(cls, whole: Definition, one: Drawn) -> Part:
        """Return a definition with some of the measures of another one."""
        names, params = measure_names(whole.spec), dict(whole.spec.params)
        at = [i for i, name in enumerate(names) if name in one.measures]
        for of_measures in ("fill", "measure_sizes"):
            each = params.get(of_measures)
            each = each.split(",") if isinstance(each, str) else each
            if each is not None and len(each) == len(names) > 1:
                params[of_measures] = [each[i] for i in at]
        if "metrics" in params:
            params["metrics"] = [pair for pair in params["metrics"] if pair[0] in one.measures]
        measures = tuple(m for m in whole.spec.measures if m.name in one.measures)
        spec = replace(whole.spec, measures=measures, params=tuple(sorted(params.items())))
        spec, types = replace(spec, columns=output_columns(spec)), dict(whole.partial_columns)
        others = {f"v_{name}" for name in names if name not in one.measures}
        engine, columns = compile_engine(spec), {name: name for name in types if name not in others}
        if isinstance(engine.params, ReactiveState) and whole.engine is not None:
            columns = {name: own for name, own in columns.items() if not name.startswith("x_") or name == "x_ordinal"}
            columns |= _state_columns(engine.params, whole.engine.params)
            columns = dict(sorted(columns.items(), key=lambda pair: list(types).index(pair[1])))
        partials = tuple((name, types[own]) for name, own in columns.items())
        outputs = tuple((n, k) for n, k in whole.output_columns if n in spec.columns)
        engine = compile_engine(spec, [name for name, _ in partials])
        layout = result_layout(spec, partials, engine.layout)
        return cls(one, Definition(spec, layout, whole.grid, partials, outputs, engine), columns)

    @property
    def is_renamed(self) -> bool:
        """Whether its stored results have other names alone."""
        return any(name != own for name, own in self.columns.items())

    def stored(self, table: pa.Table) -> pa.Table:
        """Return its part of stored results."""
        return table.select(list(self.columns.values())).rename_columns(list(self.columns))

    def asked(self, of_all: Asked, folder: Path) -> Asked:
        """Return what computes it alone from the same plan."""
        work, carried = of_all.work, carried_columns(self.definition)
        if work.parts:
            names = {own: name for name, own in self.columns.items() if name in carried}
            parts = tuple(
                replace(p, carry=tuple((names[own], value) for own, value in p.carry if own in names))
                for p in work.parts
            )
            work = replace(work, parts=parts)
        path, plan = of_all.path, of_all.plan
        if self.is_renamed:
            path = str(folder / f"stored{self.one.number}")
            reads = plan.partials.version, list(self.columns.values()), SpanSet.of(EVERYTHING), SLICE
            before = LOCAL.read(of_all.path, *reads, self.definition.time_type)
            tables.append(path, self.stored(before), mode="overwrite", schema_mode="overwrite")
            version = DeltaTable(path).version()
            plan = replace(plan, partials=replace(plan.partials, version=version))
        return Asked(self.definition, of_all.source, path, plan, of_all.hull, work)


def _state_columns(own: ReactiveState, whole: ReactiveState) -> dict[str, str]:
    """Return the columns of state and arguments of a definition, and their names in one that has more measures."""
    found = {name: whole.arguments[text] for text, name in own.arguments.items()}
    ours, theirs = _states(own), _states(whole)
    for call, names in ours.items():
        found |= dict(zip(names, theirs[call], strict=True))
    return found | ({"x_at": "x_at"} if own.is_cumulative else {})


def _states(params: ReactiveState) -> dict[Any, list[str]]:
    found, count = {}, 0
    for call in params.calls:
        if FUNCTIONS[call[0]].kind == "cumulative":
            more = STATES.get(call[0], 1)
            found[call] = [f"x_s{i}" for i in range(count, count + more)]
            count += more
    return found


class Trial:
    """The comparison of some definitions of a scene.

    Args:
        scene: The scene.
        drawn: The definitions.
        spark: Spark.
        folder: Where the lake lies.
    """

    def __init__(self, scene: EngineScene, drawn: Sequence[Drawn], spark: Spark, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.scene = scene
        self.drawn = list(drawn)
        self.spark = spark
        self.folder = folder
        self.seen = Counter[str]()
        self.wrong: dict[int, str] = {}
        self.source = str(folder / "source")
        executor = Executor(Config(), None, {}, started=spark)
        self.local = Tapped(100_000, 1 << 28)
        journal = Journal(str(folder), stores=memory_stores())
        of_rows = Config(price_tie_ms=60_000)
        wired = commit.Lake(
            str(folder), journal, of_rows, executor.engine, lambda: auditor, lambda _: None, local=self.local
        )
        self.lake = Opened(wired, executor)
        self.parts: list[Part] = []

    def run(self, found: Found) -> None:
        """Compare refresh by refresh; a definition that is not equal is left out of the later ones.

        Raises:
            Without: If the history has to begin again without some definitions.
        """
        history = self.scene.commits(self.source)
        options = next(history)
        whole = self._defined(found)
        if whole is None:
            return
        self.parts = self._alone(whole, found)
        done = 0
        while options is not None and self._refreshed(options, done, found):
            done += 1
            options = next(history, None)
        found.wrong |= self.wrong
        found.cases += len(self.parts) if done else 0
        found.seen.update(self.seen)
        found.seen[self.scene.engine] += len(self.parts) if done else 0

    # -- the definitions -------------------------------------------------------------------------------------------------

    def _defined(self, found: Found) -> Definition | None:
        """Apply the definition that has the measures of all, and return it; None if its engine is not accepted.

        Raises:
            Without: If some measures are not accepted.
        """
        measures = {name: sql for one in self.drawn for name, sql in one.measures.items()}
        try:
            self.lake.define(NAME, self.source, **self.scene.parts(measures))
        except DefinitionError as exc:
            about = {p.about for p in exc.problems}
            refused = [one.number for one in self.drawn if about & one.measures.keys()]
            found.seen[f"not accepted: {exc.problems[0].message[:80]}"] += len(refused) or len(self.drawn)
            if refused:
                raise Without(refused) from exc
            return None
        return Aggregate.of(self.lake.journal.view().named(NAME), str(self.folder)).definition

    def _alone(self, whole: Definition, found: Found) -> list[Part]:
        """Return the definitions each alone.

        Raises:
            Without: If some have no local form.
        """
        parts, refused = [], []
        for one in self.drawn:
            part = Part.of(whole, one)
            if why := LOCAL.why_not(part.definition):
                refused.append(one.number)
                found.refused += 1
                found.seen[f"refused: {why[:60]}"] += 1
            parts.append(part)
        if refused:
            raise Without(refused)
        if why := LOCAL.why_not(whole):
            found.seen[f"refused together: {why[:60]}"] += 1
            raise Without([self.drawn[-1].number])
        return parts

    # -- a refresh -------------------------------------------------------------------------------------------------------

    def _refreshed(self, options: Mapping[str, Any], turn: int, found: Found) -> bool:
        """Refresh, and compare each of its plans; return whether there is something left to compare."""
        self.local.asked.clear()
        self.local.answers.clear()
        try:
            self.lake.refresh(NAME, executor="local", **options)
        except NotLocalError as exc:
            self._left(str(exc.message), turn, found)
            return False
        except MaterializerError as exc:
            self.seen[f"refresh {turn} fails: {exc.code}"] += len(self.parts)
            return False
        for asked, answer in zip(self.local.asked, self.local.answers, strict=True):
            self._compare(asked, answer, found)
        return bool(self.parts) and ALL not in self.wrong

    def _left(self, why: str, turn: int, found: Found) -> None:
        """Leave out the definitions that the process leaves to Spark, and begin again; of all together the history ends here.

        Raises:
            Without: If there are such definitions, or nothing was compared before.
        """
        left = []
        for part in self.parts if self.local.asked else ():
            try:
                self._computed(part, self.local.asked[-1])
            except NotLocal as exc:
                left.append(part.one.number)
                found.seen[f"left: {str(exc)[:60]}"] += 1
        if not left:
            self.seen[f"left in refresh {turn}: {why[-120:]}"] += len(self.parts)
            if turn:
                return
            found.seen.update(self.seen)
            left = [part.one.number for part in self.parts]
        found.left += len(left)
        raise Without(left)

    def _computed(self, part: Part, of_all: Asked) -> Computed:
        asked = part.asked(of_all, self.folder)
        return LOCAL.compute(asked.definition, asked.source, asked.path, asked.plan, hull=asked.hull, work=asked.work)

    def _compare(self, asked: Asked, answer: Computed, found: Found) -> None:
        """Compare what the process and Spark compute of one plan."""
        work, plan = asked.work, asked.plan
        how = "everything" if work.parts is None else "added rows" if work.added_after is not None else "parts"
        place = " above frozen history" if work.since != NEG_INF else ""
        self.seen[f"{how}{' of keys' if work.only is not None else ''}{place}"] += 1
        ours: dict[int, Computed] = {}
        left = []
        for part in self.parts:
            try:
                ours[part.one.number] = self._computed(part, asked)
            except NotLocal as exc:
                found.left += 1
                found.seen[f"left alone: {str(exc)[:60]}"] += 1
                left.append(part.one.number)
        if left:
            raise Without(left)
        reads_raw = replace(work, added_after=None)  # Spark does not merge added rows into stored results
        try:
            theirs = self.spark.compute(
                asked.definition, asked.source, asked.path, plan, hull=asked.hull, work=reads_raw
            )
        except MaterializerError as exc:
            found.wrong[ALL] = f"{how}, Spark raises {exc.message[:300]}"
            self.wrong[ALL] = found.wrong[ALL]
            return
        for part in list(self.parts):
            computed = ours[part.one.number]
            if wrong := self._differs(part, theirs, computed, answer):
                self.wrong[part.one.number] = f"{how}, {self.scene.told(part.one)}: {wrong}"
                self.parts.remove(part)
        wrong = "" if work.added_after is not None else _counts(theirs, answer)
        if not self.wrong and (
            wrong := wrong or unlike(theirs.partials, answer.partials) or unlike(theirs.output, answer.output)
        ):
            self.wrong[ALL] = f"{how}, all of {self.scene.told(self.drawn[0])}: {wrong}"

    def _differs(self, part: Part, theirs: Computed, ours: Computed, together: Computed) -> str:
        """Return what is not equal in the tables of one definition, or ""; its revisions hang on what was stored for all."""
        if ours.rows_read != together.rows_read:
            return f"{ours.rows_read} rows were read, together {together.rows_read}"
        partials = [part.stored(theirs.partials), ours.partials]
        outputs = [theirs.output.select(ours.output.column_names), ours.output]
        for theirs_, ours_ in (partials, outputs):
            if wrong := unlike(*(table.drop_columns(["revision"]) for table in (theirs_, ours_))):
                return wrong
        return ""


def _counts(theirs: Computed, ours: Computed) -> str:
    return "" if theirs.rows_read == ours.rows_read else f"{ours.rows_read} rows were read, by Spark {theirs.rows_read}"


def unlike(theirs: pa.Table, ours: pa.Table) -> str:
    """Return what is not equal in two tables of results, or "": rows are matched by key and window, doubles equal up to rounding."""
    if theirs.num_rows != ours.num_rows:
        return f"{ours.num_rows} rows, in Spark {theirs.num_rows}"
    theirs = theirs.select(ours.column_names)
    if [plain(t) for t in theirs.schema.types] != [plain(t) for t in ours.schema.types]:
        return f"types {ours.schema.types}, in Spark {theirs.schema.types}"
    for a, b in zip(_in_order(theirs), _in_order(ours), strict=True):
        is_rounded = any(isinstance(v, float) and repr(v) != repr(b[n]) for n, v in a.items())
        for name, value in a.items():
            if is_rounded and name == "revision":  # beside zero, other last digits are another value
                continue
            if not alike(value, b[name], is_loose=True):
                where = {n: v for n, v in b.items() if _places(n)}
                return f"{name} of {where} is {b[name]!r}, in Spark {value!r}"
    return ""


def _places(name: str) -> bool:
    return name in IDENTITY or name.startswith(("k_", "key"))


def _in_order(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows by what identifies them, and those of one window and key by their values, of which doubles may differ in the last digits."""
    rows = pa.table(
        {n: c.cast(plain(c.type)) for n, c in zip(table.column_names, table.columns, strict=True)}
    ).to_pylist()

    def order(row: dict[str, Any]) -> list[str]:
        by_place = [repr(v + 0.0 if isinstance(v, float) else v) for n, v in row.items() if _places(n)]
        exact = [repr(v) for n, v in row.items() if not _places(n) and not isinstance(v, float | dict | list | bytes)]
        return [*by_place, *exact, *(f"{v:.6g}" for v in row.values() if isinstance(v, float))]

    return sorted(rows, key=order)


def whole(scene: EngineScene, one: int) -> Drawn:
    """Return a definition of a scene; of :data:`ALL` the one that has the measures of all."""
    if one != ALL:
        return scene.drawn(one)
    return Drawn(ALL, {n: sql for i in range(EACH) for n, sql in scene.drawn(i).measures.items()}, "")


def compared(scene: EngineScene, spark: Spark, numbers: Sequence[int] = tuple(range(EACH))) -> Found:
    """Return what both executors make of some definitions of a scene."""
    found, drawn, tries = Found(), [scene.drawn(n) for n in numbers], 0
    while drawn:
        tries += 1
        trial = Trial(scene, drawn, spark, scene.folder / str(tries))
        try:
            trial.run(found)
        except Without as exc:
            drawn = [one for one in drawn if one.number not in exc.numbers]
            continue
        except Exception as exc:  # noqa: BLE001 (whatever fails was found)
            found.wrong[ALL] = f"{scene.told(drawn[0])}: {type(exc).__name__}: {exc}"
        break
    return found

"""Scenes: a source with a short history, many random definitions over it, and whether both executors compute the same of each.

Spark computes all definitions of a scene as one, because a query of it takes a second whatever it computes; the local executor
computes each alone, with the layout that it has alone. What the local executor leaves to Spark is left out of the query, so that
Spark may not raise: a definition of which it does is searched for.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from msgspec import Struct, field
from msgspec.structs import replace

from materializer.core.aggregates.decompose import decompose
from materializer.core.compiled.definition import SLICE, Definition, key_column
from materializer.core.compiled.resolve import resolve
from materializer.core.language.define import define
from materializer.core.refresh.plan import Estimate, Lane, Merge, Plan, Recompute, Step, TableBase
from materializer.core.spec.spec import AggregateSpec, TimeType
from materializer.core.time.grid import Grid, build
from materializer.core.time.instants import DAY
from materializer.core.time.spans import EVERYTHING, Span, SpanSet
from materializer.errors import DefinitionError, MaterializerError
from materializer.journal.events import SourceIdentity
from materializer.lake.computed import Computed
from materializer.lake.extent import instants_of
from materializer.lake.predicates import inside
from materializer.lake.table import DeltaFolder
from materializer.local.executor import LocalExecutor
from materializer.local.kinds import NotLocal
from materializer.services.definitions.tables import schemas_of
from materializer.spark.run.spark import Spark
from tests import tables
from tests.local.comparing import EPOCH, INSTANTS, arrow_of, rows_of
from tests.local.drawing import COLUMNS, Drawing
from tests.local.saying import same_sketch

EACH: Final = 40
"""Definitions of a scene."""
TIME: Final = "at"
ANY: Final = "hv"
"""How the measures begin that stand for a HAVING."""
LOCAL: Final = LocalExecutor(100_000, 1 << 28)
SMALL: Final = Estimate(100, 10_000, 1, 100)
STAMPS: Final = tuple(
    (t - EPOCH).days * DAY + (t - EPOCH).seconds * 1_000_000 + (t - EPOCH).microseconds for t in INSTANTS
)
GRIDS: Final[Mapping[TimeType, tuple[dict[str, Any], ...]]] = {
    TimeType.TIMESTAMP: (
        {"width": "1 hour"},
        {"width": "15 minutes", "offset": "5 minutes"},
        {"width": "1 day"},
        {"width": "1 month"},
        {"width": "1 year"},
        {"width": "1 hour", "timezone": "Europe/Berlin"},
        {"width": "1 day", "timezone": "Europe/Berlin"},
        {"width": "6 hours", "timezone": "America/New_York", "offset": "90 minutes"},
        {"width": "40 minutes", "timezone": "Australia/Lord_Howe"},
        {"width": "1 week", "timezone": "Pacific/Apia"},
        {"width": "1 month", "timezone": "Asia/Kathmandu"},
    ),
    TimeType.TIMESTAMP_NTZ: ({"width": "1 hour"}, {"width": "1 day", "offset": "6 hours"}, {"width": "3 months"}),
    TimeType.DATE: ({"width": "1 day"}, {"width": "1 week"}, {"width": "1 month"}, {"width": "11 days"}),
    TimeType.BIGINT: ({"width": 10}, {"width": "1 hour", "resolution": "ms"}, {"width": "1 day", "resolution": "s"}),
    TimeType.INT: ({"width": 10}, {"width": 7, "offset": 5}),
    TimeType.SMALLINT: ({"width": 10},),
}


class Found(Struct):
    """What a scene came to.

    Args:
        cases: Definitions that both computed.
        refused: Definitions without a local form.
        left: Definitions of whose rows the local executor left some step to Spark.
        wrong: What is not equal, by the number of the definition.
    """

    cases: int = 0
    refused: int = 0
    left: int = 0
    wrong: dict[int, str] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)


class Drawn(Struct, frozen=True):
    """One definition of a scene: the names of its measures, and of what stands for its HAVING, or ""."""

    number: int
    measures: dict[str, str]
    having: str


class Scene:
    """One scene.

    Args:
        number: What everything follows from.
        folder: Where its tables lie.
    """

    def __init__(self, number: int, folder: Path) -> None:
        self.number = number
        self.choose = choose = random.Random(f"scene {number}")
        self.is_mergeable = choose.random() < 0.6
        self.is_hard = choose.random() < 0.4
        self.folder = folder
        kinds = list(GRIDS)
        self.time_type = choose.choices(kinds, [8, 2, 2, 1, 1, 1])[0]
        self.given = choose.choice(GRIDS[self.time_type])
        draw = Drawing(choose, self.is_hard)
        self.keys = {f"key{i}": draw.key() for i in range(choose.choice([0, 1, 1, 2]))}
        self.where = draw.truth(2) if choose.random() < 0.5 else None
        self.sequence = choose.choice([None, "i", "ts", "x"])
        self.end = choose.choice([None, "until"])
        self.schema = pa.schema(
            [(TIME, arrow_of(self.time_type.value)), *((c, arrow_of(k)) for c, k in COLUMNS.items())]
        )
        self.source = str(folder / "source")
        tables.create(self.source, self.schema)
        self.stored = str(folder / "stored")
        self.before: pa.Table | None = None
        self.hull: Span | None = None
        self.known: tuple[tuple[str, ...], Definition] | None = None

    # -- what it has -----------------------------------------------------------------------------------------------------

    def drawn(self, number: int) -> Drawn:
        """Return one of its definitions."""
        choose = random.Random(f"definition {self.number} {number}")
        draw = Drawing(choose, self.is_hard)
        measures = {
            f"m{number}_{i}": draw.measure(is_mergeable=self.is_mergeable) for i in range(choose.choice([1, 1, 2, 3]))
        }
        return Drawn(number, measures, draw.having() if choose.random() < 0.2 else "")

    def rows(self, count: int, seed: int) -> pa.Table:
        """Return hard rows, of which some lie in one bucket."""
        choose = random.Random(f"rows {self.number} {seed}")
        found = rows_of(COLUMNS, count, choose.randrange(1 << 30))
        sums = [0.5, -0.0, None, 3.0, 1000.25, -7.25, 0.0] + ([math.nan, math.inf] if self.number % 3 == 0 else [])
        few = {"k": [None, 0, 1, 2, 2, 5, -3, 11], "h": sums}
        for name, pool in few.items():
            values = pa.array([choose.choice(pool) for _ in range(count)], arrow_of(COLUMNS[name]))
            found = found.set_column(found.schema.get_field_index(name), name, values)
        times = pa.array([self._instant(choose) for _ in range(count)], pa.int64())
        if self.time_type is TimeType.DATE:
            times = pc.divide(times, DAY).cast(pa.int32())
        return found.add_column(0, TIME, times.cast(self.schema.field(TIME).type)).cast(self.schema)

    def _instant(self, choose: random.Random) -> int | None:
        if choose.random() < 0.04:
            return None
        near = choose.choice([0, 1, 59, 3_600, 5_400, 86_399])
        if self.time_type.is_integer:
            base = {"ms": 1_710_000_000_000, "s": 1_710_000_000}.get(self.given.get("resolution", ""), 0)
            return int(base + choose.choice([-1, 0, 0, 1]) * choose.choice([0, 3, 25]) + near % 30)
        base = choose.choice(STAMPS if self.number % 16 == 0 else STAMPS[5:])
        return (
            base
            - (base % DAY if self.time_type is TimeType.DATE else 0)
            + near * (DAY if self.time_type is TimeType.DATE else 1_000_000) % (90 * DAY)
        )

    # -- its definitions -------------------------------------------------------------------------------------------------

    def together(self, drawn: Iterable[Drawn]) -> AggregateSpec:
        """Return the definition that has the measures of some, resolved."""
        measures = {name: sql for one in drawn for name, sql in _measures(one).items()}
        spec = define(
            "both", self.source, time=TIME, keys=self.keys, measures=measures, where=self.where, sequence=self.sequence,
            bucket_end=self.end, **self.given,
        )  # fmt: skip
        return resolve(spec, [(TIME, self.time_type.value), *COLUMNS.items()])

    def plans(self, grid: Grid) -> list[Plan]:
        """Change the source, and return the plan of each change; each is made from what the one before left."""
        return [*self._plans(grid)]

    def _plans(self, grid: Grid) -> Iterable[Plan]:
        choose = self.choose
        rows = [
            self.rows(choose.randint(30, 90), 1),
            self.rows(choose.randint(5, 30), 2),
            self.rows(choose.randint(5, 30), 3),
        ]
        times = [t for some in rows for t in self._instants(some)]
        self.hull = Span(min(times), max(times) + DAY)
        tables.append(self.source, rows[0])
        yield self._plan(1, (Recompute(SpanSet.of(EVERYTHING), "new", SMALL),))
        tables.append(self.source, rows[1])
        whole = SpanSet.of(EVERYTHING)
        some = whole if choose.random() < 0.5 else self._around(rows[1], grid)
        yield self._plan(2, (Merge(some, 1, SMALL) if self.is_mergeable else Recompute(some, "late", SMALL),))
        if choose.random() < 0.5:
            change = {"updates": {"k": "k + 1", "x": "'ß'"}, "predicate": "k = 2"}
            table = DeltaTable(self.source)
            table.delete("k = 5") if choose.random() < 0.5 else table.update(**change)  # type: ignore[arg-type]
            yield self._plan(3, (Recompute(self._around(rows[0], grid), "changed", SMALL),))
            return
        tables.append(self.source, rows[2])
        changed = self._around(rows[2], grid)
        parts = [SpanSet.of(span) for span in changed]
        half = SpanSet.union(s for part in parts[: len(parts) // 2] for s in part)
        if self.is_mergeable and half:
            yield self._plan(3, (Recompute(half, "changed", SMALL), Merge(changed - half, 2, SMALL)))
        else:
            yield self._plan(3, (Recompute(changed, "changed", SMALL),))

    def _plan(self, n: int, steps: tuple[Step, ...]) -> Plan:
        base = TableBase("", max(n - 2, 0))
        return Plan(f"p{n}", n, n, EVERYTHING, (), steps, Lane.DRIVER, base, base)

    def _around(self, rows: pa.Table, grid: Grid) -> SpanSet:
        """Return the buckets of some of the times of rows."""
        times = self._instants(rows)
        taken = [t for t in times if self.choose.random() < 0.7] or times
        return SpanSet.union(Span(grid.floor(t), grid.next(grid.floor(t))) for t in taken)

    def _instants(self, rows: pa.Table) -> list[int]:
        unit = DAY if self.time_type is TimeType.DATE else 1
        ticks = rows[TIME].cast(pa.int32() if unit == DAY else rows[TIME].type).cast(pa.int64()).drop_null().to_pylist()
        return [t * unit for t in ticks]

    # -- the comparison --------------------------------------------------------------------------------------------------

    def compared(self, spark: Spark, numbers: Sequence[int] = tuple(range(EACH))) -> Found:
        """Return what both executors make of some of its definitions."""
        found = Found()
        accepted = self._accepted(spark, [self.drawn(n) for n in numbers], found)
        if accepted is None:
            return found
        definition, drawn = accepted
        plans = self.plans(definition.grid)
        alone, names = {}, dict(definition.partial_columns)
        for one in drawn:
            its = _alone(definition, one)
            if not {p.name for p in its.layout.partials} <= names.keys():
                found.seen["an average that has the sum of another definition"] += 1
            elif why := LOCAL.why_not(its):
                found.refused += 1
                found.seen[f"refused: {why[:60]}"] += 1
            else:
                alone[one.number] = its
        drawn = [one for one in drawn if one.number in alone]
        self._history(spark, definition.spec, drawn, alone, plans, found)
        return found

    def _accepted(self, spark: Spark, drawn: list[Drawn], found: Found) -> tuple[Definition, list[Drawn]] | None:
        """Return the definitions that Spark accepts, as one and each."""
        while drawn:
            try:
                return self._analysed(spark, self.together(drawn)), drawn
            except DefinitionError as exc:
                about = {p.about for p in exc.problems}
                fewer = [one for one in drawn if not about & set(_measures(one))]
                found.seen[f"not accepted: {exc.problems[0].message[:80]}"] += max(len(drawn) - len(fewer), 1)
                if len(fewer) == len(drawn):
                    return None
                drawn = fewer
        return None

    def _analysed(self, spark: Spark, spec: AggregateSpec) -> Definition:
        analysed = spark.analyse(spec, DeltaFolder.at(self.source).schema_json())
        schemas = {t: tuple((str(n), str(k)) for n, k in rows) for t, rows in schemas_of(analysed).items()}
        grid = build(spec.grid, self.time_type, spec.resolution)
        return Definition(analysed.spec, decompose(analysed.spec), grid, schemas["partials"], schemas["output"])

    def _history(
        self,
        spark: Spark,
        together: AggregateSpec,
        drawn: list[Drawn],
        alone: Mapping[int, Definition],
        plans: Sequence[Plan],
        found: Found,
    ) -> None:
        """Compare some definitions plan by plan; of those that are not equal the later plans are left out."""
        identity = SourceIdentity(self.source, "")
        drawn = list(drawn)
        for plan in plans:
            local: dict[int, Computed] = {}
            for one in list(drawn):
                try:
                    local[one.number] = LOCAL.compute(alone[one.number], identity, self.stored, plan, hull=self.hull)
                except NotLocal as exc:
                    found.left += 1
                    found.seen[f"left: {str(exc)[:60]}"] += 1
                    drawn.remove(one)
            drawn, theirs = self._by_spark(spark, together, drawn, plan, found)
            if theirs is None:
                return
            for one in list(drawn):
                if wrong := differs(alone[one.number], one, theirs, local[one.number]):
                    found.wrong[one.number] = f"{plan.strategy}, {self.told(one)}: {wrong}"
                    drawn.remove(one)
            self._store(plan, theirs.partials)
        found.cases += len(drawn)
        found.seen["+".join(p.strategy for p in plans)] += len(drawn)

    def _by_spark(
        self, spark: Spark, together: AggregateSpec, drawn: list[Drawn], plan: Plan, found: Found
    ) -> tuple[list[Drawn], Computed | None]:
        """Return what Spark computes, and of which definitions; those of which it raises are wrong."""
        while drawn:
            try:
                return drawn, self._asked(spark, together, drawn, plan)
            except MaterializerError as exc:
                one = self._raising(spark, together, drawn, plan)
                found.wrong[one.number] = f"{plan.strategy}, {self.told(one)}: Spark raises {exc.message[:200]}"
                drawn = [other for other in drawn if other is not one]
        return [], None

    def _asked(self, spark: Spark, together: AggregateSpec, drawn: Sequence[Drawn], plan: Plan) -> Computed:
        names = tuple(name for one in drawn for name in _measures(one))
        if self.known is None or self.known[0] != names:
            self.known = names, self._analysed(spark, _only(together, names))
        definition = self.known[1]
        return spark.compute(definition, SourceIdentity(self.source, ""), self.stored, plan, hull=self.hull)

    def _raising(self, spark: Spark, together: AggregateSpec, drawn: Sequence[Drawn], plan: Plan) -> Drawn:
        """Return a definition that Spark fails to compute."""
        if len(drawn) == 1:
            return drawn[0]
        half = drawn[: len(drawn) // 2]
        try:
            self._asked(spark, together, half, plan)
        except MaterializerError:
            return self._raising(spark, together, half, plan)
        return self._raising(spark, together, drawn[len(half) :], plan)

    def _store(self, plan: Plan, partials: pa.Table) -> None:
        """Make what was computed the partials of the next plan."""
        if self.before is not None:
            there = self.before.filter(
                pa.array(~inside(instants_of(self.before[SLICE], self.time_type), plan.replaced))
            )
            partials = pa.concat_tables([there.select(partials.column_names).cast(partials.schema), partials])
        self.before = partials
        tables.append(self.stored, partials, mode="overwrite", schema_mode="overwrite")

    def told(self, one: Drawn) -> str:
        """Return a definition in words."""
        having = f" HAVING {one.having}" if one.having else ""
        where = f" WHERE {self.where}" if self.where else ""
        return f"{list(one.measures.values())} by {self.given}, {list(self.keys.values())}{where}{having}"


def _measures(one: Drawn) -> dict[str, str]:
    return one.measures | ({f"{ANY}{one.number}": one.having} if one.having else {})


def _alone(together: Definition, one: Drawn) -> Definition:
    """Return one of the definitions as it is alone."""
    formulas = {m.name: m.formula for m in together.spec.measures}
    spec = replace(_only(together.spec, one.measures), having=formulas[f"{ANY}{one.number}"] if one.having else None)
    layout = decompose(spec)
    types = dict(together.partial_columns)
    groups = [SLICE, *(key_column(k.name) for k in spec.keys)]
    partials = tuple((n, types.get(n, "")) for n in (*groups, *(p.name for p in layout.partials)))
    output = tuple((n, k) for n, k in together.output_columns if n in spec.columns)
    return Definition(spec, layout, together.grid, partials, output)


def _only(spec: AggregateSpec, names: Collection[str]) -> AggregateSpec:
    """Return a definition with some of its measures."""
    others = {m.name for m in spec.measures} - set(names)
    measures = tuple(m for m in spec.measures if m.name not in others)
    return replace(spec, measures=measures, columns=tuple(c for c in spec.columns if c not in others))


def differs(definition: Definition, one: Drawn, theirs: Computed, ours: Computed) -> str:
    """Return what is not equal in the tables of two executors, or ""; *theirs* has other columns besides."""
    if theirs.rows_read != ours.rows_read:
        return f"{ours.rows_read} rows were read, by Spark {theirs.rows_read}"
    loose = {name for name, law in definition.layout.tolerances if law == "float"}
    output = theirs.output
    if one.having:
        output = output.filter(output[f"{ANY}{one.number}"])
    groups = [n for n, _ in definition.output_columns if n not in one.measures]
    return _differ(definition.group_columns, theirs.partials, ours.partials, None) or _differ(
        groups, output, ours.output, loose
    )


def _differ(groups: Sequence[str], theirs: pa.Table, ours: pa.Table, loose: set[str] | None) -> str:
    if theirs.num_rows != ours.num_rows:
        return f"{ours.num_rows} rows, in Spark {theirs.num_rows}"
    theirs = theirs.select(ours.column_names)
    if [plain(t) for t in theirs.schema.types] != [plain(t) for t in ours.schema.types]:
        return f"types {ours.schema.types}, in Spark {theirs.schema.types}"
    a, b = (_by_group(groups, rows) for rows in (theirs, ours))
    if missing := a.keys() ^ b.keys():
        return f"groups {list(missing)[:4]}"
    for group, row in a.items():
        for name, value in row.items():
            if not alike(value, b[group][name], is_loose=loose is None or name in loose):
                return f"{name} of {group} is {b[group][name]!r}, in Spark {value!r}"
    return ""


def alike(a: Any, b: Any, *, is_loose: bool) -> bool:
    """Return whether two values are equal; doubles, where that is the law, up to rounding, and sketches in what they say."""
    if isinstance(a, float) and isinstance(b, float):
        if (math.isnan(a) and math.isnan(b)) or a == b:
            return True
        return is_loose and math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-6)
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(alike(a[k], b[k], is_loose=is_loose) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(alike(x, y, is_loose=is_loose) for x, y in zip(a, b, strict=True))
    if isinstance(a, bytes) and isinstance(b, bytes) and a != b:
        return same_sketch(a, b)
    return type(a) is type(b) and bool(a == b)


def _by_group(groups: Sequence[str], rows: pa.Table) -> dict[tuple[str, ...], dict[str, Any]]:
    found = pa.table({n: c.cast(plain(c.type)) for n, c in zip(rows.column_names, rows.columns, strict=True)})
    return {
        tuple(repr(row[g] + 0.0 if isinstance(row[g], float) else row[g]) for g in groups): row
        for row in found.to_pylist()
    }


def plain(kind: pa.DataType) -> pa.DataType:
    """Return a type whose values Python has: days and instants as numbers, because Python's begin with year 1."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([(f.name, plain(f.type)) for f in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain(kind.value_type))
    return kind

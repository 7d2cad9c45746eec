"""Runs tests of definitions: the rows of a file in, the rows of the output compared.

A test reads no row of the lake, and writes nothing into it. What has a local form is computed in memory; Spark computes in a lake of
its own in a temporary folder.
"""

# ruff: noqa: PLC0415 - what computes is imported where something is computed

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from materializer.config import Config
from materializer.core.compiled.resolve import resolve
from materializer.core.language.unit_tests import FILE, UnitTest, WrittenRow, read_unit_tests
from materializer.core.language.written import MAX_BYTES
from materializer.core.spec.spec import AggregateSpec, Resolution, TimeType
from materializer.core.sql.functions import nearest
from materializer.core.time.instants import Shown, shown_as
from materializer.errors import (
    DefinitionError,
    MaterializerError,
    NotLocalError,
    Problem,
    TableNotFoundError,
    TestFileError,
    UsageError,
)
from materializer.journal.journal import Journal
from materializer.lake import places
from materializer.lake.hostile import endless
from materializer.lake.table import DeltaFolder
from materializer.lake.types import json_of
from materializer.services.definitions.rolled_up import is_rollup
from materializer.services.definitions.sources import resolve_source
from materializer.services.definitions.texts import Texts
from materializer.services.testing.columns import misspelled_columns, unknown_columns
from materializer.services.testing.compare import RowDifference, compared

if TYPE_CHECKING:
    import pyarrow as pa

    from materializer.spark.run.spark import Spark

TESTS: Final = "tests"
"""Folder in which tests lie."""
DEFINITIONS: Final = "sql"
"""Folder in which definitions lie."""
_MOST_NESTED: Final = 20
"""Types inside of each other: as many as values in a file may be."""
_SOURCE: Final = "given"
_WINDOW: Final = ("window_start", "window_end")
"""Columns of engines with times of the window."""
_WHOLE: Final = frozenset({"short", "integer", "long"})
TestExecutor = Literal["local", "auto", "spark"]


class ScratchLake(Protocol):
    """A lake in a temporary folder, of which Spark computes what is asked."""

    def apply(self, what: AggregateSpec) -> object:
        """Apply a definition."""

    def refresh(self, name: str, *, executor: Literal["spark"]) -> object:
        """Refresh an aggregate."""

    def show(self, name: str, *, limit: int) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return columns and rows."""


class TestOutcome(Struct, frozen=True):
    """The result of one test.

    Args:
        name: Its name.
        model: The aggregate that it tests.
        file: Its file.
        line: Where it stands.
        columns: The columns that are compared.
        expected: How many rows are expected.
        got: How many rows there are.
        differences: Rows that are on one side only, those of the same bucket and keys beside each other.
        executor: What computed it.
        seconds: Wall time.
        error: Why it could not be run; None where it was.
        times: The columns with times of the bucket or window of a row, and how people are shown these.
    """

    __test__ = False

    name: str
    model: str
    file: str
    line: int
    columns: tuple[str, ...] = ()
    expected: int = 0
    got: int = 0
    differences: tuple[RowDifference, ...] = ()
    executor: str = "local"
    seconds: float = 0.0
    error: MaterializerError | None = None
    times: Mapping[str, Shown] = field(default_factory=dict)

    @property
    def is_passed(self) -> bool:
        """Whether the rows are those that are expected."""
        return self.error is None and not self.differences


class _Prepared(Struct, frozen=True):
    """A test with its definition and its rows in the types of the source."""

    test: UnitTest
    spec: AggregateSpec
    columns: tuple[tuple[str, str], ...]
    rows: tuple[Mapping[str, Any], ...]


class DefinitionTester(Struct):
    """Runs tests of definitions of one lake.

    Args:
        root: Its root.
        journal: Its journal.
        config: Settings.
        texts: Reads definitions.
        scratch: Opens a lake in a temporary folder.
    """

    root: str
    journal: Journal
    config: Config
    texts: Texts
    scratch: Callable[[str, Config], ScratchLake]
    _schemas: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def run(
        self, which: Sequence[str] = (), definitions: Sequence[str] = (), *, executor: TestExecutor = "local"
    ) -> list[TestOutcome]:
        """Run tests and return their results, in the order of the files.

        Args:
            which: Files, folders of them, and names of aggregates or of tests; without any, all tests of the folder ``tests``.
            definitions: SQL files or folders; without any, those of the folder ``sql``. Aggregates of the lake that they do not have are
                taken as they were applied.
            executor: ``local`` for this process alone, ``auto`` for Spark where this process cannot, ``spark`` for Spark alone.

        Raises:
            TestFileError: With every problem of every test; none was run.
            DefinitionError: With every problem of the definitions.
            UsageError: If there is no such file, or no such test.
        """
        tests, problems = self._tests(which)
        specs = self._specs(definitions)
        prepared = []
        for test in tests:
            try:
                prepared.append(self._prepared(test, specs))
            except TestFileError as exc:
                problems += exc.problems
        if problems:
            raise TestFileError(problems)
        return [self._outcome(each, executor) for each in prepared]

    # -- reading ---------------------------------------------------------------------------------------------------------

    def _tests(self, which: Sequence[str]) -> tuple[list[UnitTest], list[Problem]]:
        files = [w for w in which if "/" in w or w.endswith((".yml", ".yaml")) or places.is_folder(w)]
        names = [w for w in which if w not in files]
        found: list[UnitTest] = []
        problems: list[Problem] = []
        for file in _files(files or [TESTS]):
            text = _text(file, problems)
            if text is None or (not files and "unit_tests" not in text):
                continue  # a folder of tests may have files of others
            tests, wrong = read_unit_tests(text, file)
            found += tests
            problems += wrong
        if not found and not problems:
            raise UsageError(
                "there is no test there", hint="a test is an item of `unit_tests:` in a file such as tests/NAME.yml"
            )
        if names:
            known = {n for test in found for n in (test.name.text, test.model.text)}
            if not problems and (unknown := [n for n in names if n not in known]):
                hint = nearest(unknown[0], tuple(known)) or f"there are tests of {', '.join(sorted(known))}"
                raise UsageError(f"there is no test of '{unknown[0]}', and none is called so", hint=hint)
            found = [test for test in found if {test.name.text, test.model.text} & {*names}]
        return found, problems

    def _specs(self, definitions: Sequence[str]) -> dict[str, AggregateSpec]:
        states = self.journal.view().states.values()
        specs = {state.name.lower(): AggregateSpec.from_json(state.spec) for state in states}
        if definitions or places.is_folder(places.normalised(DEFINITIONS)):
            read, _ = self.texts.read(list(definitions) or DEFINITIONS)
            specs |= {spec.name.lower(): spec for spec in read}
        return specs

    def _prepared(self, test: UnitTest, specs: Mapping[str, AggregateSpec]) -> _Prepared:
        spec = specs.get(test.model.text.lower())
        if spec is None:
            known = tuple(spec.name for spec in specs.values())
            hint = (
                nearest(test.model.text, known)
                or f"there are {', '.join(sorted(known)) or 'none'}; --definitions names files"
            )
            message = f"there is no aggregate `{test.model.text}`, neither in a file nor in the lake"
            raise TestFileError([test.problem(test.model, "test.unknown-aggregate", message, hint)])
        if test.input is not None and test.input.text.lower() not in _names_of(spec.source):
            message = f"`{spec.name}` does not read `{test.input.text}`"
            raise TestFileError([test.problem(test.input, "test.unknown-source", message, f"write `{spec.source}`")])
        columns = self._columns(test, spec)
        problems: list[Problem] = []
        resolved, rows = spec, list[Mapping[str, Any]]()
        try:
            resolved = self._resolved(spec, columns, test)
        except TestFileError as exc:
            problems += exc.problems
        try:
            ticks = dict.fromkeys([spec.time_column.lower()], spec.resolution)
            rows = _typed(test, test.given, columns, f"the source `{spec.source}`", ticks)
        except TestFileError as exc:
            problems += exc.problems
        if not spec.is_engine:  # which has columns beside those of its statement
            problems += unknown_columns(test, test.expected, spec.columns, f"`{spec.name}`")
        if problems:
            raise TestFileError(dict.fromkeys(problems))
        return _Prepared(test, resolved, tuple(columns), tuple(rows))

    def _columns(self, test: UnitTest, spec: AggregateSpec) -> list[tuple[str, str]]:
        """Return the columns of the source: of the table, if there is one, then those that the file says."""
        said: list[tuple[str, str]] = []
        for name, kind in test.columns:
            try:
                json_of(kind.text if kind.text.count("<") <= _MOST_NESTED else "")
            except ValueError:
                hint = "write a type as Spark does, such as bigint, double, string, date, timestamp or decimal(18,2)"
                message = f"the column `{name.text}` has the type `{kind.text}`, which there is not"
                raise TestFileError([test.problem(kind, "test.invalid", message, hint)]) from None
            said.append((name.text, kind.text))
        try:
            table = self._schema(spec.source)
        except MaterializerError as exc:
            if not said:
                hint = "write `columns: {name: type, …}` into the file"
                message = f"the types of `{spec.source}` are not known: {exc.message}"
                raise TestFileError([test.problem(test.model, "test.no-types", message, hint)]) from exc
            return said
        also = {name.lower() for name, _ in said}
        return [*said, *((name, kind) for name, kind in table if name.lower() not in also)]

    def _schema(self, source: str) -> list[tuple[str, str]]:
        if source not in self._schemas:
            states = self.journal.view().states
            found = resolve_source(source, self.root, self.config.sources, states, _no_catalog(source))
            self._schemas[source] = DeltaFolder.at(found.path).schema()
        return self._schemas[source]

    def _resolved(self, spec: AggregateSpec, columns: Sequence[tuple[str, str]], test: UnitTest) -> AggregateSpec:
        from materializer.core.language.parse import read_again

        if is_rollup(spec):
            return spec
        try:
            return resolve(read_again(spec, [name for name, _ in columns]) if spec.sql else spec, columns)
        except DefinitionError as exc:
            if misspelled := misspelled_columns(test, spec, exc.problems):
                raise TestFileError(misspelled) from exc
            places_of = [self.texts.placed(p, [spec]) for p in exc.problems]
            at = [
                p if p.line else replace(p, file=test.file, line=test.model.line, column=test.model.column)
                for p in places_of
            ]
            raise TestFileError(at) from exc

    # -- running ---------------------------------------------------------------------------------------------------------

    def _outcome(self, prepared: _Prepared, executor: TestExecutor) -> TestOutcome:
        test, began = prepared.test, time.perf_counter()
        outcome = TestOutcome(test.name.text, prepared.spec.name, test.file, test.name.line)
        try:
            used, names, kinds, rows = self._computed(prepared, executor)
            ticks = {name.lower(): prepared.spec.resolution for name in (*prepared.spec.edges, *_WINDOW)}
            of_output = list(zip(names, kinds, strict=True))
            expected = _typed(test, test.expected, of_output, f"`{prepared.spec.name}`", ticks)
            asked = {name.text.lower() for row in test.expected for name, _ in row.values}
            shown = [name for name in names if name.lower() in asked or not asked]
            groups = {*prepared.spec.edges, *(key.name for key in prepared.spec.keys)}
            differences = compared(shown, groups, expected, [dict(zip(names, row, strict=True)) for row in rows])
            outcome = replace(outcome, columns=tuple(shown), expected=len(expected), got=len(rows))
            times = dict.fromkeys([name for name in names if name.lower() in ticks], _shown_times(prepared.spec))
            outcome = replace(outcome, differences=differences, executor=used, times=times)
        except MaterializerError as exc:
            outcome = replace(outcome, error=exc)
        return replace(outcome, seconds=round(time.perf_counter() - began, 4))

    def _computed(
        self, prepared: _Prepared, executor: TestExecutor
    ) -> tuple[str, list[str], list[str], Sequence[Sequence[Any]]]:
        """Return what computed, and names, types and rows of the output."""
        from materializer.lake.write.given import given_table
        from materializer.local.described import described
        from materializer.local.given import computed
        from materializer.local.kinds import NotLocal

        spec, given = prepared.spec, given_table(prepared.columns, prepared.rows)
        if is_rollup(spec):
            raise UsageError(
                f"'{spec.name}' merges what '{spec.source}' keeps, and reads no rows",
                hint=f"test '{spec.source}', whose results it merges",
            )
        if executor != "spark":
            try:
                definition = described(spec)
                table = computed(definition, given)
            except NotLocal as exc:
                if executor == "local":
                    raise NotLocalError(
                        f"this process cannot compute '{spec.name}': {exc}",
                        hint="run the test with '--executor auto', which starts Spark where this process cannot compute",
                    ) from exc
            else:
                names, kinds = map(list, zip(*definition.output_columns, strict=True))
                return "local", names, kinds, [tuple(row.values()) for row in table.to_pylist()]
        return "spark", *self._by_spark(prepared, given)

    def _by_spark(self, prepared: _Prepared, given: pa.Table) -> tuple[list[str], list[str], list[tuple[Any, ...]]]:
        """Return names, types and rows of the output, by a lake with only the given rows: no suite, no handler, no policy."""
        from materializer.lake.write.given import write_given
        from materializer.services.aggregate import output_path

        spec = replace(prepared.spec, source=_SOURCE, properties=(), suites=(), sql="")
        with tempfile.TemporaryDirectory() as folder:
            root = places.resolved(folder)
            source = f"{root}/{_SOURCE}"
            write_given(source, prepared.columns, given)
            others = {name: places.inside(self.root, path) for name, path in self.config.sources.items()}
            settings = self.config
            lake = self.scratch(
                f"{root}/lake",
                Config(
                    lake=f"{root}/lake",
                    sources=others | {_SOURCE: source},
                    spark=settings.spark,
                    storage=settings.storage,
                    expectations=f"{root}/none",
                ),
            )
            lake.apply(spec)
            lake.refresh(spec.name, executor="spark")
            names, rows = lake.show(spec.name, limit=1 << 40)
            kinds = dict(DeltaFolder.at(output_path(f"{root}/lake", spec.name)).schema())
        return names, [kinds[name] for name in names], rows


def _files(which: Iterable[str]) -> Iterable[str]:
    for given in which:
        path = places.normalised(given)
        if places.is_folder(path):
            names = sorted(n for n in places.names(path) if n.endswith((".yml", ".yaml")))
            if name := endless(path, names):
                raise UsageError(f"'{name}' in {given} is no regular file", hint="take it out of the folder")
            yield from (f"{given}/{n}".replace("//", "/") for n in names)
        elif places.exists(path):
            yield given
        else:
            raise UsageError(
                f"there is no file {given}", hint="give a file such as tests/NAME.yml, or a folder of them"
            )


def _text(file: str, problems: list[Problem]) -> str | None:
    try:
        data = places.read(places.normalised(file))
        if len(data) > MAX_BYTES:
            hint = "test with few rows; several files are read one by one"
            problems.append(Problem(FILE, f"{len(data):,} bytes; at most {MAX_BYTES:,} are read", hint, file=file))
            return None
        return data.decode()
    except (OSError, UnicodeDecodeError) as exc:
        problems.append(Problem(FILE, f"it cannot be read: {exc}", "give a UTF-8 text file", file=file))
        return None


def _typed(
    test: UnitTest,
    rows: Sequence[WrittenRow],
    columns: Sequence[tuple[str, str]],
    what: str,
    ticks: Mapping[str, Resolution],
) -> list[Mapping[str, Any]]:
    """Return written rows with values of the types of the columns; a time of an integer column with a resolution may be ISO text.

    Raises:
        TestFileError: With every name that is no column, and every value that is none of its type.
    """
    from materializer.local.given import ticks_of, value_of

    known = {name.lower(): (name, kind, json_of(kind)) for name, kind in columns}
    problems = unknown_columns(test, rows, [name for name, _ in columns], what)
    found: list[Mapping[str, Any]] = []
    for row in rows:
        values: dict[str, Any] = {}
        for name, written in row.values:
            if name.text.lower() not in known:
                continue
            column, kind, form = known[name.text.lower()]
            try:
                unit = ticks.get(column.lower(), Resolution.NONE)
                is_tick = unit is not Resolution.NONE and form in _WHOLE
                values[column] = value_of(ticks_of(written, unit) if is_tick else written, form)
            except ValueError as exc:
                message = f"`{column}` is {_a(kind)}: {exc}{_shown(written)}"
                hint = "mend the value; `null` or a column that is left out stands for no value"
                problems.append(test.problem(written, "test.wrong-value", message, hint))
        found.append(values)
    if problems:
        raise TestFileError(dict.fromkeys(problems))
    return found


def _shown_times(spec: AggregateSpec) -> Shown:
    return shown_as(spec.time_type or TimeType.TIMESTAMP, spec.resolution)


def _a(kind: str) -> str:
    return f"{'an' if kind[0] in 'aio' else 'a'} {kind}"


def _shown(written: Any) -> str:
    return f", got `{written.text[:60]}`" if hasattr(written, "text") else ""


def _names_of(source: str) -> set[str]:
    """Return the names by which a test may call a source: as the definition does, or by its last part, as dbt's `source()` has it."""
    plain = source.strip("`").lower()
    return {plain, plain.rsplit(".", 1)[-1], plain.rstrip("/").rsplit("/", 1)[-1]}


def _no_catalog(source: str) -> Callable[[], Spark]:
    def refuse() -> Spark:
        raise TableNotFoundError(f"'{source}' is a table of a catalog, which only Spark reads")

    return refuse

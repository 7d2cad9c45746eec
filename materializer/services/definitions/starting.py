"""A new definition from a look at its source: proposed, checked, and written as files that did not exist before."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from msgspec import Struct, field

from materializer.config import Config
from materializer.core.compiled.resolve import resolve
from materializer.core.language import new_text, suggest
from materializer.core.language.new_text import Answers
from materializer.core.language.parse import parse_definitions
from materializer.core.language.suggest import SourceFacts, TimeChoice
from materializer.core.printed import Printed, PrintedTable, facts
from materializer.core.refresh.lateness import Lateness
from materializer.errors import NotADeltaTableError, UsageError
from materializer.journal.events import SourceIdentity
from materializer.journal.journal import Journal
from materializer.journal.view import View
from materializer.lake import places
from materializer.lake.failures import translated
from materializer.lake.profile import profile
from materializer.lake.table import DeltaFolder
from materializer.services.aggregate import output_path
from materializer.services.definitions.refusals import refuse_policies
from materializer.services.definitions.sources import MissingFeed, missing_feed, resolve_source

if TYPE_CHECKING:
    from materializer.spark.run.spark import Spark

_READERS: Final = {
    "csv": "pyarrow.csv.read_csv",
    "json": "pyarrow.json.read_json",
    "jsonl": "pyarrow.json.read_json",
    "ndjson": "pyarrow.json.read_json",
    "parquet": "pyarrow.parquet.read_table",
    "arrow": "pyarrow.feather.read_table",
    "feather": "pyarrow.feather.read_table",
}
"""By the ending of a file's name: what reads its rows."""
_FIRST: Final = 1 << 16
"""Bytes of a file in which the names of its columns are looked for."""


class Wishes(Struct, frozen=True):
    """What was decided about a new definition; None where it is to be proposed.

    Args:
        name: Name of the aggregate.
        time: The time column.
        bucket: Width of the buckets.
        keys: Columns that rows are grouped by.
        measures: Measures as SQL with their names.
        has_policy: Whether it gets a refresh policy.
    """

    name: str | None = None
    time: str | None = None
    bucket: str | None = None
    keys: Sequence[str] | None = None
    measures: Sequence[str] | None = None
    has_policy: bool = True


class NewDefinition(Printed, Struct, frozen=True):
    """A definition that was proposed and checked, with its suite and policy; nothing is written yet.

    Args:
        answers: What it is made of.
        path: Where its source lies.
        version: Version of the source that was looked at.
        facts: What the source holds.
        times: The columns that can divide time, the most likely first.
        definition: The SQL text.
        suite: The suite, as JSON text.
        feed: How the source gets a change feed; None if it has one.
    """

    answers: Answers
    path: str
    version: int
    facts: SourceFacts
    times: tuple[TimeChoice, ...]
    definition: str
    suite: str
    feed: MissingFeed | None = None

    def _tables(self) -> list[PrintedTable]:
        pairs = [
            ("source", self.path),
            ("source version", self.version),
            ("rows", self.facts.rows),
            ("times", ", ".join(choice.column.name for choice in self.times)),
            ("change feed", None if self.feed is None else f"none: {self.feed.statement}"),
            ("definition", self.definition.rstrip()),
            ("suite", self.suite.rstrip()),
        ]
        return [facts(f"{self.answers.name}: proposed", pairs)]


class Starter(Struct):
    """Proposes and writes new definitions for one lake.

    Args:
        root: Its root.
        journal: Its journal.
        config: Settings.
        engine: Starts Spark, which only a source in a catalog needs.
    """

    root: str
    journal: Journal
    config: Config
    engine: Callable[[], Spark]
    _looked: dict[str, tuple[str, SourceIdentity, int, SourceFacts]] = field(default_factory=dict)

    def draft(self, source: str, wishes: Wishes) -> NewDefinition:
        """Return a definition over a source: what was decided, and for the rest what fits the data.

        Raises:
            TableNotFoundError: If there is no such table.
            NotADeltaTableError: If it is no Delta table; of a folder of Parquet files the hint makes it one.
            UsageError: If it has no column that can divide time, or a wish does not fit the table.
            DefinitionError: With every problem of what was decided.
        """
        view = self.journal.view()
        named, found, version, facts = self._look(source, view)
        times = suggest.times(facts)
        choice = _time(times, wishes.time, facts, source)
        keys = tuple(self._column(facts, key) for key in wishes.keys) if wishes.keys is not None else None
        if keys is None:
            keys = suggest.keys(facts, choice.column.name)
        bucket = wishes.bucket or suggest.bucket(facts, choice, suggest.groups_of(facts, keys))
        measures = wishes.measures or suggest.measures(facts, choice.column.name, keys)
        late = facts.lateness.get(choice.column.name)
        answers = Answers(
            wishes.name or self._free_name(suggest.name_of(source, bucket), view),
            named,
            choice.column.name,
            "" if choice.resolution.value == "none" else choice.resolution.value,
            bucket,
            keys,
            tuple(measures),
            _policy(choice, bucket, late) if wishes.has_policy else (),
        )
        if view.find(answers.name) is not None:
            raise UsageError(
                f"there is an aggregate '{answers.name}' already",
                hint="choose another name, or change its definition and apply it again",
            )
        text = new_text.definition(answers)
        self._check(text, found.path)
        always = [c.name for c in facts.columns if facts.sampled and not c.nulls]
        suite, feed = new_text.suite(answers, always), missing_feed(found, self.root)
        return NewDefinition(answers, found.path, version, facts, tuple(times), text, suite, feed)

    def write(self, draft: NewDefinition, folder: str | Path) -> list[str]:
        """Write the files of a draft, and return their places; none of them existed before.

        Raises:
            UsageError: If one of them exists; nothing was written.
            StorageError: If they cannot be written.
        """
        name = draft.answers.name
        suites = places.normalised(self.config.expectations)
        texts = {f"{places.normalised(folder)}/{name}.sql": draft.definition, f"{suites}/{name}.json": draft.suite}
        for place in texts:
            if places.exists(place):
                raise _exists(place)
        written: list[str] = []
        for place, text in texts.items():
            with translated(place, "writing", wrote=f"{', '.join(written) or 'nothing'} was written"):
                places.make_folder(places.parent(place))
                is_new = places.put_if_absent(place, text.encode()) is not None
            if not is_new:  # another process wrote it since
                error = _exists(place)
                error.wrote = f"{', '.join(written) or 'nothing'} was written"
                raise error
            written.append(place)
        return written

    # -- what is there ---------------------------------------------------------------------------------------------------

    def _look(self, source: str, view: View) -> tuple[str, SourceIdentity, int, SourceFacts]:
        if source not in self._looked:
            if (error := self._of_file(source)) is not None:
                raise error
            try:
                found = resolve_source(source, self.root, self.config.sources, view.states, self.engine)
            except NotADeltaTableError as exc:
                raise self._of_parquet(source, exc) from exc
            version = DeltaFolder.at(found.path).head().version
            self._looked[source] = (
                self._as_written(source, found.path, view),
                found,
                version,
                profile(found.path),
            )
        return self._looked[source]

    def _as_written(self, source: str, path: str, view: View) -> str:
        """Return how a definition names a source so that it is found from every working directory."""
        is_named = source in self.config.sources or view.find(source) is not None
        if is_named or places.resolved(places.inside(self.root, source)) == path or not places.exists(path):
            return source
        is_of_catalog = "/" not in source and not places.exists(places.normalised(source))
        return source if is_of_catalog else path

    def _of_file(self, source: str) -> NotADeltaTableError | None:
        """Return an error that says how a file of rows becomes a Delta table; None where there is no such file."""
        stem, _, ending = source.rpartition(".")
        reader = _READERS.get(ending.lower(), "")
        found = (p for p in (places.inside(self.root, source), places.normalised(source)) if places.is_local(p))
        path = next(filter(places.is_file, found), None) if reader and stem else None
        if path is None:
            return None
        table = path[: -len(ending) - 1]
        table = f"{table}_table" if places.exists(table) else table
        module, call = (
            reader.rpartition(".")[0],
            f"{reader}({json.dumps(path, ensure_ascii=False)}{_marks_of(path) if ending.lower() == 'csv' else ''})",
        )
        feed = 'configuration={"delta.enableChangeDataFeed": "true"}'
        command = f"import deltalake, {module}; deltalake.write_deltalake({json.dumps(table, ensure_ascii=False)}, {call}, {feed})"
        return NotADeltaTableError(
            f"'{source}' is a file, and no Delta table",
            hint=f"make a table of its rows, and begin with that:\npython -c {shlex.quote(command)}\nmaterializer new {shlex.quote(table)}",
            path=path,
        )

    def _of_parquet(self, source: str, error: NotADeltaTableError) -> NotADeltaTableError:
        """Return an error that says how a folder of Parquet files becomes a Delta table; *error* for other folders."""
        path = next(
            (p for p in (places.inside(self.root, source), places.normalised(source)) if places.is_folder(p)), None
        )
        if path is None:
            return error
        entries = [entry.name for entry in places.files(path)]
        files = [name for name in entries if name.endswith(".parquet")]
        if not files or any("_delta_log/" in name for name in entries):  # or a table lies further down
            return error
        columns = [part.partition("=")[0] for part in files[0].split("/")[:-1] if "=" in part]
        parts = ""
        if columns:
            listed = ", ".join(f'("{name}", pa.string())' for name in columns)
            parts = f', partition_strategy="hive", partition_by=deltalake.Schema.from_arrow(pa.schema([{listed}]))'
        imports = "import deltalake, pyarrow as pa" if columns else "import deltalake"
        feed = 'configuration={"delta.enableChangeDataFeed": "true"}'
        command = f"{imports}; deltalake.convert_to_deltalake({json.dumps(path, ensure_ascii=False)}{parts}, {feed})"
        return NotADeltaTableError(
            f"'{source}' is a folder of {len(files):,} Parquet file{'s'[: len(files) != 1]}, and no Delta table",
            hint=f"make it one, in place and without copying a file:\npython -c {shlex.quote(command)}",
            path=path,
        )

    def _free_name(self, name: str, view: View) -> str:
        wanted = name
        for number in range(2, 1_000):
            if view.find(wanted) is None and not places.exists(output_path(self.root, wanted)):
                break
            wanted = f"{name}_{number}"
        return wanted

    def _column(self, facts: SourceFacts, name: str) -> str:
        found = facts.column(name)
        if found is None:
            raise UsageError(f"the source has no column '{name}'", hint=_columns(facts))
        return found.name

    def _check(self, text: str, path: str) -> None:
        """Refuse a text that cannot be a definition over the source.

        Raises:
            DefinitionError: With every problem.
        """
        specs = parse_definitions(text)
        resolved = resolve(specs[0], DeltaFolder.at(path).schema())
        refuse_policies(resolved)


def _marks_of(path: str) -> str:
    """Return the arguments that read a CSV file with semicolons or tabs, as programs write it where a number has a comma; "" of others."""
    with pa.OSFile(path) as file:
        first = file.read(_FIRST).partition(b"\n")[0].decode(errors="replace")
    mark = max(",;\t", key=first.count)
    if mark == ",":
        return ""
    options = f", parse_options=pyarrow.csv.ParseOptions(delimiter={json.dumps(mark)})"
    return options + (', convert_options=pyarrow.csv.ConvertOptions(decimal_point=",")' if mark == ";" else "")


def _policy(choice: TimeChoice, bucket: str, late: Lateness | None) -> tuple[tuple[str, str], ...]:
    try:
        return suggest.policy(choice, bucket, late)
    except ValueError:  # a width that is no number: the check of the definition says so
        return ()


def _time(times: Sequence[TimeChoice], wanted: str | None, facts: SourceFacts, source: str) -> TimeChoice:
    if wanted is not None:
        found = next((c for c in times if c.column.name.lower() == wanted.lower()), None)
        if found is not None:
            return found
        column = facts.column(wanted)
        what = "there is no such column" if column is None else f"its type is {column.type}"
        hint = _columns(facts) if column is None else "name a column of a date, a timestamp or a whole number"
        raise UsageError(f"'{wanted}' cannot be the time column: {what}", hint=hint)
    if not times:
        shown = ", ".join(f"{c.name} {c.type}" for c in facts.columns)
        raise UsageError(
            f"'{source}' has no column that can divide time (its columns: {shown or 'none'})",
            hint="write a date, a timestamp or a whole number with each row; text has to be cast when rows are written",
        )
    return times[0]


def _columns(facts: SourceFacts) -> str:
    return f"the columns are {', '.join(c.name for c in facts.columns)}"


def _exists(place: str) -> UsageError:
    return UsageError(f"'{place}' exists, and nothing is overwritten", hint="choose another name with --name")

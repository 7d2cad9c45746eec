"""Tests of definitions as files have them: given rows of a source, expected rows of the output, in dbt's words for unit tests."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator
from typing import Final

from msgspec import Struct, field

from materializer.core.language.written import (
    Text,
    UnreadableYamlError,
    Written,
    WrittenList,
    WrittenMapping,
    read_yaml,
)
from materializer.core.sql.functions import nearest
from materializer.errors import Problem

FILE: Final = "test.file"
INVALID: Final = "test.invalid"
_TOP: Final = ("version", "columns", "unit_tests")
_TEST: Final = ("name", "description", "model", "given", "expect")
_GIVEN: Final = ("input", "format", "columns", "rows")
_EXPECT: Final = ("format", "rows")
_CALL: Final = re.compile(r"(ref|source)\(\s*(?:['\"]([^'\"]*)['\"]\s*,\s*)?['\"]([^'\"]+)['\"]\s*\)")


class WrittenRow(Struct, frozen=True):
    """A row as it is written: values by column, and where the row begins."""

    values: tuple[tuple[Text, Written], ...]
    line: int
    column: int


class UnitTest(Struct, frozen=True):
    """One test of a definition.

    Args:
        name: Its name.
        model: The aggregate that is tested.
        given: Rows of the source.
        expected: Rows of the output.
        columns: Types of columns of the source that the file says.
        input: The source as the test names it; None where it does not.
        file: The file.
    """

    name: Text
    model: Text
    given: tuple[WrittenRow, ...]
    expected: tuple[WrittenRow, ...]
    columns: tuple[tuple[Text, Text], ...]
    input: Text | None
    file: str

    def problem(
        self, at: Text | WrittenList | WrittenMapping | WrittenRow, code: str, message: str, hint: str = ""
    ) -> Problem:
        """Return a problem of the test with its place."""
        return Problem(code, f"{self.name.text}: {message}", hint, file=self.file, line=at.line, column=at.column)


def read_unit_tests(text: str, file: str) -> tuple[list[UnitTest], list[Problem]]:
    """Return the tests of a file, and every problem of the others.

    Args:
        text: The text of the file.
        file: Its name.
    """
    try:
        written = read_yaml(text)
    except UnreadableYamlError as exc:
        hint = "read the line named above; quote a text that has `: `, ` #` or a bracket at its start"
        return [], [Problem(FILE, str(exc), hint, file=file, line=exc.line, column=exc.column)]
    reader = _Reader(file)
    return list(reader.tests(written)), reader.problems


class _RefusedError(Exception):
    """A part has a problem, which is reported already."""


class _Reader(Struct):
    file: str
    problems: list[Problem] = field(default_factory=list)

    def tests(self, written: Written) -> Iterator[UnitTest]:
        try:
            top = self._fields(written, "the file", _TOP, ["unit_tests"])
            columns = self._columns(top.get("columns"))
            tests = self._list(top["unit_tests"], "unit_tests")
        except _RefusedError:
            return
        names: set[str] = set()
        for item in tests.items:
            try:
                test = self._test(item, columns)
                if test.name.text in names:
                    raise self._refused(test.name, f"two tests are called `{test.name.text}`", "give one another name")
            except _RefusedError:
                continue
            names.add(test.name.text)
            yield test

    def _test(self, item: Written, columns: dict[str, tuple[Text, Text]]) -> UnitTest:
        found = self._fields(item, "a test", _TEST, ["name", "model", "given", "expect"])
        given = self._list(found["given"], "given")
        if len(given.items) != 1:
            hint = "write one item with all rows of the source"
            raise self._refused(given, f"`given` has {len(given.items)} items, and a definition reads one source", hint)
        source = self._fields(given.items[0], "an item of `given`", _GIVEN, ["rows"])
        expect = self._fields(found["expect"], "`expect`", _EXPECT, ["rows"])
        named = self._text(source["input"], "input") if "input" in source else None
        return UnitTest(
            self._text(found["name"], "name"),
            self._named(self._text(found["model"], "model")),
            self._rows(source),
            self._rows(expect),
            tuple((columns | self._columns(source.get("columns"))).values()),
            named and self._named(named),
            self.file,
        )

    def _named(self, text: Text) -> Text:
        """Return the name in a call of dbt, `ref('name')` or `source('schema', 'name')`, or what else is written."""
        call = _CALL.fullmatch(text.text.strip())
        return Text(call[3] if call else text.text, text.line, text.column)

    def _rows(self, of: dict[str, Written]) -> tuple[WrittenRow, ...]:
        form = self._text(of["format"], "format") if "format" in of else None
        rows = of["rows"]
        if form is not None and form.text not in {"dict", "csv"}:
            raise self._refused(form, f"the format `{form.text}` is not read", "write `dict` or `csv`")
        if form is not None and form.text == "csv":
            return self._of_csv(self._text(rows, "rows"))
        found = []
        for row in self._list(rows, "rows").items:
            if not isinstance(row, WrittenMapping):
                raise self._refused(row, "a row is no mapping", "write `- {column: value, …}`, or `format: csv`")
            found.append(WrittenRow(tuple(row.items), row.line, row.column))
        return tuple(found)

    def _of_csv(self, text: Text) -> tuple[WrittenRow, ...]:
        """Return the rows of a block of CSV; a value that is empty is null."""
        header: list[str] = []
        found = []
        for number, cells in enumerate(csv.reader(io.StringIO(text.text), skipinitialspace=True), start=1):
            line = text.line + number * text.is_quoted
            if not cells:
                continue
            if not header:
                header = [cell.strip() for cell in cells]
                continue
            if len(cells) != len(header):
                place = Text("", line, text.column)
                message = f"a row has {len(cells)} values, and the header {len(header)} columns"
                raise self._refused(place, message, "write a value, or nothing between two commas, for each")
            named = zip(header, cells, strict=True)
            found.append(WrittenRow(tuple((Text(n, line, 1), Text(c.strip(), line, 1)) for n, c in named), line, 1))
        return tuple(found)

    def _columns(self, written: Written | None) -> dict[str, tuple[Text, Text]]:
        if written is None:
            return {}
        if not isinstance(written, WrittenMapping):
            raise self._refused(written, "`columns` is no mapping", "write `columns: {name: type, …}`")
        return {name.text.lower(): (name, self._text(kind, name.text)) for name, kind in written.items}

    # -- shapes ----------------------------------------------------------------------------------------------------------

    def _fields(
        self, written: Written, what: str, known: Collection[str], needed: Collection[str]
    ) -> dict[str, Written]:
        if not isinstance(written, WrittenMapping):
            raise self._refused(written, f"{what} is no mapping", f"write its parts by name: {', '.join(known)}")
        before = len(self.problems)
        found = {key.text: value for key, value in written.items}
        for key, _ in written.items:
            if key.text not in known:
                hint = nearest(key.text, tuple(known)) or f"what is read there: {', '.join(known)}"
                self._refused(key, f"{what} has a part `{key.text}`, which is not known", hint)
        missing = [name for name in needed if name not in found]
        if missing and len(self.problems) == before:
            self._refused(written, f"{what} has no `{missing[0]}`", f"write `{missing[0]}:`")
        if len(self.problems) > before:
            raise _RefusedError
        return found

    def _list(self, written: Written, what: str) -> WrittenList:
        if isinstance(written, Text) and written.is_null:
            return WrittenList([], written.line, written.column)
        if not isinstance(written, WrittenList):
            raise self._refused(written, f"`{what}` is no list", "begin each item with `- `")
        return written

    def _text(self, written: Written, what: str) -> Text:
        if not isinstance(written, Text) or written.is_null:
            raise self._refused(written, f"`{what}` is no text", f"write `{what}: …`")
        return written

    def _refused(self, at: Written, message: str, hint: str) -> _RefusedError:
        self.problems.append(Problem(INVALID, message, hint, file=self.file, line=at.line, column=at.column))
        return _RefusedError()

"""Definitions as texts: read from files and folders, and the place in them that a problem is about.

Problems of a text have their places when it is read. Problems that only the source shows are found later, and get theirs here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from materializer.core.spec.spec import CONTINUOUS, AggregateSpec
from materializer.errors import DefinitionError, MaterializerError, Problem, UsageError
from materializer.lake import places
from materializer.lake.failures import failure
from materializer.lake.hostile import endless
from materializer.services.definitions.repeated import pieces

Given: TypeAlias = str | Path | AggregateSpec | Iterable[str | Path | AggregateSpec]
"""SQL text, a file, a folder of ``*.sql`` files or a spec, or several of these."""


class _Read(NamedTuple):
    """What was read of a text; the fields are those of a :class:`~materializer.core.language.parse.ParseReport`."""

    specs: tuple[AggregateSpec, ...]
    warnings: tuple[Problem, ...] = ()
    problems: tuple[Problem, ...] = ()
    wrong: frozenset[str] = frozenset()


class Texts(Struct, frozen=True):
    """Reads definitions, and remembers the texts in which they stand.

    Args:
        known_python: Names of the user's Python aggregates.
        stored: Returns, for each text, the stored definition that is known to be unchanged by it, or None.
    """

    known_python: frozenset[str]
    stored: Callable[[Sequence[str]], Sequence[AggregateSpec | None]] = lambda texts: [None for _ in texts]
    pieces: dict[str, str] = field(default_factory=dict)
    """Of each statement that was read and ends with a semicolon, its text with the comments before it."""
    _read: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The text and the file of each statement that was read."""

    def read(self, what: Given) -> tuple[list[AggregateSpec], list[Problem]]:
        """Return the definitions, and warnings about them.

        Args:
            what: A text of one line that does not begin with ``CREATE`` is a path.

        Raises:
            DefinitionError: With every problem of every text.
            UsageError: If a file is not there or cannot be read.
            StorageError: If a store cannot be read.
        """
        specs, warnings, problems = self.examine(what)
        if problems:
            raise DefinitionError(problems)
        return specs, warnings

    def examine(self, what: Given) -> tuple[list[AggregateSpec], list[Problem], list[Problem]]:
        """Return the definitions without a problem, warnings about them, and the problems of all others.

        A definition over one that has a problem is left out, because nothing can be said of it yet.

        Args:
            what: As in :meth:`read`.

        Raises:
            UsageError: If a file is not there or cannot be read.
            StorageError: If a store cannot be read.
        """
        specs: list[AggregateSpec] = []
        warnings: list[Problem] = []
        problems: list[Problem] = []
        wrong: set[str] = set()
        items = [what] if isinstance(what, (str, Path, AggregateSpec)) else list(what)
        given = [pair for item in items for pair in _texts(item)]
        stored = self._stored([text for text, _ in given if isinstance(text, str)])
        for text, file in given:
            if isinstance(text, AggregateSpec):
                specs.append(text)
                continue
            report = self._again(text, stored) or self._parsed(text, file)
            specs += report.specs
            warnings += report.warnings
            problems += report.problems
            wrong |= report.wrong
            self._read.update({spec.sql: (text, file) for spec in report.specs})
        problems += _named_twice(specs)
        while over := [spec for spec in specs if spec.source.lower() in wrong]:
            specs = [spec for spec in specs if spec.source.lower() not in wrong]
            wrong |= {spec.name.lower() for spec in over}
        return specs, warnings, problems

    @staticmethod
    def beside(what: Given) -> Iterator[str]:
        """Yield the texts of the other definition files in the folders of the files that were given, as far as they can be read."""
        items = [what] if isinstance(what, (str, Path, AggregateSpec)) else list(what)
        given = {
            places.normalised(item) for item in items if not isinstance(item, AggregateSpec) and not _is_text(item)
        }
        for folder in sorted({places.parent(file) for file in given if file.endswith(".sql")}):
            with suppress(OSError, MaterializerError):
                for name in sorted(name for name in places.names(folder or ".") if name.endswith(".sql")):
                    place = f"{folder}/{name}" if folder else name
                    if place not in given and places.is_file(place):
                        with suppress(OSError, MaterializerError, UnicodeDecodeError):
                            yield places.read(place).decode("utf-8-sig")

    def _parsed(self, text: str, file: str) -> _Read:
        from materializer.core.language.parse import parse_as_far  # noqa: PLC0415 (only where texts are parsed)

        report = parse_as_far(text, file=file, known_python=self.known_python)
        if not report.warnings:
            self.pieces.update((s.sql, piece) for s, piece in zip(report.specs, report.pieces, strict=True) if piece)
        return _Read(report.specs, report.warnings, report.problems, report.wrong)

    def _stored(self, texts: Iterable[str]) -> dict[str, AggregateSpec]:
        """Return the stored definitions that pieces of some texts are known to leave unchanged, by piece."""
        every = [] if self.known_python else list(dict.fromkeys(piece for text in texts for piece in pieces(text)))
        return {text: spec for text, spec in zip(every, self.stored(every), strict=True) if spec is not None}

    def _again(self, text: str, stored: Mapping[str, AggregateSpec]) -> _Read | None:
        """Return the definitions in a text of which only a part has to be parsed; None if all of it has.

        What is known is a whole statement with its semicolon. So what lies between two of these is read as it is in the whole text, if it is
        such statements, too.
        """
        cut = pieces(text) if stored else []
        if not stored.keys() & set(cut):
            return None
        found: list[AggregateSpec] = []
        for piece in cut:
            if piece in stored:
                found.append(stored[piece])
                continue
            report = self._parsed(piece, "")
            specs = report.specs
            if report.problems or report.warnings or [self.pieces.get(spec.sql) for spec in specs] != [piece]:
                return None  # what is said of it has places in the whole text
            found += specs
        return None if _named_twice(found) else _Read(tuple(found))

    def defined(self, name: str, source: str, parts: dict[str, Any]) -> AggregateSpec:
        """Return the definition that Python gives.

        Args:
            name: Name of the aggregate.
            source: A path, or a name.
            parts: Those of ``define``, or, with an ``engine``, of ``define_engine``.

        Raises:
            DefinitionError: With every problem.
        """
        from materializer.core.language.define import define  # noqa: PLC0415 (as in `read`)
        from materializer.core.language.engine_define import define_engine  # noqa: PLC0415 (as in `read`)

        if parts.get("engine", CONTINUOUS) != CONTINUOUS:
            return define_engine(name, source, **parts, known_python=self.known_python)
        plain = {k: v for k, v in parts.items() if k != "engine"}
        return define(name, source, **plain, known_python=self.known_python)

    def placed(self, problem: Problem, specs: Iterable[AggregateSpec]) -> Problem:
        """Return a problem that was found against the source with its place in the text of one of *specs*, if that was read."""
        spec = next((s for s in specs if s.sql in self._read and problem.message.startswith(f"{s.name}:")), None)
        if problem.line or spec is None:
            return problem
        text, file = self._read[spec.sql]
        word = (
            re.search(rf"(?<!\w){re.escape(problem.about)}(?!\w)", spec.sql, re.IGNORECASE) if problem.about else None
        )
        at = text.find(spec.sql) + (word.start() if word else 0)
        line, column = text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1
        return replace(problem, file=file, line=line, column=column)


def _is_text(item: str | Path) -> bool:
    return isinstance(item, str) and ("\n" in item or item.lstrip().upper().startswith(("CREATE ", "--", "/*")))


def _texts(item: str | Path | AggregateSpec) -> Sequence[tuple[str | AggregateSpec, str]]:
    if isinstance(item, AggregateSpec):
        return [(item, "")]
    if _is_text(item):
        return [(str(item), "")]
    path = places.normalised(item)
    files = [path]
    try:
        if places.is_folder(path):
            names = sorted(name for name in places.names(path) if name.endswith(".sql"))
            if name := endless(path, names):
                raise UsageError(f"'{name}' in {path} is no regular file", hint="take it out of the folder")
            files = [f"{path}/{name}" for name in names]
        if not files or (files == [path] and not places.exists(path)):
            raise UsageError(f"there is no definition file at {path}", hint="give a .sql file or a folder of them")
    except OSError as exc:
        raise _unread(path, exc) from exc
    return [(_text(file), file) for file in files]


def _text(file: str) -> str:
    try:
        return places.read(file).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        raise _unread(file, exc) from exc


def _unread(place: str, exc: OSError | UnicodeDecodeError) -> MaterializerError:
    if isinstance(exc, OSError) and not places.is_local(place):
        return failure(place, "reading", exc)
    hint = "give a UTF-8 text file, or take it out of the folder"
    return UsageError(f"the definition file {place} cannot be read: {exc}", hint=hint)


def _named_twice(specs: Sequence[AggregateSpec]) -> list[Problem]:
    seen: set[str] = set()
    problems = []
    for spec in specs:
        if spec.name.lower() in seen:
            problems.append(
                Problem("definition.name-twice", f"'{spec.name}' is defined twice", "give one of them another name")
            )
        seen.add(spec.name.lower())
    return problems

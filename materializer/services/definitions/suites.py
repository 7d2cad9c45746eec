"""The suites of a definition: found by name or by property when it is applied, checked there, and stored with it.

A refresh uses what was applied and never a file, so that a suite that is lost or broken later cannot open the gate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from materializer.core.compiled.definition import Definition
from materializer.core.quality.compiled import Columns, compiled, plain
from materializer.core.quality.library import Library
from materializer.core.quality.suite import Expectation, Suite, read, wrong_values
from materializer.core.spec.spec import AggregateSpec, TimeType
from materializer.core.time.instants import render
from materializer.core.time.spans import NEG_INF, POS_INF, Span
from materializer.errors import DefinitionError, MaterializerError, Problem, QualityLibraryMissingError
from materializer.journal.journal import Journal
from materializer.lake import places
from materializer.lake.failures import failure, translated

OUTPUT: Final = "output"
SOURCE: Final = "source"
_PROPERTIES: Final = {OUTPUT: "quality.suite", SOURCE: "quality.source_suite"}
_ENDINGS: Final = {OUTPUT: ".json", SOURCE: ".source.json"}
_NO_NAME: Final = (
    "apply its definition, name the file after an aggregate, or take it out of the folder; a suite of another lake goes into a folder "
    "of that one, which the setting `expectations` names"
)
SHOWN: Final = 10
"""Files that belong to no aggregate and are named; of more there is the number."""
GIVEN: Final = ("refresh", "source_version", "window_start", "window_end")
"""Parameters that every suite can use; `quality.parameters` adds others."""


class Shelf(Struct):
    """The folder of suites. It is listed once, on first use.

    Args:
        place: The folder.
    """

    place: str
    _by_name: dict[str, list[str]] | None = None

    @property
    def is_there(self) -> bool:
        """Whether the folder exists."""
        return bool(self._files()) or places.is_folder(self.place)

    def file_of(self, name: str) -> str | None:
        """Return the file of a name in any case; of several the one in the case of *name*, or else the first."""
        files = self._files().get(name.lower(), [])
        return f"{self.place}/{name if name in files else files[0]}" if files else None

    def left(
        self, aggregates: Collection[tuple[str, Mapping[str, str]]], others: Callable[[], Iterable[str]] = tuple
    ) -> list[Problem]:
        """Return a warning of each suite that belongs to no aggregate.

        Args:
            aggregates: Names of aggregates, and their properties.
            others: Returns texts of definitions that are not read now, and may be applied later: a suite whose name is a word of them is theirs.
        """
        left = {file for files in self._files().values() for file in files if file.lower().endswith(".json")}
        for name, properties in aggregates if left else ():
            for kind, ending in _ENDINGS.items():
                left -= {
                    places.name(self.file_of(f"{name}{ending}") or ""),
                    places.name(properties.get(_PROPERTIES[kind], "")),
                }
        if left and (text := "\n".join(others()).lower()):
            words = set(re.findall(r"\w+", text))
            left = {file for file in left if _stem(file) not in words and file.lower() not in text}
        shown = sorted(left)[:SHOWN]
        found = [_left(f"{self.place}/{file}", file, [name for name, _ in aggregates]) for file in shown]
        if more := len(left) - len(shown):
            message = f"{self.place}: {more:,} other files belong to no aggregate, so nothing is checked with them"
            found.append(Problem("suite.no-aggregate", message, _NO_NAME))
        return found

    def _files(self) -> dict[str, list[str]]:
        if self._by_name is None:
            found: dict[str, list[str]] = {}
            with translated(self.place, "reading the suites in"):
                for name in sorted(places.names(self.place)):
                    found.setdefault(name.lower(), []).append(name)
            self._by_name = found
        return self._by_name


def unused(
    folder: str | Path,
    journal: Journal,
    specs: Iterable[AggregateSpec] = (),
    others: Callable[[], Iterable[str]] = tuple,
) -> list[Problem]:
    """Return a warning of each file in the folder of suites that belongs to no aggregate.

    Args:
        folder: The folder.
        journal: The journal of the lake, whose aggregates and next versions have suites.
        specs: Definitions that are looked at now.
        others: As in :meth:`Shelf.left`.
    """
    with suppress(MaterializerError):  # who reads definitions may be about to mend the journal
        view = journal.view()
        known = [(s.name, dict(s.spec["properties"])) for s in view.all.values()]
        known += [(broken.name, {}) for broken in view.broken.values() if broken.name]
        known += [(spec.name, dict(spec.property_map)) for spec in specs]
        return Shelf(places.normalised(folder)).left(known, others)
    return []


def _stem(file: str) -> str:
    """Return the name of the aggregate that a file is named after, in small letters."""
    return file[: -len(next(e for e in reversed(_ENDINGS.values()) if file.lower().endswith(e)))].lower()


def _left(place: str, file: str, names: Iterable[str]) -> Problem:
    from difflib import get_close_matches  # noqa: PLC0415 - only for this

    ending = next(e for e in reversed(_ENDINGS.values()) if file.lower().endswith(e))
    stem, by_lower = _stem(file), {name.lower(): name for name in names}
    hint = _NO_NAME
    if stem in by_lower:
        hint = f"'{by_lower[stem]}' has another file whose name differs only in case: keep one of them"
    elif near := get_close_matches(stem, by_lower, n=1, cutoff=0.75):
        hint = f"did you mean '{by_lower[near[0]]}{ending}'?"
    return Problem(
        "suite.no-aggregate", f"{place} belongs to no aggregate, so nothing is checked with it", hint, about=file
    )


def found(
    spec: AggregateSpec,
    folder: Shelf,
    columns: Mapping[str, Columns],
    library: Library,
    applied: Iterable[tuple[str, str]] = (),
) -> tuple[tuple[str, str], ...]:
    """Return the suites of a definition as (kind, JSON), checked.

    Args:
        spec: The definition.
        folder: The folder where suites lie by name.
        columns: Columns of the ``output`` and of the ``source``, with their Spark types.
        library: Loads the library that checks arguments of what is not compiled.
        applied: The suites that the definition has; without the folder those found by name stay as they are.

    Raises:
        DefinitionError: With everything that is wrong with them.
        StorageError: If the store of the folder cannot be read.
    """
    problems = list(_not_for_engines(spec))
    suites: list[tuple[str, str]] = []
    with translated(folder.place, "reading the suites in"):
        known = {} if folder.is_there else dict(applied)
    for kind in (OUTPUT, SOURCE):
        if kind in known and _PROPERTIES[kind] not in spec.property_map:
            suites.append((kind, known[kind]))
            continue
        with translated(folder.place, "reading the suites in"):
            file = _file(spec, kind, folder, problems)
        if file is None:
            continue
        try:
            text = places.read(file).decode()
            asked = partial(_wrong_arguments, spec=spec, columns=columns[kind], library=library)
            suite = read(text, file=file, columns=columns[kind], further=asked)
        except DefinitionError as exc:
            problems += exc.problems
        except (OSError, UnicodeDecodeError) as exc:
            if isinstance(exc, OSError) and not places.is_local(file):
                raise failure(file, "reading", exc) from exc
            problems.append(Problem("suite.unreadable", f"this suite cannot be read: {exc}", file=file, about=file))
        else:
            problems += _unknown_parameters(suite, spec, file)
            suites.append((kind, json.dumps(json.loads(text), separators=(",", ":"))))
    if problems:
        raise DefinitionError(problems)
    return tuple(suites)


def of(spec: AggregateSpec) -> dict[str, Suite]:
    """Return the suites that were applied with a definition, by kind."""
    return {kind: read(text) for kind, text in spec.suites}


def parameters_of(spec: AggregateSpec) -> dict[str, Any]:
    """Return the values that a definition gives to parameters."""
    given: dict[str, Any] = json.loads(spec.property_map.get("quality.parameters", "{}"))
    return given


def values(definition: Definition, n: int, version: int, window: Span) -> dict[str, Any]:
    """Return what the parameters of a definition's suites stand for.

    Args:
        definition: The definition.
        n: Refresh number.
        version: Source version.
        window: What is looked at; an infinite end is null.
    """
    return _values(definition.spec, definition.time_type, n, version, window)


def _values(spec: AggregateSpec, kind: TimeType, n: int, version: int, window: Span) -> dict[str, Any]:
    start, end = (
        None if edge in (NEG_INF, POS_INF) else edge if kind.is_integer else render(edge, kind)
        for edge in (window.start, window.end)
    )
    return dict(zip(GIVEN, (n, version, start, end), strict=True)) | parameters_of(spec)


def _not_for_engines(spec: AggregateSpec) -> Iterable[Problem]:
    asked = spec.property_map
    hint = "leave it away: the whole run is held back"
    if spec.is_engine and asked.get("quality.on_failure", "refresh").lower() == "buckets":
        message = "'quality.on_failure': results of engines reach beyond a bucket"
        yield Problem("definition.quality", message, hint, about="quality.on_failure")


def _file(spec: AggregateSpec, kind: str, folder: Shelf, problems: list[Problem]) -> str | None:
    named = spec.property_map.get(_PROPERTIES[kind])
    if named is None:
        by_name = folder.file_of(f"{spec.name}{_ENDINGS[kind]}")
        return by_name if by_name is not None and places.is_file(by_name) else None
    if named.lower() == "none":
        return None
    file = next(filter(places.is_file, (places.inside(folder.place, named), places.normalised(named))), None)
    if file is None:
        message = f"{spec.name}: there is no suite '{named}' (looked in {folder.place} and in the working directory)"
        hint = f"correct '{_PROPERTIES[kind]}', or write 'none'"
        problems.append(Problem("suite.missing", message, hint, about=named))
    return file


def _unknown_parameters(suite: Suite, spec: AggregateSpec, file: str) -> Iterable[Problem]:
    known = {*GIVEN, *parameters_of(spec)}
    for name in sorted(suite.parameters - known):
        hint = f"give it in 'quality.parameters', or use one of {', '.join(GIVEN)}"
        yield Problem("suite.parameter", f"the parameter '{name}' has no value", hint, file, about=name)


def _wrong_arguments(
    expectations: Sequence[Expectation], *, spec: AggregateSpec, columns: Columns, library: Library
) -> list[tuple[int, Problem]]:
    """Return what is wrong with arguments once parameters have the values that the definition gives them.

    What will be compiled was checked when it was read. The rest is for Great Expectations to say, where it is installed:
    where it is not, a refresh may still run where it is, and says what to install where it does not.
    """
    filled = Suite("", tuple(expectations)).filled(parameters_of(spec)).expectations
    wrong = [(e.index, p) for e in filled for p in wrong_values(e)]
    if left := [e for e in filled if not _is_compiled(e, spec, columns)]:
        with suppress(QualityLibraryMissingError):
            wrong += library().refusals(left)
    return wrong


def _is_compiled(e: Expectation, spec: AggregateSpec, columns: Columns) -> bool:
    """Whether a refresh will need no library for it; its own parameters always have values of the same kind."""
    own = _values(spec, spec.time_type, 1, 1, Span(0, 1)) if spec.time_type else {}
    [e] = Suite("", (e,)).filled(own).expectations
    return compiled(plain(e, columns), columns) is not None

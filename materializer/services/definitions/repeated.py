"""Definitions that are applied again as they are: known by their text, without parsing it.

People with hundreds of definitions in a folder apply all of them when one changes. Of each that is applied, this user's cache
notes a digest of all that decides whether it changes anything: its text, what the journal says of the aggregate, the table that the name of
its source stands for with its columns, and the settings. A definition whose digest is not there is parsed and checked whole; so is
one with suites, over another aggregate, of an engine, or with a next version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Final, NoReturn

from materializer import noted
from materializer.config import Config
from materializer.core.spec.spec import CONTINUOUS, AggregateSpec
from materializer.errors import MaterializerError, TableNotFoundError
from materializer.installed import __version__
from materializer.journal.events import SourceIdentity
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState
from materializer.journal.view import View
from materializer.lake import places
from materializer.lake.table import DeltaFolder
from materializer.services.definitions.changes import CheckedDefinition, DefinitionChange
from materializer.services.definitions.lineage import maker_of
from materializer.services.definitions.sources import resolve_source

NAME: Final = "applied"
CROWD: Final = 20
"""From so many definitions on, finding them again is worth a note."""
_NAMED: Final = re.compile(r"\bMATERIALIZED\s+VIEW\s+(\w+)", re.IGNORECASE)
_PIECE: Final = re.compile(r".*?;[ \t\r]*(?:\n|\Z)", re.DOTALL)


def pieces(text: str) -> list[str]:
    r"""Return a text, cut after each semicolon at the end of a line.

    A semicolon there may stand in a comment or a literal. So a piece means nothing before it is known to be a definition, or is parsed alone.

    Examples:
        >>> pieces("-- one\nCREATE a;\nCREATE b; -- two\n")
        ['-- one\nCREATE a;', 'CREATE b; -- two']
    """
    found = _PIECE.findall(text)
    return [piece.strip() for piece in [*found, text[sum(map(len, found)) :]] if piece.strip()]


class Repeated:
    """The definitions of one lake that this user applied before.

    Args:
        root: The lake's root.
        journal: Its journal.
        config: The settings.
    """

    def __init__(self, root: str, journal: Journal, config: Config) -> None:
        self._root, self._journal, self._config = root, journal, config
        self._sources: dict[str, tuple[SourceIdentity, str, int] | None] = {}  # as they are during one call
        self._suites: set[str] | None = None
        self._found: dict[str, tuple[AggregateSpec, AggregateState]] = {}

    def find(self, texts: Sequence[str]) -> list[AggregateSpec | None]:
        """Return, for each text, the stored definition that it is the text of, if applying it would change nothing; else None."""
        known = noted.noted(NAME)
        self._sources, self._suites = {}, None
        view: View | None = None
        if known and texts:
            with suppress(MaterializerError):  # who reads definitions may be about to mend the journal
                view = self._journal.view()
        return [None if view is None else self._one(text, view, known) for text in texts]

    def _one(self, text: str, view: View, known: Collection[str]) -> AggregateSpec | None:
        name = _NAMED.search(text)
        with suppress(MaterializerError):
            state = None if name is None else view.find(name[1])
            if state is not None and self._digest(text, state, view) in known:
                spec = AggregateSpec.from_json(state.spec)
                self._found[state.name] = (spec, state)
                return spec
        return None

    def checked(self, spec: AggregateSpec, state: AggregateState | None) -> CheckedDefinition | None:
        """Return *spec* as unchanged if it is what :meth:`find` returned, and the journal says the same of it in *state*; else None."""
        found, known = self._found.get(spec.name, (None, None))
        if found is not spec or known is None or state is None:
            return None
        if (state.id, state.data_version, state.spec) != (known.id, known.data_version, known.spec):
            return None
        change = DefinitionChange(state.name, "unchanged", (), state.source.path, state.cursor)
        return CheckedDefinition(change, spec, state.source, dict(state.schemas), state)

    def note(self, applied: Iterable[tuple[str, str]]) -> None:
        """Note definitions that are applied, each as its text and its name."""
        view, digests = self._journal.view(), list[str]()
        self._sources, self._suites = {}, None
        with suppress(MaterializerError):
            for text, name in applied:
                state = view.find(name)
                digests.append("" if state is None else self._digest(text, state, view))
        noted.note(NAME, filter(None, digests))

    def _digest(self, text: str, state: AggregateState, view: View) -> str:
        """Return the digest of a definition and of what decides whether it is unchanged; "" if more than that would."""
        spec = state.spec
        source = self._source(str(spec["source"]))
        if source is None or not self._is_plain(state, view) or source[0] != state.source or source[2] < state.cursor:
            return ""
        config = (sorted(self._config.sources.items()), self._config.expectations)
        facts = (__version__, self._root, text, state.id, state.data_version, json.dumps(spec), *source[:2], config)
        return sha256(repr(facts).encode()).hexdigest()

    def _is_plain(self, state: AggregateState, view: View) -> bool:
        spec = state.spec
        name = state.name.lower()
        suites = {f"{name}.json", f"{name}.source.json"}
        return not (
            self._config.sample
            or spec["engine"] != CONTINUOUS
            or any(spec.get(what) for what in ("rolls_up", "sample", "suites"))
            or any(name.startswith("quality.") for name, _ in spec["properties"])
            or view.build_of(state)
            or suites & self._files()
        )

    def _files(self) -> set[str]:
        """Return the names of the suites that are found by name, in small letters."""
        if self._suites is None:
            folder = places.normalised(self._config.expectations)
            self._suites = {n.lower() for n in places.names(folder)} if places.is_folder(folder) else set()
        return self._suites

    def _source(self, name: str) -> tuple[SourceIdentity, str, int] | None:
        """Return the table that a name stands for, its columns and its version; None where more than folders has to be looked at."""
        if name not in self._sources:
            self._sources[name] = None
            with suppress(MaterializerError):
                source = resolve_source(name, self._root, self._config.sources, self._journal.view().states, _no_spark)
                if not source.name and not maker_of(source.path, self._root):
                    folder = DeltaFolder.at(source.path)
                    self._sources[name] = (source, repr(folder.schema()), folder.head().version)
        return self._sources[name]


def _no_spark() -> NoReturn:  # the name of a catalog, which Spark has to look up
    raise TableNotFoundError("this name is looked up by Spark")

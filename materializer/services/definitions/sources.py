"""Which table the name of a source stands for, and whether that has a change feed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.printed import Printed
from materializer.core.spec.table_names import parts_of, quoted
from materializer.core.sql.functions import nearest
from materializer.errors import MaterializerError, TableNotFoundError
from materializer.journal.events import SourceIdentity
from materializer.journal.state import States, by_name
from materializer.lake import places
from materializer.lake.failures import translated
from materializer.lake.table import DeltaFolder
from materializer.services.aggregate import output_path
from materializer.services.definitions.lineage import maker_of, parent_of

if TYPE_CHECKING:
    from materializer.spark.run.spark import Spark

FEED: Final = "delta.enableChangeDataFeed"
SAVES: Final = (
    "with one, a refresh computes the groups of changed rows only; without, every bucket that a changed file covers"
)


def resolve_source(
    name: str, root: str, sources: Mapping[str, str], states: States, engine: Callable[[], Spark]
) -> SourceIdentity:
    """Return the table that a source name stands for.

    Names are looked up in ``[sources]`` of the configuration, then among this lake's aggregates, then taken as a
    path (relative to the lake's root, then to the working directory), then, when they have two or three parts, as
    names of the session's catalog.

    Raises:
        TableNotFoundError: If nothing is there.
        NotADeltaTableError: If something else is.
        CatalogManagedError, AmbiguousNameError, CatalogUnreachableError: For a name of a catalog; see
            :func:`materializer.spark.query.catalogs.table_named`.
    """
    state = by_name(states, name)
    if name in sources:
        candidates = [places.inside(root, sources[name])]
    elif state is not None:
        candidates = [output_path(root, state.name)]
    else:
        candidates = list(dict.fromkeys([places.inside(root, name), places.normalised(name)]))
    with translated(candidates[0], "looking at"):
        is_there = places.exists(candidates[0])
    if not is_there and parts_of(sources.get(name, name)):
        try:
            found = engine().catalogs.table_named(sources.get(name, name))
        except TableNotFoundError as exc:
            last = parts_of(sources.get(name, name))[-1]
            here = [*sources, *(s.name for s in states.values()), *_beside(last, [places.inside(root, last)])]
            meant = next((n for n in here if n.lower() == last.lower() and n != name), None)
            raise exc if meant is None else TableNotFoundError(exc.message, hint=f"did you mean `{meant}`?") from exc
        # the output of an aggregate of this lake is read by its path, also after it lost its name
        return replace(found, name="") if parent_of(found.path, root, states) else found
    for path in candidates:
        if places.exists(path):
            return SourceIdentity(places.resolved(path), DeltaFolder.at(places.resolved(path)).head().table_id)
    near = nearest(
        name, [*sources, *(other.name for other in states.values()), *_beside(name, candidates)], cutoff=0.75
    )
    known = ", ".join(sorted(sources)) or "none"
    raise TableNotFoundError(
        f"there is no table '{name}' (looked at {', '.join(candidates)}; named sources: {known})",
        hint=near or "name it in [sources] of materializer.toml, or give its path",
    )


def _beside(name: str, candidates: list[str]) -> Iterator[str]:
    """Yield the tables on this disk in the folders where a name was looked for, each written as that name."""
    before = name[: len(name) - len(places.name(name))]
    for folder in {places.parent(places.absolute(path)) for path in candidates if places.is_local(path)}:
        with suppress(OSError, MaterializerError):
            tables = [n for n in places.names(folder) if places.is_folder(f"{folder}/{n}/_delta_log")]
            yield from (before + table for table in tables)


def named_in(error: MaterializerError, name: str) -> str:
    """Return how an error of :func:`resolve_source` names the source: by its name, or by its folder where that exists."""
    return name if isinstance(error, TableNotFoundError) else places.resolved(name)


class MissingFeed(Printed, Struct, frozen=True):
    """A table without a change feed, and how it gets one.

    Args:
        source: Where it lies.
        statement: The statement that turns the feed on, in Spark SQL; it records changes from then on.
        saves: What a feed saves, in words.
        python: The same for the package ``deltalake``, which needs no Spark; "" for a table of a catalog or an object store.
    """

    source: str
    statement: str
    saves: str = SAVES
    python: str = ""


def missing_feed(source: SourceIdentity, root: str) -> MissingFeed | None:
    """Return how a source gets a change feed; None if it has one, or is a table of the lake at *root*, which needs none.

    Raises:
        MaterializerError: If the source cannot be read.
    """
    if maker_of(source.path, root) or DeltaFolder.at(source.path).properties().get(FEED, "").lower() == "true":
        return None
    statement = f"ALTER TABLE {source.name or f'delta.{quoted(source.path)}'} SET TBLPROPERTIES ({FEED} = true)"
    call = f'deltalake.DeltaTable({json.dumps(source.path)}).alter.set_table_properties({{"{FEED}": "true"}})'
    return MissingFeed(source.path, statement, python="" if source.name or not places.is_local(source.path) else call)

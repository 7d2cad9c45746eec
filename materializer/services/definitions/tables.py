"""The two tables of an aggregate, or of a build: their columns, making them empty, removing them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from materializer.config import Config
from materializer.core.compiled.definition import SLICE, key_column
from materializer.core.spec.spec import AggregateSpec
from materializer.errors import NOTHING, DefinitionError, ForeignTableError, MaterializerError, Problem
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState
from materializer.journal.view import View
from materializer.lake import places
from materializer.lake.failures import translated
from materializer.lake.table import DeltaFolder
from materializer.services.aggregate import refuse_links

LOOKS: Final = 10
BETWEEN_LOOKS: Final = 0.1
"""How often the journal is looked at, and after how many seconds, for an aggregate that another process may be creating."""
_MARK: Final = "_dropped"
"""File in the folder of an aggregate, with its id: the aggregate is being dropped, or was."""

if TYPE_CHECKING:
    from materializer.services.definitions.batch import Awaited
    from materializer.spark.describe.analyse import Analysed
    from materializer.spark.run.spark import Spark


def schemas_of(analysed: Analysed) -> dict[str, Any]:
    """Return the column names and Spark types of ``partials`` and ``output``."""
    spec = analysed.spec
    time_type = spec.time_type.value if spec.time_type else ""
    partials = [[SLICE, time_type], *([key_column(n), t] for n, t in analysed.key_types)]
    partials += [[f.name, f.dataType.simpleString()] for f in analysed.partial_schema]
    return {"partials": partials, "output": [[f.name, f.dataType.simpleString()] for f in analysed.output_schema]}


def types_of(
    spec: AggregateSpec, source: DeltaFolder | Awaited, config: Config, engine: Callable[[], Spark]
) -> tuple[AggregateSpec, dict[str, Any]]:
    """Return a definition with its types, and the columns of its tables: from this process if it is certain of them, else from Spark.

    Args:
        spec: The definition, resolved against its source.
        source: Its source.
        config: Settings; with ``executor = spark`` Spark is always asked.
        engine: Starts Spark on first use.

    Raises:
        DefinitionError: If Spark refuses it.
    """
    from materializer.local.described import accepted  # noqa: PLC0415 (loads the parser)

    local = None if config.executor == "spark" else accepted(spec, [name for name, _ in source.schema()])
    if local is None:
        analysed = engine().analyse(spec, source.schema_json())
        return analysed.spec, schemas_of(analysed)
    columns = {"partials": local.partial_columns, "output": local.output_columns}
    return local.spec, {which: [list(column) for column in found] for which, found in columns.items()}


def create_tables(
    paths: Mapping[str, str], spec: AggregateSpec, schemas: Mapping[str, Any], aggregate_id: str
) -> dict[str, str]:
    """Create the empty partials and output of an aggregate, or of a build, and return their Delta table ids."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - commands that only look create none

    from materializer.lake.write.commit import create_table  # noqa: PLC0415 - Arrow, which nothing that only looks needs

    names = {"partials": (f"{spec.name}_partials", ""), "output": (spec.name, spec.comment)}

    def created(which: str) -> str:
        name, comment = names[which]
        description = f"materializer {which} {aggregate_id}" + (f": {comment}" if comment else "")
        made = create_table(paths[which], schemas[which], name=name, description=description)
        if not places.is_local(paths[which]):
            DeltaFolder.at(
                paths[which]
            ).head()  # what new processes start from on a store tells of tables that were looked at
        return made

    with ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip(names, pool.map(created, names), strict=True))


def refuse_taken(name: str, view: View) -> None:
    """Refuse the name of a new aggregate that another process has made known meanwhile."""
    if view.find(name) is not None:
        message = f"{name}: an aggregate of that name was created a moment ago by another process"
        raise DefinitionError([Problem("definition.name-taken", message, "run the same command again")])


def taken(root: str, name: str, journal: Journal) -> ForeignTableError:
    """Return the error for a new aggregate whose folder exists.

    Raises:
        DefinitionError: If it was another process that made the folder, which makes the aggregate known a moment later.
    """
    for _ in range(LOOKS):
        refuse_taken(name, journal.view())
        time.sleep(BETWEEN_LOOKS)
    hint = (
        "run the same command again if another apply runs at this moment. Else take the folder over with 'materializer repair "
        "--definitions FILE' (its journal was lost, or an apply was interrupted), move or remove it, or choose another name"
    )
    if was_dropped(root, name, journal.view()):
        hint = f"run 'materializer drop {name} --yes' again: a drop was interrupted"
    msg = f"the folder {root}/{name} exists, but no aggregate '{name}' is known to this lake"
    return ForeignTableError(msg, hint=hint, wrote=NOTHING)


@contextmanager
def dropping(root: str, state: AggregateState, journal: Journal) -> Iterator[None]:
    """Mark the folder of an aggregate while the block drops it from the journal; it stays marked if that happened.

    By the mark :func:`was_dropped` tells folders that a dead process left from tables whose journal was lost.
    """
    folder = f"{root}/{state.name}"
    mark = f"{folder}/{_MARK}"
    with translated(folder, "dropping", wrote=NOTHING):
        if places.is_folder(folder):
            places.put(mark, state.id.encode())
    try:
        yield
    except MaterializerError:
        with suppress(OSError, MaterializerError):
            if state.id in journal.view().all:
                places.delete(mark)
        raise


def was_dropped(root: str, name: str, view: View) -> bool:
    """Whether the folder of this name was left by a drop that died after the journal had forgotten the aggregate."""
    if view.find(name) is not None or view.broken_named(name) is not None or name not in places.names(root):
        return False
    try:
        aggregate_id = places.read(f"{root}/{name}/{_MARK}").decode()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return aggregate_id not in view.all and aggregate_id not in view.broken


def remove(root: str, name: str) -> None:
    """Remove the folder of an aggregate that was dropped, its mark last; what is missing already is not an error.

    Raises:
        StorageError: If something cannot be removed.
    """
    refuse_links(root, name)
    folder = f"{root}/{name}"
    wrote = f"'{name}' is dropped, but some of its files are still there; the same command removes them"
    with translated(folder, "removing", wrote=wrote):
        for entry in sorted(places.entries(folder), key=lambda e: e.name == _MARK):
            place = f"{folder}/{entry.name}"
            if entry.is_folder:
                places.delete_folder(place, ignore_errors=True)  # whatever another process removes meanwhile
                if places.is_folder(place):
                    places.delete_folder(place)
            else:
                with suppress(FileNotFoundError):
                    places.delete(place)
        places.delete_if_empty(folder)

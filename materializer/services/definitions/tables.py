"""The two tables of an aggregate, or of a build: their columns, making them empty, removing them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from materializer.core.compiled.definition import SLICE, key_column
from materializer.core.spec.spec import AggregateSpec
from materializer.journal.state import AggregateState
from materializer.lake import places
from materializer.lake.failures import translated
from materializer.lake.table import DeltaFolder
from materializer.lake.write.commit import create_table

if TYPE_CHECKING:
    from materializer.spark.describe.analyse import Analysed


def schemas_of(analysed: Analysed) -> dict[str, Any]:
    """Return the column names and Spark types of ``partials`` and ``output``."""
    spec = analysed.spec
    time_type = spec.time_type.value if spec.time_type else ""
    partials = [[SLICE, time_type], *([key_column(n), t] for n, t in analysed.key_types)]
    partials += [[f.name, f.dataType.simpleString()] for f in analysed.partial_schema]
    return {"partials": partials, "output": [[f.name, f.dataType.simpleString()] for f in analysed.output_schema]}


def create_tables(
    paths: Mapping[str, str], spec: AggregateSpec, schemas: Mapping[str, Any], aggregate_id: str
) -> dict[str, str]:
    """Create the empty partials and output of an aggregate, or of a build, and return their Delta table ids."""
    names = {"partials": (f"{spec.name}_partials", ""), "output": (spec.name, spec.comment)}
    for which, (name, comment) in names.items():
        description = f"materializer {which} {aggregate_id}" + (f": {comment}" if comment else "")
        create_table(paths[which], schemas[which], name=name, description=description)
    return {which: DeltaFolder.at(paths[which]).head().table_id for which in names}


def remove_tables(root: str, state: AggregateState) -> None:
    """Remove the tables of an aggregate; what is missing already is not an error.

    Raises:
        StorageError: If something cannot be removed.
    """
    folder = f"{root}/{state.name}"
    with translated(folder, "removing", wrote=f"'{state.name}' is not dropped, but some of its files may be gone"):
        places.delete_folder(folder, ignore_errors=True)  # whatever another process removes meanwhile
        if places.is_folder(folder):
            places.delete_folder(folder)

"""What a table of ours says of itself: properties, description, comments of columns. No commit of this module touches a row."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from deltalake import DeltaTable

from materializer.errors import WriteFencedError
from materializer.lake.table import DeltaFolder
from materializer.lake.write.commit import NO_HOOKS, committed, stamped

NUMBER: Final = "materializer.refresh"
"""The property with the refresh number that the others tell of. A process that comes late with a lower one is refused."""


def describe(
    path: str, properties: Mapping[str, str], *, description: str, comments: Mapping[str, str], note: Mapping[str, Any]
) -> bool:
    """Write what differs from what the table says, with one commit for each of properties, description and commented columns.

    Args:
        path: The table.
        properties: Properties to set, :data:`NUMBER` among them; others stay.
        description: The description.
        comments: Comments of columns, by name; the comments of others stay.
        note: The note for ``commitInfo.userMetadata``.

    Returns:
        Whether anything was written.

    Raises:
        WriteFencedError: If the table says something of a later refresh already.
        StorageError: If the table cannot be read or written.
    """
    opened = DeltaFolder.at(path).opened()
    metadata, is_written = opened.metadata(), False
    about: dict[str, Any] = {"commit_properties": stamped(None, 0, note), "post_commithook_properties": NO_HOOKS}

    def commit(change: Callable[[DeltaTable], None]) -> None:
        nonlocal is_written
        is_written = True

        def attempt(table: DeltaTable) -> None:
            _refuse_late(path, table, int(properties[NUMBER]))
            change(table)

        committed(path, None, 0, attempt, note, new_rows=0)

    if description != (metadata.description or ""):
        commit(lambda table: table.alter.set_table_description(description, **about))
    for column, comment in comments.items():
        if comment != comments_of(opened.schema().to_json()).get(column):
            commit(partial(_comment, column=column, comment=comment, about=about))
    changed = {name: value for name, value in properties.items() if metadata.configuration.get(name) != value}
    if changed:
        commit(lambda table: table.alter.set_table_properties(changed, raise_if_not_exists=False, **about))
    return is_written


def _comment(table: DeltaTable, *, column: str, comment: str, about: Mapping[str, Any]) -> None:
    table.alter.set_column_metadata(column, {"comment": comment}, **about)


def comments_of(schema_json: str) -> dict[str, str]:
    """Return the comments of columns, by name, from a schema in Spark's JSON."""
    fields = json.loads(schema_json)["fields"]
    return {f["name"]: f["metadata"]["comment"] for f in fields if f.get("metadata", {}).get("comment")}


def _refuse_late(path: str, table: DeltaTable, n: int) -> None:
    carried = table.metadata().configuration.get(NUMBER) or "0"
    if carried.isdigit() and int(carried) > n:
        message = f"'{path}' tells of refresh {carried} already, and {n} came late"
        raise WriteFencedError(message, path=path, found=int(carried), n=n)

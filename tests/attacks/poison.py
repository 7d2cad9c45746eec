"""A lake in whose journal somebody else wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from materializer.journal.codec import Row
from materializer.journal.store import JournalStore

Change = Callable[[dict[str, Any]], Any]


def rewrite(root: Path, change: Change) -> None:
    """Change the payload of each row of a journal, as one may who can write files.

    Args:
        root: The lake.
        change: Changes the payload of a row, or of the state that a snapshot holds.
    """

    def changed(row: Row) -> Row:
        payload = json.loads(row.payload)
        change(payload.get("state", payload))
        return replace(row, payload=json.dumps(payload))

    store = JournalStore(root)
    now = store.read()
    store.snapshot([changed(row) for row in now.rows], expected_version=now.version)


def named(name: str) -> Change:
    """Return a change of the name of each aggregate."""

    def change(payload: dict[str, Any]) -> None:
        if "name" in payload and "data_version" in payload:
            payload["name"] = name

    return change


def in_spec(edit: Callable[[dict[str, Any]], Any]) -> Change:
    """Return a change of each definition."""

    def change(payload: dict[str, Any]) -> None:
        if isinstance(payload.get("spec"), dict):
            edit(payload["spec"])

    return change

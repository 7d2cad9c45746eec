"""Whether a store refuses the second of two writers, asked before the first write to a lake there and stored in the journal.

Every commit relies on it: of several puts that each ask for a file that does not exist yet, exactly one may succeed. Some
stores ignore that condition, and some look first and write then, so two writers at the same moment both hear that they
succeeded, and one commit is lost. The row of the probe belongs to no aggregate, and is not folded away.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Final
from uuid import uuid4

from msgspec import Struct

from materializer.errors import NOTHING, NoCompareAndSwapError
from materializer.journal.codec import Row
from materializer.lake import places
from materializer.lake.failures import translated
from materializer.structs import as_dict

LAKE: Final = ""
"""Stands in place of the id of an aggregate in rows that belong to the whole lake."""
KIND: Final = "probed"
AT_ONCE: Final = 16
ROUNDS: Final = 3


class StoreProbe(Struct, frozen=True):
    """The answer of a store, as the journal keeps it.

    Args:
        is_safe: Whether exactly one of the puts of each file succeeded.
        single_writer: Whether the lake was written although it was not safe, because ``single_writer`` was set.
    """

    is_safe: bool
    single_writer: bool = False


def probe_of(rows: Sequence[Row]) -> StoreProbe | None:
    """Return the newest probe in the journal, None without one."""
    found = next((row for row in reversed(rows) if row.aggregate == LAKE and row.kind == KIND), None)
    return None if found is None else StoreProbe(**json.loads(found.payload))


def probed(root: str, *, single_writer: bool, at: str) -> Row:
    """Ask the store of a lake, and return the row for the journal.

    Raises:
        NoCompareAndSwapError: If the store is not safe, and *single_writer* is false.
        StorageError: If it cannot be written to.
    """
    is_safe = _is_safe(f"{root}/_materializer/probe-{uuid4().hex}")
    if not is_safe and not single_writer:
        raise NoCompareAndSwapError(
            f"the store of '{root}' lets several writers make the same file", path=root, wrote=NOTHING
        )
    probe = StoreProbe(is_safe, single_writer=not is_safe)
    return Row(LAKE, KIND, at, json.dumps(as_dict(probe)))


def _is_safe(folder: str) -> bool:
    """Return whether a store refuses the second of two puts, and all but one of many at once."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - a lake on a path is not probed

    with translated(folder, "probing", wrote=NOTHING), ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            after = [places.put_if_absent(f"{folder}/after", b"x") for _ in range(2)]
            at_once = [
                list(pool.map(places.put_if_absent, [f"{folder}/{number}"] * AT_ONCE, [b"x"] * AT_ONCE))
                for number in range(ROUNDS)
            ]
            return all(len(won) - won.count(None) <= 1 for won in (after, *at_once))
        finally:
            with suppress(OSError):
                places.delete_folder(folder, ignore_errors=True)

"""What a demo makes at the place of its lake, and its removal by the next one, which removes nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from materializer.demo.flights import DESCRIPTION
from materializer.errors import NotADeltaTableError, TableNotFoundError, UsageError
from materializer.journal.store import FOLDER
from materializer.lake import places
from materializer.lake.failures import translated
from materializer.lake.table import open_table

FLIGHTS: Final = "flights"
SCRATCH: Final = "_plain"
_INSTALLED: Final = Path(__file__).with_name("sql")
DEFINITIONS: Final = _INSTALLED if _INSTALLED.is_dir() else Path(__file__).parents[2] / "sql"
"""The definitions of the demo: inside the installed package, or beside it in a checkout."""


def remove(lake: str) -> None:
    """Remove the lake of an earlier demo.

    Args:
        lake: Root of the lake.

    Raises:
        UsageError: If there is something else at the place; then nothing is removed.
        StorageError: If the place cannot be read, or if something cannot be removed.
    """
    own = [*(file.stem for file in sorted(DEFINITIONS.glob("*.sql"))), SCRATCH, FOLDER, FLIGHTS]
    with translated(lake, "reading"):
        present = places.names(lake)
        foreign = sorted(set(present).difference(own))
        if not present and places.exists(lake) and not places.is_folder(lake):
            foreign = [places.name(lake)]
    if present and not foreign and not _is_flights(f"{lake}/{FLIGHTS}"):
        foreign = sorted(present)
    if foreign:
        hint = "remove it or name another folder"
        raise UsageError(f"{lake!r} has '{foreign[0]}', which was not made by the demo", hint=hint)
    with translated(lake, "removing the earlier demo from", wrote="a part of the earlier demo may be removed"):
        for name in filter(present.__contains__, own):  # the flights last: by them an earlier demo is recognised
            places.delete_folder(f"{lake}/{name}")


def _is_flights(path: str) -> bool:
    try:
        return bool(open_table(path).metadata().description == DESCRIPTION)
    except (NotADeltaTableError, TableNotFoundError):
        return False

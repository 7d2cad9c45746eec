"""Tables of ours that the journal does not know: its folder was removed, or an apply was interrupted."""

from __future__ import annotations

from contextlib import suppress

from materializer.errors import NOTHING, JournalLostError, MaterializerError
from materializer.journal.view import View
from materializer.lake import places
from materializer.lake.table import DeltaFolder
from materializer.services.aggregate import made_for, output_path
from materializer.services.definitions.tables import was_dropped


def lost_in(root: str, view: View) -> list[str]:
    """Return the names of aggregates whose tables are in the lake, but which the journal does not know.

    Args:
        root: The lake's root.
        view: Its journal.
    """
    known = {s.name.lower() for s in view.states.values()} | {b.name.lower() for b in view.broken.values()}
    unknown = [name for name in sorted(places.names(root)) if name.lower() not in known]
    return [n for n in unknown if _is_ours(output_path(root, n)) and not was_dropped(root, n, view)]


def lost_error(root: str, view: View) -> JournalLostError | None:
    """Return the error of a lake without a journal, or with an empty one, in which tables of ours are.

    A journal that has an aggregate costs no look at the lake: None.
    """
    if view.all or view.broken or not (lost := lost_in(root, view)):
        return None
    what = "there is no journal" if view.version < 0 else "the journal has no aggregate"
    return JournalLostError(f"{what} in '{root}', but tables of {', '.join(lost)} are there", wrote=NOTHING)


def _is_ours(output: str) -> bool:
    with suppress(MaterializerError):
        return places.is_folder(output) and bool(made_for(DeltaFolder.at(output), "output"))
    return False

"""One command on several items: a failure of one does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from materializer.errors import MaterializerError

_Item = TypeVar("_Item")
_Done = TypeVar("_Done")


def each(what: str, items: Sequence[_Item], work: Callable[[_Item], _Done]) -> list[_Done]:
    """Return the results of all items.

    Args:
        what: The kind of the items, in words.
        items: The items, in order.
        work: Does one item.

    Raises:
        MaterializerError: The first failure, after all items were tried; it says how many were done and how many failed.
    """
    done: list[_Done] = []
    failures: list[MaterializerError] = []
    for item in items:
        try:
            done.append(work(item))
        except MaterializerError as exc:
            failures.append(exc)
    if failures:
        first, *more = failures
        if done or more:
            failed = f", {len(more)} failed" if more else ""
            first.wrote += f"; of the others of the {what} {len(done)} were done{failed}"
        raise first
    return done

"""That a source has no change feed, for the commands that say it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from materializer.adapters.cli.words import wrapped

if TYPE_CHECKING:
    from materializer.services.definitions.sources import MissingFeed


def feed_lines(feed: MissingFeed, width: int) -> Iterator[str]:
    """Yield that a source has no change feed, what one saves, and the statements, each on a line of its own to be copied."""
    where = "in Spark SQL or, without Spark, in Python" if feed.python else "in Spark SQL"
    yield from wrapped(f"{feed.source} has no change feed; {feed.saves}. To turn it on, {where}:", width=width)
    yield f"    {feed.statement}"
    if feed.python:
        yield f"    {feed.python}"

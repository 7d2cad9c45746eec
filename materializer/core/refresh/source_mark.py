"""What tells the source of an aggregate from another one with the same name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from materializer.core.codec import json_fields

MOST_COMMITS: Final = 8
"""Captured versions whose commits are remembered."""
_LATER: Final = ("columns", "commits", "file", "reason")


@json_fields(later=_LATER, omits=_LATER)
@dataclass(frozen=True, slots=True)
class SourceMark:
    """What a source was at the cursor.

    Args:
        columns: For each column that the definition reads, in small letters, what Delta calls it underneath; see
            :func:`materializer.lake.capture.source_marks.names_underneath`.
        commits: Digest of the commit of each of the last captured versions, by version as text, newest last.
        file: What tells the file of the newest one from another file.
        reason: Why everything was dirty when a source last turned out to be another one; "" if it never did.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    commits: Mapping[str, str] = field(default_factory=dict)
    file: tuple[Any, ...] = ()
    reason: str = ""

    def after(self, new: SourceMark) -> SourceMark:
        """Return the mark of a later version, with the commits of both."""
        commits = {**({} if new.reason else self.commits), **new.commits}  # of another history they would say too much
        newest = sorted(commits, key=int)[-MOST_COMMITS:]
        reason = new.reason or self.reason
        return SourceMark(new.columns or self.columns, {v: commits[v] for v in newest}, new.file, reason)

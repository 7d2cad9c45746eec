"""What a capture found: dirty buckets, rows counted by kind, and what is left for Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from materializer.core.refresh.lateness import Lateness
from materializer.core.time.spans import SpanSet


class Rung(StrEnum):
    """How finely changes are known."""

    FEED = "feed"
    FILES = "files"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class CapturedPiece:
    """Some dirty buckets, and what is known about them.

    Args:
        times: Whole buckets.
        rung: How they were found.
        is_insert_only: Whether every change in them was an insert, as the feed or the files that came and went tell.
        rows: Changed rows in them; on the lower rungs the rows of whole files, where nothing is known those that went.
        keys: The changed keys, None for any.
        from_version: First version of the run they were found in.
        to_version: Last version of that run.
        is_frozen: Whether it lies below the frozen bound; what was neither insert-only nor delete-only is a conflict there.
    """

    times: SpanSet
    rung: Rung
    is_insert_only: bool
    rows: int
    keys: frozenset[tuple[Any, ...]] | None
    from_version: int
    to_version: int
    is_frozen: bool = False


@dataclass(frozen=True, slots=True)
class VersionCount:
    """Rows by kind that one version changed; on the lower rungs the rows of the files that came and went.

    Every row is in a piece, or counted in *null_time*, or went below the frozen bound. *expired* counts rows that went
    there with whole files, and nowhere else.
    """

    version: int
    rung: Rung
    inserted: int = 0
    updated_pre: int = 0
    updated_post: int = 0
    deleted: int = 0
    null_time: int = 0
    expired: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the counts that are not zero, with version and rung."""
        kinds = ("inserted", "updated_pre", "updated_post", "deleted", "null_time", "expired")
        return {"version": self.version, "rung": self.rung.value} | {
            k: getattr(self, k) for k in kinds if getattr(self, k)
        }


@dataclass(frozen=True, slots=True)
class Captured:
    """Everything that changed in a run of versions.

    Args:
        pieces: What is dirty.
        per_version: Rows by kind, for versions that changed data.
        reasons: Why a lower rung was taken, where it was.
        schemas: (version, schema JSON) of each change of the metadata, for the caller to compare the columns it reads.
        lateness: How late the inserted rows were that the driver read.
        expired: Rows that went below the frozen bound, as far as known.
    """

    pieces: tuple[CapturedPiece, ...] = ()
    per_version: tuple[VersionCount, ...] = ()
    reasons: tuple[str, ...] = ()
    schemas: tuple[tuple[int, str], ...] = ()
    lateness: Lateness = field(default_factory=Lateness)
    expired: int = 0

    def __add__(self, other: Captured) -> Captured:
        return Captured(
            self.pieces + other.pieces,
            self.per_version + other.per_version,
            self.reasons + other.reasons,
            self.schemas + other.schemas,
            self.lateness + other.lateness,
            self.expired + other.expired,
        )


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of versions, both ends included, that Spark has to read from the change feed, and why."""

    from_version: int
    to_version: int
    reason: str


@dataclass(frozen=True, slots=True)
class NeedsSpark:
    """Some versions can be read finely, but only by Spark; the rest is *captured*."""

    segments: tuple[Segment, ...]
    captured: Captured

    @property
    def reason(self) -> str:
        """Why, in one line."""
        return "; ".join(dict.fromkeys(s.reason for s in self.segments))

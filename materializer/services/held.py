"""Where our tables hold rows, in instants of the aggregate's grid; told by statistics, no row is read."""

from __future__ import annotations

from materializer.core.definition import SLICE
from materializer.core.spans import EVERYTHING, NEG_INF, Span, SpanSet
from materializer.core.spec import TimeType
from materializer.lake.extent import Extent, files
from materializer.lake.statistics import DAY
from materializer.lake.table import DeltaFolder
from materializer.services.definitions import Bound


def published(bound: Bound, version: int) -> SpanSet:
    """Return where the output may hold rows at a version; everywhere when a file does not tell."""
    column, is_end = bound.slice_column("output")
    extent = files(bound.paths["output"], version, column, bound.definition.time_type)
    if extent.unknown.files:
        return SpanSet.of(EVERYTHING)
    before = 0 if not is_end else DAY if bound.definition.time_type is TimeType.DATE else 1
    return SpanSet.union(Span(f.start - before, f.end) for f in extent.files)


def partials(bound: Bound) -> Extent:
    """Return where the newest partials lie."""
    path = bound.paths["partials"]
    return files(path, DeltaFolder.at(path).head().version, SLICE, bound.definition.time_type)


def end_of(bound: Bound) -> int:
    """Return the end of the newest bucket that one of the two tables may hold rows of, ``NEG_INF`` without any.

    A file that does not tell its times counts as none: those that we write do.
    """
    output = published(bound, DeltaFolder.at(bound.paths["output"]).head().version)
    hulls = [hull for hull in (partials(bound).hull, output.hull) if hull is not None and hull.is_bounded]
    return max((bound.definition.grid.cover(hull).end for hull in hulls), default=NEG_INF)

"""One stray row is bounded work: windows are counted before they are made, and too many are refused.

What file statistics and the changed rows tell is enough for most refreshes. Only where that allows for more windows than the
limit, they are counted, from keys and times alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from materializer.core.engines import cardinality
from materializer.core.engines.base import Excess, WindowEngine
from materializer.core.engines.cardinality import Life
from materializer.core.engines.work import Key, Work
from materializer.core.time.instants import render
from materializer.core.time.spans import Span
from materializer.errors import TooManyWindowsError

if TYPE_CHECKING:
    from materializer.core.engines.queries.census import Census
    from materializer.services.observe.observe import Observation
    from materializer.services.planning.engine_rows import EngineRows


class WindowLimit:
    """Counts the windows of an engine's run, and refuses a run that would make too many.

    Args:
        observation: What there is of the aggregate.
        rows: Counts them where files do not tell.
        limit: Windows that one row may make; see :func:`materializer.core.engines.cardinality.is_too_many` for all of them.
    """

    def __init__(self, observation: Observation, rows: EngineRows, limit: int) -> None:
        self._observation = observation
        self._rows = rows
        self._limit = limit

    def of_parts(
        self, work: Work, lives: Mapping[Key, Life], rows: int, version: int, partials_version: int
    ) -> int | None:
        """Return how many windows some ranges of keys make at most; None where they are no more than the rows.

        Args:
            work: The ranges.
            lives: From when to when their keys have rows or results.
            rows: How many rows changed.
            version: Of the source.
            partials_version: Version of the stored results.

        Raises:
            TooManyWindowsError: If they are too many; nothing was written.
        """
        engine = self._windows
        if engine.grows_by == "rows":
            return self._of_rows(work, rows, version, partials_version)
        hull = self._observation.hull(version)
        most = cardinality.in_parts(engine, work.parts or (), lives, hull, work.at)
        return self._within(most, work, version, partials_version)

    def of_everything(self, work: Work, rows: int, version: int, partials_version: int) -> int | None:
        """Return how many windows all rows make at most; arguments, result and error as of :meth:`of_parts`."""
        engine = self._windows
        if engine.grows_by == "rows":
            return self._of_rows(work, rows, version, partials_version)
        span = self._lives(work, version)
        each = None if span is None else engine.between(span.start, span.end) + engine.beyond
        return self._within(None if each is None else rows * each, work, version, partials_version)

    @property
    def _windows(self) -> WindowEngine:
        engine = self._observation.aggregate.definition.engine
        assert engine is not None  # only engines make windows that have to be counted
        params: WindowEngine = engine.params
        return params

    def _lives(self, work: Work, version: int) -> Span | None:
        """Return from when to when rows are, events last and windows are filled; None where files do not tell."""
        engine, hull = self._windows, self._observation.hull(version)
        if hull is None:
            return None
        end = hull.end
        if engine.end:
            ends = self._observation.ends(version, engine.end)
            if ends.unknown.files or ends.hull is None:
                return None
            end = max(end, ends.hull.end, hull.end if engine.default_end is None else engine.default_end)
        until = engine.filled_until(work.at)
        return Span(hull.start, max(end, end if until is None else until))

    def _of_rows(self, work: Work, rows: int, version: int, partials_version: int) -> int | None:
        share = self._windows.share
        if share == 1:
            return None
        if not self._windows.is_census_due:
            return share * rows
        return self._within(share * rows, work, version, partials_version)

    def _within(self, most: int | None, work: Work, version: int, partials_version: int) -> int:
        """Return how many windows there are at most, counted where *most* allows for too many.

        Raises:
            TooManyWindowsError: If they are too many.
        """
        if most is not None and most <= self._limit:
            return most
        census = self._rows.census(partials_version, version, work, self._limit)
        if cardinality.is_too_many(self._windows, census.windows, census.most, census.rows, self._limit):
            raise self._refusal(work, census)
        return census.windows

    # -- what is said of it ----------------------------------------------------------------------------------------------

    def _refusal(self, work: Work, census: Census) -> TooManyWindowsError:
        what, prop = self._told(work, census)
        is_one = census.most > self._limit
        count = census.most if is_one else census.windows
        much = f"{count:,} windows" + ("" if is_one else f" for {census.rows:,} rows, most of them")
        name = self._observation.aggregate.name
        return TooManyWindowsError(
            f"'{name}' would make {much} {what}; limits.windows is {self._limit:,}",
            hint=f"correct or delete that row, leave it out with WHERE, change {prop}, or raise limits.windows",
            windows=count,
            limit=self._limit,
            key=self._key(census.newest if census.is_last and census.newest is not None else census.key),
            time=self._time(census.other if census.is_later or census.is_last else census.time),
        )

    def _told(self, work: Work, census: Census) -> tuple[str, str]:
        """Return which row makes so many windows, and the property that lets it."""
        return self._windows.why_many(
            Excess(
                row=f"{self._key(census.key)} at {self._time(census.time)}",
                time=self._time(census.time),
                other=self._time(census.other),
                far=f"{self._key(census.key)} at {self._time(census.other)}",
                is_last=census.is_last,
                is_later=census.is_later,
                is_by_clock=work.at.as_of is not None and work.at.as_of == census.other,
                is_open=self._windows.default_end == census.other,
                newest="" if census.newest is None else f"{self._key(census.newest)} ",
            )
        )

    def _key(self, key: Sequence[Any] | None) -> str:
        names = [k.name for k in self._observation.aggregate.definition.spec.keys]
        found = ", ".join(f"{n} = {v!r}" for n, v in zip(names, key or (), strict=False))
        return found or "of the source"

    def _time(self, instant: int) -> str:
        return render(instant, self._observation.aggregate.definition.grid.shown)

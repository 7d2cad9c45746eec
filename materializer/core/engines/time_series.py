"""The time-series engine: windows of one or several sizes that all end on the edges of one grid."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Literal

from materializer.core.engines import alignment
from materializer.core.engines.closing import EVERYTHING, Closing, Reach, plan, read_closing, refuse_steps
from materializer.core.engines.params import About, ParamReader, Trouble
from materializer.core.engines.ranges import Range, StoredResult
from materializer.core.spec.spec import TimeType
from materializer.core.time.instants import parse


class TimeSeries(Closing, frozen=True, kw_only=True):
    """Parameters of the engine; lengths are instant ticks.

    Args:
        window_sizes: Lengths of the windows that end at each edge; each is a multiple of the step.
        alignment: The first row's time, rounded down to a multiple of this, is an edge of the grid; 0 for no rounding.
        measure_sizes: For each measure the index of its window size.
        multi_window_rule: When a result row exists: ``largest``, if its largest window has rows; ``all``, if every window has.
        sub_window: (from, until), counted from the window's start: only rows between them count.
        grid_origin: Whose first row positions the grid: ``engine`` (the first of all rows) or ``key`` (the first of each key).
        origin: An edge of the grid, or None to derive the edge from the first row and *alignment*.
        day: Ticks of a day where times are times of day, else 0.
    """

    window_sizes: tuple[int, ...]
    alignment: int
    measure_sizes: tuple[int, ...] = ()
    multi_window_rule: str = "largest"
    sub_window: tuple[int, int] | None = None
    grid_origin: str = "engine"
    origin: int | None = None
    day: int = 0

    @property
    def length(self) -> int:
        """Length of the largest window."""
        return max(self.window_sizes)

    @property
    def is_grid_fixed(self) -> bool:
        """Whether the edges are the same whatever the first row is."""
        return self.origin is not None or (self.alignment > 0 and self.alignment % self.step == 0)

    @property
    def has_grid_by_key(self) -> bool:
        """Whether the edges can differ from key to key."""
        return self.grid_origin == "key" and not self.is_grid_fixed

    @staticmethod
    def read(values: Mapping[str, object], about: About) -> tuple[TimeSeries | None, list[Trouble]]:
        """Return the parameters and all problems with them; the parameters are None when there is a problem."""
        reader = ParamReader(values, about)
        is_clock = reader.boolean("use_system_time")
        scale = alignment.scale(reader, is_clock=is_clock)
        reader.unit = scale.unit
        step = _required(reader, "step")
        sizes = _sizes(reader, step)
        params = TimeSeries(
            step=step,
            window_sizes=sizes,
            alignment=_alignment(reader, scale, step),
            measure_sizes=_measure_sizes(reader, len(sizes)),
            multi_window_rule=reader.choice("multi_window_rule", ("largest", "all"), "largest"),
            sub_window=_sub_window(reader, sizes, step),
            grid_origin=reader.choice("grid_origin", ("engine", "key"), "engine"),
            origin=_origin(reader),
            day=scale.day,
            **read_closing(reader, is_clock=is_clock),
        )
        refuse_steps(reader, params, params.length)
        if len(sizes) > 1 and params.use_window_start_time:
            reader.refuse(
                "'use_window_start_time' must be false with several window sizes, which only end together",
                about="use_window_start_time",
            )
        if params.sub_window and (params.update_time or is_clock):
            other = "use_system_time" if is_clock else "update_time"
            reader.refuse(f"'sub_window' and '{other}' exclude each other", "leave one of them out", about="sub_window")
        reader.refuse_unknown()
        return (None if reader.troubles else params), reader.troubles

    def anchor(self, first: int | None) -> int:
        """Return an edge of the grid.

        Args:
            first: Time of the first row ever accepted, or an earlier result of this function; None without rows.
        """
        if self.origin is not None:
            return self.origin
        return alignment.anchor(first or 0, self.alignment)

    def ranges(
        self,
        spans: Sequence[tuple[int, int]],
        stored: Sequence[StoredResult],
        *,
        is_complete: bool,
    ) -> list[Range] | None:
        """Return which results of one key a change touches; see :mod:`materializer.core.engines.closing`.

        Where each key has its own grid, a change touches all results of its key.
        """
        if self.has_grid_by_key:
            return [EVERYTHING]
        reach = Reach(self.length + self.shift, slack=self.accepted_delay, is_filled=bool(self.fills))
        return plan(spans, stored, reach, is_complete=is_complete)

    @property
    def arrival(self) -> Literal["panes"]:
        """A row is late when all its windows are closed."""
        return "panes"

    @property
    def needs_first(self) -> bool:
        """Whether the first row of all positions the windows."""
        return not self.is_grid_fixed

    def why_not_cut(self, stored: Container[str] | None) -> str:  # noqa: ARG002 (of the base)
        """Return why the history cannot be cut; see :meth:`WindowEngine.why_not_cut`."""
        if self.use_system_time:
            return "its windows lie in ingestion time, and rows go by their own"
        return "" if self.is_grid_fixed else "its grid hangs on the first row; set 'origin'"

    def first_result(self, t: int, bound: int, stored: Sequence[StoredResult], *, may_go: bool) -> int:  # noqa: ARG002 (of the base)
        """Return the start of the first window that holds *t*."""
        edge = self.anchor(None)
        since = (t - edge) % self.step if self.closed == "left" else (t - edge - 1) % self.step + 1
        return t - since + self.step - self.length

    @property
    def why_not_additive(self) -> str:
        """Why the row count of results may fall; see :attr:`WindowEngine.why_not_additive`."""
        if self.has_grid_by_key:
            return "an older row moves the windows of its key"
        return "its windows lie in ingestion time" if self.use_system_time else ""

    @property
    def most_counts(self) -> int:
        """In how many results one row is counted at most."""
        return -(-self.length // self.step)

    @property
    def share(self) -> int:
        """In how many windows one row is at most."""
        return self.length // self.step


def _required(reader: ParamReader, name: str) -> int:
    found = reader.duration(name, least=1)
    if reader.given(name) is None:
        reader.refuse(f"'{name}' is missing", about=name)
    return max(found or 1, 1)


def _sizes(reader: ParamReader, step: int) -> tuple[int, ...]:
    sizes = reader.durations("window_size")
    if not sizes:
        if reader.given("window_size") in (None, [], ()):
            reader.refuse("'window_size' is missing", about="window_size")
        return (step,)
    for size in sizes:
        if size < 1 or size % step:
            reader.refuse("'window_size' must be a multiple of 'step', and at least one step", about="window_size")
            return (step,)
    return sizes


def _measure_sizes(reader: ParamReader, sizes: int) -> tuple[int, ...]:
    """Return the index of the window size for each measure; without the parameter, one measure for each size."""
    given, count = reader.texts("measure_sizes"), len(reader.about.measures)
    if given is None:
        if sizes not in (1, count):
            reader.refuse(
                f"'window_size' has {sizes} sizes for {count} measures",
                "group the measures by size, one group each",
                about="window_size",
            )
        return tuple(range(count)) if sizes > 1 else (0,) * count
    if len(given) != count or not all(g.isdigit() and int(g) < sizes for g in given):
        reader.refuse(
            f"'measure_sizes' must name one of {sizes} sizes, from 0, for each of {count} measures",
            about="measure_sizes",
        )
        return (0,) * count
    found = tuple(map(int, given))
    if len(set(found)) != sizes:
        reader.refuse(
            "'window_size' has sizes without a measure",
            "group the measures by size, one group each",
            about="window_size",
        )
    return found


def _sub_window(reader: ParamReader, sizes: tuple[int, ...], step: int) -> tuple[int, int] | None:
    value = reader.given("sub_window")
    if value is None:
        return None
    found = reader.durations("sub_window")
    if found is None:
        return None
    if sizes != (step,):
        reader.refuse("'sub_window' needs one 'window_size', equal to 'step'", about="sub_window")
    if len(found) != 2 or not 0 <= found[0] < found[1] <= step:
        reader.refuse(
            f"'sub_window' must be two lengths inside the window, the smaller one first, got {value!r}",
            about="sub_window",
        )
        return None
    return (found[0], found[1])


def _alignment(reader: ParamReader, scale: alignment.Scale, step: int) -> int:
    profile = reader.choice("alignment_profile", alignment.PROFILES, "en")
    is_rounded = reader.boolean("round_time", default=True)
    found = alignment.finer(reader.about, scale, step)
    size = found.alignment(step, round_time=is_rounded, profile=profile)
    if size is None:
        reader.refuse(
            f"'step' is no whole number of the unit of {found.time_type}", "set a finer 'time_kind'", about="step"
        )
    return size or 1


def _origin(reader: ParamReader) -> int | None:
    text, about = reader.text("origin"), reader.about
    if text is None:
        return None
    try:
        return parse(text, about.time_type or TimeType.TIMESTAMP, about.resolution)
    except ValueError as exc:
        if about.time_type is not None:
            reader.refuse(f"'origin': {exc}", about="origin")
        return None

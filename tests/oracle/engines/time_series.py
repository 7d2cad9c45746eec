"""The time-series engine, by a double loop over keys and windows.

A row is judged when it arrives, against what had arrived before it; what was closed then does not take it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from tests.oracle.engines import alignment
from tests.oracle.engines.rows import (
    Answer,
    Event,
    Key,
    Lateness,
    Row,
    has_reached,
    keys_of,
    less,
    measured,
    most,
)


class Setting(Struct, frozen=True):
    """Parameters in ticks.

    Args:
        sizes: Window sizes.
        groups: Metrics of each size.
        step: Distance of window ends.
        keys: Names of the key columns.
        fills: What each metric of an empty window gets: ``"null"``, ``"ffill"`` or a value; empty fills nothing.
        holds_end: Windows are ``(s, e]``.
        shows_start: Windows are labelled by their start.
        delay: ``acceptedDelay``.
        force: ``forceTriggerTime``.
        part: ``subWindow``, from the start of the window.
        is_system_time: Times are those of ingestion, closed by the clock alone.
        needs_all: Output only when windows of every size have rows.
        origin: An instant on which windows end; None takes it from the first row.
        time_type: For the alignment.
        round_time: Likewise.
        profile: Likewise.
        is_grid_of_key: Each key's first row sets its own grid.
    """

    sizes: tuple[int, ...]
    groups: tuple[Sequence[Row], ...]
    step: int
    keys: tuple[str, ...] = ()
    fills: tuple[Any, ...] = ()
    holds_end: bool = False
    shows_start: bool = False
    delay: int = 0
    force: int | None = None
    part: tuple[int, int] | None = None
    is_system_time: bool = False
    needs_all: bool = False
    origin: int | None = None
    time_type: str = "TIMESTAMP"
    round_time: bool = True
    profile: str = "en"
    is_grid_of_key: bool = False

    @property
    def metrics(self) -> list[Row]:
        """The metrics of all sizes."""
        return [m for group in self.groups for m in group]


class Window(Struct, frozen=True):
    """One window of one key.

    Args:
        start: Label, where windows are labelled by their start.
        end: Label otherwise.
        takes: For each size the first tick in it and the first after it.
        closes: It is closed when the bound has reached this tick.
    """

    start: int
    end: int
    takes: tuple[tuple[int, int], ...]
    closes: int

    def holds(self, t: int) -> bool:
        """Whether a window of any size takes a row of this time."""
        return any(first <= t < after for first, after in self.takes)


class Arrivals(Struct):
    """What has arrived so far."""

    own: dict[Key, int] = field(default_factory=dict)
    everyone: int | None = None
    first: dict[Key, Event] = field(default_factory=dict)

    def see(self, event: Event) -> None:
        """Take note of a row."""
        self.own[event.key] = max(self.own.get(event.key, event.t), event.t)
        self.everyone = most(self.everyone, event.t)
        self.first.setdefault(event.key, event)


def run(events: Sequence[Event], setting: Setting, *, lateness: Lateness, as_of: int | None = None) -> Answer:
    """Return what the engine has said after these rows, at a clock that stands at *as_of*."""
    arrived = Arrivals()
    answer = Answer()
    accepted: list[tuple[Event, list[Window]]] = []
    windows = _windows_of(events, setting)
    for event in events:
        around = [w for w in windows(event) if w.holds(_placed(event, events, setting))]
        bound = _bound(arrived, event.key, setting, lateness)
        taken = [w for w in around if lateness == "recompute" or not has_reached(bound, w.closes)]
        if lateness == "delay" and event.key in arrived.first:
            first = arrived.first[event.key]
            begins = min(w.end for w in windows(first) if w.closes > first.t)
            taken = [w for w in taken if w.end >= begins]
        if _is_late(event, arrived, lateness) or (around and not taken):
            answer.discarded.append(event.seq)
            continue
        arrived.see(event)
        accepted.append((event, taken))
    for key in keys_of([e for e, _ in accepted]):
        bound = most(_bound(arrived, key, setting, lateness), _clock(as_of, setting))
        _say(answer, [(e, ws) for e, ws in accepted if e.key == key], windows, bound, setting, lateness)
    return answer


def grid_origin(events: Sequence[Event], setting: Setting) -> int | None:
    """Return the instant on which windows end, None without rows."""
    if setting.origin is not None or not events:
        return setting.origin
    how = {"round_time": setting.round_time, "profile": setting.profile}
    return alignment.origin(events[0].t, setting.time_type, setting.step, **how)  # type: ignore[arg-type]


def _is_late(event: Event, arrived: Arrivals, lateness: Lateness) -> bool:
    return lateness == "strict" and event.key in arrived.own and event.t < arrived.own[event.key]


def _bound(arrived: Arrivals, key: Key, setting: Setting, lateness: Lateness) -> int | None:
    delay = 0 if lateness == "strict" and not setting.is_system_time else setting.delay
    if setting.is_system_time:
        return less(arrived.everyone, delay)
    forced = None if setting.force is None else less(arrived.everyone, setting.force)
    return most(less(arrived.own.get(key), delay), forced)


def _clock(as_of: int | None, setting: Setting) -> int | None:
    return less(as_of, setting.delay) if setting.is_system_time else as_of


def _placed(event: Event, events: Sequence[Event], setting: Setting) -> int:
    """By system time a row that comes within the delay after an end still belongs before it."""
    if setting.is_system_time and setting.delay:
        return max(event.t - setting.delay, events[0].t)
    return event.t


def _windows_of(events: Sequence[Event], setting: Setting) -> Callable[[Event], list[Window]]:
    """Return the function that lists all windows which could take a row, in order."""
    origins = {e.key: grid_origin([x for x in events if x.key == e.key], setting) for e in events}

    def around(event: Event) -> list[Window]:
        origin = origins[event.key] if setting.is_grid_of_key else grid_origin(events, setting)
        assert origin is not None
        near = (event.t - origin) // setting.step
        ends = range(near - 2 - setting.delay // setting.step, near + 3 + max(setting.sizes) // setting.step)
        return [_window(origin + n * setting.step, setting) for n in ends]

    return around


def _window(end: int, setting: Setting) -> Window:
    late = 1 if setting.holds_end else 0  # (s, e] is [s + 1, e + 1)
    start = end - max(setting.sizes)
    if setting.part is None:
        takes = tuple((end - size + late, end + late) for size in setting.sizes)
        return Window(start, end, takes, end + late)
    first, after = (start + offset for offset in setting.part)
    return Window(after, after, ((first + late, after + late),), after + late)


def _say(
    answer: Answer,
    accepted: Sequence[tuple[Event, list[Window]]],
    windows: Callable[[Event], list[Window]],
    bound: int | None,
    setting: Setting,
    lateness: Lateness,
) -> None:
    """Add the rows of one key: its windows in order, empty ones only where they are filled."""
    last: Mapping[str, Any] | None = None
    for window in _line(accepted, windows, bound, setting):
        members = [e for e, taken in accepted if window in taken]
        values = _values(window, members, setting, lateness)
        label = window.start if setting.shows_start else window.end
        shown = {"time": label, **dict(zip(setting.keys, accepted[0][0].key, strict=True))}
        if values is not None and has_reached(bound, window.closes):
            last = values
            answer.final.append(shown | values)
        elif values is not None:
            answer.open.append(shown | values)
        elif last is not None and setting.fills and has_reached(bound, window.closes):
            answer.final.append(shown | filled(setting.metrics, setting.fills, last))


def _line(
    accepted: Sequence[tuple[Event, list[Window]]],
    windows: Callable[[Event], list[Window]],
    bound: int | None,
    setting: Setting,
) -> Iterator[Window]:
    """Every window from the key's first to its last or the last that is closed."""
    held = [w for _, taken in accepted for w in taken]
    if not held:
        return
    first, last = min(held, key=lambda w: w.end), max(w.closes for w in held)
    if not setting.fills:
        yield from sorted(set(held), key=lambda w: w.end)
        return
    n = 0
    while True:
        window = _moved(first, n * setting.step)
        if window.closes > max(last, bound if bound is not None else last):
            return
        yield window
        n += 1


def _moved(window: Window, by: int) -> Window:
    takes = tuple((first + by, after + by) for first, after in window.takes)
    return Window(window.start + by, window.end + by, takes, window.closes + by)


def _values(window: Window, members: Sequence[Event], setting: Setting, lateness: Lateness) -> dict[str, Any] | None:
    """The metrics of a window, None when it counts as empty; a smaller size without rows gives nulls."""
    inside = [[e for e in members if setting.is_system_time or f <= e.t < a] for f, a in window.takes]
    largest = max(range(len(setting.sizes)), key=lambda i: setting.sizes[i])
    if not inside[largest] or (setting.needs_all and not all(inside)):
        return None
    values: dict[str, Any] = {}
    for group, found in zip(setting.groups, inside, strict=True):
        values |= measured(group, found, lateness) if found else {m["name"]: None for m in group}
    return values


def filled(metrics: Sequence[Row], fills: Sequence[Any], last: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an empty window shows."""
    chosen = {m["name"]: how for m, how in zip(metrics, fills, strict=True)}
    return {
        name: None if how == "null" or how is None else last[name] if how == "ffill" else how
        for name, how in chosen.items()
    }

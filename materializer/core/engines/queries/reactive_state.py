"""The query of running state: functions over the ordered rows of a key, and one pass for ``ema``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct, field

from materializer.core.engines.clock import ClosingClock
from materializer.core.engines.engine_query import CARRY, STORED, TIME, EngineQuery
from materializer.core.engines.reactive_state import ARGUMENT, AT, FUNCTIONS, ORDINAL, ReactiveState, call_column
from materializer.core.query.nodes import Folded, Frame, Named, Query
from materializer.core.spec.table_names import quoted

STATE: Final = "x_s"
"""Prefix of the state columns; they are numbered from 0 in the order of the calls."""
_SO_FAR: Final[Frame] = ("rows", None, 0)


def _own(name: object) -> str:
    """Return the name of a column of ours, which no column of a source has."""
    return f"materializer {name}"


_PLACE, _EQUAL, _ACTIVE, _SHOWN = map(_own, ("place", "place among equal times", "is counted", "is shown"))


class Ema(Struct, frozen=True):
    """An exponential moving average: the mean of the first *n* values, which each later value moves on.

    It takes values and whether each is counted, and, where it goes on, the stored average and number in each row. It makes the
    averages (before there are *n* values, their sum), the numbers of values so far, and the averages that are shown.

    Args:
        n: Number of values that make the first average.
    """

    n: int

    def code(self) -> Callable[..., tuple[list[Any], ...]]:
        """Return the function of the values; it refers to nothing in this package."""
        n = self.n

        def averaged(
            values: list[Any], are_counted: list[Any], averages: Any = (None,), seen: Any = (0,)
        ) -> tuple[list[Any], ...]:
            total, number = (averages[0], seen[0] or 0) if values else (None, 0)
            totals, numbers, weight = [], [], 2.0 / (n + 1)
            for x, is_counted in zip(values, are_counted, strict=True):
                if is_counted and x is not None:
                    number += 1
                    total = x if total is None else weight * x + (1.0 - weight) * total if number > n else total + x
                    total = total / n if number == n else total
                totals.append(total)
                numbers.append(number)
            return totals, numbers, [t if k >= n else None for t, k in zip(totals, numbers, strict=True)]

        return averaged


class _Calls(Struct):
    """The steps that compute the calls of a definition, and their columns.

    Args:
        types: Type of each raw column.
        has_carry: Whether each raw row has the state before its part.
        inputs: Columns that are made before all others.
        frames: Functions over ordered rows, by their frame.
        outputs: The values of calls and states.
        folds: What a pass makes.
        states: The names of the state columns, in order.
    """

    types: dict[str, str]
    has_carry: bool
    inputs: list[tuple[str, str]] = field(default_factory=list)
    frames: dict[Frame | None, list[tuple[str, str]]] = field(default_factory=dict)
    outputs: list[tuple[str, str]] = field(default_factory=list)
    folds: list[Folded] = field(default_factory=list)
    states: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, p: ReactiveState, types: dict[str, str], *, has_carry: bool) -> _Calls:
        """Return the steps of all calls."""
        found = cls(types, has_carry)
        for i, (function, _, n) in enumerate(p.calls):
            found._add(i, function, n)
        return found

    def _add(self, i: int, function: str, n: int) -> None:
        x = quoted(_argument(i))
        match FUNCTIONS[function].kind:
            case "moving":
                # a part includes the n - 1 rows before its results: if it has fewer rows, the key has no more
                found = self._over(f"last {n}, {i}", f"{_MOVING[function]}({x})", ("rows", 1 - n, 0))
                found = f"CASE WHEN {quoted(_PLACE)} >= {n} THEN {found} END"
            case "shifted":
                found = _SHIFTED[function].format(x=x, before=self._over(f"before {i}", f"lag({x}, {n})", None))
            case _ if function == "ema":
                self._average(i, n)
                return
            case _:
                found = self._cumulative(i, function)
        self.outputs.append((call_column(i), found))

    def _cumulative(self, i: int, function: str) -> str:
        """Add the state of a function of all rows; return its value."""
        counted = f"CASE WHEN {quoted(_ACTIVE)} THEN {quoted(_argument(i))} END"
        if function in _BETTER:
            name, better = _BETTER[function]
            found = self._over(f"so far {i}", f"{name}({self._input(i, counted)})", _SO_FAR)
            return self._state(f"{better}({self._carried}, {found})" if self.has_carry else found)
        total = "" if function == "cumcount" else self._state(self._total(i, counted))
        if function == "cumsum":
            return total
        number = self._over(f"number {i}", f"count({counted})", _SO_FAR)
        number = self._state(f"{number} + coalesce({self._carried}, 0L)" if self.has_carry else number)
        return number if not total else f"try_divide(CAST({total} AS DOUBLE), CAST({number} AS DOUBLE))"

    def _total(self, i: int, counted: str) -> str:
        """Return a running sum that adds in the order of rows, so that the result is the same wherever the sum resumes."""
        if not self.has_carry:
            return self._over(f"so far {i}", f"sum({self._input(i, counted)})", _SO_FAR)
        carried, kind = self._carried, self.types[CARRY + self._next]
        value = f"CAST({counted} AS {kind})"
        first = f"coalesce({carried} + {value}, {carried}, {value})"
        added = self._input(i, f"CAST(CASE WHEN {quoted(_PLACE)} = 1 THEN {first} ELSE {value} END AS {kind})")
        return f"CAST({self._over(f'so far {i}', f'sum({added})', _SO_FAR)} AS {kind})"

    def _average(self, i: int, n: int) -> None:
        self._input(i, f"CAST({quoted(_argument(i))} AS DOUBLE)")
        takes, made = [_own(f"input {i}"), _ACTIVE], []
        for kind in ("double", "bigint"):
            if self.has_carry:
                takes.append(_own(f"carried {self._next}"))
                self.inputs.append((takes[-1], f"CAST({self._carried} AS {kind})"))
            made.append((_own(self._next), kind))
            self.states.append(self._next)
        self.folds.append(Folded(Ema(n), tuple(takes), (*made, (call_column(i), "double"))))

    # -- columns ---------------------------------------------------------------------------------------------------------

    @property
    def _next(self) -> str:
        """The name of the state column that is added next."""
        return f"{STATE}{len(self.states)}"

    @property
    def _carried(self) -> str:
        """What it holds before the part."""
        return quoted(CARRY + self._next)

    def _input(self, i: int, text: str) -> str:
        self.inputs.append((_own(f"input {i}"), text))
        return quoted(_own(f"input {i}"))

    def _over(self, name: str, text: str, frame: Frame | None) -> str:
        self.frames.setdefault(frame, []).append((_own(name), text))
        return quoted(_own(name))

    def _state(self, text: str) -> str:
        """Add a state column; return its text, which stands beside it."""
        self.outputs.append((_own(self._next), text))
        self.states.append(self._next)
        return text


_MOVING: Final = {
    "mavg": "avg",
    "msum": "sum",
    "mmax": "max",
    "mmin": "min",
    "mstd": "stddev_samp",
    "mcount": "count",
}
_SHIFTED: Final = {
    "prev": "{before}",
    "move": "{before}",
    "deltas": "{x} - {before}",
    "ratios": "try_divide({x}, {before})",
}
_BETTER: Final = {"cummax": ("max", "greatest"), "cummin": ("min", "least")}


def rows(raw: Named, e: EngineQuery, at: ClosingClock) -> Query:  # noqa: ARG001
    """Return one row for each raw row.

    Args:
        raw: Raw rows; see :mod:`materializer.core.engines.engine_query`. For cumulative functions, ``_carry_<column>`` holds the
            stored row before the part (or before the range: rows up to ``_carry_x_at`` are only context). Where the rows that
            functions look back on may be gone, stored rows replace them; these have ``_kept_<column>`` and no source columns.
        e: The definition, with :class:`~materializer.core.engines.reactive_state.ReactiveState`.
        at: Not used: no result of this engine is ever open.

    Shape:
        Keys, ``_part``, ``w_start`` = ``w_end`` = ``label`` = ``first_t`` = ``last_t`` = the row's time, ``v_<measure>``,
        ``n`` = 1, ``is_final`` = true, ``is_shown``, ``x_ordinal`` (position among rows of equal time, from 1); with cumulative
        functions ``x_at`` and the states ``x_s<i>``; ``x_arg<i>``: each argument on which functions look back. Grain (keys,
        ``_part``, ``w_start``, ``x_ordinal``).
    """
    p: ReactiveState = e.params
    has_carry = p.is_cumulative and CARRY + AT in raw.names
    calls = _Calls.of(p, dict(raw.columns), has_carry=has_carry)
    found = _numbered(raw, e, has_carry=has_carry)
    found, order = found.add(*calls.inputs), _order(raw, e)
    for frame, functions in calls.frames.items():
        found = found.over(e.groups, order, *functions, frame=frame)
    found = found.add(*calls.outputs)
    if STORED + ORDINAL in raw.names:
        found = found.where(_is_raw())
    if calls.folds:
        found = found.only(*_needed(found, e, calls)).fold(e.groups, _PLACE, calls.folds)
    return _measured(found, e, calls.states)


def _order(raw: Named, e: EngineQuery) -> list[str]:
    place = STORED + ORDINAL
    return [e.order[0], *([place] if place in raw.names else []), *e.order[1:]]


def _is_raw() -> str:
    return f"{quoted(STORED + ORDINAL)} IS NULL"


def _argument(i: int) -> str:
    return _own(f"argument {i}")


def _numbered(raw: Named, e: EngineQuery, *, has_carry: bool) -> Query:
    """Return rows with the arguments of calls, their position in their part, and whether the state has to count them."""
    p: ReactiveState = e.params
    order, has_stored = _order(raw, e), STORED + ORDINAL in raw.names
    tests = [f"coalesce({TIME} > {quoted(CARRY + AT)}, true)"] * has_carry + [_is_raw()] * has_stored
    arguments = [(_argument(i), text) for i, (_, text, _) in enumerate(p.calls)]
    if has_stored:  # the columns of a stored row are gone, so that its stored argument stands for the text
        stored = {text: quoted(STORED + name) for text, name in p.arguments.items()}
        arguments = [
            (name, f"CASE WHEN {_is_raw()} THEN {text}\n ELSE {stored.get(text, 'NULL')} END")
            for name, text in arguments
        ]
    found = raw.add(*arguments, (_ACTIVE, " AND ".join(tests) or "true"))
    found = found.over(e.groups, order, (_PLACE, "row_number()"))
    return found.over([*e.groups, TIME], order, (_EQUAL, "row_number()"))


def _needed(found: Query, e: EngineQuery, calls: _Calls) -> Iterator[str]:
    """Yield only the columns that the rest of the query reads; the other columns need not go through Python."""
    p: ReactiveState = e.params
    reads = {name.casefold() for name in p.reads}
    own = {_PLACE, _EQUAL, *map(_own, calls.states), *(name for of in calls.folds for name in of.takes)}
    own |= {_stored_argument(name) for name in p.arguments.values()} | {call_column(i) for i in range(len(p.calls))}
    for name in found.names:
        if name in own or name in {*e.groups, TIME} or name.casefold() in reads:
            yield name


def _stored_argument(name: str) -> str:
    return _argument(int(name.removeprefix(ARGUMENT)))


def _measured(found: Query, e: EngineQuery, states: Sequence[str]) -> Query:
    """Return results, of which the filter shows some; it may name measures where no column has their name."""
    p: ReactiveState = e.params
    found = found.add(*((_own(f"measure {name}"), text) for name, text in p.metrics))
    reads, columns = ({n.casefold() for n in names} for names in (p.reads, found.names))
    named = [name for name, _ in p.metrics if name.casefold() in reads - columns]
    found = found.add(*((name, quoted(_own(f"measure {name}"))) for name in named))
    found = found.add((_SHOWN, p.filter or "true"))
    stored = {ORDINAL: f"CAST({quoted(_EQUAL)} AS BIGINT)"}
    stored |= {AT: TIME} | {name: quoted(_own(name)) for name in states} if states else {}
    stored |= {name: quoted(_stored_argument(name)) for name in p.arguments.values()}
    own = {_EQUAL, _SHOWN, *(_own(f"measure {name}") for name in e.measures), *map(_own, states)}
    found = found.only(
        *e.groups, TIME, *(n for n in found.names if n in own or n in map(_stored_argument, p.arguments.values()))
    )
    return found.select(
        *((name, quoted(name)) for name in e.groups),
        *((name, TIME) for name in ("w_start", "w_end", "label")),
        *((f"v_{name}", quoted(_own(f"measure {name}"))) for name in e.measures),
        ("n", "1L"),
        *((name, TIME) for name in ("first_t", "last_t")),
        ("is_final", "true"),
        ("is_shown", f"coalesce({quoted(_SHOWN)}, false)"),
        *stored.items(),
    )

"""Running state: one result row for each source row, computed from that row and the earlier rows of its key.

The rows of a key have a total order, by time first. There are three kinds of measures:

* plain: an expression of the row itself, which may contain calls of the two other kinds;
* over the last *n* rows (``mavg``, ``prev`` …): a result depends on so many rows before it and on nothing older. The
  arguments are stored in every result row, so that these functions can also use rows that the source no longer has;
* cumulative (``cumsum``, ``ema`` …): a result depends on all rows before it. The state is stored in every result row, so
  that a computation can continue from any row. A change touches every result after it.

Null rules: the moving functions give null for the first ``n - 1`` rows of a key, and then skip nulls. ``cumsum``,
``cummax``, ``cummin`` and ``cumavg`` skip nulls and are null before the first value. ``ema`` starts at the n-th value with
the mean of the first *n* values and continues as ``2/(n+1) * x + (1 - 2/(n+1)) * ema``; a null leaves it unchanged.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from sqlglot import TokenType

from materializer.core.dialect import is_name
from materializer.core.engines.base import WindowEngine
from materializer.core.engines.params import About, ParamReader, Trouble
from materializer.core.engines.ranges import Range, StoredResult, merge_ranges
from materializer.core.sql.expressions import Expression, Vocabulary, examine
from materializer.core.sql.functions import nearest
from materializer.core.sql.tokens import Fragment, Refused, fragment_of
from materializer.core.time.spans import NEG_INF, POS_INF

ORDINAL: Final = "x_ordinal"
"""Result column: position among the rows of equal time, from 1."""
AT: Final = "x_at"
"""Result column of definitions with cumulative functions: the event time up to which the state counts rows."""
ARGUMENT: Final = "x_arg"
"""Prefix of the result columns that store arguments for later rows: each once, numbered by the first call that uses it."""
IGNORED: Final = ("parallelism", "key_capacity", "raft_group", "snapshot_dir", "snapshot_interval_in_msg_count")
"""Parameters of the streaming engine that are accepted and never change a result."""

Kind: TypeAlias = Literal["moving", "shifted", "cumulative"]


class Function(Struct, frozen=True):
    """A state function.

    Args:
        kind: Which rows the function uses: the last n rows, the row n places before, or all rows so far.
        counts: Whether the function takes a second argument n: ``must``, ``may`` (n is 1 by default) or ``never``.
        least: Smallest value of that argument.
    """

    kind: Kind
    counts: Literal["must", "may", "never"] = "never"
    least: int = 1


FUNCTIONS: Final[Mapping[str, Function]] = {
    **{f"m{name}": Function("moving", "must") for name in ("avg", "sum", "max", "min", "std", "count")},
    "prev": Function("shifted"),
    "deltas": Function("shifted", "may"),
    "ratios": Function("shifted"),
    "move": Function("shifted", "must", least=0),
    **{f"cum{name}": Function("cumulative") for name in ("sum", "max", "min", "count", "avg")},
    "ema": Function("cumulative", "must"),
}
"""State functions by name."""

Call: TypeAlias = tuple[str, str, int]
"""A call of a state function: its name, its argument as Spark SQL over one row, and n (by default 1, or 0 if cumulative)."""


class ReactiveState(WindowEngine, Struct, frozen=True):
    """Parameters of running state.

    Args:
        calls: The distinct calls of state functions in the metrics.
        metrics: (name, Spark SQL) in order; the SQL reads one row and the values of the calls, in columns :func:`call_column`.
        filter: Spark SQL over one row and the metrics by name that selects the shown rows. It never affects the state.
        reads: Names of the source columns in metrics and filter.
    """

    calls: tuple[Call, ...]
    metrics: tuple[tuple[str, str], ...]
    filter: str | None = None
    reads: tuple[str, ...] = ()

    @property
    def lookback(self) -> int:
        """How many rows before its own the result needs, cumulative functions left out."""
        return max((_reach(call) for call in self.calls), default=0)

    @property
    def arguments(self) -> dict[str, str]:
        """Each argument that is stored for later rows, as Spark SQL over one row, with the result column that stores it."""
        found: dict[str, str] = {}
        for i, call in enumerate(self.calls):
            if _reach(call):
                found.setdefault(call[1], f"{ARGUMENT}{i}")
        return found

    @property
    def is_cumulative(self) -> bool:
        """Whether a result depends on all rows before it."""
        return any(FUNCTIONS[f].kind == "cumulative" for f, _, _ in self.calls)

    @staticmethod
    def read(values: Mapping[str, object], about: About) -> tuple[ReactiveState | None, list[Trouble]]:
        """Return the parameters and all problems with them; the parameters are None when there is a problem.

        Args:
            values: The parameters; ``metrics`` is a list of (name, text).
            about: The definition; its measures are the metrics where ``metrics`` is not given.
        """
        r = ParamReader(values, about)
        given = r.given("metrics")
        pairs = [(str(n), str(text)) for n, text in given] if isinstance(given, (list, tuple)) else about.measures
        if not pairs:
            r.refuse("there is no measure", "name at least one, such as mavg(price, 3)", "definition.no-measure")
        calls: list[Call] = []
        metrics = [(name, _metric(r, f"measure '{name}'", text, calls)) for name, text in pairs]
        condition = r.text("filter")
        shown = None if condition is None else _examined(r, "filter", condition)
        r.boolean("keep_order")
        _check_purge(r)
        r.refuse_unknown(IGNORED)
        if r.troubles:
            return None, r.troubles
        found = [(name, metric) for name, metric in metrics if metric is not None]
        own = {call_column(i) for i in range(len(calls))}
        reads = {c for part in (*(m for _, m in found), shown) if part is not None for c in part.column_names} - own
        formulas = tuple((name, metric.text) for name, metric in found)
        return ReactiveState(tuple(calls), formulas, None if shown is None else shown.text, tuple(sorted(reads))), []

    def why_not_kept(self, columns: Container[str]) -> str:
        """Return why stored rows with these columns lack an argument that later rows need, or "" when they have them all."""
        lacking = [text for text, name in self.arguments.items() if name not in columns]
        return f"its kept rows do not hold '{lacking[0]}', on which a function looks back" if lacking else ""

    def ranges(
        self,
        spans: Sequence[tuple[int, int]],
        stored: Sequence[StoredResult],
        *,
        is_complete: bool,
    ) -> list[Range] | None:
        """Return which rows of one key a change touches, or None when the answer needs older stored rows.

        With cumulative functions a change touches all rows from the first changed one on. Otherwise it touches the rows in the
        spans, and after each span as many rows as the functions look back. The raw range begins as many rows before the span. Both
        distances are counted in stored rows outside the spans, because only these certainly still exist, and a range never ends
        between rows of equal time. Cumulative functions continue from the last of the stored rows before the range.
        """
        if not spans:
            return []
        back = self.lookback
        sure = _outside(stored, spans)
        found = []
        for lo, hi in spans:
            raw_start = _before(sure, lo, back)
            needed = max(back, int(self.is_cumulative))
            if not is_complete and _before(sure, lo, needed) == NEG_INF:
                return None
            end = POS_INF if self.is_cumulative else _after(sure, hi, back)
            found.append(Range(lo, end, raw_start, end))
            if self.is_cumulative:
                break
        return merge_ranges(found)

    @property
    def resumes_from(self) -> Literal["nothing", "state"]:
        """Cumulative functions go on from the state in the last result."""
        return "state" if self.is_cumulative else "nothing"

    def why_not_cut(self, stored: Container[str] | None) -> str:
        """Return why the history cannot be cut; see :meth:`WindowEngine.why_not_cut`."""
        return "" if stored is None else self.why_not_kept(stored)

    @property
    def most_counts(self) -> int:
        """A row has one result."""
        return 1


def _reach(call: Call) -> int:
    """Return how many rows before its own a call needs; 0 for a cumulative call."""
    function, _, n = call
    return {"moving": n - 1, "shifted": n, "cumulative": 0}[FUNCTIONS[function].kind]


def call_column(i: int) -> str:
    """Return the name of the column that holds the value of the i-th call."""
    return f"_call_{i}"


def _check_purge(r: ParamReader) -> None:
    """Check the parameters that make the streaming engine forget keys; they have no effect: a silent key costs nothing."""
    has_filter = r.text("key_purge_filter") is not None
    if has_filter != (r.integer("key_purge_freq_in_second", least=1) is not None):
        r.refuse(
            "'key_purge_filter' and 'key_purge_freq_in_second' go together",
            "give both, or neither",
            about="key_purge_filter",
        )


def _metric(r: ParamReader, label: str, text: str, calls: list[Call]) -> Expression | None:
    """Return a measure with columns in place of its calls and add these to *calls*; None after recording a problem."""
    formula, at = "", 0
    try:
        fragment = fragment_of(text, label)
        fragment.check_brackets()
        for function, call, args in _uses(fragment):
            taken = _taken(r, label, function, args)
            if taken is None:
                return None
            if taken not in calls:
                calls.append(taken)
            formula += text[at : call.start] + call_column(calls.index(taken))
            at = call.stop
    except Refused as exc:
        r.refuse(exc.problem.message, exc.problem.hint, exc.problem.code)
        return None
    return _examined(r, label, formula + text[at:])


def _uses(fragment: Fragment) -> Iterator[tuple[str, Fragment, list[Fragment]]]:
    """Yield the name, the text and the arguments of each outermost call of a state function."""
    tokens, last = fragment.tokens, -1
    for at, token in enumerate(tokens[:-1]):
        is_call = at > last and is_name(token) and tokens[at + 1].token_type == TokenType.L_PAREN
        if is_call and token.text.lower() in FUNCTIONS:
            last = fragment.closing(at + 1)
            inside = fragment.part(at + 2, last)
            yield token.text.lower(), fragment.part(at, last + 1), inside.split() if len(inside) else []


def _taken(r: ParamReader, label: str, function: str, args: Sequence[Fragment]) -> Call | None:
    """Return one call; None after recording a problem."""
    if not 1 <= len(args) <= (1 if FUNCTIONS[function].counts == "never" else 2):
        r.refuse(f"{label}: {function} has {len(args)} arguments", _usage(function), "definition.wrong-arguments")
        return None
    count = _count(r, label, function, args)
    found = _examined(r, label, args[0].text)
    return None if found is None or count is None else (function, found.text, count)


def _count(r: ParamReader, label: str, function: str, args: Sequence[Fragment]) -> int | None:
    """Return the second argument, n, or its default: 1, and 0 for a cumulative function; None after recording a problem."""
    takes = FUNCTIONS[function]
    if len(args) == 1:
        if takes.counts == "must":
            r.refuse(f"{label}: {function} has 1 argument", _usage(function), "definition.wrong-arguments")
            return None
        return 0 if takes.kind == "cumulative" else 1
    if not args[1].text.isdigit() or int(args[1].text) < takes.least:
        message = f"{label}: the second argument of {function} is {args[1].text}"
        r.refuse(message, f"write a whole number from {takes.least}", "definition.wrong-arguments")
        return None
    return int(args[1].text)


def _usage(function: str) -> str:
    counts = FUNCTIONS[function].counts
    return f"write {function}(x)" if counts == "never" else f"write {function}(x, n)"


def _examined(r: ParamReader, label: str, text: str) -> Expression | None:
    """Return an expression over one row; None after recording a problem."""
    before = len(r.troubles)
    try:
        found = examine(fragment_of(text, label), Vocabulary())
    except Refused as exc:
        r.refuse(exc.problem.message, exc.problem.hint, exc.problem.code)
        return None
    inside = [use.name for use in found.functions if use.name in FUNCTIONS]
    if inside:
        hint = "give it a measure of its own, and make an aggregate over this one"
        r.refuse(f"{label}: {inside[0]} stands where one row is looked at", hint, "definition.nested-state")
    for use in found.calls:
        hint = nearest(f"cum{use.name}", list(FUNCTIONS)) or "write a state function such as mavg or cumsum"
        r.refuse(f"{label}: `{use.name}` aggregates, and a result is about one row", hint, "definition.row-aggregate")
    for problem in found.problems:
        if not any(f"`{name}`" in problem.message for name in inside):
            r.refuse(problem.message, problem.hint, problem.code)
    return found if len(r.troubles) == before else None


def _outside(stored: Sequence[StoredResult], spans: Sequence[tuple[int, int]]) -> list[int]:
    """Return the times of the stored rows outside of all spans, in order."""
    found, at = [], 0
    for k in stored:
        while at < len(spans) and spans[at][1] < k.w_start:
            at += 1
        if at == len(spans) or k.w_start < spans[at][0]:
            found.append(k.w_start)
    return found


def _before(times: Sequence[int], t: int, count: int) -> int:
    """Return the *count*-th last of *times* before *t*; NEG_INF when there are fewer, *t* when *count* is 0."""
    at = bisect_left(times, t) - count
    return t if count == 0 else times[at] if at >= 0 else NEG_INF


def _after(times: Sequence[int], t: int, count: int) -> int:
    """Return the instant after the *count*-th of *times* after *t*; POS_INF when there are fewer, t + 1 when *count* is 0."""
    at = bisect_right(times, t) + count - 1
    return min(t + 1, POS_INF) if count == 0 else times[at] + 1 if at < len(times) else POS_INF

"""Running state: one result row for each source row, from the rows of its key up to it.

Rows of a key stand in their total order, time first. A measure looks at them in three ways:

* none: an expression of the row itself, also around calls of the others;
* of the last *n* rows (``mavg``, ``prev`` …): a result depends on so many rows before it, and on nothing older. Their
  arguments are stored in every result row, so that they look back also over rows that the source let go;
* cumulative (``cumsum``, ``ema`` …): a result depends on all rows before it. Their state is stored in every result row, so
  that computing goes on from any row; a change touches everything after it.

Null rules: the first ``n - 1`` rows of a key give null for the moving functions, then nulls are skipped; ``cumsum``,
``cummax``, ``cummin``, ``cumavg`` skip nulls and are null before the first value; ``ema`` is the mean of the first *n* values
at the n-th of them, then ``2/(n+1) * x + (1 - 2/(n+1)) * ema``; a null leaves it as it is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from sqlglot import TokenType

from materializer.core.engines.params import About, Reader, Trouble
from materializer.core.engines.ranges import Kept, Range, merge_ranges
from materializer.core.sql.expressions import Expression, Vocabulary, examine
from materializer.core.sql.functions import nearest
from materializer.core.sql.tokens import Fragment, Refused, fragment_of, is_name
from materializer.core.time.spans import NEG_INF, POS_INF

ORDINAL: Final = "x_ordinal"
"""Result column: place among the rows of equal time, from 1."""
AT: Final = "x_at"
"""Result column of definitions with cumulative functions: the time up to which the state counts."""
ARGUMENT: Final = "x_arg"
"""Prefix of the result columns with what calls look back on: each argument once, with the number of the first such call."""
IGNORED: Final = ("parallelism", "key_capacity", "raft_group", "snapshot_dir", "snapshot_interval_in_msg_count")
"""Parameters of the streaming engine that never change a result."""

Kind: TypeAlias = Literal["moving", "shifted", "cumulative"]


@dataclass(frozen=True, slots=True)
class Function:
    """A state function.

    Args:
        kind: What it looks at: the last n rows, the row n places before, or all rows.
        counts: Whether it takes a second argument: ``must``, ``may`` (then it is 1) or ``never``.
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
"""A call of a state function: its name, its argument as Spark SQL over one row, and n; 0 where it takes none."""


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of running state.

    Args:
        calls: The calls of state functions in the metrics, each once.
        metrics: (name, Spark SQL over one row and the values of the calls, which are columns :func:`call_column`), in order.
        filter: Spark SQL over one row and the metrics by name: which rows are shown. It never touches the state.
        reads: Names of the columns in metrics and filter.
    """

    calls: tuple[Call, ...]
    metrics: tuple[tuple[str, str], ...]
    filter: str | None = None
    reads: tuple[str, ...] = ()

    @property
    def lookback(self) -> int:
        """How many rows before its own a result of the functions that are not cumulative depends on."""
        return max((_reach(call) for call in self.calls), default=0)

    @property
    def arguments(self) -> dict[str, str]:
        """What functions look back on, as Spark SQL over one row, with the result column that holds it."""
        found: dict[str, str] = {}
        for i, call in enumerate(self.calls):
            if _reach(call):
                found.setdefault(call[1], f"{ARGUMENT}{i}")
        return found

    @property
    def is_cumulative(self) -> bool:
        """Whether a result depends on all rows before it."""
        return any(FUNCTIONS[f].kind == "cumulative" for f, _, _ in self.calls)


def _reach(call: Call) -> int:
    """Return over how many rows before its own a call looks back that is not cumulative; 0 for one that is."""
    function, _, n = call
    return {"moving": n - 1, "shifted": n, "cumulative": 0}[FUNCTIONS[function].kind]


def why_not_kept(p: Params, columns: Container[str]) -> str:
    """Return why kept rows with these columns do not tell functions what to look back on, or "" where they do."""
    lacking = [text for text, name in p.arguments.items() if name not in columns]
    return f"its kept rows do not hold '{lacking[0]}', on which a function looks back" if lacking else ""


def call_column(i: int) -> str:
    """Return the name of the column with the value of the i-th call."""
    return f"_call_{i}"


def read(values: Mapping[str, object], about: About) -> tuple[Params | None, list[Trouble]]:
    """Return the parameters, or None, and everything that is wrong with them.

    Args:
        values: The parameters; ``metrics`` is a list of (name, text).
        about: The definition; its measures are taken where ``metrics`` is not given.
    """
    r = Reader(values, about)
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
    return Params(tuple(calls), formulas, None if shown is None else shown.text, tuple(sorted(reads))), []


def _check_purge(r: Reader) -> None:
    """Check what makes the streaming engine forget keys; here keys cost nothing while they are silent."""
    has_filter = r.text("key_purge_filter") is not None
    if has_filter != (r.integer("key_purge_freq_in_second", least=1) is not None):
        r.refuse("'key_purge_filter' and 'key_purge_freq_in_second' go together", "give both, or neither")


def _metric(r: Reader, label: str, text: str, calls: list[Call]) -> Expression | None:
    """Return a measure with columns in place of its calls, which are added to *calls*; None after refusing it."""
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
    """Yield the outermost calls of state functions: name, the whole call, arguments."""
    tokens, last = fragment.tokens, -1
    for at, token in enumerate(tokens[:-1]):
        is_call = at > last and is_name(token) and tokens[at + 1].token_type == TokenType.L_PAREN
        if is_call and token.text.lower() in FUNCTIONS:
            last = fragment.closing(at + 1)
            inside = fragment.part(at + 2, last)
            yield token.text.lower(), fragment.part(at, last + 1), inside.split() if len(inside) else []


def _taken(r: Reader, label: str, function: str, args: Sequence[Fragment]) -> Call | None:
    """Return one call, None after refusing it."""
    if not 1 <= len(args) <= (1 if FUNCTIONS[function].counts == "never" else 2):
        r.refuse(f"{label}: {function} has {len(args)} arguments", _usage(function), "definition.wrong-arguments")
        return None
    count = _count(r, label, function, args)
    found = _examined(r, label, args[0].text)
    return None if found is None or count is None else (function, found.text, count)


def _count(r: Reader, label: str, function: str, args: Sequence[Fragment]) -> int | None:
    """Return how many rows a function looks back over; 0 for a cumulative one."""
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


def _examined(r: Reader, label: str, text: str) -> Expression | None:
    """Return an expression of one row, None after refusing what cannot stand in one."""
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


def ranges(
    p: Params,
    spans: Sequence[tuple[int, int]],
    kept: Sequence[Kept],
    *,
    is_complete: bool,
) -> list[Range] | None:
    """Return which rows of one key a change touches, or None when it takes older kept rows to tell.

    With cumulative functions these are all rows from the first change on; else those in the spans and as many after each
    as the functions look back. Raw rows reach back as far before them. Both are counted in kept rows outside the spans,
    which certainly still exist, and cut only between different times. Cumulative functions go on from the last of them.
    """
    if not spans:
        return []
    back = p.lookback
    sure = _outside(kept, spans)
    found = []
    for lo, hi in spans:
        raw_start = _before(sure, lo, back)
        needed = max(back, int(p.is_cumulative))
        if not is_complete and _before(sure, lo, needed) == NEG_INF:
            return None
        end = POS_INF if p.is_cumulative else _after(sure, hi, back)
        found.append(Range(lo, end, raw_start, end))
        if p.is_cumulative:
            break
    return merge_ranges(found)


def _outside(kept: Sequence[Kept], spans: Sequence[tuple[int, int]]) -> list[int]:
    """Return the times of kept rows that lie in no span, in order."""
    found, at = [], 0
    for k in kept:
        while at < len(spans) and spans[at][1] < k.w_start:
            at += 1
        if at == len(spans) or k.w_start < spans[at][0]:
            found.append(k.w_start)
    return found


def _before(times: Sequence[int], t: int, count: int) -> int:
    """Return the time of the *count*-th of *times* before *t*, NEG_INF when there are fewer."""
    at = bisect_left(times, t) - count
    return t if count == 0 else times[at] if at >= 0 else NEG_INF


def _after(times: Sequence[int], t: int, count: int) -> int:
    """Return the end of the *count*-th of *times* after *t*, POS_INF when there are fewer."""
    at = bisect_right(times, t) + count - 1
    return min(t + 1, POS_INF) if count == 0 else times[at] + 1 if at < len(times) else POS_INF

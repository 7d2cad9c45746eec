"""The price of a refresh in seconds, by which strategies and executors are compared.

A price is the sum of what a refresh takes in any case (:attr:`Rates.floor`) and of slopes: for each row that is aggregated, each
row and byte of the files that are opened, each file, and each row that is written. The spans whose buckets a query of Spark tells
apart cost as their square. The rates were measured on one kind of machine (`python -m tests.benchmarks.prices`). How long the refreshes of a lake
took, compared with these rates, gives factors by which its prices are corrected: the median of recent refreshes, by executor, and
by strategy where there are enough of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Final

from msgspec import Struct, field

from materializer.core.refresh.plan import BY_KEY, MAX_SPANS, Estimate, ExecutorKind

ENOUGH: Final = 3
"""Refreshes from which a factor is learned."""
RECENT: Final = 50
"""Refreshes that a factor is learned from at most, the newest ones."""
BOUNDS: Final = (0.1, 10.0)
"""The factor of an executor lies between these."""
STRATEGY_BOUNDS: Final = (0.5, 2.0)
"""The factor of a strategy lies between these, as a share of that of its executor."""
STARTING: Final = 3.5
"""Seconds that Spark takes to start in a process that has none (`python -m tests.benchmarks.prices --start`)."""
DOUBT: Final = 8
"""A strategy is believed to differ from its executor half as much as its refreshes say when there are so many of them."""


class Rates(Struct, frozen=True):
    """What one executor takes, in seconds.

    Args:
        floor: For a refresh, whatever it reads.
        aggregated: For each row that is aggregated.
        opened: For each row of a file that is opened.
        byte: For each byte of such a file.
        file: For each such file.
        written: For each row of one of our tables that is written, new or copied.
        step: For each step of a plan beyond the first.
        begin: For a strategy, however little it reads: a change feed, or the groups that are computed.
        weight: How much dearer a row that a strategy aggregates is; a row of partials has more columns than a raw row.
        sifted: How much dearer a row that a strategy opens is; one of a wanted key is found by a join.
        spans: For the square of the number of spans whose buckets a query of a strategy tells apart, at most ``MAX_SPANS``.
    """

    floor: float
    aggregated: float
    opened: float
    byte: float
    file: float
    written: float
    step: float
    begin: Mapping[str, float] = field(default_factory=dict)
    weight: Mapping[str, float] = field(default_factory=dict)
    sifted: Mapping[str, float] = field(default_factory=dict)
    spans: Mapping[str, float] = field(default_factory=dict)

    def reading(self, strategy: str, estimate: Estimate, spans: int) -> float:
        """Return what reading and aggregating takes; *spans* are those that a query tells apart."""
        return (
            self.begin.get(strategy, 0.0)
            + estimate.likely_rows * self.aggregated * self.weight.get(strategy, 1.0)
            + estimate.rows * self.opened * self.sifted.get(strategy, 1.0)
            + estimate.bytes * self.byte
            + estimate.files * self.file
            + min(spans, MAX_SPANS) ** 2 * self.spans.get(strategy, 0.0)
        )


WRONG: Final = 3
"""How many times a prediction may be wrong before anything was learned, for people to be shown it."""
RATES: Final[Mapping[str, Rates]] = {
    ExecutorKind.LOCAL: Rates(
        floor=0.05,
        aggregated=1e-7,
        opened=8e-9,
        byte=2e-9,
        file=3.5e-4,
        written=1.1e-6,
        step=0.01,
        begin={BY_KEY: 0.04, "merge": 0.004, "retract": 0.025},
        weight={BY_KEY: 9.0, "merge": 2.8, "retract": 3.4, "roll-up": 3.6},
        sifted={BY_KEY: 4.6, "retract": 6.3, "roll-up": 0.7},
    ),
    ExecutorKind.SPARK: Rates(
        floor=0.3,
        aggregated=3.2e-7,
        opened=6.5e-8,
        byte=8e-9,
        file=0.014,
        written=5e-6,
        step=0.26,
        begin={BY_KEY: 0.071, "retract": 0.17},
        weight={BY_KEY: 23.0, "merge": 9.0, "retract": 5.0, "roll-up": 21.0},
        sifted={BY_KEY: 0.36, "merge": 6.2, "retract": 20.0},
        spans=dict.fromkeys(("recompute", "rebuild", "merge", "retract", BY_KEY, "roll-up"), 1e-4),
    ),
}
"""The rates by executor, before anything was learned."""


class Taken(Struct, frozen=True):
    """How long a refresh took.

    Args:
        executor: What computed it.
        strategy: Its strategies, joined by ``+``.
        seconds: How long it took.
        unlearned: What the rates alone had predicted.
    """

    executor: str
    strategy: str
    seconds: float
    unlearned: float


class Factor(Struct, frozen=True):
    """How much longer refreshes took than the rates say.

    Args:
        value: The factor.
        refreshes: How many it was learned from; 0 before there were enough.
    """

    value: float = 1.0
    refreshes: int = 0


class Prices(Struct, frozen=True):
    """The prices in one lake.

    Args:
        factors: By (executor, strategy); the strategy "" stands for all of an executor.
    """

    factors: Mapping[tuple[str, str], Factor] = field(default_factory=dict)

    @classmethod
    def learned(cls, taken: Iterable[Taken]) -> Prices:
        """Return the prices that fit how long refreshes took; *taken* has the newest last."""
        ratios = [(t.executor, t.strategy, t.seconds / t.unlearned) for t in taken if t.unlearned > 0]
        found: dict[tuple[str, str], Factor] = {}
        for executor, group in groupby(sorted(ratios, key=lambda r: r[0]), key=lambda r: r[0]):
            recent = list(group)[-RECENT:]
            if len(recent) < ENOUGH:
                continue
            whole = _bounded(_median([r for _, _, r in recent]), *BOUNDS)
            found[executor, ""] = Factor(whole, len(recent))
            for strategy in {s for _, s, _ in recent}:
                own = [r for _, s, r in recent if s == strategy]
                if len(own) >= ENOUGH:
                    share = (_median(own) / whole) ** (len(own) / (len(own) + DOUBT))
                    found[executor, strategy] = Factor(whole * _bounded(share, *STRATEGY_BOUNDS), len(own))
        return cls(found)

    def factor(self, executor: str, strategy: str = "") -> float:
        """Return the factor of a strategy, or of its executor where too little is known of it."""
        found = self.factors.get((executor, strategy)) or self.factors.get((executor, "")) or Factor()
        return found.value

    def reading(self, executor: str, strategy: str, estimate: Estimate, spans: int) -> float:
        """Return the seconds that a strategy takes beyond the floor and what is written."""
        return self.factor(executor, strategy) * RATES[executor].reading(strategy, estimate, spans)


def unlearned(
    executor: str, strategy: str, estimate: Estimate, written: float, steps: int, spans: Mapping[str, int]
) -> float:
    """Return the seconds of a whole refresh by the rates alone.

    Args:
        executor: What computes it.
        strategy: Its strategies, joined by ``+``.
        estimate: What it reads.
        written: Rows of each of our two tables that it writes.
        steps: Its steps.
        spans: How many spans the queries of each strategy name.
    """
    rates = RATES[executor]
    several = strategy.split("+") if "+" in strategy else []  # nothing says what rows each of them reads
    nothing = Estimate()
    reading = rates.reading("" if several else strategy, estimate, 0 if several else spans.get(strategy, 0))
    reading += sum(rates.reading(each, nothing, spans.get(each, 0)) for each in several)
    return rates.floor + reading + written * rates.written + max(steps - 1, 0) * rates.step


def shown(predicted: float, by_rates: float, seconds: float) -> float:
    """Return the prediction of a refresh as people are shown it: 0 if it was wrong by more than :data:`WRONG` times and nothing was learned.

    Examples:
        >>> shown(0.5, 0.5, 0.7), shown(0.5, 0.5, 8.0), shown(5.0, 0.5, 20.0)
        (0.5, 0.0, 5.0)
    """
    is_learned = by_rates > 0 and abs(predicted / by_rates - 1) > 0.01  # both were rounded
    return predicted if is_learned or predicted / WRONG <= seconds <= predicted * WRONG else 0.0


def _bounded(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _median(values: list[float]) -> float:
    """Return the middle value, of an even number the lower one; the standard library's function takes long to import."""
    return sorted(values)[(len(values) - 1) // 2]

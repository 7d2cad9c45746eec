"""Random texts of definitions from the proven set, each of a known type: what a row gives, and aggregates over rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from msgspec import Struct

COLUMNS: Final = {
    "t": "tinyint", "s": "smallint", "i": "int", "j": "int", "l": "bigint", "m": "bigint", "k": "int", "f": "float", "d": "double",
    "e": "double", "h": "double", "p": "decimal(10,2)", "q": "decimal(5,3)", "w": "decimal(38,10)", "b": "boolean", "c": "boolean",
    "x": "string", "y": "string", "z": "binary", "u": "date", "ts": "timestamp", "us": "timestamp", "n": "timestamp_ntz",
}  # fmt: skip
"""The columns of a source besides its time; ``k`` and ``h`` have values whose sums are exact in any order."""
UNITS: Final = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")


class Drawing(Struct, frozen=True):
    """Draws texts.

    Args:
        choose: What everything follows from.
        is_hard: Whether values may overflow, be no number, or fail; else most of what is drawn has a value.
    """

    choose: random.Random
    is_hard: bool

    # -- of a row --------------------------------------------------------------------------------------------------------

    def whole(self, depth: int = 2) -> str:
        """Return an int or a smaller type."""
        leaves = ["k", "k", "3", "7"] + (["t", "s", "i", "j", "-1", "0"] if self.is_hard else ["t"])
        if depth == 0 or self._chance(0.4):
            return self._one(*leaves)
        a, b = self.whole(depth - 1), self.whole(depth - 1)
        return self._made(
            lambda: f"{a} {self._one('+', '-', '*')} {b}",
            lambda: f"{a} % {self._one('7', 'k', 'nullif(k, 0)')}",
            lambda: f"abs({a})",
            lambda: f"CASE WHEN {self.truth(depth - 1)} THEN {a} ELSE {b} END",
            lambda: f"coalesce({a}, {b})",
            lambda: f"nullif({a}, {b})",
            lambda: f"{self._one('greatest', 'least')}({a}, {b})",
            lambda: f"pmod({a}, {self._one('7', '60')})",
            lambda: f"length({self.text(depth - 1)})",
            lambda: f"{self._one('hour', 'minute', 'year', 'month', 'day')}({self._one('ts', 'us', 'n')})",
            lambda: f"{self._one('year', 'quarter', 'month')}({self.day(depth - 1)})",
            lambda: f"CAST({self.number(depth - 1)} AS INT)",
            lambda: f"CAST({self.truth(depth - 1)} AS INT)",
            lambda: f"if({self.truth(depth - 1)}, {a}, NULL)",
            lambda: f"({a} & {b})",
            lambda: f"-({a})",
        )

    def long(self, depth: int = 2) -> str:
        """Return a bigint."""
        a = self.whole(max(depth - 1, 0))
        if depth == 0:
            return self._one("l", "m", "5L") if self.is_hard else f"CAST({a} AS BIGINT)"
        b = self.long(depth - 1)
        return self._made(
            lambda: f"{b} {self._one('+', '-', '*')} {a}",
            lambda: f"{a} div {self._one('nullif(k, 0)', '3', 'k' if self.is_hard else '2')}",
            lambda: f"coalesce({b}, {a})",
            lambda: f"unix_micros({self.instant(depth - 1)})",
            lambda: f"CAST({a} AS BIGINT)",
            lambda: f"floor({self.number(depth - 1)})",
            lambda: f"CASE WHEN {self.truth(depth - 1)} THEN {b} END",
            lambda: f"{b} | {self.long(0)}",
        )

    def number(self, depth: int = 2) -> str:
        """Return a double."""
        leaves = ["h", "h", "2.5D", "CAST(k AS DOUBLE)"] + (["d", "e", "CAST(f AS DOUBLE)"] if self.is_hard else [])
        if depth == 0 or self._chance(0.4):
            return self._one(*leaves)
        a, b = self.number(depth - 1), self.number(depth - 1)
        return self._made(
            lambda: f"{a} {self._one('+', '-', '*')} {b}",
            lambda: f"{a} / {self._one('nullif(h, 0D)', '4D', 'h' if self.is_hard else '2D')}",
            lambda: f"try_divide({a}, {b})",
            lambda: f"abs({a})",
            lambda: f"sqrt({a})",
            lambda: f"round({a})",
            lambda: f"coalesce({a}, {b})",
            lambda: f"CASE WHEN {self.truth(depth - 1)} THEN {a} ELSE {b} END",
            lambda: f"{self._one('greatest', 'least')}({a}, {b})",
            lambda: f"{self.whole(depth - 1)} / {self._one('4', 'nullif(k, 0)')}",
            lambda: f"CAST({self.decimal(0)} AS DOUBLE)",
            lambda: f"-({a})",
            lambda: f"{a} % {self._one('3D', 'h' if self.is_hard else '7D')}",
        )

    def decimal(self, depth: int = 1) -> str:
        """Return a decimal."""
        if depth == 0:
            return self._one("p", "q", *(["w"] if self.is_hard else []))
        a = self.decimal(depth - 1)
        return self._made(
            lambda: f"{a} {self._one('+', '-', '*')} {self._one('p', 'q', '2', '1.5', 'k')}",
            lambda: f"{a} / {self._one('3', 'q' if self.is_hard else '7', 'nullif(p, 0)')}",
            lambda: f"round({a}, {self._one('0', '1', '2')})",
            lambda: f"{self._one('floor', 'ceil', 'abs')}({a})",
            lambda: f"CAST({self.whole(1)} AS DECIMAL(12,2))",
            lambda: f"CAST({a} AS DECIMAL({self._one('12,4', '20,1', '9,0')}))",
            lambda: f"coalesce({a}, {self.decimal(0)})",
            lambda: f"-({a})",
        )

    def text(self, depth: int = 2) -> str:
        """Return a string."""
        if depth == 0 or self._chance(0.4):
            return self._one("x", "y", "'a'", "'é'", "''")
        a, b = self.text(depth - 1), self.text(depth - 1)
        return self._made(
            lambda: f"concat({a}, {b})",
            lambda: f"{a} || '-' || {b}",
            lambda: f"{self._one('upper', 'lower')}({a if self.is_hard else chr(39) + 'aB' + chr(39)})",
            lambda: f"substr({a}, {self._one('1', '2', '3')}{self._one('', ', 1', ', 2', ', 0')})",
            lambda: f"coalesce({a}, {b})",
            lambda: f"nullif({a}, {b})",
            lambda: f"CASE WHEN {self.truth(depth - 1)} THEN {a} ELSE {b} END",
            lambda: f"CAST({self.whole(depth - 1)} AS STRING)",
        )

    def day(self, depth: int = 1) -> str:
        """Return a date."""
        if depth == 0:
            return self._one("u", "DATE '2024-02-29'")
        a = self.day(depth - 1)
        return self._made(
            lambda: f"date_add({a}, {self._one('k', '1', '-30')})",
            lambda: f"date_sub({a}, 3)",
            lambda: f"trunc({a}, '{self._one('MONTH', 'YEAR', 'QUARTER', 'WEEK')}')",
            lambda: f"CAST({self.instant(0)} AS DATE)",
            lambda: f"add_months({a}, {self._one('1', '-7', 'k')})",
            lambda: f"coalesce({a}, DATE '1969-12-31')",
        )

    def instant(self, depth: int = 1) -> str:
        """Return a timestamp."""
        if depth == 0:
            return self._one("ts", "us")
        return self._made(
            lambda: f"date_trunc('{self._one(*UNITS)}', {self._one('ts', 'us', 'u', 'n')})",
            lambda: f"coalesce({self.instant(depth - 1)}, us)",
            lambda: f"CAST({self._one('u', 'n')} AS TIMESTAMP)",
            lambda: "timestamp_micros(unix_micros(ts))",
            lambda: f"{self._one('greatest', 'least')}(ts, us)",
        )

    def truth(self, depth: int = 2) -> str:
        """Return a boolean."""
        if depth <= 0:
            return self._one("b", "c", "k > 2", "x = 'a'", "h < 0D", "i IS NULL", "true")
        below = depth - 1
        sign = self._one("=", "<>", "<", "<=", ">", ">=", "<=>")
        return self._made(
            lambda: f"{self.whole(below)} {sign} {self.whole(below)}",
            lambda: f"{self.long(below)} {sign} {self.whole(below)}",
            lambda: f"{self.number(below)} {sign} {self.number(below)}",
            lambda: f"{self.decimal(0)} {sign} {self._one('p', 'q', '1.25', '0', 'k', '10.0D')}",
            lambda: f"{self.text(below)} {sign} {self.text(below)}",
            lambda: (
                f"{self.instant(0)} {sign} {self._one('us', 'ts', chr(39).join(('TIMESTAMP', '2024-02-29T01:30:00Z', '')))}"
            ),
            lambda: f"{self.day(0)} {sign} {self.day(below)}",
            lambda: f"(({self.truth(below)}) {self._one('AND', 'OR')} ({self.truth(below)}))",
            lambda: f"NOT ({self.truth(below)})",
            lambda: f"{self.any(below)} IS {self._one('', 'NOT ')}NULL",
            lambda: f"{self.text(0)} {self._one('', 'NOT ')}LIKE '{self._one('a%', '_b%', '%', '', 'x_y', '%é')}'",
            lambda: (
                f"{self.text(0)} {self._one('', 'NOT ')}RLIKE '{self._one('a', '^[A-Zé]', '^..?$', '', 'b|^$', '(a|x_){1,2}', '[^a-y]', '日本')}'"
            ),
            lambda: f"{self._one('k', 't')} {self._one('', 'NOT ')}IN ({self._one('1, 2, 7', '0, NULL', '3')})",
            lambda: f"x IN ('a', {self._one('NULL', chr(39) * 2)})",
            lambda: f"{self.whole(below)} BETWEEN {self._one('-1', 't')} AND {self._one('5', 'k')}",
            lambda: f"isnan({self._one('h', 'd', 'f')})",
            lambda: f"({self.truth(below)}) IS {self._one('TRUE', 'FALSE')}",
        )

    def any(self, depth: int = 1) -> str:
        """Return what has an order."""
        kinds = (self.whole, self.long, self.number, self.decimal, self.text, self.day, self.instant, self.truth)
        return self.choose.choice(kinds)(depth)

    def key(self) -> str:
        """Return what rows are grouped by."""
        plain = self._one("x", "b", "k", "u", "p", "h", "z", "t", "n", "ts", "l")
        few = self._made(
            lambda: f"CASE WHEN {self.truth(1)} THEN 'yes' ELSE 'no' END",
            lambda: "k % 3",
            lambda: "upper(x)" if self.is_hard else "lower('X')",
            lambda: "coalesce(y, x)",
            lambda: "year(u)",
            lambda: "h > 0D",
            lambda: f"({self.truth(1)})",
            lambda: "substr(x, 1, 1)",
        )
        return plain if self._chance(0.5) else few

    # -- of rows ---------------------------------------------------------------------------------------------------------

    def aggregate(self, *, is_mergeable: bool) -> str:
        """Return an aggregate call."""
        exact, added = (
            Drawing(self.choose, is_hard=self.is_hard and self._chance(0.5)),
            Drawing(self.choose, is_hard=False),
        )
        sums = self._made(
            lambda: exact.whole(1),
            lambda: exact.long(1),
            lambda: exact.decimal(self.choose.randint(0, 1)),
            lambda: self._one("h", "h * 2D", "h + k", "h * h", "f" if self.is_hard else "h", added.number(1)),
        )
        moved = self._one("h", "k", "t", "h + k")
        where = f" FILTER (WHERE {self.truth(1)})" if self._chance(0.25) else ""
        calls: list[Callable[[], str]] = [
            lambda: f"count({self._one('*', self.any(1), 'x, b')})",
            lambda: f"sum({sums})",
            lambda: f"sum({sums})",
            lambda: f"avg({sums})",
            lambda: f"{self._one('min', 'max')}({self.any(2)})",
            lambda: f"{self._one('min', 'max')}({self.any(1)})",
            lambda: f"{self._one('first', 'last', 'any_value')}({self.any(1)})",
            lambda: f"{self._one('min_by', 'max_by')}({self.any(1)}, {self.any(1)})",
            lambda: f"{self._one('bool_and', 'bool_or', 'every', 'some')}({self.truth(1)})",
            lambda: f"{self._one('bit_and', 'bit_or', 'bit_xor')}({self._one('k', 'l', 't', self.whole(1))})",
            lambda: f"{self._one('var_pop', 'var_samp', 'stddev', 'stddev_pop')}({moved})",
            lambda: f"{self._one('covar_pop', 'covar_samp', 'corr')}({moved}, {self._one('h', 'k')})",
            lambda: f"{self._one('regr_slope', 'regr_intercept')}({moved}, {self._one('h', 'k')})",
            lambda: f"count_if({self.truth(2)})",
            lambda: f"approx_count_distinct({self.any(1)}{self._one('', '', ', 0.02', ', 0.3')})",
            lambda: (
                f"approx_percentile({self._one(*'tsilkfdhpqu', 'ts', 'n', self.number(1))}, {self._one('0', '0.25', '0.5', '0.9', '1')}"
                f"{self._one('', ', 100', ', 10')})"
            ),
            lambda: (
                f"approx_percentile({self._one(*'tsilkfdhpq')}, array({self._one('0.5', '0.1, 0.9', '1, 0.28, 0.56')}))"
            ),
        ]
        if not is_mergeable:
            calls += [
                lambda: f"count(DISTINCT {self.any(1)})",
                lambda: f"median({self._one('k', 'h', 'p', added.number(1))})",
                lambda: f"percentile({self._one('k', 'h', 'i')}, {self._one('0', '0.25', '0.9', '1')})",
                lambda: f"mode({self._one('k', 'x', 'u', 'b', 'ts', self.whole(1))})",
                lambda: f"collect_set({self._one('x', 'k', 'h', 'u', 'p', 'b', 'ts')})",
                lambda: f"collect_list({self._one('x', 'k', 'd', 'u')})",
            ]
        return self.choose.choice(calls)() + where

    def measure(self, *, is_mergeable: bool) -> str:
        """Return an aggregate call, or an expression over some."""
        one = self.aggregate(is_mergeable=is_mergeable)
        if self._chance(0.65):
            return one
        a = self._one("sum(k)", "max(k)", "count(*)", "count(x)", "min(t)", "sum(h)", "sum(p)", "avg(k)")
        b = self._one("sum(k)", "min(k)", "count(h)", "max(t)", "sum(h)")
        return self._made(
            lambda: f"try_divide(CAST({a} AS DOUBLE), CAST({b} AS DOUBLE))",
            lambda: f"{a} {self._one('+', '-', '*')} {b}",
            lambda: f"coalesce({a}, 0)",
            lambda: f"CASE WHEN count(*) > {self._one('1', '3')} THEN {a} END",
            lambda: f"{self._one('sum(k)', 'count(*)')} / count(*)",
            lambda: f"nullif({b}, 0)",
            lambda: f"max({self.any(1)}) IS NULL",
            lambda: f"{self._one('floor', 'round', 'abs')}(sum(h))",
            lambda: f"concat(min(x), '/', coalesce(max(y), {self._one(chr(39) + '?' + chr(39), 'min(y)')}))",
            lambda: f"sum({self._one('k', 'p')}) FILTER (WHERE {self.truth(1)}) - {self._one('1', 'count(*)')}",
        )

    def having(self) -> str:
        """Return a condition on groups."""
        return self._one(
            "count(*) > 1", "count(*) > 3", "max(k) > 0", "sum(k) >= 3", "min(x) <> 'a'", "count_if(b) > 0", "max(ts) IS NOT NULL",
            "bool_or(c)", "sum(h) > 0D", "avg(k) < 5D AND count(x) > 0",
        )  # fmt: skip

    def _one(self, *of: str) -> str:
        return self.choose.choice(of)

    def _made(self, *makers: Callable[[], str]) -> str:
        return self.choose.choice(makers)()

    def _chance(self, share: float) -> bool:
        return self.choose.random() < share

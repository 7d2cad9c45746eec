"""Random statements as people type them: literals of every kind, aliases that are columns, comments, letters of both cases."""

from __future__ import annotations

import random
import re

from msgspec import Struct

from tests.statements.writing import COLUMNS, NOTES, PLAIN, Writing, as_typed_by_people, spelled


class Drawing(Struct, frozen=True):
    """Draws one statement.

    Args:
        choose: What everything follows from.
        writes: How literals are written.
    """

    choose: random.Random
    writes: Writing

    def statement(self) -> str:
        """Return a SELECT over ``src``, in one of the ways to type it."""
        qualifier = self._one("", "", "", "t", "T2", "src")
        source = {"": "src", "src": "src"}.get(qualifier, f"src {self._one('', 'AS ')}{qualifier}")
        is_window = self._chance(0.35)
        bucket = self._window() if is_window else self._truncated()
        start = self._one("window.start", f"{bucket}.start") if is_window else bucket
        is_time = is_window and self._chance(0.3)  # the microsecond before the end, in place of the start or beside it
        is_alone = is_time and self._chance(0.5)
        items = [
            (f"window_time({bucket})" if is_alone else start, self._alias(self._one("b", "b", "Bucket", "b_1", "ts")))
        ]
        keys = [self.key() for _ in range(self._one(0, 1, 1, 2))]
        items += [(sql, self._alias(self._one(f"k{at}", own, self._column()))) for at, (sql, own) in enumerate(keys)]
        measures = [self.measure() for _ in range(self._one(1, 2, 2, 3))]
        items += [
            (sql, self._alias(self._one(f"m{at}", f"m{at}", f"M{at}", self._column())))
            for at, sql in enumerate(measures)
        ]
        if self._chance(0.1):
            later = self._one("m0 + 1", "coalesce(m0, m0)", "m0 IS NULL", "-m0")
            is_number = measures[0].lower().startswith(("count", "sum", "avg"))
            # a text that is no number fails a refresh also where HAVING drops its group; in Spark it does only without an alias
            items.append((later if is_number or "(" in later else "m0 IS NULL", " AS later"))
        groups = [self._group(0, items[0][0] if is_alone else bucket, items[0])]
        groups += [self._group(at + 1, sql, items[at + 1]) for at, (sql, _) in enumerate(keys)]
        if is_time and not is_alone:
            items.append((f"window_time({bucket})", self._alias(self._one("t", "t", "last", "D"))))
            groups.append(self._one(f"window_time({bucket})", str(len(items)), f"WINDOW_TIME( {bucket})"))
        if self._chance(0.1):
            items[1:] = self.choose.sample(items[1:], len(items) - 1)
        grouped = "ALL" if self._chance(0.06) and (is_alone or not is_window) else ", ".join(groups)
        text = f"SELECT {', '.join(sql + name for sql, name in items)} FROM {source}"
        text += f" WHERE {self.truth()}" if self._chance(0.55) else ""
        text += f" GROUP BY {grouped}"
        text += f" HAVING {self._having(keys)}" if self._chance(0.3) else ""
        if qualifier and self._chance(0.5):
            text = (
                re.sub(r"\b(n|x|p|note|sym|ts)\b(?![('`.])", lambda name: f"{qualifier}.{name[0]}", text)
                if "'" not in text
                else text
            )
        return as_typed_by_people(text, self.choose, is_calm=self.writes.is_plain)

    # -- clauses ---------------------------------------------------------------------------------------------------------

    def _truncated(self) -> str:
        unit = self._one("hour", "HOUR", "day", "Day", "month", "week", "dd", "MON")
        return f"date_trunc({self.writes.literal(unit)}, ts)"

    def _window(self) -> str:
        spans = self._one(
            ("1 hour",),
            ("30 minutes", "30 minutes", "10 minutes"),
            ("1 day",),
            ("2 HOURS",),
            ("INTERVAL 1 HOUR",),
            ("1 week",),
        )
        return f"window(ts, {', '.join(self.writes.literal(s) for s in spans)})"

    def _alias(self, name: str) -> str:
        return f" {self._one('AS ', 'AS ', '', 'as ')}{spelled(name, self.choose)}"

    def _group(self, at: int, sql: str, item: tuple[str, str]) -> str:
        name = item[1].split()[-1]
        if sql.lower().startswith("window"):
            return sql
        return self._one(sql, str(at + 1), name)

    def _having(self, keys: list[tuple[str, str]]) -> str:
        conditions = [
            "count(*) > 1", "COUNT(1) >= 2", "max(n) IS NOT NULL", f"min(note) <> {self.text()}", f"max(note) LIKE {self.pattern()}",
            f"sum(x) > {self.number()}", "b > TIMESTAMP '2024-03-01 12:00:00' OR b IS NULL", "m0 IS NOT NULL", f"count_if(note = {self.text()}) >= 1",
            *(f"{sql} IS NOT NULL" for sql, _ in keys),
        ]  # fmt: skip
        return self._one("", "NOT ") + f"({self._one(*conditions)})"

    # -- of rows ---------------------------------------------------------------------------------------------------------

    def key(self) -> tuple[str, str]:
        """Return what rows are grouped by, and a name for it."""
        return self._one(
            ("sym", "sym"), ("SYM", "Sym"), ("`größe`", "größe"), ("`select`", "select"), ("`a-b`", "a-b"), ("`x``y`", "x`y"), ("d", "d"),
            ("upper(sym)", "sym"), ("n % 3", "n"), (f"{self.text()} || sym", "k"), (f"sym||{self.text()}", "sym"),
            (f"note = {self.text()}", "flag"), (f"note IN ({self.text()}, {self.text()})", "note"), ("x > 1e0", "x"),
            (f"CASE WHEN note LIKE {self.pattern()} THEN {self.text()} ELSE {self.text()} END", "note"),
            (f"coalesce(sym, {self.text()})", "sym"), ("flag", "flag"), (f"CASE sym WHEN {self.text()} THEN 1 ELSE {self.whole()} END", "c"),
            (f"concat(note, {self.text()}, sym)", "note"), (f"replace(note, {self.text()}, {self.text()})", "note"),
            (f"p * {self.number()} > 1", "p"), (f"CAST({self.text()} AS STRING)", "s"), (f"length({self.text()}) + n % 2", "n"),
        )  # fmt: skip

    def measure(self) -> str:
        """Return what a group has."""
        filtered = f" FILTER (WHERE {self.truth()})" if self._chance(0.25) else ""
        one = self._one(
            "count(*)", "COUNT(1)", "Sum(n)", f"sum(n + {self.whole()})", f"sum(x * {self.number()})", f"sum(p + {self.number()})",
            f"max(note || {self.text()})", f"min(concat({self.text()}, note))", f"count(DISTINCT concat(note, {self.text()}))",
            f"max(x) + {self.number()}", f"avg(p * {self.whole()})", f"count(nullif(note, {self.text()}))",
            f"sum(CASE WHEN {self.truth()} THEN {self.number()} ELSE {self.whole()} END)", f"max(ts + {self.interval()})",
            f"min(CASE note WHEN {self.text()} THEN {self.text()} ELSE {self.text()} END)", f"max({self.literal()})",
            f"max(d + {self.interval(is_of_days=True)})", f"bool_or({self.truth()})", "max(`x``y`)", "min(`größe`)", "sum(length(`select`))",
            f"max_by(note, concat(sym, note, {self.text()}))", f"min(replace(note, {self.text()}, {self.text()}))", "avg(x)", "max(flag)",
            f"sum(length(concat(note, {self.text()})))", f"max(decode(encode({self.text()}, 'utf-8'), 'utf-8'))", "min(ts)", "max(d)",
        )  # fmt: skip
        one = f"count_if({self.truth()})" if self._chance(0.35) else one
        if filtered:
            return one + filtered if one.endswith(")") and ") +" not in one else one
        if self._chance(0.1):
            forms = [f"coalesce({one}, NULL)", f"({one}) IS NULL"]
            if one.lower().startswith("count"):  # the text of a sum of doubles depends on their order
                forms += [f"concat({one}, {self.text()})", f"CAST({one} AS STRING)"]
            return self._one(*forms)
        return one

    def truth(self, depth: int = 1) -> str:
        """Return a condition."""
        if depth and self._chance(0.25):
            a, b = self.truth(depth - 1), self.truth(depth - 1)
            return self._one(
                f"{a} AND {b}", f"{a} OR {b}", f"NOT ({a})", f"({a}) <> ({b})", f"NOT {a}", f"{a} AND NOT {b} OR {a}"
            )
        sign = self._one("=", "<>", "!=", "<", "<=", ">", ">=", "<=>", "==")
        return self._one(
            f"note {self._one('=', '=', '=', '<>', '!=', '==', '<=>')} {self.text()}", f"{self.text()} = note", f"note = {self.text()}",
            f"note {self._one('', 'NOT ')}IN ({self.text()}, {self.text()})", f"note {self._one('', 'NOT ')}LIKE {self.pattern()}",
            f"note RLIKE {self.text('^a', '[A-Z]', chr(92) + 'd', '.')}", f"contains(note, {self.text()})", f"n {sign} {self.whole()}",
            f"x {sign} {self.number()}", f"p {sign} {self.number()}", f"n BETWEEN {self.whole()} AND {self.whole()}", "flag", "NOT flag",
            f"ts {sign} {self.instant()}", f"d {sign} {self.day()}", f"ts + {self.interval()} {sign} {self.instant()}", "x IS NOT NULL",
            f"concat(note, {self.text()}) = concat({self.text()}, note)", f"sym {sign} {self.text('A', 'a', 'B')}", "`a-b` = 'q'",
            f"sym IS {self._one('', 'NOT ')}DISTINCT FROM {self.text('A', 'a')}", f"length({self.text()}) > length(note)",
            f"{self.literal()} IS NOT NULL", f"note LIKE {self.text('a!%', '!_%', '%!!')} ESCAPE '!'", f"n * {self.number()} {sign} x",
            f"startswith(note, {self.text()})", f"instr(note, {self.text()}) > 0", f"`größe` {sign} {self.text()}",
        )  # fmt: skip

    # -- literals --------------------------------------------------------------------------------------------------------

    def text(self, *of: str) -> str:
        """Return the literal of a text, which most often one row has."""
        return self.writes.literal(self._one(*(of or (PLAIN if self.writes.is_plain else NOTES))))

    def pattern(self) -> str:
        """Return the literal of a pattern of LIKE."""
        return self.text(
            "a%", "%'%", "_", "%", "", "it%s", r"\%", r"C:\\%", "%${%", "%--%", "é%", r"100\%", "A_", r"%\\", "%/*%"
        )

    def whole(self) -> str:
        """Return a whole number."""
        if self.writes.is_plain:
            return self._one("0", "1", "7", "-3", "2147483648")
        return self._one(
            "0",
            "1",
            "7",
            "-3",
            "+2",
            "2L",
            "3S",
            "4Y",
            "007",
            "2147483648",
            "9223372036854775807",
            "- 5",
            "--5\n1",
            "(1)",
            "1l",
        )

    def number(self) -> str:
        """Return a number: a decimal, a double, tiny or huge."""
        if self.writes.is_plain:
            return self._one("1.5", "0.1", "-2.25", "2", "0.0001", "1000000.5", "1.50D")
        return self._one(
            "1.5", "0.1", ".5", "5.", "1e3", "1E-3", "1.5e+2", "1e308", "5e-324", "1e-400", "1.0BD", "2.5bd", "1D", "1.5f", "3d", "0.1BD",
            "-1.50", "1e0", "99999999999999999999", "0.00000000000000000001", "123456789012345678901234567890.12345678", "1e-7BD", "-0.0",
            "2", "-1", "1e1f", "1.e2", "00.10", "1E5BD", "-.5e-1", "0xFF", "1_000",
        )  # fmt: skip

    def instant(self) -> str:
        """Return an instant."""
        return self._one(
            "TIMESTAMP '2024-03-01 12:00:00'", "timestamp'2024-03-01T12:00:00Z'", 'TIMESTAMP "2024-03-02"', "TIMESTAMP '2024-03-01 13:00:00+02:00'",
            "'2024-03-01 12:00:00'", "timestamp '2024-03-01 12:00:00.123456'", "TIMESTAMP_NTZ '2024-03-01 12:00:00'", "DATE '2024-03-02'",
            "TIMESTAMP_LTZ '2024-03-01 11:30:00'", "TIMESTAMP '2024-03-01 12:00:00 Europe/Berlin'", "TIMESTAMP '0001-01-01'", "to_timestamp('2024-03-02')",
            "TIMESTAMP r'2024-03-01 12:00:00'", "CAST('2024-03-01 12:00:00' AS TIMESTAMP)", "TIMESTAMP '9999-12-31 23:59:59.999999'",
            "TIMESTAMP '2024-03'", "'2024-03-01T12'", "TIMESTAMP '1582-10-10'", "make_timestamp(2024, 3, 1, 12, 0, 0)",
        )  # fmt: skip

    def day(self) -> str:
        """Return a day."""
        return self._one(
            "DATE '2024-03-02'", "date'2024-3-1'", "'2024-03-02'", 'DATE "2024-03"', "DATE '2024'", "CAST('2024-03-02' AS DATE)", "date('2024-03-02')",
            "DATE '0001-01-01'", "TIMESTAMP '2024-03-02'", "DATE '+2024-03-02'", "make_date(2024, 3, 2)",
        )  # fmt: skip

    def interval(self, *, is_of_days: bool = False) -> str:
        """Return an interval."""
        if is_of_days:
            return self._one(
                "INTERVAL 1 DAY",
                "INTERVAL '1' DAY",
                "INTERVAL '-2' DAYS",
                "INTERVAL 1 MONTH",
                "1",
                "INTERVAL '1-2' YEAR TO MONTH",
                "interval 1 year",
            )
        return self._one(
            "INTERVAL 1 HOUR", "INTERVAL '1' HOUR", "interval '1 02:03:04' day to second", "INTERVAL -5 MINUTES", "INTERVAL '1 hour 30 minutes'",
            "INTERVAL 1 DAY 2 HOURS", "INTERVAL '90' SECOND", "INTERVAL '1' MONTH", "INTERVAL '0.5' SECOND", "INTERVAL - '1' DAY", "- INTERVAL 1 DAY",
            "INTERVAL '02:30' HOUR TO MINUTE", "make_interval(0, 0, 0, 1)", "INTERVAL 1 WEEK", "INTERVAL '1.000001' SECONDS", "INTERVAL 1 YEAR",
        )  # fmt: skip

    def literal(self) -> str:
        """Return a literal of any kind."""
        return self._one(
            self.text(), self.whole(), self.number(), self.instant(), self.day(), self.interval(), "X'1F'", "x'00ff'", "true", "NULL", "False",
            "INTERVAL '1-2' YEAR TO MONTH", "current_timezone()", "array(1, 2)[0]", "named_struct('a', 1).a", "map('k', 'v')['k']", 'x"1F"',
        )  # fmt: skip

    def _column(self) -> str:
        return self._one(
            *(COLUMNS if self._chance(0.05) else [name for name in COLUMNS if name.isascii() and name.isalnum()])
        )

    def _one(self, *of):  # type: ignore[no-untyped-def]
        return self.choose.choice(of)

    def _chance(self, share: float) -> bool:
        return self.choose.random() < share

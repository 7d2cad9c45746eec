"""A pattern of Java is found in a text where the one of RE2 that takes its place is, or it is left to Spark."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest

from materializer.local.kinds import NotLocal
from materializer.local.patterns import of_java
from materializer.local.typed import text_literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENDS = ["\n", "\r", "\r\n", "\n\r", "\x85", "\u2028", "\u2029", "\n\n", "\x0b", "\x00"]
TEXTS = [
    "",
    *ENDS,
    *(f"{a}{end}{b}" for a, end, b in itertools.product(["", "a", "ab", "-é"], ENDS, ["", "b", "a-"])),
    *("".join(each) for n in (1, 2, 3, 5) for each in itertools.product("ab-é𝄞"[: 6 - n], repeat=n)),
    "aB cd",
    "ba" * 40,
]


class Drawn:
    """Patterns at random."""

    def __init__(self, seed: int) -> None:
        self._choose = random.Random(seed)

    def pattern(self, depth: int = 2) -> str:
        """Return alternatives."""
        return "|".join(self._branch(depth) for _ in range(self._choose.choice([1, 1, 1, 2, 3])))

    def _branch(self, depth: int) -> str:
        start, end = self._choose.choice(["", "", "^"]), self._choose.choice(["", "", "$"] if depth == 2 else [""])
        return start + "".join(self._part(depth) for _ in range(self._choose.randint(0, 3))) + end

    def _part(self, depth: int) -> str:
        count = self._choose.choice(["", "", "", "*", "+", "?", "{2}", "{1,3}", "{0,1}", "{2,}", "*?", "{1,2}?"])
        kinds = ["a", "b", "-", "é", ".", "[ab]", "[^a]", "[a-]", "[^é-]", "[a-cé]", "𝄞", " ", "[&a]"]
        groups = [f"({self.pattern(depth - 1)})", f"(?:{self.pattern(depth - 1)})"] if depth else []
        return self._choose.choice(kinds + groups) + count


def known(patterns: list[str]) -> dict[str, str]:
    """Return the patterns that have a form, each once, with it."""
    found = {}
    for pattern in patterns:
        try:
            found[pattern] = of_java(pattern)
        except NotLocal:
            continue
    return found


@pytest.mark.spark
def test_it_is_found_where_java_finds_it(spark: SparkSession) -> None:
    """
    In texts with each end of a line that Java knows, alone, doubled and at the end.
    """
    drawn = Drawn(7)
    forms = known([drawn.pattern() for _ in range(700)])
    assert 300 < len(forms)
    frame = spark.createDataFrame([(i, text) for i, text in enumerate(TEXTS)], "i int, x string").coalesce(1).cache()
    connection = duckdb.connect()
    connection.register("texts", pa.table({"i": range(len(TEXTS)), "x": pa.array(TEXTS)}))
    wrong = []
    for part in _parts(list(forms), 60):
        theirs = frame.selectExpr("i", *(f"x RLIKE '{p}' AS c{n}" for n, p in enumerate(part))).orderBy("i").collect()
        columns = ", ".join(f"regexp_matches(x, {text_literal(forms[p])})" for p in part)
        ours = connection.sql(f"SELECT i, {columns} FROM texts ORDER BY i").fetchall()
        wrong += [
            (pattern, TEXTS[row[0]], mine[n + 1])
            for row, mine in zip(theirs, ours, strict=True)
            for n, pattern in enumerate(part)
            if row[n + 1] != mine[n + 1]
        ]

    assert [] == wrong


def _parts(all_of_them: list[str], size: int) -> list[list[str]]:
    return [all_of_them[at : at + size] for at in range(0, len(all_of_them), size)]


@pytest.mark.parametrize(
    "pattern",
    [
        r"\d",
        "a**",
        "a*+",
        "a{2}+",
        "(ab)*",
        "a()",
        "(a?){2}",
        "(a|)?",
        "(a|b){2,}",
        "(?i)a",
        "(?=a)",
        "(?<n>a)",
        "[^a]$",
        "(a$)",
        "a$b",
        "$*",
        "[[a]]",
        "[a&&b]",
        "[a^]",
        "[]a]",
        "[a-c-e]",
        "[b-a]",
        "[--a]",
        "a{2",
        "a{3,1}",
        "a{1001}",
        "(a{40}){40}",
        "a]",
        "(a",
        "a)",
        "\n",
        "[\t]",
    ],
)
def test_what_is_read_in_another_way_is_left_to_spark(pattern: str) -> None:
    """
    Or may be: flags, looking around, possessive counts, classes of classes, an end inside, errors.
    """
    with pytest.raises(NotLocal, match="rlike"):
        of_java(pattern)

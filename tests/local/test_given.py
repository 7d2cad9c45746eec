"""A written value is one of its column's type, or refused in words; whatever is written, nothing else is raised."""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from materializer.core.language.unit_tests import read_unit_tests
from materializer.core.language.written import Text, UnreadableYamlError, WrittenMapping, read_yaml
from materializer.lake.types import json_of
from materializer.lake.write.given import given_table
from materializer.local.given import value_of

GOOD: list[tuple[str, str, Any]] = [
    ("string", "no", "no"),
    ("string", "2024-03-01", "2024-03-01"),
    ("boolean", "True", True),
    ("tinyint", "-128", -128),
    ("bigint", "9223372036854775807", 2**63 - 1),
    ("double", "1e3", 1000.0),
    ("double", "-.inf", float("-inf")),
    ("decimal(5,2)", "-123.45", Decimal("-123.45")),
    ("date", "2024-02-29", date(2024, 2, 29)),
    ("timestamp", "2024-03-01", datetime(2024, 3, 1, tzinfo=UTC)),
    ("timestamp", "2024-03-01T06:00:00.000001+02:00", datetime(2024, 3, 1, 4, 0, 0, 1, tzinfo=UTC)),
    ("timestamp_ntz", "2024-03-01 06:00", datetime(2024, 3, 1, 6, tzinfo=UTC).replace(tzinfo=None)),
    ("binary", "00ff", b"\x00\xff"),
    ("array<int>", "[1, null]", [1, None]),
    ("map<string,int>", "{a: 1}", [("a", 1)]),
    ("struct<a:int,b:date>", "{B: 2024-03-01}", {"a": None, "b": date(2024, 3, 1)}),
    ("string", "~", None),
    ("string", "'~'", "~"),
]
BAD = [
    ("boolean", "yes"),
    ("tinyint", "128"),
    ("bigint", "1.0"),
    ("bigint", "1_000"),
    ("double", "1_000"),
    ("double", "many"),
    ("decimal(5,2)", "1234.5"),
    ("decimal(5,2)", "1.234"),
    ("decimal(5,2)", "nan"),
    ("decimal(5,2)", "1E+999999"),
    ("date", "2024-02-30"),
    ("date", "2024-03-01T00:00:00"),
    ("timestamp", "yesterday"),
    ("timestamp", "2024-03-01T06:00:00.0000001Z"),
    ("timestamp", "0001-01-01T00:00:00+05:00"),
    ("timestamp_ntz", "2024-03-01T06:00:00Z"),
    ("binary", "xyz"),
    ("array<int>", "1"),
    ("array<int>", "[a]"),
    ("map<string,int>", "{~: 1}"),
    ("struct<a:int>", "{c: 1}"),
    ("struct<a:int>", "[1]"),
    ("int", "[1]"),
    ("variant", "1"),
]


def written(text: str) -> Any:
    found = read_yaml(f"x: {text}\n")
    assert isinstance(found, WrittenMapping)
    return found.items[0][1]


@pytest.mark.parametrize(("kind", "text", "value"), GOOD)
def test_a_value_is_what_its_type_says(kind: str, text: str, value: Any) -> None:
    """
    And an Arrow table of the type holds it.
    """
    found = value_of(written(text), json_of(kind))

    assert found == value
    assert given_table([("x", kind)], [{"x": found}])["x"].to_pylist() == [value]


@pytest.mark.parametrize(("kind", "text"), BAD)
def test_what_does_not_fit_is_refused(kind: str, text: str) -> None:
    """
    With words that say what is expected.
    """
    with pytest.raises(ValueError, match=r"expected|cannot be written|there is no field"):
        value_of(written(text), json_of(kind))


def test_half_a_character_is_no_text() -> None:
    """
    Not every reader of YAML refuses it.
    """
    with pytest.raises(ValueError, match="half a character"):
        value_of(Text("\ud800"), "string")


def test_nearly_right_files_are_read_or_refused(fresh_seed: int) -> None:
    """
    Of files in which pieces were moved, doubled or lost, each gives tests or problems with a code, and values or a refusal.
    """
    choose = random.Random(fresh_seed)
    rows = ", ".join(f"{{x: {text}}}" for _, text, _ in GOOD)
    whole = f"columns: {{x: int}}\nunit_tests:\n  - name: a\n    model: m\n    given:\n      - input: ref('s')\n        rows: [{rows}]\n    expect:\n      format: csv\n      rows: |\n        a,b\n        1,\n"
    kinds = [json_of(kind) for kind, *_ in GOOD]
    read = 0
    for _ in range(400):
        text = whole
        for _ in range(choose.randint(1, 3)):
            at, to = sorted(choose.randrange(len(text)) for _ in range(2))
            piece = text[at : min(to, at + 20)]
            text = choose.choice(
                [
                    text[:at] + text[at + len(piece) :],
                    text[:at] + piece + text[at:],
                    text[:to] + choose.choice("&*!:{}[]'\"|-\t\n\x00é") + text[to:],
                ]
            )
        tests, problems = read_unit_tests(text, "t.yml")
        read += bool(tests)
        assert {p.code for p in problems} <= {"test.file", "test.invalid"}
        for test in tests:
            for row in test.given:
                for _, value in row.values:
                    with suppress(ValueError):
                        value_of(value, choose.choice(kinds))
    assert read > 10


def test_a_mapping_of_many_keys_is_read_at_once() -> None:
    """
    Each key is looked up once: a file of as many keys as fit has no twin that is found by comparing all pairs.
    """
    many = "".join(f"k{i}: 1\n" for i in range(60_000))

    found = read_yaml(many)
    assert isinstance(found, WrittenMapping)
    assert len(found.items) == 60_000
    with pytest.raises(UnreadableYamlError, match="twice"):
        read_yaml(many + "k1: 1\n")

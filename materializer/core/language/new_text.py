"""The texts of a new definition and of its suite, with every name quoted where a parser could take it for something else."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Answers(Struct, frozen=True):
    """What a definition is made of.

    Args:
        name: Name of the aggregate.
        source: As FROM names it.
        time: The time column.
        resolution: What a tick of an integer time column is; "" for other types and plain integers.
        bucket: Width of the buckets, such as ``1 hour``.
        keys: Columns that rows are grouped by.
        measures: Measures as SQL with their names, such as ``count(*) AS n``.
        policy: Properties of the refresh policy, without ``refresh.``.
    """

    name: str
    source: str
    time: str
    resolution: str
    bucket: str
    keys: tuple[str, ...]
    measures: tuple[str, ...]
    policy: tuple[tuple[str, str], ...] = ()


def definition(answers: Answers) -> str:
    """Return the SQL text of a definition, with its policy as properties."""
    properties = [("time.resolution", answers.resolution)] if answers.resolution else []
    properties += [(f"refresh.{name}", value) for name, value in answers.policy]
    listed = ",\n".join(f" {literal(name)} = {literal(value)}" for name, value in properties)
    head = f"CREATE MATERIALIZED VIEW {answers.name}\n" + (f"TBLPROPERTIES (\n{listed}\n)\n" if listed else "")
    call = f"time_bucket({literal(answers.bucket)}, {quoted(answers.time)})"
    columns = [f"{call} AS {bucket_name(answers)}", *_selected(answers.keys), *answers.measures]
    grouped = ", ".join([call, *(quoted(key) for key in answers.keys)])
    listed = ",\n ".join(columns)
    return f"{head}AS SELECT\n {listed}\nFROM {from_text(answers.source)}\nGROUP BY {grouped};\n"


def bucket_name(answers: Answers) -> str:
    """Return the name of the bucket's column."""
    return free_name("bucket", {alias_of(key) for key in answers.keys})


def _selected(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        yield name if alias_of(name) == name and quoted(name) == name else f"{quoted(name)} AS {alias_of(name)}"


def suite(answers: Answers, without_nulls: Collection[str]) -> str:
    """Return the text of a suite that the aggregate meets: counts are positive, and buckets and keys are there.

    Args:
        answers: What the definition is made of.
        without_nulls: The keys that always have a value, as far as rows were looked at.
    """
    always = [bucket_name(answers), *(alias_of(key) for key in answers.keys if key in without_nulls)]
    counts = [match[1] for m in answers.measures if (match := re.fullmatch(r"(?i)count\(\*\) AS (\w+)", m))]
    severities = ("critical", *("warning" for _ in always[1:]))
    found = [
        _expectation("expect_column_values_to_not_be_null", severity, column=name)
        for name, severity in zip(always, severities, strict=True)
    ]
    found += [_expectation("expect_column_values_to_be_between", "critical", column=n, min_value=1) for n in counts]
    return json.dumps({"name": answers.name, "expectations": found}, indent=2) + "\n"


def _expectation(kind: str, severity: str, **kwargs: Any) -> dict[str, Any]:
    return {"type": kind, "kwargs": kwargs, "severity": severity}


def from_text(source: str) -> str:
    """Return a source as FROM names it.

    Examples:
        >>> from_text("trades"), from_text("lake/trades"), from_text("a.b.c"), from_text("select")
        ('trades', 'delta.`lake/trades`', 'a.b.c', '`select`')
    """
    if re.fullmatch(r"\w+(\.\w+){0,2}", source, re.ASCII) and not source[0].isdigit():
        return source if "." in source else quoted(source)
    return f"delta.`{source.replace('`', '``')}`"


def quoted(name: str) -> str:
    """Return a column's name, in backquotes unless it is a plain word that is no keyword."""
    is_word = _PLAIN.fullmatch(name) and name.lower() not in _KEYWORDS
    return name if is_word else f"`{name.replace('`', '``')}`"


def literal(text: str) -> str:
    """Return a text as a literal of Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def alias_of(name: str) -> str:
    """Return a name for an output column: letters, digits and underscores, a letter first.

    Examples:
        >>> alias_of("sym"), alias_of("Größe in %"), alias_of("_x"), alias_of("1st")
        ('sym', 'Gr_e_in', 'x', 'c_1st')
    """
    text = re.sub(r"\W+", "_", name, flags=re.ASCII)
    text = re.sub(r"_+", "_", text).strip("_") if not _PLAIN.fullmatch(name) or name.startswith("_") else text
    text = text if text[:1].isalpha() else f"c_{text}".rstrip("_")
    return f"{text}_" if text.lower() in _KEYWORDS else text


def free_name(name: str, taken: set[str]) -> str:
    """Return a name that is not taken, in any letters, and take it."""
    lower = {each.lower() for each in taken}
    found = next(n for n in (name, *(f"{name}_{i}" for i in range(2, 1_000))) if n.lower() not in lower)
    taken.add(found)
    return found


_KEYWORDS: Final = frozenset(
    """all and anti any array as asc at between both by case cast check collate column constraint create cross cube
    current_date current_time current_timestamp current_user date day delete desc describe distinct drop else end
    escape except exists explain extract false fetch filter first following for foreign from full function grant
    group grouping having hour if in inner insert intersect interval into is join last lateral leading left like
    limit map merge minute minus month natural no not null nulls of offset on only or order outer over overlaps
    partition percent position preceding primary range references replace right rlike rollup row rows second select
    semi session_user set sets some sort struct table tables then time timestamp to trailing true truncate union
    unique unknown unpivot update user using values view when where window with within year""".split()  # noqa: SIM905 (words are read in lines)
)
"""Words that are quoted as names, so that no parser takes them for something else."""

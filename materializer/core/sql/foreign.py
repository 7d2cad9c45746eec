"""What people write who come from other systems, and what is written here."""

from __future__ import annotations

from typing import Final

from sqlglot import TokenType

from materializer.core.sql import functions as known
from materializer.core.sql.tokens import Fragment, string_value, words

_HEAD: Final = "CREATE MATERIALIZED VIEW"
_FORM: Final = f"write {_HEAD} name AS SELECT … FROM … GROUP BY …"
_ADMINISTRATION: Final = {
    "REFRESH_CONTINUOUS_AGGREGATE": "run 'materializer refresh NAME'",
    "ADD_CONTINUOUS_AGGREGATE_POLICY": "write the property 'refresh.schedule' into the definition",
    "ADD_RETENTION_POLICY": "write the property 'output.retention' into the definition",
    "REFRESH": "run 'materializer refresh NAME'",
    "DROP": "run 'materializer drop NAME'",
    "ALTER": "change the definition and run 'materializer apply FILE'",
    "CREATE INDEX": "take it away: files are found by their statistics, and no table has an index",
}
"""What is a command and no definition, by its first words or its function."""
_OPTIONS: Final = {
    "WITH": "take WITH (…) away: every definition is continuous",
    "OPTIONS": "write TBLPROPERTIES ('name' = 'value')",
    "PARTITION BY": "take it away: a table is laid out by its buckets",
    "PARTITIONED BY": "take it away: a table is laid out by its buckets",
    "CLUSTER BY": "take it away: a table is laid out by its buckets",
    "USING": "take it away: every table is a Delta table",
    "SCHEDULE": "write TBLPROPERTIES ('refresh.schedule' = '0 * * * *')",
    "REFRESH": "write TBLPROPERTIES ('refresh.schedule' = '0 * * * *')",
}
"""What other systems have between the name and AS."""
CLAUSES: Final[dict[str, tuple[str, str, str]]] = {
    "ORDER BY": ("definition.order-by", "a table has no order", "take ORDER BY away; order when you read"),
    "SORT BY": ("definition.order-by", "a table has no order", "take SORT BY away; order when you read"),
    "CLUSTER BY": ("definition.order-by", "a table has no order", "take CLUSTER BY away"),
    "DISTRIBUTE BY": ("definition.order-by", "a table has no order", "take DISTRIBUTE BY away"),
    "LIMIT": (
        "definition.limit",
        "LIMIT depends on an order that a table does not have",
        "take it away; limit when you read",
    ),
    "OFFSET": ("definition.limit", "OFFSET depends on an order that a table does not have", "take it away"),
    "UNION": ("definition.set-operation", "a definition is one SELECT", "define one aggregate for each SELECT"),
    "EXCEPT": ("definition.set-operation", "a definition is one SELECT", "write the condition in WHERE"),
    "MINUS": ("definition.set-operation", "a definition is one SELECT", "write the condition in WHERE"),
    "INTERSECT": ("definition.set-operation", "a definition is one SELECT", "write the condition in WHERE"),
    "LATERAL": ("definition.lateral", "LATERAL VIEW makes several rows of one", "unnest when the rows are written"),
    "QUALIFY": (
        "definition.window-function",
        "QUALIFY filters by a window function",
        "write max_by(column, time) for the newest row of a group, and other conditions in HAVING",
    ),
    "WITH DATA": ("definition.unsupported-clause", "WITH DATA is not supported", "take it away, and run a backfill"),
    "WITH NO DATA": ("definition.unsupported-clause", "WITH NO DATA is not needed", "take it away"),
    "WINDOW": ("definition.window-function", "a WINDOW clause defines a window function", "use GROUP BY window(…)"),
    "PIVOT": (
        "definition.unsupported-clause",
        "PIVOT is not supported",
        "write one measure with FILTER for each value",
    ),
    "UNPIVOT": ("definition.unsupported-clause", "UNPIVOT is not supported", "do it when the rows are written"),
}
"""Clauses that a definition has not: the code, the message and the hint of each."""
_UNITS: Final = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
_PARTS: Final = frozenset(
    ["hour", "day", "dayofmonth", "dayofweek", "minute", "month", "quarter", "year", "extract", "date_part"]
)
_FUNCTIONS: Final = {
    "approx_count_distinct(…)": (
        "hll",
        "hyperloglog",
        "approx_distinct",
        "approximate_count_distinct",
        "uniq",
        "uniqcombined",
    ),
    "count(DISTINCT …)": ("count_distinct", "countdistinct", "uniqexact", "distinct_count"),
    "array_join(sort_array(collect_list(…)), ',')": ("string_agg", "listagg", "group_concat"),
    "percentile(…, 0.5)": ("quantile_cont", "quantile_exact", "quantileexact"),
    "regexp_like(…, 'pattern')": ("regexp_matches", "regexp_full_match", "regexp_match", "regexp_contains"),
}
"""By what they are in Spark: aggregates of other systems."""
_TICKS: Final = {"timestamp_seconds": "s", "timestamp_millis": "ms", "timestamp_micros": "us"}
_SECONDS: Final = frozenset(["from_unixtime", "to_timestamp", "timestamp_seconds"])


def not_a_definition(statement: Fragment) -> str:
    """Return what is written in place of a statement that begins with no `CREATE MATERIALIZED VIEW`."""
    begin, tokens = words(statement.tokens[:6]), statement.tokens
    if begin.startswith("{"):
        return "take the template away: dbt renders `{{ … }}`, and a definition names its source itself"
    for start, hint in _ADMINISTRATION.items():
        if begin.startswith((f"{start} ", f"CALL {start} ", f"SELECT {start} ")):
            return hint
    if begin.startswith("SELECT "):
        return f"write {_HEAD} name AS before it"
    if begin.startswith("FROM "):
        return f"write {_HEAD} name AS before it, and SELECT before FROM"
    until = next((at for at, t in enumerate(tokens[:6]) if words((t,)) in ("TABLE", "VIEW")), 0)
    if begin.startswith("CREATE ") and until:
        return f"write {_HEAD} in place of `{statement.part(0, until + 1).text}`"
    return _FORM


def option(word: str) -> str:
    """Return what mends a clause that may not stand between the name and AS."""
    return _OPTIONS.get(word, "between the name and AS only COMMENT and TBLPROPERTIES may stand")


def bucket(grouped: Fragment) -> str:
    """Return what mends an expression of GROUP BY that was meant to be the bucket, or ""."""
    tokens, normal = grouped.tokens, grouped.normal
    if len(grouped) > 2 and normal[-1] == "date" and tokens[-2].token_type == TokenType.DCOLON:
        return _by_day(grouped.part(0, -2))
    if len(grouped) < 4 or tokens[1].token_type != TokenType.L_PAREN or grouped.closing(1) != len(grouped) - 1:
        return ""
    name, args = tokens[0].text.lower(), grouped.part(2, -1).split()
    found = known.misspelled_as(name)
    if found in {*known.BUCKETS, "date_trunc"}:
        return f"did you mean `{found}`?"
    if name in ("cast", "try_cast") and normal[-3:] == ("as", "date", ")"):
        return _by_day(grouped.part(2, -3))
    if name in ("date", "to_date"):
        return _by_day(args[0])
    if name in ("trunc", "timestamp_trunc", "datetime_trunc") and len(args) == 2 and (unit := _unit(args[1])):
        return f"write date_trunc('{unit}', {args[0].text})"
    if name == "time_slice" and len(args) == 3 and (unit := _unit(args[2])):
        return f"write time_bucket('{args[1].text} {unit}', {args[0].text})"
    if name in ("timestamp_bucket", "datetime_bucket") and len(args) == 2 and words(args[1].tokens[:1]) == "INTERVAL":
        return f"write time_bucket('{' '.join(t.text.lower() for t in args[1].tokens[1:])}', {args[0].text})"
    if name == "date_bin" and len(args) == 3:
        return f"write time_bucket({args[0].text}, {args[1].text}, origin => '{args[2].tokens[-1].text}')"
    if name == "time_bucket_gapfill" and len(args) >= 2:
        return f"write time_bucket({args[0].text}, {args[1].text}); no bucket without rows is stored"
    if name == "tumble" and len(args) == 2:
        length = " ".join(t.text.lower() for t in args[1].tokens if t.token_type != TokenType.INTERVAL)
        return f"write window({args[0].text}, '{length}')"
    if name.startswith("tostartof") and (unit := name.removeprefix("tostartof")) in _UNITS:
        return f"write date_trunc('{unit}', {args[0].text})"
    if name in _PARTS:
        column = grouped.tokens[-2].text
        return f"add date_trunc('day', {column}), or another bucket; `{grouped.text}` may be a key beside it"
    return ""


def function(name: str) -> str:
    """Return what mends an aggregate of another system, or ""."""
    return next((f"write {ours}" for ours, theirs in _FUNCTIONS.items() if name in theirs), "")


def _by_day(time: Fragment) -> str:
    """Return the bucket of a day, with a number that was made a time as it is."""
    inner = time.part(2, -1) if words(time.tokens[1:2]) == "(" else time
    if (hint := time_column(time)) and inner is not time:
        return f"write date_trunc('day', …): {hint}"
    return f"write date_trunc('day', {time.text})"


def _unit(fragment: Fragment) -> str:
    """Return the unit of time in a word or a text, or ""."""
    text = (string_value(fragment.tokens[0]) or fragment.text).lower() if len(fragment) == 1 else ""
    return text if text in _UNITS else ""


def exchanged(fragment: Fragment, args: list[Fragment]) -> str:
    """Return `date_trunc` with its arguments in our order, where they stand in BigQuery's; or ""."""
    unit = _unit(args[1]) if len(args) == 2 else ""
    return f"write {fragment.tokens[0].text}('{unit}', {args[0].text})" if unit else ""


def time_column(fragment: Fragment, zoned: str = "date_trunc('day', {}, {})") -> str:
    """Return what mends a time that is computed, or "".

    Args:
        fragment: The time.
        zoned: The bucket with places for the time and for its zone.
    """
    tokens = fragment.tokens
    first, second = (token.text for token in (*tokens, *tokens)[:2]) if tokens else ("", "")
    if len(tokens) == 1 and string_value(tokens[0]) is not None:
        return f"write {string_value(tokens[0])}, or it in backquotes: in Spark SQL double quotes hold a text"
    if "AT TIME ZONE" in words(tokens) and string_value(tokens[-1]) is not None:
        return f"write {first}, and the zone as an argument: {zoned.format(first, repr(tokens[-1].text))}"
    if len(tokens) > 2 and tokens[-2].token_type == TokenType.DCOLON:
        return _of_cast(fragment.part(0, -2))
    if second != "(" or len(tokens) < 4 or fragment.closing(1) != len(tokens) - 1:
        return ""
    name, inner = first.lower(), fragment.part(2, -1)
    args = inner.split()
    if name in ("cast", "try_cast"):
        return _of_cast(fragment.part(2, -3))
    if name == "from_utc_timestamp" and len(args) == 2:
        return f"write {args[0].text}, and the zone as an argument: {zoned.format(args[0].text, args[1].text)}"
    if name in _SECONDS and words(inner.tokens[-2:]) == "/ 1000":
        return _ticks(inner.part(0, -2), "ms")
    if name == "to_timestamp" and len(args) == 1:
        return f"{_ticks(inner, 's')}; a time in text has to be stored as a timestamp when the rows are written"
    unit = _TICKS.get(name) or ("ms" if name == "epoch_ms" else "s" if name in _SECONDS and len(args) == 1 else "")
    return _ticks(inner, unit) if unit else ""


def _ticks(column: Fragment, unit: str) -> str:
    return f"divide {column.text}, with the property 'time.resolution' = '{unit}'"


def _of_cast(column: Fragment) -> str:
    return f"write {column.text} if it is a time; store a text as a time when the rows are written"


def source(fragment: Fragment) -> str:
    """Return what mends a source that is no name, or ""."""
    tokens = fragment.tokens
    if words(tokens[:2]).startswith("{"):
        named = [text for token in tokens if (text := string_value(token)) is not None]
        return f"write {named[-1]}: a definition names its source itself" if named else ""
    is_call = words(tokens[:1]) == "(" and len(tokens) != 3
    text = "" if is_call else next((text for token in tokens if (text := string_value(token)) is not None), "")
    if text and len(tokens) == 1 and "/" not in text and "." not in text:
        return f"write {text} without quotes, or in backquotes"
    return f"write delta.`{text}`, the folder of a Delta table" if text else ""

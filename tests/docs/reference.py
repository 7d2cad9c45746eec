"""What definitions may say, and which codes there are, as tables made from the registries: one page for each.

Words stand here, names and expressions come from the code; a name without words, or words without a name, is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from materializer.adapters.metrics.catalogue import METRICS
from materializer.config import Config
from materializer.core.aggregates import registry
from materializer.core.aggregates.decompose import parts_of
from materializer.core.aggregates.order import row_order
from materializer.core.aggregates.parts import Parts
from materializer.core.aggregates.registry import AggregateFunction, Family
from materializer.core.engines.registry import ENGINES, LATENESS
from materializer.core.language.parse import parse_definitions
from materializer.core.language.properties import FORMS, KNOWN
from materializer.core.spec.spec import CONTINUOUS
from materializer.errors import DefinitionError, TestFailedError, TestFileError
from materializer.errors.explained import Explanation, all_codes, statuses
from tests.docs.pages import table

PAGES: Final = ("definitions.md", "aggregates.md", "errors.md", "observability.md")
_SETTINGS: Final = Config()

# -- properties ----------------------------------------------------------------------------------------------------------

PROPERTIES: Final[Mapping[str, str]] = {
    "sequence": "column that orders rows of one instant, and rows of one commit in engines",
    "time.resolution": "what a tick of an integer time column is; without it widths are whole numbers",
    "time.timezone": "default zone of the bucket; UTC without it",
    "engine": "who computes the aggregate ([engines](engines/index.md)); its parameters are further properties, also as `engine.PARAMETER`",
    "lateness": "what becomes of late rows in an [engine](engines/index.md#parameters-of-every-engine); `recompute` without it",
    "refresh.start_offset": "start of the window of the [refresh policy](policies.md), back from now; open without it",
    "refresh.end_offset": "end of that window, back from now; without it the end of the newest bucket",
    "refresh.schedule": "when the policy runs, in UTC; without it by hand, or when data arrives",
    "refresh.max_runs": "runs that it does at most each time, 0 (the default) for no limit",
    "refresh.order": "which end of the window it does first; `newest` without it",
    "refresh.catch_dirt": "whether it takes dirt along that lies in no policy's window; `false` without it",
    "refresh.max_staleness": "how stale the aggregate may be: a promise that `status` judges",
    "log.max_entries": f"entries that the invalidation log may have before neighbours are joined; {_SETTINGS.log_max_entries:,} or "
    "what the [configuration](configuration.md) says without it. Fewer make the journal smaller and refreshes coarser",
    "source.retention": "how long the source keeps raw rows: history [freezes](retention.md) behind it",
    "source.known_at": "column of the source that says when a row was known, for `status` and `doctor` to tell how late rows are; without it "
    "the time of the commit, where a commit that loads history does not count",
    "source.on_replace": "what a refresh makes of a source that `CREATE OR REPLACE TABLE` replaced: everything anew, or an error; "
    "`refresh` without it",
    "output.retention": "how long the output keeps buckets",
    "output.change_feed": "whether a table beside the output says what each refresh [changed and why](change-feed.md); `false` without it",
    "output.table": "name of the output in a [catalog](catalogs.md#outputs-with-a-name); none without it",
    "output_handler": "Python function that is [given what a refresh published](python.md#output-handlers)",
    "msg_as_table": "whether that function is given a Spark frame (the default); `false`: a tuple of lists, one for each column",
    "versions.keep": "how many previous [versions](changes.md) are kept for `rollback`; 1 without it",
    "maintain.every": "after every so many refreshes, by their number, the tables are [maintained](maintenance.md); never without it",
    "maintain.retention": "how long files that no version needs stay, and the log of those versions; 7 days without it, or what the tables say",
    "quality.suite": "file of a [suite](quality.md#the-gate) for the rows of the aggregate; without it the one of the aggregate's name",
    "quality.source_suite": "likewise for the source rows that a refresh aggregates",
    "quality.on_failure": "what is not published when something critical fails; `refresh` without it",
    "quality.checks": "checks that need no suite; `false` without it",
    "quality.canaries": "how many buckets are computed again from raw rows and [compared](quality.md#canaries); 0 without it",
    "quality.canaries.every": "in every how many-th refresh; 1 without it",
    "quality.schedule": "when [Airflow](airflow.md#quality) runs `check`, in UTC",
    "quality.parameters": "values for parameters of suites",
}
"""What each property means, in the order of the page."""


def properties() -> str:
    """Return the table of properties: every one that a definition may have, what it must be, and what it means.

    Raises:
        KeyError: If a property has no words, or words have no property.
    """
    if wrong := KNOWN ^ set(PROPERTIES):
        raise KeyError(*sorted(wrong))
    rows = [(f"`{name}`", _form(name), meaning) for name, meaning in PROPERTIES.items()]
    at = next(i for i, row in enumerate(rows) if row[0] == "`refresh.max_staleness`")
    rows.insert(at, ("`refresh.NAME.…`", "as these", "the same six of another policy, called NAME"))
    return table(("property", "value", "meaning"), rows)


def _form(name: str) -> str:
    if name == "engine":
        return ", ".join(f"`{each}`" for each in (CONTINUOUS, *ENGINES))
    if name == "lateness":
        return ", ".join(f"`{each}`" for each in LATENESS)
    said = FORMS[name]("")
    if said is None:
        raise KeyError(name)
    return re.sub(r"'([^']*)'", r"`\1`", said)


# -- aggregates ----------------------------------------------------------------------------------------------------------

SAMPLE: Final = """CREATE OR REPLACE TEMPORARY VIEW sample AS
SELECT * FROM VALUES
  (TIMESTAMP '2024-03-04 09:30:00', 1, 1.0D, 4.0D, 6L, true, 'a'),
  (TIMESTAMP '2024-03-04 09:30:00', 2, 2.0D, 3.0D, 3L, false, 'b'),
  (TIMESTAMP '2024-03-04 09:31:00', 3, NULL, 2.0D, NULL, NULL, NULL),
  (TIMESTAMP '2024-03-04 09:32:00', 4, 4.0D, 3.0D, 5L, true, 'a')
  AS rows(ts, seq, x, y, n, ok, s)
"""
"""Rows over which every reference form can be asked for; ``seq`` is the sequence column."""
_TYPES: Final = {"x": "double", "y": "double", "n": "bigint", "ok": "boolean", "s": "string", "0.5": "decimal(1,1)"}
_CALLS: Final[Mapping[str, str]] = {
    **{name: f"{name}(ok)" for name in ("count_if", "bool_and", "bool_or")},
    **{name: f"{name}(n)" for name in ("bit_and", "bit_or", "bit_xor")},
    **{name: f"{name}(x, 0.5)" for name in ("approx_percentile", "percentile", "quantile")},
    **{name: f"{name}(0.5) WITHIN GROUP (ORDER BY x)" for name in ("percentile_cont", "percentile_disc")},
    "listagg": "listagg(s)",
    "count_min_sketch": "count_min_sketch(n, 0.1D, 0.9D, 1)",
    "searchk": "searchK(x, 2)",
    **{n.lower(): f"{n}(x)" for n in ("firstNot", "lastNot", "ifirstNot", "ilastNot")},
    **{n.lower(): f"{n}(x, y)" for n in ("atImax", "atImin")},
}
"""How an aggregate is called in the table, where it is not by its name with ``x``, or ``x`` and ``y``."""
_STORED: Final[Mapping[Family, str]] = {
    "same": "itself",
    "count": "itself",
    "sum": "itself; an overflow of integers or decimals fails, when partial sums are merged too",
    "avg": "sum and count; of `bigint` the sums of upper and lower halves, which cannot overflow",
    "variance": "count, mean and second moment, merged as Chan does",
    "sem": "as the variances",
    "comoment": "count, both means, both second moments and the co-moment of rows where both are not null",
    "shape": "count, mean, second to fourth moment, merged as Pébay does",
    "powers": "itself, in doubles",
    "weighted_sum": "itself, in doubles",
    "weighted_average": "both sums, in doubles",
    "product": "the product as a fraction and an exponent",
    "end": "the value with its place in the order of rows",
    "end_but": "the value with its place in the order of rows",
    "extreme_by": "the value with what it was chosen by and its place",
    "at_extreme": "the value with the location and its place; of `atImax` the value where the location is no number, date or time, "
    "and then it is not merged",
    "hll": "an HLL sketch; what it equals is the estimate of one sketch over all rows",
    "kll": "a KLL sketch and the count of NaN; equal within the rank error (1.33 %, or one over the accuracy)",
    "set": "the value, sorted",
    "list": "the value, in the order of rows",
    "mode": "the value, the smallest of the most frequent",
    "within_group": "the value",
    "listagg": "the value, sorted by itself unless WITHIN GROUP says otherwise",
    "percentile": "the value",
    "position_of_value": "the value, from 0; -1 where there is none",
    "position_of_extreme": "the value, from 0; -1 where there is none",
    "quantile": "the value",
    "kth_smallest": "the value",
    "try_sum": "as `sum`; of `bigint` and decimals the value, not merged",
    "try_avg": "as `avg`; of decimals the value, not merged",
    "value": "the value",
    "distinct_values": "the value; null counts as one",
}
"""What is kept of an aggregate, by how it comes apart."""
_DISTINCT: Final = {"same": "changes nothing", "recompute": "as a value, not merged", "refused": "refused"}
_TOLERANCE: Final = {"exact": "", "float": " (within 1e-9)", "rank": " (within its rank error)"}
LONGEST: Final = 64
"""An expression that is longer stands below the table."""


class Meaning(Struct, frozen=True):
    """What one aggregate means.

    Args:
        aggregate: Its entry in the registry.
        call: How it is called on the page.
        parts: What the call comes apart into.
    """

    aggregate: AggregateFunction
    call: str
    parts: Parts

    @property
    def name(self) -> str:
        """Its name as the page writes it."""
        return self.call.split("(")[0]

    @property
    def shown(self) -> str:
        """The reference form without parentheses that change nothing."""
        return plain(self.parts.reference)


def meanings() -> Iterator[Meaning]:
    """Return what every aggregate of the registry means, in its order."""
    for name, aggregate in registry.BY_NAME.items():
        call = _CALLS.get(name, f"{name}({', '.join(('x', 'y')[: max(aggregate.least, 1)])})")
        text = f"""CREATE MATERIALIZED VIEW one TBLPROPERTIES ('sequence' = 'seq')
AS SELECT time_bucket('1 hour', ts) AS hour, {call} AS m FROM sample GROUP BY 1"""
        [spec] = parse_definitions(text)
        [found] = spec.measures[0].formula.calls
        typed = replace(found, types=tuple(_TYPES.get(a, "int") for a in found.args))
        yield Meaning(aggregate, call, parts_of(typed, row_order(spec)))


def aggregates() -> str:
    """Return the table of what is stored of each aggregate.

    Raises:
        KeyError: If something that an aggregate may be has no words.
    """
    rows = []
    for m in meanings():
        others = sorted(a for a, name in registry.ALIASES.items() if name == m.aggregate.name)
        is_merged = "yes" if m.aggregate.is_mergeable else "no"
        words = _STORED[m.aggregate.family], is_merged, _DISTINCT[m.aggregate.distinct]
        rows.append((f"`{m.name}`", ", ".join(f"`{each}`" for each in others), *words))
    return table(("aggregate", "also called", "stored as", "merged", "`DISTINCT`"), rows)


def expressions() -> str:
    """Return the table of what each aggregate equals."""
    rows = []
    for m in meanings():
        means = f"`{m.shown}`" if len(m.shown) <= LONGEST else "[below](#longer-expressions)"
        rows.append((f"`{m.call}`", f"{means}{_TOLERANCE[m.parts.tolerance]}"))
    return table(("a call", "equals"), rows)


def longer() -> str:
    """Return the query of what is too long for the table."""
    columns = [f"  {m.shown} AS {m.name}" for m in meanings() if len(m.shown) > LONGEST]
    return "```sql\nSELECT\n{}\nFROM sample\n```\n".format(",\n".join(columns))


def sample() -> str:
    """Return the rows that the expressions are asked of."""
    return f"```sql\n{SAMPLE}```\n"


def plain(expression: str) -> str:
    """Return an expression without backquotes, and without parentheses around a word or inside others."""
    text = re.sub(r"`(\w+)`", r"\1", expression.replace("\n", ""))
    while (less := _fewer(text)) != text:
        text = less
    return text


def _fewer(text: str) -> str:
    text = re.sub(r"(?<!\w)\(([\w.]+)\)", r"\1", text)
    opened: list[int] = []
    pairs: dict[int, int] = {}
    for at, char in enumerate(text):
        if char == "(":
            opened.append(at)
        elif char == ")":
            pairs[opened.pop()] = at
    for start, end in pairs.items():
        if pairs.get(start + 1) == end - 1:
            return text[:start] + text[start + 1 : end] + text[end + 1 :]
    return text


# -- errors --------------------------------------------------------------------------------------------------------------


def errors() -> dict[str, str]:
    """Return the tables of exit statuses and of all codes, from the texts that `materializer explain` prints."""
    found = all_codes().values()
    parts = {
        "problems": ("definition.", "what is wrong"),
        "suites": ("suite.", "when"),
        "tests": ("test.", "when"),
        "findings": ("doctor.", "finding"),
    }
    own = [e for e in found if not e.code.startswith(tuple(begin for begin, _ in parts.values())) or _is_raised(e)]
    rows = [(f"`{e.code}`", str(e.exit_status), e.when, e.do) for e in own]
    return {
        "statuses": table(("status", "meaning"), [(str(status), text) for status, text in statuses().items()]),
        "errors": table(("code", "status", "when", "what to do"), rows),
    } | {
        name: table(
            ("code", title, "what to do"),
            [(f"`{e.code}`", e.when, e.do) for e in found if e.code.startswith(begin) and not _is_raised(e)],
        )
        for name, (begin, title) in parts.items()
    }


def _is_raised(explanation: Explanation) -> bool:
    """Whether an error has the code, and not one of its problems."""
    return explanation.code in {DefinitionError.code, TestFileError.code, TestFailedError.code}


# -- metrics -------------------------------------------------------------------------------------------------------------


def metrics() -> str:
    """Return the table of metrics."""
    suffix = {"counter": "_total", "gauge": "", "histogram": ""}
    rows = [
        (f"`{m.name}{suffix[m.kind]}`", m.kind, ", ".join(f"`{label}`" for label in m.labels) or "", m.text)
        for m in METRICS
    ]
    return table(("metric", "kind", "labels", "meaning"), rows)


def made(page: str) -> dict[str, str]:
    """Return the made parts of a page by name."""
    if page == "errors.md":
        return errors()
    if page == "definitions.md":
        return {"properties": properties()}
    if page == "observability.md":
        return {"metrics": metrics()}
    return {"sample": sample(), "aggregates": aggregates(), "expressions": expressions(), "longer": longer()}

"""Numbers on the pages are those in the code."""

from __future__ import annotations

import re
from functools import reduce
from typing import Final

import pytest

from materializer import config
from materializer.config import Config
from materializer.core.policy import compaction
from materializer.core.quality import canaries
from materializer.core.refresh import lateness
from materializer.journal import journal, store
from materializer.lake.write import commit
from materializer.services.maintenance import maintain
from materializer.services.quality import audit
from materializer.spark.runtime import jars, session
from tests.adapters.great_expectations.cases import asked_both_ways, suite
from tests.paths import ROOT

WORDS: Final = {3: "three", 4: "four", 10: "ten"}
_MB: Final = 1 << 20
_TOLD: Final = [
    ("maintenance.md", f"each refresh makes some commits, which are folded every {Config().snapshot_every}"),
    (
        "operations.md",
        f"Each refresh makes some commits of a few kilobytes, which are folded every {Config().snapshot_every};",
    ),
    (
        "maintenance.md",
        f"where {WORDS[compaction.FEW]} or more small ones (less than half of {compaction.FILE_ROWS:,} rows;",
    ),
    (
        "maintenance.md",
        f"more than {compaction.FILE_ROWS * compaction.MOST_FILES // 1_000_000} million rows) lie side by side",
    ),
    ("maintenance.md", f"and where {WORDS[compaction.FEW]} or more lie over one instant"),
    ("maintenance.md", f"`driver_lane_rows` rows or {Config().driver_bytes // _MB} MB (`driver_bytes`)."),
    ("maintenance.md", f"`delta.deletedFileRetentionDuration` says, {maintain.WEEK_HOURS / 24:.0f} days."),
    ("maintenance.md", f"refreshes write a checkpoint every {WORDS[commit.CHECKPOINT_EVERY]} commits"),
    ("maintenance.md", f"is folded into one file after {WORDS[journal.WORTH_FOLDING]} commits"),
    ("policies.md", f"after {lateness.ENOUGH} rows `status NAME` says"),
    ("quality.md", f"Failing rows, up to {audit.MOST_ROWS} of each expectation"),
    ("quality.md", f"so with {canaries.CONFIDENCE:.0%} confidence".replace("%", " %")),
    ("airflow.md", f"Java {session.JAVA_NEEDED} or newer"),
    ("../README.md", f"Java {session.JAVA_NEEDED} or newer"),
    ("configuration.md", f"`{jars.PACKAGE}` and `io.delta:delta-storage:{jars.DELTA_VERSION}`"),
]
"""What a page says, with the number of the code in it."""


@pytest.mark.parametrize(("name", "told"), _TOLD)
def test_a_number_is_that_of_the_code(name: str, told: str) -> None:
    """
    The sentence stands on its page, however its lines are broken.
    """
    assert told in " ".join((ROOT / "docs" / name).read_text(encoding="utf-8").split())


def figures() -> list[tuple[str, list[str], str]]:
    """Return the rows of the README's table: what happens, its figures, and the page that has them."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ") and " s" in line]
    found, page = [], ""
    for cells in rows:
        page = next(iter(re.findall(r"\]\(([\w/]+\.md)#", cells[-1])), page)  # "the same" stands under its page
        found.append((cells[0], re.findall(r"\d+\.\d+(?= s)|\d{1,3}(?:,\d{3})+", " ".join(cells[1:-1])), page))
    return [row for row in found if row[1]]


def test_figures_of_the_readme_are_measured() -> None:
    """
    Each stands on the page that its row links, which names the command that measured it.
    """
    pages = {page: (ROOT / page).read_text(encoding="utf-8") for _, _, page in figures()}

    assert 9 == len(figures())
    assert [] == [
        (row, n)
        for row, numbers, page in figures()
        for n in numbers
        if not re.search(rf"(?<![\d.,]){re.escape(n)}(?![\d,])", pages[page])
    ]


def test_expectations_compared_both_ways_are_counted() -> None:
    """
    docs/quality.md says how many the test of both ways has, of how many types, and how many of them are compiled.
    """
    every, both = suite().expectations, asked_both_ways()
    told = [
        f"runs {len(every)} expectations, of all {len({e.type for e in every})} types",
        f"{len(both)} of them, of the {len({e.type for e in both})} types that can be compiled",
        f"{3 * len(both)} comparisons",
    ]
    page = " ".join((ROOT / "docs/quality.md").read_text(encoding="utf-8").split())

    assert [] == [sentence for sentence in told if sentence not in page]


def test_what_was_folded_goes_after_a_day() -> None:
    """
    docs/maintenance.md speaks of a day.
    """
    assert 24 == store.DAY_HOURS
    assert "The replaced files are removed after a day" in " ".join((ROOT / "docs/maintenance.md").read_text().split())


def test_every_setting_is_on_its_page_with_its_default() -> None:
    """
    docs/configuration.md has a row for each key, its environment variable, and what it is when nobody says.
    """
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \| (?:`(\w+)`)? ?\| ([^|]*) ?\|", text, flags=re.MULTILINE)
    variables = {key: name for name, key in config.VARIABLES.items()}
    defaults = {}
    for key in config.KEYS:
        value = reduce(getattr, key.removeprefix("source.").split("."), Config())
        defaults[key] = {bool: str(value).lower(), tuple: "none", dict: ""}.get(type(value), f"`{value}`")
        if isinstance(value, int) and not isinstance(value, bool):
            defaults[key] = str(value)
    defaults |= {
        "source.sample": "all rows",
        "spark.jars": "the user's cache",
        "spark.master": "all cores of this machine",
        "spark.remote": "none",
    }
    defaults |= dict.fromkeys(["openlineage.url", "openlineage.file", "metrics.textfile"], "none")
    defaults |= {
        "openlineage.enabled": "whether a place is given",
        "openlineage.namespace": "`OPENLINEAGE_NAMESPACE`, else `materializer`",
        "metrics.otlp": "whether an endpoint is given",
        "metrics.endpoint": "the standard variables",
        "local_memory": "a quarter of the memory there is, 512 MB to 8 GB",
    }

    assert {k: variables.get(k, "") for k in config.KEYS} == {k: name for k, name, _ in rows}
    assert defaults == {k: default.strip() for k, _, default in rows}

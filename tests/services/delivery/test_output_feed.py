"""The change feed follows an output whatever happens to both, and begins where it ended; no Spark."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from materializer.adapters.memory.store import memory_stores
from materializer.config import Config
from materializer.core.aggregates.decompose import decompose
from materializer.core.language.define import define
from materializer.core.refresh.output_feed import NOTE
from materializer.core.refresh.plan import Lane, Plan, TableBase
from materializer.core.spec.spec import TimeType
from materializer.core.time.slice_column import SliceColumn
from materializer.core.time.spans import Span, SpanSet
from materializer.journal.events import SourceIdentity
from materializer.journal.journal import Journal
from materializer.journal.state import AggregateState
from materializer.lake.output_diff import feed_rows
from materializer.lake.write.commit import create_table, fence
from materializer.lake.write.replace import replace_spans
from materializer.services.commit import lake as commit
from materializer.services.commit.commit_info import note_of
from materializer.services.delivery import output_feed
from tests.system.lake import Died, replayed

SPEC = replace(
    define(
        "bars",
        "s",
        time="t",
        width=10,
        keys=["k"],
        measures={"v": "count(*)"},
        properties={"output.change_feed": "true"},
    ),
    time_type=TimeType.BIGINT,
)
COLUMNS = (("bucket", "bigint"), ("k", "string"), ("v", "bigint"))
PARTIALS = (("slice", "bigint"), ("k_k", "string"), *((p.name, "bigint") for p in decompose(SPEC).partials))
STATE = AggregateState(
    "one", "bars", SPEC.as_json(), "d", SourceIdentity("/s", "s"), {"partials": PARTIALS, "output": COLUMNS}, {}, 0
)
PLAN = Plan("p", 1, 1, Span(0, 10), (), (), Lane.DRIVER, TableBase("t", 0), TableBase("t", 0))
ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), max_size=2, unique_by=lambda row: row[0])
WHAT = st.sampled_from(
    [
        *["write"] * 5,
        "write unseen",
        *["follow"] * 4,
        "keep",
        "keep",
        "restore",
        "restore",
        "fence",
        "compact",
        "vacuum",
        "die",
    ]
)
STEPS = st.tuples(WHAT, st.integers(0, 1), ROWS, st.sampled_from(["changes", "wrote_changes"]))


BUCKET = SliceColumn("bucket", holds_end=False, type=TimeType.BIGINT)


def without() -> NoReturn:
    """Stand for Spark and for the library of expectations, which a small feed does not need."""
    raise AssertionError("neither is asked for")


class Lake:
    """An output with its feed, and a copy of the output."""

    def __init__(self, root: Path) -> None:
        self.root, self.n, self.dies_at, self.life = root, 0, "", "plan"
        journal = Journal(root, stores=memory_stores())
        self.lake = commit.Lake(str(root), journal, Config(), without, without, self.on_checkpoint)
        self.aggregate = self.lake.aggregate(STATE)
        create_table(self.output, COLUMNS, name="bars")

    def on_checkpoint(self, name: str) -> None:
        """Die where that is due."""
        if name == self.dies_at:
            raise Died(name)

    @property
    def output(self) -> str:
        """Where the output lies."""
        return self.aggregate.paths["output"]

    def do(self, what: str, at: int = 0, rows: Sequence[tuple[str, int]] = (), step: str = "") -> None:
        """Do one thing to the output or the feed."""
        match what:
            case "write" | "write unseen":
                self.n += 1
                span = Span(at * 10, at * 10 + 10)
                table = pa.Table.from_pylist([{"bucket": at * 10, "k": k, "v": v} for k, v in rows], SHAPE)
                said = note_of(self.aggregate, PLAN) if what == "write" else {}
                replace_spans(
                    self.output,
                    table,
                    BUCKET,
                    SpanSet.of(span),
                    self.app,
                    self.n,
                    self.note("data") | said,
                )
            case "fence":
                self.n += 1
                fence(self.output, self.app, self.n, self.note("fence"))
            case "compact":
                DeltaTable(self.output).optimize.compact()
            case "keep":
                shutil.rmtree(self.root / "copy", ignore_errors=True)
                shutil.copytree(self.output, self.root / "copy")
            case "restore" if (self.root / "copy").exists():
                self.put_back()
                self.do("fence")  # as a repair does
            case "put back":  # together with the journal, which counts on from there
                self.put_back()
                self.n, self.life = self.n - 1, "again"
            case "vacuum":
                needed = {
                    unquote(name) for name in pa.table(DeltaTable(self.output).get_add_actions())["path"].to_pylist()
                }
                for file in Path(self.output).glob("*.parquet"):
                    if file.name not in needed:
                        file.unlink()
            case "follow":
                self.follow()
            case "die":
                self.dies_at = step
                with suppress(Died):
                    self.follow()
                self.dies_at = ""

    @property
    def app(self) -> str:
        """Its transaction identifier."""
        return self.aggregate.app_ids["output"]

    def note(self, kind: str) -> dict[str, Any]:
        """Return what a commit says of itself."""
        return {"plan": f"{self.life}-{self.n}", "n": self.n, "kind": kind, "source_version": self.n}

    def put_back(self) -> None:
        """Replace the output by its copy."""
        shutil.rmtree(self.output)
        shutil.copytree(self.root / "copy", self.output)

    def follow(self) -> None:
        """Bring the feed up to date, or die in it."""
        output_feed.follow_leased(self.lake, STATE)

    def rows(self) -> Counter[tuple[Any, ...]]:
        """Return what is published."""
        return Counter(tuple(row.values()) for row in DeltaTable(self.output).to_pyarrow_table().to_pylist())


SHAPE = pa.schema([("bucket", pa.int64()), ("k", pa.string()), ("v", pa.int64())])


@settings(max_examples=40, deadline=None)
@given(st.lists(STEPS, min_size=6, max_size=14))
def test_the_feed_leads_to_the_output(history: list[tuple[str, int, list[Any], str]]) -> None:
    """
    After any commits, deaths, copies put back, removed files and commits that said nothing: once it has followed, the feed
    leads to what is published, and has nothing more to do.
    """
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Path(folder))
        for step in history:
            lake.do(*step)
        lake.follow()

        assert lake.rows() == replayed(Path(folder), "bars")
        assert not output_feed.is_behind(lake.aggregate)


def test_each_refresh_is_in_the_feed_by_its_own_number(tmp_path: Path) -> None:
    """
    Refreshes that were not followed for a while are told apart when they are, and their reasons are their own.
    """
    lake = Lake(tmp_path)
    for v in (1, 2):
        lake.do("write", 0, [("a", v)])
    lake.do("fence")
    lake.do("write")
    lake.do("follow")

    rows = DeltaTable(str(tmp_path / "bars" / "changes")).to_pyarrow_table().to_pylist()
    assert [(1, "insert"), (2, "update_preimage"), (2, "update_postimage"), (4, "delete")] == [
        (row["_refresh"], row["_change"]) for row in sorted(rows, key=lambda row: (row["_refresh"], row["v"]))
    ]
    columns, found, total = feed_rows(str(tmp_path / "bars" / "changes"), after=1, reason="correction", limit=1)
    assert (1, 2) == (len(found), total)
    assert (2, "correction") == (found[0][columns.index("_refresh")], found[0][columns.index("_reason")])
    assert NOTE in note_of(lake.aggregate, PLAN)


@pytest.mark.parametrize("again", [["restore"], ["restore", "write"], ["put back", "write", "write"]])
def test_an_older_copy_of_the_output_is_noticed(tmp_path: Path, again: list[str]) -> None:
    """
    What the feed had followed is not there any more, or its number stands for another refresh now.
    """
    lake = Lake(tmp_path)
    lake.do("write", 0, [("a", 1)])
    lake.do("keep")
    lake.do("write", 0, [("a", 2)])
    lake.do("follow")
    for what in again:
        lake.do(what, 1, [("b", 3)])
    lake.do("follow")

    assert lake.rows() == replayed(tmp_path, "bars")
    assert not output_feed.is_behind(lake.aggregate)

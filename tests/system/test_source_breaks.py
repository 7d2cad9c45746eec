"""A source whose columns, history or place are others than those that were captured; after each the rows are what Spark says."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from materializer.api import Materializer
from materializer.config import Config
from materializer.core.refresh.plan import Recompute
from materializer.errors import NotIncrementalError, SourceReplacedError, SourceSchemaChangedError
from tests import tables
from tests.local.comparing import same
from tests.system import verifying
from tests.system.lake import Death, Died, dying

pytestmark = pytest.mark.spark

MAPPED = "'delta.columnMapping.mode' = 'name', 'delta.enableChangeDataFeed' = 'true'"
PLAIN = "'delta.enableChangeDataFeed' = 'true'"
HOURLY = (
    "SELECT time_bucket('1 hour', ts) AS at, k, sum(x) AS x, max(note) AS note, count(*) AS n FROM raw GROUP BY 1, 2"
)


SCHEMA = pa.schema(
    [
        *((name, pa.timestamp("us", "UTC")) for name in ("ts", "ts2")),
        *((name, pa.string()) for name in ("k", "k2")),
        *((name, pa.int64()) for name in ("x", "y")),
        ("note", pa.string()),
    ]
)
BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
GAP = timedelta(minutes=20)


def closed(rows: list[tuple[datetime, str, Any]]) -> list[tuple[Any, ...]]:
    """Return start, key and sum of each session of (time, key, value) that a later row of its key has closed."""
    found: dict[str, list[list[Any]]] = defaultdict(list)
    for ts, k, x in sorted(rows, key=lambda row: row[:2]):
        if found[k] and ts - found[k][-1][0] < GAP:
            found[k][-1][0] = ts
            found[k][-1][2] += x
        else:
            found[k].append([ts, ts, x])
    return sorted((start, k, x) for k, of in found.items() for _, start, x in of[:-1])


class Changing:
    """A source and a lake with an hourly aggregate and a session window over it, refreshed.

    Args:
        root: Where they lie.
        spark: A session.
        properties: Properties of the source, as SQL.
        more: Properties of the aggregate, as SQL.
    """

    def __init__(self, root: Path, spark: SparkSession, properties: str = PLAIN, more: str = "") -> None:
        self.root, self.spark, self.path, self.text, self.total = root, spark, root / "raw", HOURLY, "x"
        if properties == PLAIN:
            tables.create(self.path, SCHEMA)
        else:
            self.sql(
                "CREATE TABLE {t} (ts TIMESTAMP, ts2 TIMESTAMP, k STRING, k2 STRING, x BIGINT, y BIGINT, note STRING) "
                f"USING DELTA TBLPROPERTIES ({properties})"
            )
        self.add(*range(12))
        self.lake = self.opened()
        given = f"TBLPROPERTIES ({more})" if more else ""
        self.lake.apply(f"CREATE MATERIALIZED VIEW hourly {given} AS {HOURLY}")
        self.lake.define(
            "visits",
            "raw",
            time="ts",
            keys=["k"],
            engine="session_window",
            session_gap="20 minutes",
            measures={"x": "sum(x)"},
        )
        self.refresh()

    def opened(self, path: Path | None = None) -> Materializer:
        """Return the lake, whose source may lie elsewhere."""
        sources = {"raw": str(path or self.path)}
        return Materializer(config=Config(lake=str(self.root / "lake"), sources=sources), spark=self.spark)

    def sql(self, text: str) -> None:
        """Run a statement about the source ``{t}``."""
        self.spark.sql(text.format(t=f"delta.`{self.path}`"))

    def add(self, *numbers: int) -> None:
        """Commit rows, half an hour apart: by Spark, where columns have other names in files."""
        if DeltaTable(str(self.path)).metadata().configuration.get("delta.columnMapping.mode", "none") == "none":
            rows = []
            for n in numbers:
                ts = BEGIN + timedelta(seconds=n * 1800)
                texts = {"k": f"a{n % 2}", "k2": f"b{n % 3}", "note": f"n{n}"}
                rows.append({"ts": ts, "ts2": ts + timedelta(days=1), "x": n, "y": n * 100, **texts})
            tables.append(self.path, pa.Table.from_pylist(rows, schema=SCHEMA))
            return
        values = ", ".join(
            f"(timestamp_seconds({n} * 1800), timestamp_seconds({n} * 1800 + 86400), 'a{n % 2}', 'b{n % 3}', {n}, {n * 100}, 'n{n}')"
            for n in numbers
        )
        self.sql(f"INSERT INTO {{t}} (ts, ts2, k, k2, x, y, note) VALUES {values}")

    def refresh(self, **options: Any) -> list[str]:
        """Refresh, and return the reasons of the steps of both aggregates."""
        reasons = []
        for name in ("hourly", "visits"):
            runs = self.lake.refresh(name, **options).runs
            reasons.append(
                " ".join(step.reason for run in runs if run.plan for step in run.plan.steps if hasattr(step, "reason"))
            )
        return reasons

    def assert_equal(self, *names: str) -> None:
        """Both aggregates, or some, are what plain Spark says of the source as it is now; where it is drawn, `verify` says so, too."""
        plain = self.text.replace("FROM raw", f"FROM delta.`{self.path}`").replace(
            "time_bucket('1 hour', ts)", "date_trunc('hour', ts)"
        )
        for name in names or ("hourly", "visits"):
            shown = DeltaTable(str(self.root / "lake" / name / "output")).to_pyarrow_table()
            if name == "hourly":
                frame = self.spark.sql(plain)
                wanted, columns = [tuple(row) for row in frame.collect()], frame.columns
            else:
                rows = self.spark.sql(f"SELECT ts, k, x FROM delta.`{self.path}`").collect()
                wanted, columns = closed([tuple(row) for row in rows]), ["window_start", "k", self.total]
            found = [tuple(row[column] for column in columns) for row in shown.to_pylist()]
            found = [tuple(v.replace(tzinfo=None) if isinstance(v, datetime) else v for v in row) for row in found]
            pairs = list(zip(sorted(wanted, key=repr), sorted(found, key=repr), strict=True))
            assert pairs
            assert [] == [(a, b) for a, b in pairs if not same(list(a), list(b))], name
            verifying.expect_equal(self.lake, name)


def swapped(one: str, other: str) -> Callable[[Changing], None]:
    """Return what gives two columns each other's name."""

    def change(made: Changing) -> None:
        for old, new in ((one, "tmp"), (other, one), ("tmp", other)):
            made.sql(f"ALTER TABLE {{t}} RENAME COLUMN {old} TO {new}")

    return change


def added_again(made: Changing) -> None:
    """Drop a column, and add one with its name."""
    made.sql("ALTER TABLE {t} DROP COLUMN note")
    made.sql("ALTER TABLE {t} ADD COLUMN note STRING")


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("change", "column"),
    [
        (swapped("x", "y"), "x"),
        (swapped("k", "k2"), "k"),
        (swapped("ts", "ts2"), "ts"),
        (added_again, "note"),
    ],
    ids=["value", "key", "time", "added again"],
)
def test_a_column_with_the_name_of_another_makes_everything_dirty(
    tmp_path: Path, spark: SparkSession, change: Callable[[Changing], None], column: str
) -> None:
    """
    Values of the old column stand in no bucket any more; the plan names the column, and a strict refresh is refused and changes nothing.
    """
    made = Changing(tmp_path, spark, MAPPED)
    change(made)
    made.add(3)

    with pytest.raises(NotIncrementalError, match=f"another column is called '{column}'"):
        made.lake.refresh("hourly", strict=True)
    first, _ = made.refresh()

    assert f"another column is called '{column}'" in first
    made.assert_equal()
    made.add(2)
    first, _ = made.refresh()
    assert "another column" not in first
    made.assert_equal()


def test_a_column_that_got_another_name_is_named(tmp_path: Path, spark: SparkSession) -> None:
    """
    No data changed: the message says what the column of the definition is called now.
    """
    made = Changing(tmp_path, spark, MAPPED)
    made.sql("ALTER TABLE {t} RENAME COLUMN x TO amount")
    made.sql("INSERT INTO {t} (ts, k, amount) VALUES (timestamp_seconds(60), 'a0', 5)")

    with pytest.raises(SourceSchemaChangedError, match="it is called 'amount' now"):
        made.refresh()


def test_a_table_that_is_upgraded_to_column_mapping_is_the_same(tmp_path: Path, spark: SparkSession) -> None:
    """
    Its columns have the names underneath that they had: nothing becomes dirty.
    """
    made = Changing(tmp_path, spark)
    made.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({MAPPED})")
    made.add(4)

    reasons = made.refresh()

    assert not any("another column" in reason for reason in reasons)
    made.assert_equal()


@pytest.mark.one_of(3)
@pytest.mark.parametrize(("one", "other"), [("ts", "ts2"), ("x", "y"), ("k", "k2")])
def test_columns_that_change_names_after_an_upgrade_are_read_by_what_they_are(
    tmp_path: Path, spark: SparkSession, one: str, other: str
) -> None:
    """
    After an upgrade the names underneath are those of other columns, and statistics are kept under them.
    """
    made = Changing(tmp_path, spark)
    made.sql("UPDATE {t} SET ts2 = ts2 + INTERVAL 40 DAYS")
    made.refresh()
    made.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({MAPPED})")
    swapped(one, other)(made)

    first, _ = made.refresh()

    assert f"another column is called '{one}'" in first
    made.assert_equal()
    made.add(3)
    made.refresh()
    made.assert_equal()


def test_a_source_whose_columns_fit_no_more_names_the_one_that_ends_it(tmp_path: Path, spark: SparkSession) -> None:
    """
    Of two columns, one became wider and one is another one: a refresh would not go on, so no hint says that it does.
    """
    made = Changing(tmp_path, spark, MAPPED)
    query = "SELECT time_bucket('1 hour', ts) AS at, sum(x) AS x, max(y) AS y FROM raw GROUP BY 1"
    made.lake.apply(f"CREATE MATERIALIZED VIEW both AS {query}")
    made.lake.refresh("both")
    for name, kind in (("x", "DECIMAL(30,2)"), ("y", "STRING")):
        made.sql(f"ALTER TABLE {{t}} DROP COLUMN {name}")
        made.sql(f"ALTER TABLE {{t}} ADD COLUMN {name} {kind}")

    with pytest.raises(SourceSchemaChangedError, match="reads column 'y' as bigint") as refused:
        made.lake.refresh("both")

    assert "apply a definition" in refused.value.hint


def replaced(made: Changing) -> None:
    """Replace the table by one with other rows."""
    made.sql(
        f"CREATE OR REPLACE TABLE {{t}} USING DELTA TBLPROPERTIES ({PLAIN}) AS SELECT timestamp_seconds(n * 1800 + 60) AS ts, "
        "timestamp_seconds(0) AS ts2, 'a0' AS k, 'b0' AS k2, CAST(n AS BIGINT) AS x, CAST(n AS BIGINT) AS y, 'new' AS note FROM (SELECT explode(sequence(4, 20)) AS n)"
    )


def test_a_table_that_a_later_commit_replaced_is_computed_anew(tmp_path: Path, spark: SparkSession) -> None:
    """
    The plan names the version that did it; later rows are late rows again, and the definition that is applied again is unchanged.
    """
    made = Changing(tmp_path, spark)
    replaced(made)
    assert ["source.replaced"] == [f.code for f in made.lake.doctor("hourly") if f.code.startswith("source.")]
    [change] = made.lake.apply(f"CREATE MATERIALIZED VIEW hourly AS {HOURLY}")
    assert "unchanged" == change.kind

    first, second = made.refresh()

    assert "version 2 of the source replaced the table" in first
    assert "version 2 of the source replaced the table" in second
    made.assert_equal()
    made.add(5)
    first, _ = made.refresh()
    assert "replaced" not in first
    made.assert_equal()


def test_a_definition_may_refuse_a_source_that_was_replaced(tmp_path: Path, spark: SparkSession) -> None:
    """
    With 'source.on_replace' = 'refuse' a refresh stops and changes nothing.
    """
    made = Changing(tmp_path, spark, more="'source.on_replace' = 'refuse'")
    replaced(made)

    with pytest.raises(SourceReplacedError):
        made.lake.refresh("hourly")


def test_a_table_that_was_deleted_and_written_anew_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    """
    Nothing says what it has to do with the one that was captured.
    """
    made = Changing(tmp_path, spark)
    schema = made.spark.read.format("delta").load(str(made.path)).limit(0)
    shutil.rmtree(made.path)
    schema.write.format("delta").save(str(made.path))
    for n in range(3):
        made.add(n)

    with pytest.raises(SourceReplacedError):
        made.lake.refresh("hourly")


def test_a_table_that_was_put_back_from_an_older_copy_is_computed_anew(tmp_path: Path, spark: SparkSession) -> None:
    """
    Its commits have the numbers of those that were captured and other rows, whether it is as long again or longer.
    """
    made = Changing(tmp_path, spark)
    shutil.copytree(made.path, tmp_path / "copy")
    for more in (0, 1):
        made.add(2, 3)
        made.refresh()
        shutil.rmtree(made.path)
        shutil.copytree(tmp_path / "copy", made.path)
        made.spark.catalog.clearCache()
        made.add(*range(20, 20 + 4))
        for n in range(more + 1):
            made.add(n + 6)
        findings = [f for f in made.lake.doctor("hourly") if f.code == "source.diverged"]
        assert ["the history of the source is another one after version 1"] == [
            f.message.partition(":")[0] for f in findings
        ]
        first, _ = made.refresh()
        assert "the history of the source is another one after version 1" in first
        made.assert_equal()


def test_a_table_that_was_moved_is_no_other_data(tmp_path: Path, spark: SparkSession) -> None:
    """
    A copy in another folder goes on where the first was captured; one whose history is another is the next version.
    """
    made = Changing(tmp_path, spark)
    made.add(3)
    made.refresh()
    shutil.copytree(made.path, tmp_path / "moved")
    shutil.rmtree(made.path)
    made.path = tmp_path / "moved"
    made.lake = made.opened()

    [change] = made.lake.apply(f"CREATE MATERIALIZED VIEW hourly AS {HOURLY}")

    assert "metadata" == change.kind
    assert (f"- source {tmp_path / 'raw'}", f"+ source {tmp_path / 'moved'}") == change.differences[-2:]
    made.add(5)
    [run] = made.lake.refresh("hourly").runs
    assert ["rows changed"] == [step.reason for step in run.plan.steps]
    made.assert_equal("hourly")


WIDENED = "'delta.enableTypeWidening' = 'true', 'delta.enableChangeDataFeed' = 'true'"


class Widening(Changing):
    """The same with a column that may become wider, and what reads it.

    Args:
        root: Where it lies.
        spark: A session.
        column: Name and type of the column.
        measures: What the hourly aggregate says of it.
    """

    def __init__(self, root: Path, spark: SparkSession, column: str, measures: str, executor: str = "spark") -> None:
        self.root, self.spark, self.path, self.executor, self.total = root, spark, root / "raw", executor, "total"
        self.sql(f"CREATE TABLE {{t}} (ts TIMESTAMP, k STRING, {column}) USING DELTA TBLPROPERTIES ({WIDENED})")
        self.sql(f"INSERT INTO {{t}} SELECT {NEW.format('1, 2, 3, 4, 5, 6')}")
        self.lake = self.opened()
        self.text = f"SELECT time_bucket('1 hour', ts) AS at, k, {measures} FROM raw GROUP BY 1, 2"
        self.lake.apply(f"CREATE MATERIALIZED VIEW hourly AS {self.text}")
        visits = {"time": "ts", "keys": ["k"], "engine": "session_window", "session_gap": "20 minutes"}
        self.lake.define("visits", "raw", **visits, measures={"total": "sum(x)", "n": "count(x)"})
        self.refresh()

    def opened(self, path: Path | None = None, on_checkpoint: Callable[[str], None] = lambda _: None) -> Materializer:
        """Return the lake."""
        config = Config(lake=str(self.root / "lake"), sources={"raw": str(path or self.path)}, executor=self.executor)
        return Materializer(config=config, spark=self.spark, on_checkpoint=on_checkpoint)

    def assert_fresh(self, name: str) -> None:
        """A fresh read has the sums that plain Spark says of each key."""
        shown = self.lake.read(name, fresh=True)
        total = "x" if name == "hourly" else "total"
        # the last session of a key is open, and not shown
        rows = "(SELECT *, max(ts) OVER (PARTITION BY k) AS last FROM {t}) WHERE ts < last"
        wanted = self.spark.sql(
            f"SELECT k, sum(x) AS s FROM {'{t}' if name == 'hourly' else rows} GROUP BY k".format(
                t=f"delta.`{self.path}`"
            )
        )
        assert sorted(map(tuple, wanted.collect())) == sorted(
            map(tuple, shown.groupBy("k").agg({total: "sum"}).collect())
        )


class Rolled(Widening):
    """Sums by a key whose name has the name of the column in it, and a roll-up of them."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root, self.spark, self.path, self.executor = root, spark, root / "raw", "auto"
        self.sql(f"CREATE TABLE {{t}} (ts TIMESTAMP, k STRING, x INT, xk STRING) USING DELTA TBLPROPERTIES ({WIDENED})")
        self.sql(f"INSERT INTO {{t}} SELECT {KEYED.format('1, 2, 3, 4, 5, 6')}")
        self.lake = self.opened()
        self.lake.apply(
            "CREATE MATERIALIZED VIEW by_key AS SELECT time_bucket('1 hour', ts) AS at, xk, sum(x) AS x FROM raw GROUP BY 1, 2;"
        )
        self.lake.apply(
            "CREATE MATERIALIZED VIEW daily AS SELECT time_bucket('1 day', at) AS day, rollup(x) AS x FROM by_key GROUP BY 1"
        )
        for name in ("by_key", "daily"):
            self.lake.refresh(name)


NEW = "timestamp_seconds(n * 1800), concat('a', n % 2), n FROM (SELECT explode(array({})) AS n)"
KEYED = NEW.replace(", n FROM", ", n, 'a' FROM")


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    ("executor", "column", "wide", "measures", "is_again"),
    [
        ("spark", "x INT", "BIGINT", "sum(x) AS x, count(*) AS n, stddev_pop(x) AS s", False),
        ("auto", "x INT", "BIGINT", "sum(x) AS x, count(*) AS n, stddev_pop(x) AS s", False),
        ("auto", "x FLOAT", "DOUBLE", "sum(x) AS x, avg(x) AS mean, count(x) AS n", False),
        ("spark", "x INT", "BIGINT", "sum(x) AS x, approx_count_distinct(x) AS n, max(hash(x)) AS h", True),
    ],
    ids=["int-spark", "int-auto", "float", "hash"],
)
def test_a_wider_column_goes_on(
    tmp_path: Path, spark: SparkSession, executor: str, column: str, wide: str, measures: str, is_again: bool
) -> None:
    """
    Where the output keeps its types the refresh goes on and says so; only what depends on the type is computed again.
    """
    made = Widening(tmp_path, spark, column, measures, executor)
    made.sql(f"ALTER TABLE {{t}} ALTER COLUMN x TYPE {wide}")
    made.sql(
        f"INSERT INTO {{t}} SELECT {NEW.format('CAST(3 AS BIGINT), 5, 3000000000').replace('n * 1800', 'n % 7 * 1800')}"
    )

    planned = made.lake.plan("hourly").plan
    assert planned is not None
    causes = [step.reason for step in planned.steps if isinstance(step, Recompute) and step.is_rebuild]
    assert is_again == bool(causes)
    assert all(c.startswith(f"column 'x' of the source is {wide.lower()} and was {column[2:].lower()}") for c in causes)
    before = made.lake.journal.view().named("hourly")
    made.assert_fresh("hourly")
    if is_again:
        for refused in (made.lake.plan, made.lake.refresh):
            with pytest.raises(NotIncrementalError, match="not only its number is read"):
                refused("hourly", strict=True)
    assert before == made.lake.journal.view().named("hourly")
    reports = [made.lake.refresh(name) for name in ("hourly", "visits")]

    for report in reports:
        assert f"column 'x' of the source is {wide.lower()} and was {column[2:].lower()}" in " ".join(report.warnings)
    assert is_again == ("computed again" in " ".join(reports[0].warnings))
    made.assert_equal()
    made.sql(f"INSERT INTO {{t}} SELECT {NEW.format('2, 4')}")
    assert [(), ()] == [made.lake.refresh(name).warnings for name in ("hourly", "visits")]
    made.assert_equal()
    assert made.lake.apply(f"CREATE MATERIALIZED VIEW hourly AS {made.text}")[0].kind == "unchanged"


def test_a_fresh_read_of_a_roll_up_goes_on_over_a_wider_column(tmp_path: Path, spark: SparkSession) -> None:
    """
    The rows that are read are those of its parent's source, whose column became wider; the key `xk` has the name in it and does not read it.
    """
    made = Rolled(tmp_path, spark)
    made.sql("ALTER TABLE {t} ALTER COLUMN x TYPE BIGINT")
    made.sql(f"INSERT INTO {{t}} SELECT {KEYED.format('CAST(3 AS BIGINT), 5')}")
    wanted = made.spark.sql(f"SELECT sum(x) FROM delta.`{made.path}`").collect()

    assert wanted == made.lake.read("daily", fresh=True).agg({"x": "sum"}).collect()
    assert "computed again" not in " ".join(made.lake.refresh("by_key", strict=True).warnings)


def test_a_next_version_that_is_being_built_goes_on_over_a_wider_column(tmp_path: Path, spark: SparkSession) -> None:
    """
    A part of it was built before, the published version goes on by itself, and building ends with what is over the wider column.
    """
    made = Widening(tmp_path, spark, "x INT", "sum(x) AS x, count(*) AS n", "auto")
    made.lake.apply(
        f"CREATE MATERIALIZED VIEW hourly AS {made.text.replace('sum(x) AS x', 'sum(x) AS x, min(k) AS first')}"
    )
    made.lake.build("hourly", buckets_per_run=1, max_runs=1)
    made.sql("ALTER TABLE {t} ALTER COLUMN x TYPE BIGINT")
    made.sql(f"INSERT INTO {{t}} SELECT {NEW.format('3000000000').replace('n * 1800', '1800')}")
    made.lake.refresh("hourly")
    assert made.lake.verify("hourly").is_equal

    build = made.lake.build("hourly")

    assert build.switched, build.why_not
    assert "first" in made.lake.read("hourly").columns
    assert made.lake.verify("hourly").is_equal


@pytest.mark.one_of(4)
@pytest.mark.parametrize(
    ("executor", "step", "ended"),
    [
        ("auto", "wrote_partials", "finished"),
        ("spark", "compute", "aborted"),
        ("auto", "compute", "aborted"),
        ("spark", "done", "finished"),
    ],
)
def test_a_refresh_that_was_left_open_is_ended_before_it_goes_on_over_a_wider_column(
    tmp_path: Path, spark: SparkSession, executor: str, step: str, ended: str
) -> None:
    """
    Its plan is of the columns as they were; the next refresh says both, needs no third, and a preview and a fresh read go on meanwhile.
    """
    made = Widening(tmp_path, spark, "x INT", "sum(x) AS x, count(*) AS n", executor)
    made.sql(f"INSERT INTO {{t}} SELECT {NEW.format('2, 3')}")
    for name in ("hourly", "visits"):
        with dying(Death(step, 1, is_kill=True)) as on_checkpoint, pytest.raises(Died):
            made.opened(on_checkpoint=on_checkpoint).refresh(name)
    made.sql("ALTER TABLE {t} ALTER COLUMN x TYPE BIGINT")
    made.sql(f"INSERT INTO {{t}} SELECT {NEW.format('3000000000').replace('n * 1800', '1800')}")

    for name in ("hourly", "visits"):
        [status] = made.lake.status(name)
        assert (2, "") == (status.open_refresh, status.problem)
        assert made.lake.plan(name).plan is not None
        made.assert_fresh(name)
        report = made.lake.refresh(name)
        assert ((2, ended),) == report.recovered
        assert "column 'x' of the source is bigint and was int" in " ".join(report.warnings)
    made.assert_equal()


def test_a_wider_column_of_the_output_is_a_next_version(tmp_path: Path, spark: SparkSession) -> None:
    """
    The error says which column would have another type, and what building the next version reads; nothing is written, and `apply` builds it.
    """
    made = Widening(tmp_path, spark, "x INT", "max(x) AS top, sum(x) AS x")
    made.lake.apply(
        "CREATE MATERIALIZED VIEW means AS SELECT date_trunc('day', ts) AS at, avg(x) AS mean FROM raw GROUP BY 1"
    )
    made.lake.refresh("means")
    made.sql("ALTER TABLE {t} ALTER COLUMN x TYPE BIGINT")
    made.sql(f"INSERT INTO {{t}} SELECT {NEW.format('3000000000').replace('n * 1800', '1800')}")
    before = made.lake.journal.view().named("hourly")

    with pytest.raises(
        SourceSchemaChangedError, match="column 'top' of the output would be bigint and is int"
    ) as refused:
        made.lake.refresh("hourly")
    for refused_too in (made.lake.refresh, made.lake.fresh):
        with pytest.raises(SourceSchemaChangedError, match=r"something else \(measure 'mean': .* two sums are stored"):
            refused_too("means")

    assert "materializer apply FILE --build" in refused.value.hint
    assert "from about 7 rows" in refused.value.hint
    assert before == made.lake.journal.view().named("hourly")
    made.lake.apply(f"CREATE MATERIALIZED VIEW hourly AS {made.text}")
    assert made.lake.build("hourly").switched
    assert made.lake.verify("hourly").is_equal

"""The embedded session: what it needs, what it sets, what it refuses; and the state that work runs in."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from materializer.config import Config, SparkConfig
from materializer.errors import (
    ForeignSettingError,
    JarsUnreachableError,
    JavaMissingError,
    JavaTooOldError,
)
from materializer.machine import cache_dir
from materializer.spark.runtime import jars, session
from tests.paths import ROOT

NOWHERE = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9 -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=9"
"""Flags with which Java reaches no repository."""


def fake_java(folder: Path, *, says: str, status: int = 0) -> Path:
    """Make a `java` that prints a version and ends."""
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {status}\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return folder


def test_no_java_is_one_clear_error(tmp_path: Path) -> None:
    """
    Neither JAVA_HOME nor a java on PATH: the error says both were looked at, and what to install.
    """
    with pytest.raises(JavaMissingError, match="JAVA_HOME is not set") as caught:
        session.check_java({"PATH": str(tmp_path)})
    assert "install Java 17" in caught.value.hint


def test_a_wrong_java_home_is_named(tmp_path: Path) -> None:
    """
    JAVA_HOME wins over PATH, as in Spark, even when it is wrong; then it is named.
    """
    with pytest.raises(JavaMissingError, match="JAVA_HOME is"):
        session.check_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": os.environ["PATH"]})


def test_a_java_that_only_advertises_is_none(tmp_path: Path) -> None:
    """
    A stub that exits with an error (macOS has one) does not count as Java.
    """
    home = fake_java(tmp_path, says="Unable to locate a Java Runtime", status=1)
    with pytest.raises(JavaMissingError, match="does not tell its version"):
        session.check_java({"JAVA_HOME": str(home)})


@pytest.mark.parametrize(
    ("says", "major"),
    [('java version "1.8.0_392"', 8), ('openjdk version "11.0.2" 2019', 11), ('openjdk version "16" 2021', 16)],
)
def test_an_old_java_is_named_with_its_version(tmp_path: Path, says: str, major: int) -> None:
    """
    Both ways of writing a Java version are read; below 17 is refused.
    """
    with pytest.raises(JavaTooOldError, match=f"is Java {major}, Spark needs 17"):
        session.check_java({"JAVA_HOME": str(fake_java(tmp_path, says=says))})


@pytest.mark.parametrize(
    "says", ['openjdk version "17.0.15" 2025-04-15', 'openjdk version "21" 2023', 'openjdk version "25-ea"']
)
def test_a_new_java_is_taken(tmp_path: Path, says: str) -> None:
    """
    17 and above pass.
    """
    assert session.check_java({"JAVA_HOME": str(fake_java(tmp_path, says=says))}) >= 17


def test_given_jars_are_taken_without_a_resolver(tmp_path: Path) -> None:
    """
    A folder with both jars gives `spark.jars` and nothing that would reach for a network.
    """
    for name in jars.NAMES:
        (tmp_path / name).touch()
    found = jars.find(tmp_path, tmp_path / "cache")

    assert jars.options(found, tmp_path / "cache") == {"spark.jars": ",".join(str(tmp_path / n) for n in jars.NAMES)}


def test_a_given_folder_without_the_jars_is_an_error(tmp_path: Path) -> None:
    """
    The error names what is missing and what lies there instead; nothing is fetched in its place.
    """
    (tmp_path / "delta-storage-4.3.0.jar").touch()
    with pytest.raises(JarsUnreachableError, match=r"does not hold .*4\.4\.0.*found delta-storage-4\.3\.0") as caught:
        jars.find(tmp_path, tmp_path)
    assert "MATERIALIZER_JARS" in caught.value.hint


def test_what_was_fetched_is_kept(tmp_path: Path) -> None:
    """
    After a first start the jars are where the next one looks, under their plain names.
    """
    assert jars.find(None, tmp_path) is None
    fetched = tmp_path / "ivy" / "jars"
    fetched.mkdir(parents=True)
    for name in jars.NAMES:
        (fetched / f"io.delta_{name}").write_text(name)
    jars.keep(tmp_path)

    assert [p.read_text() for p in jars.find(None, tmp_path) or ()] == list(jars.NAMES)


def failing_start(options: str = "", stores: Sequence[str] = (), **environ: str) -> str:
    """Start in a process of its own with *options* and for *stores*, expecting an error; return its class, message and hint."""
    script = (
        "import pathlib\n"
        "from materializer.config import Config, SparkConfig\n"
        "from materializer.spark.runtime import session\n"
        "from materializer.errors import MaterializerError\n"
        "try:\n"
        f"    session.start(Config(spark=SparkConfig({options})), stores={stores})\n"
        "except MaterializerError as e:\n"
        "    print(type(e).__name__, e.message, e.hint, sep='|')\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert ran.returncode == 0
    assert [] == [line for line in ran.stderr.splitlines() if not line.startswith("fetching once what Spark needs")]
    return ran.stdout


@pytest.mark.follows_hint("jars.unreachable")
def test_unreachable_jars_are_one_clear_error(tmp_path: Path) -> None:
    """
    Nothing cached and no way to the repositories: both ways out are named, and nothing else is printed. With the folder of
    another machine's cache it starts.
    """
    cached = jars.find(None, cache_dir()) or ()
    said = failing_start(XDG_CACHE_HOME=str(tmp_path), JAVA_TOOL_OPTIONS=NOWHERE)

    assert said.startswith("JarsUnreachableError|the Delta jars")
    assert "Maven Central" in said
    assert "MATERIALIZER_JARS" in said
    copied = tmp_path / "copied"
    copied.mkdir()
    for jar in cached:
        (copied / jar.name).symlink_to(jar)
    given = f"jars=pathlib.Path({str(copied)!r})"
    assert "" == failing_start(given, XDG_CACHE_HOME=str(tmp_path), JAVA_TOOL_OPTIONS=NOWHERE)


def test_unreachable_jars_for_s3_are_named(tmp_path: Path) -> None:
    """
    Where the Delta jars are cached and those for S3 are not.
    """
    cached = jars.find(None, cache_dir())
    (tmp_path / "materializer" / "jars").mkdir(parents=True)
    for jar in cached or ():
        (tmp_path / "materializer" / "jars" / jar.name).symlink_to(jar)
    said = failing_start(stores=["s3"], XDG_CACHE_HOME=str(tmp_path), JAVA_TOOL_OPTIONS=NOWHERE)

    assert said.startswith(
        "JarsUnreachableError|the jars for S3 (36 jars, 13 MB) are not cached and cannot be fetched|"
    )
    assert "Maven Central" in said


def test_a_start_that_fails_says_why(tmp_path: Path) -> None:
    """
    The JVM's own reason is quoted, although its output is kept off the terminal.
    """
    said = failing_start("options={'spark.master': 'nonsense'}")

    assert said.startswith("SparkError|Spark did not start: ")
    assert "Master must" in said


def test_a_process_starts_again_what_it_ended() -> None:
    """
    As `setup` does on a new machine: one JVM fetches the jars, the next makes the archive. Ctrl-C is handled for the first, and by a
    program that says that its own handler stays.
    """
    script = (
        "import signal\n"
        "from materializer.config import Config\n"
        "from materializer.spark.runtime import session\n"
        "def own(*_): pass\n"
        "own.stays = True\n"
        "for _ in range(2):\n"
        "    spark = session.start(Config())\n"
        "    handler = signal.getsignal(signal.SIGINT)\n"
        "    whose = 'own' if handler is own else 'default' if handler is signal.default_int_handler else 'ours'\n"
        "    print(session.jvm_pid(spark), spark.range(3).count(), session.end(spark), session.is_running(), whose)\n"
        "    signal.signal(signal.SIGINT, own)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)

    first, second = (line.split() for line in ran.stdout.splitlines())
    assert ["3", "True", "False"] == first[1:4] == second[1:4]
    assert first[0] != second[0]
    assert ["ours", "own"] == [first[4], second[4]]


def test_the_session_is_as_promised(spark: SparkSession) -> None:
    """
    UTC and ANSI on, no console progress, no UI, and the warehouse not in the working directory.
    """
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    assert spark.conf.get("spark.ui.showConsoleProgress") == "false"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert not Path(str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:")).is_relative_to(Path.cwd())


def test_a_process_has_one_session(spark: SparkSession) -> None:
    """
    Starting again gives the session that runs, with its settings untouched.
    """
    again = session.start(Config(spark=SparkConfig(options={"spark.sql.shuffle.partitions": "77"})))

    assert again.conf.get("spark.sql.shuffle.partitions") == "2"


def test_the_jvm_is_found_beside_us(spark: SparkSession) -> None:
    """
    The process id is that of a living Java process which is our child.
    """
    pid = session.jvm_pid(spark)

    assert pid is not None
    assert b"java" in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert str(os.getpid()) in Path(f"/proc/{pid}/stat").read_text().split()


@pytest.fixture
def theirs(spark: SparkSession) -> Iterator[SparkSession]:
    """A session as a user might have it: another zone, ANSI off, a temporary view, a store's secret."""
    user = spark.newSession()
    user.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    user.conf.set("spark.sql.ansi.enabled", "false")
    user.conf.set("fs.s3a.endpoint", "store.example")
    user.range(1).createOrReplaceTempView("trades")
    yield user
    user.catalog.dropTempView("trades")


def test_work_has_its_own_state(theirs: SparkSession) -> None:
    """
    Work runs in UTC with ANSI on, does not see temporary views, knows the stores; the user's session stays as it was.
    """
    work = session.work_session(theirs)
    work.range(1).createOrReplaceTempView("ours")

    assert work.sql("SELECT current_timezone()").first() == ("UTC",)
    assert work.conf.get("spark.sql.ansi.enabled") == "true"
    assert work.conf.get("fs.s3a.endpoint") == "store.example"
    assert not work.catalog.tableExists("trades")
    assert theirs.sql("SELECT current_timezone()").first() == ("Asia/Tokyo",)
    assert theirs.conf.get("spark.sql.ansi.enabled") == "false"
    assert not theirs.catalog.tableExists("ours")


@pytest.mark.parametrize(
    ("text", "value"),
    [("'${env:PATH}'", "${env:PATH}"), ("'${spark.app.name}'", "${spark.app.name}"), ("'it''s'", "it's"), ('"a"', "a")],
)
def test_a_literal_means_itself(theirs: SparkSession, text: str, value: str) -> None:
    """
    No variable is put into a literal, in a query as in an expression, whatever the user's session does, which goes on doing it.
    """
    theirs.conf.set("spark.sql.variable.substitute", "true")
    work = session.work_session(theirs)

    assert work.sql(f"SELECT {text}").first() == (value,)
    assert work.range(1).select(sf.expr(text)).first() == (value,)
    assert work.range(1).where(f"{text} = {text}").count() == 1
    assert theirs.sql("SELECT '${env:PATH}'").first() == (os.environ["PATH"],)


def test_work_reads_no_dictionary_for_each_span(theirs: SparkSession) -> None:
    """
    Parquet would read the dictionary of the times for each limit of each span, which takes seconds where there are many.
    """
    given = session.work_session(theirs)._jsparkSession.sessionState().newHadoopConf()

    assert not given.getBoolean("parquet.filter.dictionary.enabled", True)


@pytest.mark.parametrize("key", ["spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles"])
def test_settings_that_lose_rows_are_refused(theirs: SparkSession, key: str) -> None:
    """
    A session that skips files it cannot read is refused by name, and so is a configuration that asks for it.
    """
    theirs.conf.set(key, "TRUE")

    with pytest.raises(ForeignSettingError, match=key):
        session.work_session(theirs)
    with pytest.raises(ForeignSettingError, match=key):
        session.start(Config(spark=SparkConfig(options={key: "true"})))


def test_two_jars_carry_every_feature_we_rely_on(spark: SparkSession, tmp_path: Path) -> None:
    """
    Append, replaceWhere with a transaction number, MERGE, DELETE by vector, OPTIMIZE, RESTORE, feed, history and time
    travel all work with what the excludes leave.
    """
    work = session.work_session(spark)
    path = str(tmp_path / "t")
    table = f"delta.`{path}`"
    properties = "'delta.enableChangeDataFeed'='true', 'delta.enableDeletionVectors'='true'"
    work.sql(f"CREATE TABLE {table} (id BIGINT, v INT) USING delta TBLPROPERTIES ({properties})")
    work.range(100).selectExpr("id", "1 AS v").coalesce(1).write.format("delta").mode("append").save(path)
    writer = work.range(10).selectExpr("id", "2 AS v").coalesce(1).write.format("delta").mode("overwrite")
    writer.option("replaceWhere", "id < 10").option("txnAppId", "a").option("txnVersion", 1).save(path)
    work.sql(f"DELETE FROM {table} WHERE id = 50")
    work.sql(f"MERGE INTO {table} t USING (SELECT 3L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 3")
    work.sql(f"OPTIMIZE {table} ZORDER BY (id)")
    sums = f"SELECT count(*) AS n, sum(v) AS v FROM {table}"

    assert work.sql(sums).first() == (99, 89 + 9 * 2 + 3)
    assert work.sql(f"{sums} VERSION AS OF 1").first() == (100, 100)
    feed = work.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 3).load(path)
    assert {r["_change_type"] for r in feed.select("_change_type").distinct().collect()} == {
        "delete",
        "update_preimage",
        "update_postimage",
    }
    work.sql(f"RESTORE TABLE {table} TO VERSION AS OF 1")
    assert work.sql(sums).first() == (100, 100)
    history = [r["operation"] for r in work.sql(f"DESCRIBE HISTORY {table}").select("operation").collect()]
    assert history == ["RESTORE", "OPTIMIZE", "MERGE", "DELETE", "WRITE", "WRITE", "CREATE TABLE"]

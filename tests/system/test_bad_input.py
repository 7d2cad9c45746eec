"""Bad input of every kind: a stable code, an error that helps, and nothing written.

The first table asks one lake for what it cannot do; the second damages a copy of it first.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from msgspec import Struct
from msgspec.structs import replace

from materializer import config
from materializer.adapters.cli.call import CommandCall, guarded
from materializer.adapters.cli.commands import defining, looking, refreshing
from materializer.adapters.cli.output import TextOutput
from materializer.api import Materializer
from materializer.config import Config
from materializer.core.language.define import define
from materializer.errors import DefinitionError, MaterializerError
from materializer.journal.events import LeaseTaken
from materializer.journal.row_files import SCHEMA as JOURNAL
from materializer.services import processes
from tests.system.builders import MEASURES, SCHEMA, Site, at

TRADES = [("00:10", "A", 1), ("00:50", "B", 2), ("01:10", "A", 3)]


@pytest.fixture(scope="module", params=["spark", "auto"])
def template(request, tmp_path_factory, spark) -> Site:
    """A lake with a source, an hourly aggregate of it, refreshed, and some things that are no tables; of either executor."""
    site = Site(tmp_path_factory.mktemp("bad"), spark, driver_lane_rows=200_000, executor=request.param)
    site.table().trade(*TRADES)
    site.table("maps", pa.schema([("ts", pa.timestamp("us", "UTC")), ("m", pa.map_(pa.string(), pa.string()))]))
    managed = site.table("managed")
    log = managed.log(0)
    log.write_text("".join(_managed(line) + "\n" for line in log.read_text().splitlines()))
    site.hourly()
    site.lake.refresh("hourly")
    (site.lake.root / "folder").mkdir()
    (site.lake.root / "folder" / "readme.txt").write_text("no table")
    (site.lake.root / "taken").mkdir()
    shutil.copytree(site.tables["trades"].path, site.lake.root / "per%20cent")
    (site.root / "empty").mkdir()
    (site.root / "latin.sql").write_bytes("CREATE MATERIALIZED VIEW größe".encode("latin-1"))
    for name, width in (("a.sql", "1 hour"), ("b.sql", "1 day")):
        (site.root / name).write_text(view(f"time_bucket('{width}', ts)", name="twice"))
    return site


def _managed(line: str) -> str:
    action = json.loads(line)
    if "protocol" in action:
        features = {"readerFeatures": ["catalogManaged"], "writerFeatures": ["catalogManaged"]}
        action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    return json.dumps(action)


def view(bucket: str = "window.start", *, measure: str = "count(*) AS n", source: str = "trades", **more: str) -> str:
    """Return a definition in SQL whose parts may be wrong."""
    group = more.get("group", "window(ts, '1 hour'), sym" if bucket == "window.start" else f"{bucket}, sym")
    return (
        f"CREATE MATERIALIZED VIEW {more.get('name', 'bars')} {more.get('options', '')}\n"
        f"AS SELECT {bucket} AS bucket, sym, {measure} FROM {source} {more.get('where', '')} GROUP BY {group}"
    )


def defined(source: str = "trades", name: str = "bars", **parts):
    """Return what defines an aggregate of Python parts, some of them wrong."""
    given = {"time": "ts", "width": "1 hour", "keys": ["sym"], "measures": MEASURES} | parts
    return lambda site: site.lake.apply(define(name, source, **given))


def applied(text: str):
    """Return what applies a text."""
    return lambda site: site.lake.apply(text)


def asked(method: str, *arguments, **options):
    """Return what calls a method of the façade."""
    return lambda site: getattr(site.lake, method)(*arguments, **options)


def in_file(text: str, **environ: str):
    """Return what opens a lake with a configuration file."""

    def act(site):
        folder = site.root / "empty"
        file = folder.parent / "bad.toml"
        file.write_text(text)
        try:
            return Materializer(site.lake.root, config=config.read(file, environ=environ))
        finally:
            file.unlink()

    return act


def with_setting(key: str):
    """Return what works with a session in which a setting is on."""

    def act(site):
        before = site.spark.conf.get(key)
        site.spark.conf.set(key, "true")
        try:
            Materializer(site.lake.root, spark=site.spark)
        finally:
            site.spark.conf.set(key, before)

    return act


WINDOW = ("2024-03-01T05:00:00Z", "2024-03-01T03:00:00Z")
ASKED = {
    # definitions against a real source
    "misspelt column": (defined(measures={"x": "sum(prize)"}), "definition.unknown-column", "price"),
    "misspelt key": (defined(keys=["symbol"]), "definition.unknown-column", "symbol"),
    "misspelt column in WHERE": (defined(where="pric > 1"), "definition.unknown-column", "price"),
    "sum of texts": (defined(measures={"x": "sum(note)"}), "definition.wrong-type", "CAST(note AS DOUBLE)"),
    "mean of texts in HAVING": (defined(having="avg(`note`) > 1"), "definition.wrong-type", "CAST(`note` AS DOUBLE)"),
    "missing time column": (defined(time="at"), "definition.missing-time-column", "at"),
    "time that is text": (defined(time="note"), "definition.time-type", "string"),
    "resolution of a timestamp": (defined(resolution="ms"), "definition.resolution", "time.resolution"),
    "missing sequence": (defined(sequence="seq"), "definition.missing-sequence", "seq"),
    "aggregate of a wrong type": (defined(measures={"x": "bool_and(price)"}), "definition.wrong-type", "boolean"),
    "strings with a collation": (
        defined(measures={"x": "max(collate(sym, 'UTF8_LCASE'))"}),
        "definition.wrong-type",
        "UTF8_LCASE",
    ),
    "result of an engine that no table holds": (
        asked(
            "define",
            "bars",
            "trades",
            engine="reactive_state",
            time="ts",
            keys=["sym"],
            measures={"gone": "prev(ts - timestamp'2024-01-01')"},
        ),
        "definition.wrong-type",
        "interval",
    ),
    "WHERE that is no condition": (defined(where="price + 1"), "definition.wrong-type", "boolean"),
    "HAVING that is no condition": (defined(having="count(*)"), "definition.wrong-type", "boolean"),
    "key that cannot be grouped": (
        defined("maps", keys=["m"], measures={"n": "count(*)"}),
        "definition.key-type",
        "map",
    ),
    "too many arguments": (defined(measures={"x": "sum(price, 1)"}), "definition.wrong-arguments", "sum"),
    # definitions that can be no aggregate, end to end
    "unknown function": (applied(view(measure="frobnicate(price) AS x")), "definition.unknown-function", "frobnicate"),
    "chance": (applied(view(measure="sum(rand()) AS x")), "definition.non-deterministic", "rand"),
    "nested aggregates": (applied(view(measure="sum(max(price)) AS x")), "definition.nested-aggregate", "max"),
    "window function": (
        applied(view(measure="sum(price) OVER (ORDER BY ts) AS x")),
        "definition.window-function",
        "OVER",
    ),
    "sub-query": (applied(view(where="WHERE price > (SELECT 1)")), "definition.sub-query", "sub-query"),
    "join": (applied(view(source="trades JOIN quotes ON a = b")), "definition.join", "join"),
    "two buckets": (
        applied(view(group="window(ts, '1 hour'), date_trunc('day', ts), sym")),
        "definition.two-buckets",
        "two",
    ),
    "width of nothing": (applied(view("time_bucket('0 hours', ts)")), "definition.width", "0"),
    "no such zone": (applied(view("time_bucket('1 day', ts, 'Mars/Olympus')")), "definition.timezone-unknown", "Mars"),
    "property with a slip": (
        applied(view(options="TBLPROPERTIES ('refresh.end_ofset' = '1 hour')")),
        "definition.unknown-property",
        "refresh.end_offset",
    ),
    "name with a quote": (defined(name="it's"), "definition.bad-name", "it's"),
    "name that is a path": (defined(name="a/b"), "definition.bad-name", "a/b"),
    "name that climbs": (defined(name=".."), "definition.bad-name", ".."),
    "name of ours": (defined(name="_materializer"), "definition.bad-name", "_materializer"),
    # sources
    "missing table": (defined("quotes"), "table.not-found", "quotes"),
    "missing catalog table": (defined("bronze.quotes"), "table.not-found", "bronze.quotes"),
    "folder without a table": (defined("folder"), "table.not-delta", "folder"),
    "source that is a file": (defined("./folder/readme.txt"), "table.not-delta", "readme.txt"),
    "path that is read as another": (defined("./per%20cent"), "storage.failed", "%20"),
    "managed by a catalog": (defined("managed"), "source.catalog-managed", "managed"),
    # names and definitions that are there
    "folder in the way": (defined(name="taken"), "tables.foreign", "taken"),
    "defined in two files": (
        lambda s: s.lake.apply([s.root / "a.sql", s.root / "b.sql"]),
        "definition.name-twice",
        "twice",
    ),
    "no definition file": (lambda s: s.lake.apply(s.root / "none.sql"), "usage", "none.sql"),
    "no file in the folder": (lambda s: s.lake.apply(s.root / "empty"), "usage", "empty"),
    "definitions that are no text": (lambda s: s.lake.apply(s.root / "latin.sql"), "usage", "UTF-8"),
    # aggregates in Python
    "Python aggregate of no module": (
        lambda s: Materializer(s.lake.root, config=Config(python_aggregates=("no.where:x",))),
        "usage",
        "no.where:x",
    ),
    "Python aggregate that is none": (
        lambda s: Materializer(s.lake.root, config=Config(python_aggregates=("json:loads",))),
        "usage",
        "no Python aggregate",
    ),
    # names that nobody has
    **{
        f"{method} of an unknown aggregate": (asked(method, "hurly"), "aggregate.unknown", "hourly")
        for method in (
            *("plan", "refresh", "backfill", "invalidate", "status", "history", "show", "verify", "read"),
            *("drop", "doctor", "grid"),
        )
    },
    # windows
    "reversed": (asked("refresh", "hourly", *WINDOW), "window.invalid", "before it starts"),
    "reversed plan": (asked("plan", "hourly", *WINDOW), "window.invalid", "before it starts"),
    "reversed backfill": (asked("backfill", "hourly", *WINDOW), "window.invalid", "before it starts"),
    "reversed invalidation": (asked("invalidate", "hourly", *WINDOW), "window.invalid", "before it starts"),
    "reversed verification": (asked("verify", "hourly", *WINDOW), "window.invalid", "before it starts"),
    "empty": (asked("refresh", "hourly", WINDOW[0], WINDOW[0]), "window.invalid", "before it starts"),
    "no time": (asked("refresh", "hourly", "yesterday"), "window.invalid", "yesterday"),
    "no such day": (asked("plan", "hourly", "2024-02-30"), "window.invalid", "2024-02-30"),
    "number for a timestamp": (asked("show", "hourly", start=7), "window.invalid", "7"),
    "under one bucket": (
        asked("refresh", "hourly", "2024-03-01T00:10:00Z", "2024-03-01T00:40:00Z"),
        "window.too-small",
        "holds no whole",
    ),
    "verification under one bucket": (
        asked("verify", "hourly", "2024-03-01T00:10:00Z", "2024-03-01T00:40:00Z"),
        "window.too-small",
        "holds no whole",
    ),
    "runs of nothing": (asked("backfill", "hourly", buckets_per_run=0), "usage", "at least 1"),
    # sessions
    "missing files ignored": (
        with_setting("spark.sql.files.ignoreMissingFiles"),
        "spark.unsafe-setting",
        "ignoreMissing",
    ),
    "corrupt files ignored": (
        with_setting("spark.sql.files.ignoreCorruptFiles"),
        "spark.unsafe-setting",
        "ignoreCorrupt",
    ),
    # configuration
    "no TOML": (in_file("lake = "), "config.invalid", "bad.toml"),
    "unknown key": (in_file("lease_second = 3"), "config.invalid", "lease_seconds"),
    "number that is none": (in_file("lease_seconds = 'long'"), "config.invalid", "lease_seconds"),
    "number below one": (in_file("run_rows = 0"), "config.invalid", "at least 1"),
    "profile": (in_file("[spark]\nprofile = 'huge'"), "config.invalid", "'short' or 'long'"),
    "variable": (in_file("", MATERIALIZER_RUN_ROWS="many"), "config.invalid", "MATERIALIZER_RUN_ROWS"),
    "no configuration": (lambda s: config.read(s.root / "none.toml", environ={}), "config.invalid", "none.toml"),
}


@pytest.mark.parametrize("case", ASKED)
def test_what_cannot_be_asked_for_is_refused_and_writes_nothing(template, case):
    """
    The error has its code, names what was found and what to do, and journal and files are as they were.
    """
    act, code, said = ASKED[case]
    before, version = template.files(), template.lake.journal.view().version

    with pytest.raises(MaterializerError) as refused:
        act(template)

    expect_helpful(refused.value, code, said)
    assert "nothing was written" == refused.value.wrote
    assert before == template.files()
    assert version == template.lake.journal.view().version


def expect_helpful(error: MaterializerError, code: str, said: str) -> None:
    """Assert that an error, or one of its problems, has the code, and that all of it is meant for people."""
    codes = {p.code for p in error.problems} if isinstance(error, DefinitionError) else {error.code}
    assert code in codes, str(error)
    text = f"{error.message}\n{error.hint}"
    assert said.lower() in text.lower()
    assert error.hint
    assert error.wrote
    assert error.exit_status in range(1, 76)
    assert not any(word in text for word in ("Traceback", "\tat ", "py4j", "JVM stacktrace", "object at 0x"))
    assert json.loads(json.dumps(error.as_json()))["code"] == error.code


# -- a lake that is not as it was left --------------------------------------------------------------------------------------


class Broken(Struct):
    """A copy of the template's lake, of its sources too, that a case damages."""

    root: Path
    site: Site
    held: list[subprocess.Popen[bytes]]

    @property
    def lake(self) -> Path:
        """Its root folder."""
        return self.root / "lake"

    @property
    def journal(self) -> Path:
        """The journal's folder."""
        return self.lake / "_materializer" / "journal"

    @property
    def output(self) -> Path:
        """The output table's folder."""
        return self.lake / "hourly" / "output"

    def opened(self) -> Materializer:
        """Return the lake, opened anew."""
        return Materializer(self.lake, spark=self.site.spark, config=self.site.config)

    def append(self, **row) -> None:
        """Append a row to the journal that nobody of ours writes."""
        table = DeltaTable(str(self.journal))
        [aggregate] = {r["aggregate"] for r in table.to_pyarrow_table().to_pylist()}
        known = {"version": table.version() + 1, "position": 0, "format": 1, "aggregate": aggregate, "at": ""}
        rows = pa.Table.from_pylist([known | {"kind": "done", "payload": "{}"} | row], schema=JOURNAL)
        write_deltalake(table, rows, mode="append")

    def facts(self) -> dict[str, tuple[int, bytes]]:
        """Return every file outside the journal, whole; commits that only record a number are no rows."""
        files = (p for p in self.root.rglob("*") if p.is_file() and "_materializer" not in p.parts)
        found = {str(p.relative_to(self.root)): (p.stat().st_mtime_ns, p.read_bytes()) for p in files}
        return {name: of for name, of in found.items() if not (name.endswith(".json") and b"fence" in of[1])}


@pytest.fixture
def broken(template, tmp_path):
    """A copy of the lake whose aggregate reads the copied source."""
    shutil.copytree(template.lake.root, tmp_path / "lake")
    found = Broken(tmp_path, template, [])
    _relocate(found.journal, str(template.root), str(tmp_path))
    yield found
    for process in found.held:
        process.kill()
        process.wait()


def _relocate(journal: Path, old: str, new: str) -> None:
    """Let the journal name the copied source: it holds absolute paths."""
    sizes = {}
    for file in journal.glob("*.parquet"):
        rows = pq.read_table(file)
        payload = pa.array([text.replace(old, new) for text in rows["payload"].to_pylist()], pa.string())
        pq.write_table(rows.set_column(6, JOURNAL.field("payload"), payload).cast(JOURNAL), file)
        sizes[file.name] = file.stat().st_size
    for commit in (journal / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for add in (action["add"] for action in actions if "add" in action):
            add["size"] = sizes[add["path"]]
        commit.write_text("".join(json.dumps(action) + "\n" for action in actions))


def new_trade(broken):
    rows = [{"ts": at("01:30"), "sym": "A", "price": 4, "note": ""}]
    write_deltalake(str(broken.lake / "trades"), pa.Table.from_pylist(rows, schema=SCHEMA), mode="append")


def bad_payload(broken):
    broken.append(payload="{'n': ")


def payload_of_another_kind(broken):
    broken.append(kind="planned", payload='{"n": 3}')


def end_without_a_plan(broken):
    report = '{"source_version": 1}'
    broken.append(payload=f'{{"n": 99, "report": {report}}}')


def unknown_kind(broken):
    broken.append(kind="teleported")


def newer_format(broken):
    broken.append(format=99)


def journal_file_of_rubbish(broken):
    newest = max(broken.journal.glob("*.parquet"), key=lambda p: p.stat().st_mtime_ns)
    newest.write_bytes(b"rubbish")


def journal_file_gone(broken):
    next(broken.journal.glob("*.parquet")).unlink()


def journal_with_a_hole(broken):
    (broken.journal / "_delta_log" / f"{2:020d}.json").unlink()


def journal_of_before(broken):
    """Put the journal back to where the first refresh had not been planned."""
    log = broken.journal / "_delta_log"
    kept = 1
    for file in sorted(log.glob("*.json"))[kept + 1 :]:
        file.unlink()


def output_of_somebody_else(broken):
    shutil.rmtree(broken.output)
    write_deltalake(str(broken.output), pa.table({"mine": [1]}))
    new_trade(broken)


def partials_of_somebody_else(broken):
    [partials] = (broken.lake / "hourly" / "partials").iterdir()
    shutil.rmtree(partials)
    write_deltalake(str(partials), pa.table({"mine": [1]}))
    new_trade(broken)


def output_missing(broken):
    shutil.rmtree(broken.output)
    new_trade(broken)


def output_restored(broken):
    """Put the output back to before its refresh, as a copy of that day would."""
    for file in sorted((broken.output / "_delta_log").glob("*.json"))[1:]:
        file.unlink()
    new_trade(broken)


def lease_held(broken):
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    broken.held.append(process)
    mine = processes.new_lease(time.time(), 600)
    lease = replace(mine, owner="somebody", pid=process.pid, started=processes.started(process.pid))
    journal = broken.opened().journal
    view = journal.view()
    journal.append(view.version, view.named("hourly").id, [LeaseTaken(lease)])
    new_trade(broken)


def source_gone(broken):
    shutil.rmtree(broken.lake / "trades")


def source_without_a_log(broken):
    shutil.rmtree(broken.lake / "trades" / "_delta_log")


def source_log_of_rubbish(broken):
    new_trade(broken)
    (broken.lake / "trades" / "_delta_log" / f"{2:020d}.json").write_text("rubbish")


def source_file_gone(broken):
    new_trade(broken)
    for file in (broken.lake / "trades").glob("*.parquet"):
        file.unlink()


DAMAGED = {
    bad_payload: ("refresh", "journal.corrupt", "cannot be read"),
    payload_of_another_kind: ("status", "journal.corrupt", "planned"),
    end_without_a_plan: ("plan", "journal.corrupt", "99"),
    unknown_kind: ("refresh", "journal.too-new", "teleported"),
    newer_format: ("status", "journal.too-new", "99"),
    journal_file_of_rubbish: ("refresh", "journal.corrupt", "backup"),
    journal_file_gone: ("refresh", "journal.corrupt", "backup"),
    journal_with_a_hole: ("history", "journal.corrupt", "backup"),
    journal_of_before: ("refresh", "tables.ahead", "repair"),
    output_of_somebody_else: ("refresh", "tables.foreign", "output"),
    partials_of_somebody_else: ("refresh", "tables.foreign", "partials"),
    output_missing: ("refresh", "table.not-found", "output"),
    output_restored: ("refresh", "tables.ahead", "output"),
    lease_held: ("refresh", "lease.held", "process"),
    source_gone: ("refresh", "table.not-found", "trades"),
    source_without_a_log: ("refresh", "table.not-delta", "trades"),
    source_log_of_rubbish: ("refresh", "source.damaged", "damaged"),
    source_file_gone: ("refresh", "source.damaged", "file"),
}


@pytest.mark.parametrize("damage", DAMAGED, ids=lambda damage: damage.__name__)
def test_what_was_damaged_is_told_and_made_no_worse(broken, damage):
    """
    The error has its code and names what was found; no file outside the journal has changed, and nobody holds a lease.
    """
    method, code, said = DAMAGED[damage]
    damage(broken)
    before = broken.facts()

    with pytest.raises(MaterializerError) as refused:
        getattr(broken.opened(), method)("hourly")

    expect_helpful(refused.value, code, said)
    assert before == broken.facts()
    if not code.startswith("journal"):
        state = broken.opened().journal.view().named("hourly")
        assert (None if damage is not lease_held else "somebody") == (state.lease and state.lease.owner)
        assert state.plan is None


def test_a_lease_is_free_again_when_its_process_has_died(broken):
    """
    The refresh that was refused works once the holder is gone.
    """
    lease_held(broken)
    for process in broken.held:
        process.kill()
        process.wait()

    assert "refreshed" == broken.opened().refresh("hourly").outcome


def test_an_output_overwritten_by_another_writer(broken):
    """
    Verification finds it with examples and its own exit status; a forced refresh mends it.
    """
    table = DeltaTable(str(broken.output))
    rows = table.to_pyarrow_table().slice(0, 1)
    write_deltalake(table, rows, mode="overwrite")

    report = broken.opened().verify("hourly")
    assert (2, {"missing"}) == (report.differing, {d.kind for d in report.examples})
    status, _, err = called(broken, looking.verify, "hourly")
    assert (1, True) == (status, "verify.differs" in err)

    broken.opened().refresh("hourly", force=True)
    assert broken.opened().verify("hourly").is_equal


# -- as commands ------------------------------------------------------------------------------------------------------------


def called(broken, body, *arguments, **options):
    """Run the body of a command and return its status and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    call = CommandCall(TextOutput(out, err), opened=broken.opened())
    status = guarded(call, lambda: body(call, *arguments, **options))
    return status, out.getvalue(), err.getvalue()


COMMANDS = {
    "usage": (refreshing.refresh, ["hurly"], {}, 64, "aggregate.unknown"),
    "window": (refreshing.plan, ["hourly"], {"start": "yesterday"}, 64, "window.invalid"),
    "invalidation": (refreshing.invalidate, ["hourly"], {"start": WINDOW[0], "end": WINDOW[1]}, 64, "window.invalid"),
    "definition": (defining.apply, [["bad.sql"]], {}, 65, "definition.unknown-column"),
    "no file": (defining.apply, [["none.sql"]], {}, 64, "usage"),
    "drop unasked": (defining.drop, ["hourly"], {}, 64, "usage"),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_commands_end_with_the_status_of_the_kind_of_error(broken, monkeypatch, case):
    """
    What is shown is the code, the message and what to do, never a traceback.
    """
    body, arguments, options, expected, code = COMMANDS[case]
    monkeypatch.chdir(broken.root)
    Path("bad.sql").write_text(view(measure="sum(prize) AS x"))
    before = broken.facts()

    status, out, err = called(broken, body, *arguments, **options)

    assert (expected, "") == (status, out)
    assert code in err
    assert "Traceback" not in err
    assert "nothing was written" in err
    assert before == broken.facts()

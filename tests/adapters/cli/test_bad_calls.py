"""Bad input to commands that keep a lake for years: a code, words that help, nothing written, and no Java started."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from msgspec.structs import replace

from materializer.adapters.cli.app import main
from materializer.core.codec import as_json
from materializer.core.language.engine_define import define_engine
from materializer.core.language.parse import parse_definitions
from materializer.core.spec.spec import AggregateSpec, TimeType
from materializer.core.time.instants import HOUR, parse
from materializer.journal.events import Defined, Snapshot, SourceIdentity
from materializer.journal.journal import Journal
from materializer.services.definitions.tables import create_tables
from tests import tables
from tests.adapters.hostile import HOSTILE
from tests.appending import append

SQL = "CREATE MATERIALIZED VIEW {name} AS SELECT window.start AS at, sym, count(*) AS n FROM trades GROUP BY window(ts, '1 hour'), sym"
TICKS = """CREATE MATERIALIZED VIEW ticks TBLPROPERTIES ('refresh.start_offset' = '100')
AS SELECT window.start AS at, sym, count(*) AS n FROM counted GROUP BY window(ts, '10'), sym"""
DAILY = (("refresh.start_offset", "2 days"), ("refresh.schedule", "@hourly"))
SESSIONS = {
    "engine": "session_window",
    "time": "ts",
    "keys": ["sym"],
    "session_gap": "30 minutes",
    "force_trigger_time": "1 hour",
    "measures": {"n": "count(*)"},
}
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("sym", pa.string())])
COUNTED = pa.schema([("ts", pa.int64()), ("sym", pa.string())])
MARCH = parse("2024-03-01", TimeType.TIMESTAMP)


def defined(root: Path, spec: AggregateSpec, *, time: str = "timestamp", **as_if: int) -> None:
    """Write an aggregate as `apply` does, without Java; what is said besides, the journal holds as if refreshes had done it."""
    name, source = spec.name, str(root / spec.source)
    columns = {
        "partials": [["slice", time], ["k_sym", "string"], ["p0", "bigint"]],
        "output": [["at", time], ["sym", "string"], ["n", "bigint"]],
    }
    paths = {"partials": str(root / name / "partials" / "d1"), "output": str(root / name / "output")}
    ids = create_tables(paths, spec, columns, name)
    identity = SourceIdentity(source, str(DeltaTable(source).metadata().id))
    journal = Journal(root)
    append(journal, (name, Defined(name, spec.as_json(), "d1", identity, 0, columns, ids)))
    if as_if:
        since = MARCH if time == "timestamp" else 0
        state = replace(journal.view().named(name), **{what: since + at for what, at in as_if.items()})
        append(journal, (name, Snapshot(as_json(state))))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with one aggregate that was never refreshed, its backup, and things that are neither."""
    root = tmp_path_factory.mktemp("bad") / "lake"
    for name, schema in (("trades", SCHEMA), ("counted", COUNTED)):
        tables.create(root / name, schema)
    [spec] = parse_definitions(SQL.format(name="hourly"))
    hourly = replace(spec, time_type=TimeType.TIMESTAMP)
    defined(root, hourly)
    defined(root, replace(hourly, name="fed", properties=(("output.change_feed", "true"),)))
    defined(root, replace(hourly, name="kept", properties=DAILY), threshold=6 * HOUR, frozen=3 * HOUR)
    [spec] = parse_definitions(TICKS)
    defined(root, replace(spec, time_type=TimeType.BIGINT), time="bigint", threshold=600)
    defined(root, replace(define_engine("sessions", "trades", **SESSIONS), time_type=TimeType.TIMESTAMP))
    assert 0 == main(["backup", str(root.parent / "backup"), "--lake", str(root)])
    shutil.copytree(root.parent / "backup", root.parent / "torn")
    shutil.rmtree(root.parent / "torn" / "_materializer")
    (root.parent / "full").mkdir()
    (root.parent / "full" / "file.txt").write_text("somebody's")
    (root.parent / "empty").mkdir()
    (root.parent / "broken.sql").write_text("CREATE MATERIALIZED VIEW hourly AS SELEKT")
    (root.parent / "other.sql").write_text(SQL.format(name="other"))
    return root


@pytest.fixture
def lake(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, made the working directory's, on a machine without Java."""
    shutil.copytree(template.parent, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("MATERIALIZER_LAKE", "lake")
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    return tmp_path / "here" / "lake"


def files(folder: Path) -> dict[str, bytes]:
    """Return what lies in a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


STATUSES = {
    "aggregate": 64,
    "config": 64,
    "definition": 65,
    "expire": 64,
    "expire.engine": 66,
    "journal": 69,
    "policy": 64,
    "storage": 74,
    "usage": 64,
    "version": 64,
    "window": 64,
}
"""What a call ends with, by code or by what stands before its dot."""
CALLS = [
    # definition changes
    ("build", "usage", "NAME"),
    ("build hourly", "version.none", "no next version"),
    ("build hourly --max-runs 0", "usage", "max-runs"),
    ("build hourly --buckets-per-run -1", "usage", "buckets-per-run"),
    ("build hourly --buckets-per-run many", "usage", "is no whole number"),
    ("build hourly --order both", "usage", "newest"),
    ("build hourly --start 2024-01-01", "usage", "--start"),
    ("build nobody", "aggregate.unknown", "nobody"),
    ("switch", "usage", "NAME"),
    ("switch hourly", "version.none", "no next version"),
    ("switch hourly --force", "usage", "--force"),
    ("switch nobody", "aggregate.unknown", "hourly"),
    ("rollback hourly", "version.none", "previous"),
    ("rollback nobody", "aggregate.unknown", "nobody"),
    ("rollback hourly 3", "usage", "3"),
    ("abandon hourly", "version.none", "no next version"),
    ("abandon nobody", "aggregate.unknown", "nobody"),
    ("abandon hourly --yes", "usage", "--yes"),
    ("apply broken.sql --build", "definition.invalid", "broken.sql:1"),
    ("apply empty", "usage", "empty"),
    ("apply backup", "usage", "backup"),
    # maintenance
    ("maintain", "usage", "--all"),
    ("maintain hourly --all", "usage", "got both"),
    ("maintain hourly nobody", "aggregate.unknown", "nobody"),
    ("maintain nobody --dry-run", "aggregate.unknown", "nobody"),
    ("maintain trades", "aggregate.unknown", "trades"),
    ("maintain --all --every 5", "usage", "--every"),
    # repair, backup, restore
    ("repair", "usage", "--all"),
    ("repair hourly --all", "usage", "got both"),
    ("repair nobody --yes", "aggregate.unknown", "nobody"),
    ("repair hourly --definitions missing.sql", "usage", "--definitions"),
    ("repair --definitions missing.sql", "usage", "missing.sql"),
    ("repair --definitions empty", "usage", "empty"),
    ("repair --definitions broken.sql", "definition.invalid", "broken.sql:1"),
    ("backup", "usage", "FOLDER"),
    ("backup full", "usage", "full"),
    ("backup full/file.txt", "usage", "file.txt"),
    ("backup full/file.txt/deeper", "storage.failed", "deeper"),
    ("backup lake", "usage", "lake"),
    ("backup backup", "usage", "backup"),
    ("backup new --yes", "usage", "--yes"),
    ("backup a%20b", "usage", "%20"),
    ("restore", "usage", "FOLDER"),
    ("restore missing", "usage", "missing"),
    ("restore full", "usage", "full"),
    ("restore full/file.txt", "usage", "file.txt"),
    ("restore torn", "journal.corrupt", "torn"),
    ("restore torn --yes", "journal.corrupt", "torn"),
    ("restore empty --yes", "usage", "empty"),
    ("restore lake", "usage", "lake"),
    ("backup lake/hourly", "usage", "hourly"),
    ("backup .", "usage", "not empty"),
    ("backup backup/_materializer", "usage", "_materializer"),
    ("restore .", "usage", "holds no backup"),
    ("restore backup/_materializer", "usage", "holds no backup"),
    ("restore backup torn", "usage", "torn"),
    ("restore backup --dry-run", "usage", "--dry-run"),
    # freezing history, and giving it up
    ("expire", "usage", "NAME"),
    ("expire kept", "usage", "--before"),
    ("expire nobody --before 2024-03-01", "aggregate.unknown", "nobody"),
    ("expire trades --before 2024-03-01", "aggregate.unknown", "trades"),
    ("expire kept hourly --before 2024-03-01", "usage", "hourly"),
    ("expire --all --before 2024-03-01", "usage", "--all"),
    ("expire kept --before yesterday", "expire.bound", "yesterday"),
    ("expire kept --before 2024-02-30", "expire.bound", "2024-02-30"),
    ("expire kept --before 2024-03-01T25:00:00Z", "expire.bound", "25:00"),
    ("expire kept --before 2024-03-01T02:00:00+99:00", "expire.bound", "no such time zone"),
    ("expire kept --before 2024-03-01T02:00:00.0000001Z", "expire.bound", "finer"),
    ("expire kept --before 600", "expire.bound", "600"),
    ("expire kept --before -5", "expire.bound", "-5"),
    ("expire kept --before inf", "expire.bound", "infinity"),
    ("expire kept --before -inf", "expire.bound", "infinity"),
    ("expire kept --before 2024-03-01T07:00:00Z", "expire.bound", "nothing from 2024-03-01T06:00:00Z on"),
    ("expire kept --before 9999-12-31", "expire.bound", "9999-12-31"),
    ("expire hourly --before 2024-03-01", "expire.bound", "nothing at all"),
    ("expire ticks --before 2024-03-01", "expire.bound", "expected an integer"),
    ("expire ticks --before 1.5", "expire.bound", "1.5"),
    ("expire ticks --before 0x10", "expire.bound", "0x10"),
    ("expire ticks --before 700", "expire.bound", "nothing from 600 on"),
    ("expire ticks --before 99999999999999999999", "expire.bound", "999999"),
    ("expire ticks --before 100 --yes=no", "usage", "--yes"),
    ("expire sessions --before 2024-03-01", "expire.engine", "raw rows"),
    ("expire sessions --before whenever", "expire.bound", "whenever"),
    ("expire kept --before 2024-03-01 --dry-run", "usage", "--dry-run"),
    ("expire kept --before 2024-03-01 --as-stored yes", "usage", "yes"),
    ("thaw", "usage", "NAME"),
    ("thaw nobody", "aggregate.unknown", "nobody"),
    ("thaw nobody --yes", "aggregate.unknown", "known: "),
    ("thaw kept ticks --yes", "usage", "ticks"),
    ("thaw --all --yes", "usage", "--all"),
    ("thaw kept --before 2024-03-01 --yes", "usage", "--before"),
    ("thaw kept --dry-run", "usage", "--dry-run"),
    # what changed
    ("changes", "usage", "NAME"),
    ("changes nobody", "aggregate.unknown", "nobody"),
    ("changes hourly", "usage", "output.change_feed"),
    ("changes fed", "usage", "nothing was published since"),
    ("changes fed --reason sometimes", "usage", "correction"),
    ("changes fed --limit 0", "usage", "limit"),
    ("changes fed --after first", "usage", "--after"),
    ("changes fed --after 1.5", "usage", "--after"),
    ("changes fed --start 2024-03-01", "usage", "--start"),
    ("changes fed hourly", "usage", "hourly"),
    ("changes --all", "usage", "--all"),
    # policies
    ("policy add", "usage", "NAME"),
    ("policy add nobody --start-offset 1", "aggregate.unknown", "nobody"),
    ("policy add hourly", "usage", "nothing is said"),
    ("policy add hourly --policy old --max-staleness 1h", "usage", "nothing is said"),
    ("policy add hourly --policy 2nd --start-offset 1day", "usage", "2nd"),
    ("policy add hourly --policy naïve --start-offset 1day", "usage", "naïve"),
    ("policy add hourly --policy= --start-offset 1day", "usage", "cannot name a policy"),
    ("policy add hourly --start-offset whenever", "definition.invalid", "whenever"),
    ("policy add hourly --start-offset 7", "definition.invalid", "7 days"),
    ("policy add hourly --start-offset 1hour --end-offset 2hours", "definition.invalid", "ends before it starts"),
    ("policy add hourly --start-offset 1day --end-offset 1day", "definition.invalid", "ends before it starts"),
    ("policy add hourly --schedule sometimes", "definition.invalid", "five cron fields"),
    ("policy add hourly --start-offset 1day --schedule @never", "definition.invalid", "@never"),
    ("policy add hourly --start-offset 1day --max-runs -1", "usage", "--max-runs"),
    ("policy add hourly --start-offset 1day --max-runs many", "usage", "--max-runs"),
    ("policy add hourly --start-offset 1day --order both", "usage", "oldest"),
    ("policy add hourly --max-staleness soon", "definition.invalid", "soon"),
    ("policy add hourly --max-staleness -1hour", "definition.invalid", "longer than nothing"),
    ("policy add kept --start-offset 1day", "policy.exists", "policy remove kept"),
    ("policy add kept --policy old --start-offset 1day", "definition.invalid", "overlap"),
    ("policy add ticks --policy old --start-offset 1day", "definition.invalid", "whole number"),
    ("policy add ticks --policy old --start-offset 90 --end-offset 1hour", "definition.invalid", "whole number"),
    ("policy remove", "usage", "NAME"),
    ("policy remove nobody", "aggregate.unknown", "nobody"),
    ("policy remove hourly", "policy.unknown", "known: none"),
    ("policy remove kept --policy old", "policy.unknown", "known: default"),
    ("policy remove kept --yes", "usage", "--yes"),
    ("policy list nobody", "aggregate.unknown", "nobody"),
    ("policy list kept --now whenever", "policy.now", "whenever"),
    ("policy list kept --now 5", "policy.now", "'5'"),
    ("policy run", "usage", "neither"),
    ("policy run nobody", "aggregate.unknown", "nobody"),
    ("policy run nobody --due", "aggregate.unknown", "nobody"),
    ("policy run hourly", "policy.unknown", "policy add hourly"),
    ("policy run kept --policy old", "policy.unknown", "known: default"),
    ("policy run kept --now inf", "policy.now", "inf"),
    ("policy run kept --now 17", "policy.now", "17"),
    ("policy run ticks", "policy.now", "--now"),
    ("policy run ticks --now 2024-03-01", "policy.now", "integer"),
    ("policy run --due --policy default", "usage", "--policy"),
    ("policy run kept --start 2024-03-01", "usage", "--start"),
    ("policy drop kept", "usage", "drop"),
    # looking
    ("show ticks --fresh --start 2024-03-01", "window.invalid", "expected an integer"),
    ("show nobody --fresh", "aggregate.unknown", "nobody"),
    ("show hourly --fresh --limit 0", "usage", "limit"),
    ("show hourly --fresh --start yesterday", "window.invalid", "yesterday"),
    ("show hourly --fresh --start 2024-01-02 --end 2024-01-01", "window.invalid", "2024-01-02"),
    ("show hourly --fresh --start 2024-01-01T00:10:00Z --end 2024-01-01T00:20:00Z", "window.too-small", "bucket"),
    ("doctor nobody", "aggregate.unknown", "nobody"),
    ("status nobody", "aggregate.unknown", "nobody"),
    ("status hourly --now whenever", "policy.now", "whenever"),
    ("history hourly --limit -3", "usage", "limit"),
    ("verify hourly --start 2024-13-01", "window.invalid", "2024-13-01"),
    # set-up and configuration
    ("setup hourly", "usage", "hourly"),
    ("setup --config missing.toml", "config.invalid", "missing.toml"),
    ("maintain --all --config broken.sql", "config.invalid", "broken.sql"),
]


@pytest.mark.parametrize(("call", "code", "told"), CALLS, ids=[call for call, _, _ in CALLS])
def test_what_cannot_be_done_is_refused(
    lake: Path, capsys: pytest.CaptureFixture[str], call: str, code: str, told: str
) -> None:
    """
    One JSON object on standard error, the status of its kind, and no file that was not there.
    """
    before = files(lake.parent)

    status = main([*call.split(), "--json"])

    out, err = capsys.readouterr()
    error = json.loads(err)["error"]
    assert all(listed == [] for listed in json.loads(out or "{}").values())
    assert code == error["code"]
    assert status == error["exit_status"] == STATUSES.get(code, STATUSES.get(code.partition(".")[0]))
    assert told in json.dumps(error, ensure_ascii=False)
    assert error["wrote"].startswith("nothing was ")
    assert before == files(lake.parent)


def meant(lake: Path) -> dict[str, dict[str, Any]]:
    """Return what the journal says of each aggregate, whoever held its lease meanwhile."""
    return {state.name: as_json(replace(state, lease=None)) for state in Journal(lake).view().all.values()}


@pytest.mark.parametrize(
    ("call", "status", "told"),
    [
        ("expire kept --before 2024-03-01T07:00:00Z --yes", 64, "nothing was written"),
        ("expire hourly --before 2024-03-01 --yes --as-stored", 64, "nothing was written"),
        ("expire ticks --before 700 --yes", 64, "nothing was written"),
        ("expire sessions --before 2024-03-01 --yes", 66, "nothing was written"),
        ("expire kept --before 2024-03-01T02:00:00Z --yes --strict-exit", 3, "frozen below 2024-03-01T03:00:00Z"),
        ("expire kept --before 0001-01-01 --yes --strict-exit", 3, "frozen below 2024-03-01T03:00:00Z"),
        ("expire kept --before 2024-03-01T02:00:00Z --strict-exit", 3, "frozen below 2024-03-01T03:00:00Z"),
        ("thaw hourly --yes --strict-exit", 3, "hourly: nothing is frozen"),
        ("thaw hourly --strict-exit", 3, "hourly: nothing is frozen"),
        ("thaw sessions --yes --strict-exit", 3, "sessions: nothing is frozen"),
        ("thaw ticks --yes --strict-exit", 3, "ticks: nothing is frozen"),
    ],
)
def test_what_moves_no_bound_changes_nothing(
    lake: Path, capsys: pytest.CaptureFixture[str], call: str, status: int, told: str
) -> None:
    """
    A bound that cannot be, that is below the one that is frozen already, or that was never there: the journal says of every
    aggregate what it said, nobody holds a lease, and no other file has changed.
    """
    before, facts = meant(lake), {k: v for k, v in files(lake.parent).items() if "_materializer" not in k}

    assert status == main(call.split())

    said = capsys.readouterr()
    assert told in " ".join((said.out + said.err).split())
    assert before == meant(lake)
    assert not [state.name for state in Journal(lake).view().all.values() if state.lease]
    assert facts == {k: v for k, v in files(lake.parent).items() if "_materializer" not in k}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("expire kept --before", (64, "expire.bound")),
        ("expire ticks --yes --before", (64, "expire.bound")),
        ("changes fed --reason", (64, "usage")),
        ("changes fed --after", (64, "usage")),
        ("policy add hourly --start-offset 1day --policy", (64, "usage")),
        ("policy add hourly --start-offset", (65, "definition.invalid")),
        ("policy add hourly --start-offset 1day --schedule", (65, "definition.invalid")),
        ("policy remove kept --policy", (64, "policy.unknown")),
        ("policy run kept --policy", (64, "policy.unknown")),
        ("policy run kept --now", (64, "policy.now")),
        ("policy list kept --now", (64, "policy.now")),
        ("restore", (64, "usage")),
        ("restore --yes", (64, "usage")),
    ],
)
def test_hostile_values_are_only_values(
    lake: Path, capsys: pytest.CaptureFixture[str], call: str, expected: tuple[int, str], value: str
) -> None:
    """
    What would be code elsewhere is no time, no policy, no reason and no backup, and is nothing else.
    """
    before = files(lake.parent)

    status = main([*call.split(), value, "--json"])

    error = json.loads(capsys.readouterr().err)["error"]
    assert (*expected, "nothing was written") == (status, error["code"], error["wrote"])
    assert before == files(lake.parent)


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_folders_are_only_folders(lake: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """
    A backup lies in the folder that was named, whatever its name would be elsewhere, and can be put back from there; a name
    that no folder can have, or under which nobody could open it again, is refused. Nothing else has changed.
    """
    before, state = files(lake.parent.parent), meant(lake)
    if len(name) > 255 or "\n" in name:
        assert main(["backup", name]) in (64, 74)
        assert "nothing was written" in " ".join(capsys.readouterr().err.split())
        assert before == files(lake.parent.parent)
        return

    assert 0 == main(["backup", name])

    after = files(lake.parent.parent)
    folder = os.path.normpath(f"here/{name}")
    assert f"{folder}/backup.json" in after
    assert before == {path: content for path, content in after.items() if not path.startswith(f"{folder}/")}
    assert state == meant(lake.parent / name)
    (lake / "_materializer").rename(lake.parent / "lost")
    assert 0 == main(["restore", name, "--yes"])
    assert state == meant(lake)
    assert after.keys() - files(lake.parent.parent).keys() <= {
        p for p in after if p.startswith("here/lake/_materializer/")
    }


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize(
    "command",
    [
        *("build", "switch", "rollback", "abandon", "maintain", "repair", "invalidate", "show", "doctor", "drop"),
        *("expire", "thaw", "changes", "policy add", "policy remove", "policy list", "policy run"),
    ],
)
def test_hostile_names_are_only_names(lake: Path, capsys: pytest.CaptureFixture[str], command: str, name: str) -> None:
    """
    A name that would be code elsewhere is unknown, and is nothing else.
    """
    before = files(lake.parent)
    sure, policy = ["--yes"], ["--start-offset", "1day"]
    extra = {
        "invalidate": ["--all-time"],
        "drop": sure,
        "show": ["--fresh"],
        "repair": sure,
        "expire": ["--before", "2024-03-01", *sure],
        "thaw": sure,
        "policy add": policy,
    }.get(command, [])

    status = main([*command.split(), name, *extra])

    out, err = capsys.readouterr()
    assert (64, "") == (status, out)
    assert "nothing was written" in err
    assert all(len(line) <= 100 or name[:100] in line for line in err.splitlines())
    assert before == files(lake.parent)


@pytest.mark.parametrize(
    "comment", [*HOSTILE[:6], "'); DELETE FROM x; --", "{{ jinja }}", "\\'", "日本語 🙂", '"quoted"']
)
def test_hostile_comments_and_values_come_back_as_they_were(comment: str) -> None:
    """
    A definition with any text in its comment and its filter is read, and kept in the journal's form, as that text.
    """
    quoted = comment.replace("\\", "\\\\").replace("'", "\\'")
    sql = SQL.format(name="other").replace(" AS SELECT", f" COMMENT '{quoted}' AS SELECT", 1)
    [spec] = parse_definitions(sql.replace(" GROUP", f" WHERE sym <> '{quoted}' GROUP"))

    assert comment == spec.comment
    assert spec == type(spec).from_json(json.loads(json.dumps(spec.as_json())))


def test_a_name_with_a_path_in_it_makes_no_folder(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Names of aggregates are folders: those that are more are refused before anything is made.
    """
    before = files(lake.parent)
    for name in ("`../evil`", "`a/b`", "`..`", "`_materializer`", "`a b`", "`nul\x00`", "`con:`"):
        (lake.parent / "evil.sql").write_text(SQL.format(name=name), encoding="utf-8")
        status = main(["apply", "evil.sql", "--json"])
        error: dict[str, Any] = json.loads(capsys.readouterr().err)["error"]
        assert (65, "definition.invalid") == (status, error["code"])
        (lake.parent / "evil.sql").unlink()

    assert before == files(lake.parent)

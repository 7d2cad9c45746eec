"""Bad input to commands that keep a lake for years: a code, words that help, nothing written, and no Java started."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from materializer.adapters.cli.app import main
from materializer.core.parse import parse_definitions
from materializer.core.spec import TimeType
from materializer.journal.events import Defined, SourceIdentity
from materializer.journal.journal import Journal
from materializer.services.definitions import create_tables

SQL = "CREATE MATERIALIZED VIEW {name} AS SELECT window.start AS at, sym, count(*) AS n FROM trades GROUP BY window(ts, '1 hour'), sym"
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("sym", pa.string())])
HOSTILE = (
    "x'; DROP TABLE hourly --",
    "../hourly",
    "`hourly`",
    "<script>alert(1)</script>",
    "$(touch owned)",
    "a\nb",
    "x" * 5000,
)
"""Names that are code somewhere: in SQL, in a path, in a shell, in HTML, in a line of a log."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with one aggregate that was never refreshed, its backup, and things that are neither."""
    root = tmp_path_factory.mktemp("bad") / "lake"
    write_deltalake(str(root / "trades"), SCHEMA.empty_table(), configuration={"delta.enableChangeDataFeed": "true"})
    [spec] = parse_definitions(SQL.format(name="hourly"))
    spec = replace(spec, time_type=TimeType.TIMESTAMP)
    columns = {
        "partials": [["slice", "timestamp"], ["k_sym", "string"], ["p0", "bigint"]],
        "output": [["at", "timestamp"], ["sym", "string"], ["n", "bigint"]],
    }
    paths = {"partials": str(root / "hourly" / "partials" / "d1"), "output": str(root / "hourly" / "output")}
    ids = create_tables(paths, spec, columns, "a1")
    source = SourceIdentity(str(root / "trades"), str(DeltaTable(str(root / "trades")).metadata().id))
    journal = Journal(root)
    journal.append(-1, "a1", [Defined("hourly", spec.as_json(), "d1", source, 0, columns, ids)])
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


CALLS = [
    # definition changes
    ("build", "usage", "NAME"),
    ("build hourly", "version.none", "no next version"),
    ("build hourly --max-runs 0", "usage", "max-runs"),
    ("build hourly --buckets-per-run -1", "usage", "buckets-per-run"),
    ("build hourly --buckets-per-run many", "usage", "integer"),
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
    ("restore", "usage", "FOLDER"),
    ("restore missing", "usage", "missing"),
    ("restore full", "usage", "full"),
    ("restore full/file.txt", "usage", "file.txt"),
    ("restore torn", "journal.corrupt", "torn"),
    ("restore torn --yes", "journal.corrupt", "torn"),
    ("restore empty --yes", "usage", "empty"),
    ("restore lake", "usage", "lake"),
    # looking
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
    One JSON object on standard error, a status, and no file that was not there.
    """
    before = files(lake.parent)

    status = main([*call.split(), "--json"])

    out, err = capsys.readouterr()
    error = json.loads(err)["error"]
    assert all(listed == [] for listed in json.loads(out or "{}").values())
    assert code == error["code"]
    assert 0 != status
    assert told in json.dumps(error, ensure_ascii=False)
    assert error["wrote"].startswith("nothing was ")
    assert before == files(lake.parent)


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize(
    "command", ["build", "switch", "rollback", "abandon", "maintain", "repair", "invalidate", "show", "doctor", "drop"]
)
def test_hostile_names_are_only_names(lake: Path, capsys: pytest.CaptureFixture[str], command: str, name: str) -> None:
    """
    A name that would be code elsewhere is unknown, and is nothing else.
    """
    before = files(lake.parent)
    extra = {"invalidate": ["--all-time"], "drop": ["--yes"], "show": ["--fresh"], "repair": ["--yes"]}.get(command, [])

    status = main([command, name, *extra])

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

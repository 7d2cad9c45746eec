from __future__ import annotations

import re
from pathlib import Path

import pytest

from materializer.adapters.airflow.dags.catalog import read_folder, read_lake
from materializer.adapters.airflow.dags.settings import Settings, from_environment
from materializer.errors import ConfigError
from materializer.journal.journal import Journal
from tests.benchmarks.dags import definition, lake_of
from tests.paths import ROOT


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """A lake of six aggregates in its journal, without Spark."""
    root = tmp_path_factory.mktemp("many") / "lake"
    lake_of(root, 6)
    return root


def test_a_broken_file_spoils_only_itself(tmp_path):
    """
    The others are read; the broken one keeps its name and says where its problem is.
    """
    for n in (0, 1, 2):
        (tmp_path / f"agg_{n:03}.sql").write_text(definition(n))
    (tmp_path / "agg_001.sql").write_text(definition(1).replace("GROUP BY", "GRUOP BY"))
    (tmp_path / "noise.sql").write_bytes(b"\xff\xfe")
    entries = {e.name: e for e in read_folder(tmp_path, tmp_path / "lake")}

    assert ["agg_000", "agg_001", "agg_002", "noise"] == list(entries)
    assert "agg_001.sql" in entries["agg_001"].problem
    assert "noise.sql" in entries["noise"].problem
    assert not entries["agg_000"].problem
    assert str(tmp_path / "lake" / "trades") == entries["agg_002"].source


def test_sources_are_where_the_configuration_says(tmp_path):
    """
    A name in [sources] wins over an aggregate of that name; a relative path starts at the lake.
    """
    (tmp_path / "agg_002.sql").write_text(definition(2))
    for sources, found in (({"trades": "/data/t"}, "/data/t"), ({"trades": "t"}, str(tmp_path / "lake" / "t"))):
        [entry] = read_folder(tmp_path, tmp_path / "lake", sources=sources)
        assert found == entry.source


def test_a_name_that_is_defined_twice_is_a_problem_of_that_name(tmp_path):
    """
    Nobody can know which of two definitions is meant.
    """
    (tmp_path / "a.sql").write_text(definition(0))
    (tmp_path / "b.sql").write_text(definition(0) + definition(2))
    entries = {e.name: e for e in read_folder(tmp_path, tmp_path)}

    assert "defined twice" in entries["agg_000"].problem
    assert not entries["agg_002"].problem


def test_what_was_read_is_kept_for_one_version_of_the_journal(root, tmp_path):
    """
    Kept rows are taken while the journal is the same, and not when it moved on or is another.
    """
    (root / "_materializer/listing.json").unlink(missing_ok=True)
    first = read_lake(root, cache=tmp_path)
    (kept,) = tmp_path.glob("*.json")
    kept.write_text(kept.read_text().replace("Number 3", "Number three"))
    again = read_lake(root, cache=tmp_path)
    max(root.glob("_materializer/journal/_delta_log/*.json")).touch()
    changed = read_lake(root, cache=tmp_path)

    assert 6 == len(first)
    assert "Number three" == again[3].spec.comment
    assert first == changed == read_lake(root)
    assert read_lake(Path("/nowhere")) == []


def test_kept_rows_that_are_damaged_are_not_used(root, tmp_path):
    """
    A half-written file costs time, not truth.
    """
    (root / "_materializer/listing.json").unlink(missing_ok=True)
    first = read_lake(root, cache=tmp_path)
    (kept,) = tmp_path.glob("*.json")
    kept.write_text(kept.read_text()[:100])

    assert first == read_lake(root, cache=tmp_path)


def test_the_list_beside_the_journal_is_as_good_as_the_journal(root, tmp_path):
    """
    It is read without opening the journal, and nothing is kept elsewhere then.
    """
    journal = Journal(root)
    journal.tidy()
    from_list = read_lake(root, cache=tmp_path)
    (root / "_materializer/listing.json").unlink()
    from_journal = read_lake(root, cache=tmp_path / "later")
    journal.tidy()

    assert from_journal == from_list
    assert 6 == len(from_list)
    assert [tmp_path / "later"] == list(tmp_path.iterdir())


def test_only_files_that_changed_are_read_again(tmp_path):
    """
    What the others define, and what is wrong with them, is kept.
    """
    folder, kept = tmp_path / "sql", tmp_path / "kept"
    folder.mkdir()
    for n in (0, 1, 2):
        (folder / f"agg_{n:03}.sql").write_text(definition(n))
    (folder / "agg_001.sql").write_text(definition(1).replace("GROUP BY", "GRUOP BY"))
    first = read_folder(folder, tmp_path, cache=kept)
    assert read_folder(folder, tmp_path, cache=kept) == first == read_folder(folder, tmp_path)
    (file,) = kept.glob("*.json")
    file.write_text(file.read_text().replace("Number 0", "Number nought").replace("Number 2", "Number two"))

    (folder / "agg_002.sql").write_text(definition(2).replace("Number 2", "Number II"))
    (folder / "agg_003.sql").write_text(definition(3))
    found = {e.name: e for e in read_folder(folder, tmp_path, cache=kept)}

    assert "Number nought" == found["agg_000"].spec.comment
    assert "agg_001.sql" in found["agg_001"].problem
    assert "Number II" == found["agg_002"].spec.comment
    assert "Number 3" == found["agg_003"].spec.comment
    (folder / "agg_000.sql").unlink()
    assert "agg_000" not in {e.name for e in read_folder(folder, tmp_path, cache=kept)}


def test_settings_come_from_the_environment():
    """
    Each variable is read as its kind; all that is wrong is said at once.
    """
    given = from_environment(
        {
            "MATERIALIZER_LAKE": "/lake",
            "MATERIALIZER_AIRFLOW_POLL_SECONDS": "2.5",
            "MATERIALIZER_AIRFLOW_TAGS": "a, b",
            "MATERIALIZER_AIRFLOW_ENVIRONMENT": "X=1, Y=2=3",
            "MATERIALIZER_AIRFLOW_START": "2020-01-01",
            "MATERIALIZER_AIRFLOW_TELLS_LAST": "true",
        }
    )
    settings = Settings(**given)

    assert (2.5, ("a", "b"), {"X": "1", "Y": "2=3"}) == (settings.poll_seconds, settings.tags, settings.environment)
    assert settings.tells_last
    with pytest.raises(ConfigError, match=r"no setting MATERIALIZER_AIRFLOW_POOLS.*RETRIES.*no lake") as raised:
        from_environment({"MATERIALIZER_AIRFLOW_POOLS": "x", "MATERIALIZER_AIRFLOW_RETRIES": "many"})
    assert "MATERIALIZER_LAKE" in raised.value.hint


def test_every_setting_is_on_its_page():
    """
    docs/airflow.md names each variable, and none that does not exist.
    """
    text = (ROOT / "docs" / "airflow.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `MATERIALIZER_AIRFLOW_(\w+)`", text, flags=re.MULTILINE))

    assert set(map(str.upper, Settings.__struct_fields__)) - {"LAKE", "CONFIG"} == named

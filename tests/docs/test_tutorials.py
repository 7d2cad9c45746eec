"""The tutorials: cuts have the columns of the data, and the command that follows them over all data refuses what it cannot use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import parquet

from tests.docs import cuts, tutorials
from tests.docs.blocks import blocks, commands
from tests.paths import ROOT


@pytest.mark.parametrize("make", [cuts.us_flights, cuts.devops])
def test_a_cut_lies_where_the_data_do(make: Callable[[Path], None], tmp_path: Path) -> None:
    """
    It has their places and columns, and is small.
    """
    make(tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]

    assert [] == cuts.differences(tmp_path)
    assert files
    assert sum(path.stat().st_size for path in files) < 200_000


def test_other_columns_are_seen(tmp_path: Path) -> None:
    """
    A new version of the data with other columns is named, and the tutorial does not begin.
    """
    cuts.us_flights(tmp_path)
    cuts.devops(tmp_path)
    flights = tmp_path / "package/data/flights-3m.parquet"
    parquet.write_table(
        parquet.read_table(flights).rename_columns(["when", "delay", "distance", "origin", "destination"]), flights
    )
    net = tmp_path / "tsbs/data/tsbs_devops_sf1/net.csv.zst"
    net.write_bytes((tmp_path / "tsbs/data/tsbs_devops_sf1/cpu.csv.zst").read_bytes())

    assert [str(flights), str(net)] == cuts.differences(tmp_path)
    with pytest.raises(SystemExit) as raised:
        tutorials.main(["us-flights", str(tmp_path)])
    assert 2 == raised.value.code


def test_a_folder_without_data_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    The message says what fetches the data.
    """
    with pytest.raises(SystemExit):
        tutorials.main(["devops", str(tmp_path)])

    assert "the first block of docs/tutorial-devops.md fetches the data" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "page", "folder"), [(name, *place) for name, place in tutorials.PAGES.items()])
def test_the_first_block_fetches_the_data(name: str, page: str, folder: str) -> None:
    """
    Its version is pinned, and the page names the command that follows it over all data.
    """
    [*fetching] = commands(blocks(page)[0])
    words = [word for command in fetching for word in command.words]

    assert any("@" in word or "==" in word for word in words)
    assert any(word.startswith(folder) for word in words)
    assert f"python -m tests.docs.tutorials {name} FOLDER" in (ROOT / page).read_text(encoding="utf-8")

"""``--env``: one set of definitions, two lakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from materializer.adapters.cli.app import main
from tests.hints.world import HOURLY, World


def test_an_environment_is_another_lake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    The option and the variable choose the lake of an environment; without them it is the file's, and an unknown one is an error.
    """
    (tmp_path / "dev").mkdir()
    monkeypatch.chdir(tmp_path)
    world = World(tmp_path / "dev")
    world.apply(HOURLY)
    (tmp_path / "materializer.toml").write_text('lake = "lake"\n[env.dev]\nlake = "dev"\n')

    assert 0 == main(["status", "hourly", "--env", "dev"])
    assert 0 != main(["status", "hourly"])
    assert "hourly" in capsys.readouterr().err
    assert 0 != main(["status", "hourly", "--env", "dve"])
    assert "there is no [env.dve]; it has 'dev'" in " ".join(capsys.readouterr().err.split())
    monkeypatch.setenv("MATERIALIZER_ENV", "dev")
    assert 0 == main(["status", "hourly"])

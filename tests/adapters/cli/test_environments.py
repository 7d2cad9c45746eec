"""``--env``: one set of definitions, two lakes."""

from __future__ import annotations

import shutil
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


def test_outputs_of_two_environments_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    `diff --against NAME` takes the lake of an environment, also where a variable chooses this lake; anything else is a root. It exits 1
    when the lakes differ.
    """
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    monkeypatch.chdir(tmp_path)
    worlds = {}
    for name in ("prod", "lakes/dev"):
        (tmp_path / name).mkdir(parents=True)
        worlds[name] = World(tmp_path / name)
        worlds[name].apply(HOURLY)
        worlds[name].works("backfill hourly")
    (tmp_path / "materializer.toml").write_text('lake = "prod"\n[env.dev]\nlake = "lakes/dev"\n')

    assert 0 == main(["diff", "hourly", "--against", "dev"])
    monkeypatch.setenv("MATERIALIZER_LAKE", str(tmp_path / "prod"))
    assert 0 == main(["diff", "hourly", "--against", "dev"])
    assert 0 == main(["diff", "hourly", "--against", "lakes/dev"])
    worlds["lakes/dev"].add([5], value=9)
    worlds["lakes/dev"].works("refresh hourly")
    capsys.readouterr()
    assert 1 == main(["diff", "hourly", "--against", "dev"])
    assert "v is 1 here, 10 there" in capsys.readouterr().out
    assert 64 == main(["diff", "hourly", "--against", "dve"])
    assert "dve is no lake" in " ".join(capsys.readouterr().err.split())


def test_commands_in_texts_repeat_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    As they have to be typed: where the option chose it, in hints and in results. A variable is there for the next command, too.
    """
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dev").mkdir()
    world = World(tmp_path / "dev")
    world.apply(HOURLY)
    world.works("backfill hourly")
    (tmp_path / "materializer.toml").write_text('[env.dev]\nlake = "dev"\n')
    shutil.rmtree(tmp_path / "dev" / "hourly" / "output")

    def said(*arguments: str) -> str:
        main(list(arguments))
        return " ".join("".join(capsys.readouterr()).split())

    said()
    assert "run 'materializer repair hourly --env dev'" in said("refresh", "hourly", "--env", "dev")
    assert "'materializer repair hourly --env dev' makes it again" in said("status", "hourly", "--env", "dev")
    assert "run 'materializer drop hourly --yes --env dev'" in said("drop", "hourly", "--env", "dev")
    assert "run 'materializer repair hourly'" in said("refresh", "hourly", "--lake", "dev")
    monkeypatch.setenv("MATERIALIZER_ENV", "dev")
    assert "run 'materializer repair hourly'" in said("refresh", "hourly")

"""The first hour with a lake of one's own: each command says what it has to, each hint leads on, and the rows are right."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from materializer.adapters.cli.app import main
from tests.newcomer.hour import HOUR, INTERNAL, Shop


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_first_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Every step in its order, on 20,000 events of a shop; what went wrong is listed whole.
    """
    monkeypatch.chdir(tmp_path)
    shop, wrong = Shop(tmp_path), []
    for number, step in enumerate(HOUR, start=1):
        step.before(shop)
        capsys.readouterr()
        status = main(shlex.split(step.line)[1:])
        printed = "".join(capsys.readouterr())
        words, at = " ".join(printed.split()), 0
        problems = [f"exit {status}, not {step.status}"] if status != step.status else []
        for said in step.says:
            found = words.find(said, at)
            problems += [f"does not say {said!r}"] if found < 0 else []
            at = max(at, found)
        problems += [f"says {word!r}" for word in (*step.never, *INTERNAL.findall(words)) if word in words]
        if step.is_right is not None and (shop.revenue() == shop.published()) is not step.is_right:
            problems.append(
                "the revenue is not that of the events"
                if step.is_right
                else "the revenue is that of the events already"
            )
        if problems:
            wrong.append(f"{number}. $ {step.line}\n   {'; '.join(problems)}\n{printed}")

    assert not wrong, "\n\n".join(wrong)

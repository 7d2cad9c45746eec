"""Random histories over a store that fails: every rule holds, and every deliberate mistake is caught."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.histories.__main__ import EACH, PAGE, made, run
from tests.histories.chance import Chance, shrunk
from tests.histories.history import History, replayed
from tests.histories.mistakes import MISTAKES, caught
from tests.system.campaign import kept

SEEDS = range(150)
WITHIN = 600


def test_every_rule_holds_in_every_history() -> None:
    """
    Whatever the store does and whoever dies; the histories meet every step of a refresh and of a switch, takeovers and fenced writers.
    """
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        history = History(Chance(seed))
        assert "" == history.run(), f"python -m tests.histories --only {seed}"
        seen.update(history.seen)

    steps = ("lease", "recover", "plan", "compute", "audit", "write", "done", "fence", "abort", "aborted")
    switch = (
        "switch_plan",
        "switch_write",
        "switch_fence",
        "switch_done",
        "switch_undo",
        "switch_refuse",
        "switch_undone",
    )
    others = ("finish", "finished", "renew", "fold", "append", "LeaseLostError", "WriteFencedError")
    assert [] == [what for what in (*steps, *switch, *others) if what not in seen]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", MISTAKES)
def test_a_deliberate_mistake_is_caught(name: str) -> None:
    """
    Within some hundred histories, by a rule and not by a mistake in the mistake.
    """
    found = caught(name, range(WITHIN))

    assert found is not None, MISTAKES[name].says
    assert not any(error in found.wrong for error in ("NameError", "TypeError", "AttributeError"))


def test_a_seed_is_one_history() -> None:
    """
    It happens the same way again, and so it does from its choices.
    """
    told: list[list[str]] = [[], [], []]
    first = History(Chance(7), tells=told[0].append)
    first.run()
    History(Chance(7), tells=told[1].append).run()
    replayed(first.chance.drawn, tells=told[2].append)

    assert told[0] == told[1] == told[2]
    assert len(told[0]) > 20


def test_a_failing_history_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    What is left breaks the same rule, with less that disturbs.
    """
    mistake = MISTAKES["no-compare"]
    mistake.patch(monkeypatch)
    found = caught("no-compare", range(WITHIN))
    assert found is not None
    history = History(Chance(found.seed))
    rule = history.run().split(":")[0]
    shorter = shrunk(history.chance.drawn, lambda choices: replayed(choices).split(":")[0] == rule)

    assert rule == replayed(shorter).split(":")[0]
    assert 3 * sum(map(sum, shorter)) < sum(map(sum, history.chance.drawn))


def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """
    A chunk that is on record is not run again; one that found something is, by its seed alone, and the status is 1.
    """
    file, ran = tmp_path / "histories.jsonl", list[int]()

    def chunk(first: int) -> dict[str, Any]:
        ran.append(first)
        found = [{"seed": first + 3, "wrong": "clean: bucket 0"}] if first == EACH else []
        return {"first": first, "histories": EACH, "commits": 1, "seconds": 0.0, "seen": {}, "found": found}

    def go_on(target: int) -> int:
        with ThreadPoolExecutor(1) as pool:
            return run(1, 1, target, pool, chunk, file)

    assert [0, 1, 0] == [go_on(target) for target in (EACH, 3 * EACH, 3 * EACH)]
    assert [0, EACH, 2 * EACH] == ran == firsts(kept(file))


def firsts(entries: Iterable[dict[str, Any]]) -> list[int]:
    return [entry["first"] for entry in entries]


def test_the_page_has_what_is_on_record() -> None:
    """
    `python -m tests.histories --summary` writes the table.
    """
    assert PAGE.read_text(encoding="utf-8") == made()

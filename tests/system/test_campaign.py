"""A campaign of random histories: which chunks it has, that it goes on where it stopped, and what it says of what it finds."""

from __future__ import annotations

import argparse
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.system import campaign
from tests.system.campaign import MACHINES, Chunk, chunks, go_on, kept


class Clock:
    """Time that passes when a chunk runs."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ran: list[Chunk] = []
        self.found: dict[int, str] = {}

    def run(self, chunk: Chunk) -> dict[str, Any]:
        """Say that a chunk ran."""
        self.ran.append(chunk)
        self.now += 100
        found = self.found.get(chunk.number, "")
        return {"histories": chunk.histories, "found": found, "seen": {}, "said": "said", "seconds": 100.0}


def options(**given: Any) -> argparse.Namespace:
    return argparse.Namespace(
        **{"minutes": 30, "target": 600, "worker": "0/1", "seed": 9_000, "chunks": -1, "each": 0, "on": "disk"} | given
    )


def test_every_fourth_chunk_of_a_machine_is_in_sparks_lane() -> None:
    """
    Early on, too: of any four turns of the machines one has each in it. No two chunks share a seed, however many they use.
    """
    first = list(islice(chunks(1), 4 * len(MACHINES)))
    lanes = Counter((chunk.machine, chunk.lane) for chunk in first)

    assert {(m, lane): n for m in MACHINES for lane, n in (("driver", 3), ("spark", 1))} == lanes
    assert all(b.seed - a.seed > a.histories for a, b in pairwise(first))
    assert all(f"--lane {chunk.lane}" in " ".join(chunk.command) for chunk in first)


def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """
    It stops before the chunk that would not end in time, does none twice, and ends when there are enough.
    """
    file, clock = tmp_path / "campaign.jsonl", Clock()
    assert 0 == go_on(options(minutes=5), clock.run, file, lambda: clock.now)
    first = [chunk.number for chunk in clock.ran]
    assert first == [0, 1, 2]

    assert 0 == go_on(options(target=40), clock.run, file, lambda: clock.now)

    assert [*first, 3, 4, 5, 6, 7] == [chunk.number for chunk in clock.ran]
    assert 40 == sum(entry["histories"] for entry in kept(file))


def test_two_processes_share_the_work(tmp_path: Path) -> None:
    """
    Each has every second turn of the machines, and of all of it a quarter is in Spark's lane.
    """
    file, clock, half = tmp_path / "campaign.jsonl", Clock(), 2 * len(MACHINES)
    for worker in ("0/2", "1/2"):
        go_on(options(worker=worker, chunks=half), clock.run, file, lambda: clock.now)
        assert set(MACHINES) == {chunk.machine for chunk in clock.ran[-half:]}

    assert len(MACHINES) == sum(chunk.lane == "spark" for chunk in clock.ran)
    assert set(range(2 * half)) == {chunk.number for chunk in clock.ran}
    assert 2 * half == len(clock.ran)


def test_other_code_is_another_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    What ran before the package changed does not count; the table is of the newest.
    """
    file, clock = tmp_path / "campaign.jsonl", Clock()
    go_on(options(chunks=2), clock.run, file, lambda: clock.now)
    monkeypatch.setattr(campaign, "code", lambda: "other")
    go_on(options(chunks=1), clock.run, file, lambda: clock.now)

    assert [0, 1, 0] == [chunk.number for chunk in clock.ran]
    assert "5 histories, 100% of them in Spark's lane" in campaign.table(kept(file))


def test_a_campaign_on_a_store_is_another_one(tmp_path: Path) -> None:
    """
    What ran on a disk does not count there; the machines that take no store are left out, and the table tells where it was.
    """
    file, clock = tmp_path / "campaign.jsonl", Clock()
    go_on(options(chunks=6), clock.run, file, lambda: clock.now)
    go_on(options(chunks=6, on="s3"), clock.run, file, lambda: clock.now)

    assert [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 7, 8] == [chunk.number for chunk in clock.ran]
    assert all("--on s3" in " ".join(chunk.command) for chunk in clock.ran[6:])
    assert "| work and deaths on s3 |" in campaign.table(kept(file))


def test_what_is_found_is_kept_with_its_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    The campaign goes on, and ends with status 1; the command repeats the chunk.
    """
    file, clock = tmp_path / "campaign.jsonl", Clock()
    clock.found = {1: "ended with status 1"}

    assert 1 == go_on(options(chunks=3), clock.run, file, lambda: clock.now)

    entry = kept(file)[1]
    assert (
        "python -m tests.system.stateful --versions --examples 5 --steps 12 --seed 9100 --lane driver"
        == entry["command"]
    )
    assert f"FOUND: ended with status 1; again: {entry['command']}" in capsys.readouterr().out
    assert "| changed definitions | driver | 5 | 9100 to 9100 | 2 | seed 9100: ended with status 1 |" in campaign.table(
        kept(file)
    )


def test_the_page_has_the_table_of_the_record() -> None:
    """
    Whoever adds chunks makes the table: `python -m tests.system.campaign --summary`.
    """
    assert campaign.PAGE.read_text(encoding="utf-8") == campaign.made()


def test_a_chunk_that_fails_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Whatever ends a process with another status than 0 is kept with the end of its printout; one that hangs is killed.
    """
    monkeypatch.setitem(MACHINES, "work and deaths", ("tests.no_such_module {histories}", 5))

    found = campaign.run(Chunk(0, 1))

    assert "ended with status 1" == found["found"]
    assert "tests.no_such_module" in found["said"]
    assert 0 == found["histories"]

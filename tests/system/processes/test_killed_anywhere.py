"""Every command that writes, killed at every checkpoint that it reaches: the same command again, and nothing is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from tests.system.processes.checkpoints import checkpoint_names
from tests.system.processes.mended import BORROW, Prepared, again, expect_whole
from tests.system.processes.situations import FOLD, SITUATIONS, Situation

NAMED: Final = {situation.name: situation for situation in SITUATIONS}
QUICK: Final = {
    ("a build", "switch_fence"),
    ("a backup from before history was frozen", "restore_put"),
    ("history to be frozen", "bounded"),
    ("tables ahead of their journal", "repair_journal"),
}
"""What is killed in each run of the tests; the others are slow together."""


def kill(lake: Prepared, checkpoint: str) -> None:
    """Put the lake back, and kill the command there."""
    lake.put_back().killed_at(checkpoint, lake.situation.command, BORROW)


LATER: Final = (":3", ":4", ":5", ":6")
"""What is reached more than twice is the same again."""
KILLS: Final = [
    pytest.param(situation.name, checkpoint, marks=[] if (situation.name, checkpoint) in QUICK else pytest.mark.slow)
    for situation in SITUATIONS
    for checkpoint in situation.kills
]


@pytest.mark.parametrize(("name", "checkpoint"), KILLS)
def test_killed_anywhere(prepared: Callable[[Situation], Prepared], name: str, checkpoint: str) -> None:
    """
    A command that is killed is run again: what is published is the truth, and of the dead process nothing is left.
    """
    lake = prepared(NAMED[name])
    kill(lake, checkpoint)
    again(lake.world, lake.situation)
    expect_whole(lake, is_verified=checkpoint == lake.situation.kills[-1])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "history to be frozen" else pytest.mark.slow) for name in NAMED]
)
def test_checkpoints_are_those_that_are_declared(prepared: Callable[[Situation], Prepared], name: str) -> None:
    """
    A command that nobody kills reaches the checkpoints of its situation and no others, so that none is left out above; the
    journal is folded besides by whichever command finds twenty commits.
    """
    lake = prepared(NAMED[name])
    world = lake.put_back()
    with world.child(lake.situation.command, BORROW) as child:
        said = child.heard()

    declared = {c for c in lake.situation.reached.split() if c[-2:] not in LATER}
    reached = {c for c in said["reached"] if c[-2:] not in LATER}
    assert declared == reached - (set(FOLD.split()) - declared)
    again(world, lake.situation)
    expect_whole(lake, is_verified=True)


def test_every_checkpoint_is_one_where_something_is_killed() -> None:
    """
    There is no checkpoint in the product at which no command is ever killed, and none is listed that is not there.
    """
    killed = {checkpoint.partition(":")[0] for situation in SITUATIONS for checkpoint in situation.kills}

    assert checkpoint_names() == killed

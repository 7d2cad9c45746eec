"""Every command on a scripted lake: what it prints, how it exits, and what it leaves in the journal and in our tables."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.golden import files, script, surface

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOT_RUN = {"demo", "setup", "report", "watch", "run"}
"""Commands that no script calls: one takes minutes, one fetches jars, one writes pages, one needs a terminal, and one stays."""


@pytest.mark.spark
def test_the_script_says_what_is_kept(spark: SparkSession) -> None:
    """
    Text and JSON of every command, their exit statuses, and the journal and the commits that they wrote are those of the files.
    """
    with tempfile.TemporaryDirectory() as folder:  # shorter than pytest's, see normal.ROOM
        told = script.run(Path(folder))

    assert "" == files.differences("commands", script.files(told))


def test_every_command_is_in_the_script() -> None:
    """
    A command that comes is called by the script, or stands with those that are not, and in both forms.
    """
    steps = [step for part in script.SCRIPT if not callable(part) for step in part]
    texts, forms = ({step.words for step in steps if step.is_json is as_json} for as_json in (False, True))
    wanted = {name.removeprefix("help/").removesuffix(".txt").replace("-", " ") for name in surface.help_pages()}
    wanted -= NOT_RUN | {"materializer", "policy"}

    assert wanted == {name for name in wanted for words in texts if f"{words} ".startswith(f"{name} ")}
    assert wanted == {name for name in wanted for words in forms if f"{words} ".startswith(f"{name} ")}

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from pathlib import Path

import pytest

from materializer import errors
from materializer.adapters.airflow.tasks.command import LINE, Command, Outcome, TaskVerdict, verdict


def classes(root):
    return [root, *(c for child in root.__subclasses__() for c in classes(child))]


@pytest.mark.parametrize(
    ("status", "codes", "means"),
    [
        (0, (), TaskVerdict.DONE),
        (3, (), TaskVerdict.IDLE),
        (1, ("verify.differs",), TaskVerdict.FAIL),
        (64, ("usage",), TaskVerdict.FAIL),
        (65, ("definition.invalid",), TaskVerdict.FAIL),
        (66, ("source.damaged",), TaskVerdict.FAIL),
        (69, ("journal.corrupt",), TaskVerdict.FAIL),
        (70, ("bug",), TaskVerdict.FAIL),
        (71, ("java.missing",), TaskVerdict.FAIL),
        (71, ("spark.failed",), TaskVerdict.RETRY),
        (71, ("spark.died",), TaskVerdict.RETRY),
        (74, ("storage.failed",), TaskVerdict.RETRY),
        (75, ("lease.held",), TaskVerdict.RETRY),
        (130, ("interrupted",), TaskVerdict.RETRY),
        (137, (), TaskVerdict.RETRY),
        (-9, (), TaskVerdict.RETRY),
    ],
)
def test_an_exit_status_decides_whether_another_try_helps(status, codes, means):
    """
    Conflicts, lost storage, lost Spark and signals are tried again; what would fail again is not.
    """
    assert means is verdict(status, codes)


def test_every_error_is_retried_only_if_it_says_so():
    """
    Of all errors there are, those that may succeed later are retried, with those of storage, and no others.
    """
    retried = {
        c.code for c in classes(errors.MaterializerError) if verdict(c.exit_status, [c.code]) is TaskVerdict.RETRY
    }
    temporary = {c.code for c in classes(errors.RetryableError)}

    spark = {"spark.failed", "spark.died", "spark.unreachable", "spark.result-too-large"}
    assert temporary | spark | {"storage.failed", "output.handler", "catalog.unreachable"} == retried


def test_a_command_is_read_while_it_works(tmp_path):
    """
    A real command: its document is the result, its errors are collected, its text repeats it.
    """
    command = Command(["status", "nothing"], str(tmp_path / "lake"))
    lines: list[str] = []
    outcome = command.run(lines.append)

    assert 64 == outcome.status
    assert ["aggregate.unknown"] == [e["code"] for e in outcome.errors]
    assert "there is no aggregate 'nothing'" in outcome.problem
    assert [] == lines
    assert f"{sys.executable} -m materializer status nothing --lake {tmp_path / 'lake'}" == command.text
    assert Outcome(0, {"aggregates": [], "sources": []}) == Command(["status"], str(tmp_path / "lake")).run(
        lines.append
    )


def test_a_log_gets_a_long_problem_in_short_lines():
    """
    Nothing of it is lost, and the hint and what was written begin lines of their own; alerts get it in one line.
    """
    error = {"code": "quality.gate", "message": " ".join(["fails"] * 60), "hint": "correct it", "wrote": "nothing"}
    outcome = Outcome(1, {}, (error,))

    assert max(map(len, outcome.problem_lines)) <= LINE
    assert error["message"] in " ".join(line.strip() for line in outcome.problem_lines)
    assert ["  hint: correct it", "  nothing", "exit status 1"] == outcome.problem_lines[-3:]
    assert "\n" not in outcome.problem


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        # a zombie is no process any more, only nobody has asked how it ended
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("is_stubborn", [False, True])
def test_stopping_ends_the_whole_tree(tmp_path, is_stubborn):
    """
    A process and its child are asked to end, and killed when they do not; the command is seen as ended by a signal.
    """
    script = tmp_path / "python"
    trap = "trap '' TERM\n" if is_stubborn else ""
    script.write_text(
        f"#!/bin/bash\n{trap}sleep 600 &\necho $$ $! > {tmp_path}/pids\necho started >&2\nwait\nsleep 600\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    command = Command(["refresh", "x"], str(tmp_path), interpreter=str(script))
    found: list[Outcome] = []
    started = threading.Event()
    runner = threading.Thread(target=lambda: found.append(command.run(lambda _: started.set())))
    runner.start()
    assert started.wait(10)
    begun = time.monotonic()
    command.stop(grace_seconds=1.0)
    runner.join(10)

    assert time.monotonic() - begun < 30  # of 600 that it would sleep
    assert [-9 if is_stubborn else -15] == [o.status for o in found]
    assert TaskVerdict.RETRY is found[0].verdict
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    while any(map(alive, pids)) and time.monotonic() - begun < 60:
        time.sleep(0.1)  # the system takes a moment to bury what was killed
    assert not [pid for pid in pids if alive(pid)]


def test_stopping_what_never_ran_is_harmless(tmp_path):
    """
    A kill may come before the command was started.
    """
    Command(["status"], str(tmp_path)).stop()

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from materializer.adapters.cli import main
from materializer.adapters.cli.call import CommandCall, guarded
from materializer.adapters.cli.output import JsonOutput, Pipe, TextOutput
from materializer.errors import LeaseHeldError, RefreshWindowError
from tests.adapters.cli import samples
from tests.paths import ROOT


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [n for n in os.environ if n.startswith("MATERIALIZER_")]:
        monkeypatch.delenv(name)


def ended(body, **options) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    call = CommandCall(TextOutput(out, err), **options)
    return guarded(call, lambda: body(call)), out.getvalue(), err.getvalue()


def raising(error: BaseException):
    def body(_: CommandCall) -> None:
        raise error

    return body


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["refrsh"], "refresh"),
        (["list"], "'materializer status' lists the aggregates"),
        (["ls"], "'materializer status' lists the aggregates"),
        (["--version"], "'materializer version' prints what is installed"),
        (["refresh"], "--all"),
        (["refresh", "x", "--all"], "got both"),
        (["refresh", "x", "--max-runs", "0"], "max-runs"),
        (["refresh", "x", "--nonsense"], "nonsense"),
        (["plan"], "NAME"),
        (["drop", "x"], "--yes"),
        (["maintain"], "--all"),
        (["maintain", "x", "y", "--all"], "got both"),
        (["maintain", "x"], "x"),
        (["invalidate", "x"], "--all-time"),
        (["invalidate", "x", "--all-time", "--start", "2013-01-01"], "--all-time"),
        (["backfill", "x", "--order", "sideways"], "newest"),
        (["status", "--config", "missing.toml"], "missing.toml"),
        (["apply", "missing.sql"], "missing.sql"),
        (["refresh", "x"], "x"),
        (["history", "x"], "x"),
        (["policy"], "command"),
        (["policy", "ad"], "ad"),
        (["policy", "run"], "--due"),
        (["policy", "run", "--due", "--policy", "p"], "--policy"),
        (["policy", "run", "x"], "x"),
        (["policy", "add", "x", "--order", "sideways"], "newest"),
        (["policy", "add", "x", "--end-offset", "1 h"], "x"),
        (["policy", "remove", "x"], "x"),
        (["repair"], "--all"),
        (["repair", "x"], "x"),
        (["repair", "x", "--definitions", "missing.sql"], "--definitions"),
        (["restore", "missing"], "missing"),
    ],
)
def test_a_call_that_makes_no_sense_exits_64(arguments, told, capsys):
    """
    What cannot be asked for is told on standard error in our form, and nothing is written.
    """
    status = main(arguments)

    out, err = capsys.readouterr()
    assert (64, "") == (status, out)
    assert err.startswith("error: ")
    assert told in err
    assert "nothing was written" in err
    assert list(Path().iterdir()) == []


def test_a_misspelt_command_is_one_json_object_when_asked_for(capsys):
    """
    Errors of parsing have the same form as all others.
    """
    assert main(["refrsh", "--json"]) == 64

    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err)["error"]["code"] == "usage"


@pytest.mark.parametrize(("error", "status"), [(RefreshWindowError("x"), 64), (LeaseHeldError("x"), 75)])
def test_errors_end_with_the_status_of_their_kind(error, status):
    """
    The exit status tells kinds of errors apart.
    """
    assert ended(raising(error))[0] == status


def test_a_bug_prints_a_traceback_and_exits_70():
    """
    What is not ours is shown whole.
    """
    status, out, err = ended(raising(ZeroDivisionError("surprise")))

    assert (70, "") == (status, out)
    assert "Traceback" in err
    assert "ZeroDivisionError: surprise" in err


def test_ctrl_c_says_what_is_left_and_exits_130():
    """
    An interrupted command explains how to go on.
    """

    def body(call: CommandCall) -> None:
        call.lake.status()
        raise KeyboardInterrupt

    status, _, err = ended(body)

    assert status == 130
    assert "still dirty" in err


@pytest.mark.parametrize(("is_strict", "status"), [(True, 3), (False, 0)])
def test_nothing_to_do_is_an_exit_status_only_when_asked_for(is_strict, status):
    """
    With --strict-exit an idle command exits 3.
    """
    assert ended(lambda call: call.show(samples.IDLE["refresh"]), is_strict=is_strict)[0] == status


@pytest.mark.parametrize("tells_progress", [True, False])
def test_programs_are_told_progress_only_when_asked_for(tells_progress):
    """
    With --progress the lines of a refresh go to standard error; standard output stays one document.
    """
    out, err = io.StringIO(), io.StringIO()
    done = samples.RESULTS["refresh"]
    run = done.report.runs[0]
    with JsonOutput(out, err, tells_progress=tells_progress).watch("x", done.time_type, is_long=False) as watch:
        watch.on_run(run)

    assert out.getvalue() == ""
    assert ("done" in err.getvalue()) == tells_progress


def test_something_done_is_not_idle_whatever_else_was():
    """
    One aggregate that was refreshed makes the whole call count as work, in either order.
    """
    done, idle = samples.RESULTS["refresh"], samples.IDLE["refresh"]
    for order in ((done, idle), (idle, done)):
        assert ended(lambda call, o=order: [call.show(r) for r in o], is_strict=True)[0] == 0


def test_one_failure_does_not_stop_the_others_and_decides_the_status():
    """
    With --all each aggregate is tried; the first error's status remains.
    """

    def work(name: str):
        if name == "b":
            raise LeaseHeldError("b is held")
        return samples.RESULTS["refresh"]

    status, out, err = ended(lambda call: call.each("refreshes", ["a", "b", "c"], work))

    assert status == 75
    assert out.count("true in") == 2
    assert "b is held" in err


def test_json_of_all_aggregates_is_one_document():
    """
    Results are held back and printed as one list, also when there are none.
    """
    for names in ([], ["a", "b"]):
        out = io.StringIO()
        call = CommandCall(JsonOutput(out, io.StringIO()))
        guarded(call, lambda c=call, n=names: c.each("refreshes", n, lambda _: samples.RESULTS["refresh"]))
        assert len(json.loads(out.getvalue())["refreshes"]) == len(names)


def test_a_closed_pipe_is_quiet_and_does_not_stop_the_work():
    """
    When the reader has gone, writing goes on without an error.
    """
    read, write = os.pipe()
    os.close(read)
    pipe = Pipe(os.fdopen(write, "w"))

    pipe.lines(["x" * 100_000])
    pipe.lines(["more"])


@pytest.mark.parametrize("arguments", [["version"], ["--help"]])
def test_a_closed_pipe_leaves_no_complaint_behind(arguments):
    """
    The interpreter's last flush says nothing either.
    """
    code = f"import sys; from materializer.adapters.cli import main; sys.stdin.read(); sys.exit(main({arguments!r}))"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    with process:
        # the command waits for the end of its input, so the reader is gone before it writes
        process.stdout.close()
        process.stdin.close()
        assert process.stderr.read() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux stands for a disk that is full")
@pytest.mark.parametrize(
    "arguments", [["version"], ["version", "--json"], ["explain"], ["--help"], ["status", "--help"]]
)
def test_an_output_that_cannot_be_written_is_an_error_of_storage(arguments):
    """
    In three lines or one object, and no bug of ours.
    """
    code = f"import sys; from materializer.adapters.cli import main; sys.exit(main({arguments!r}))"
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-c", code],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            check=False,
        )

    said = "the output cannot be written: No space left on device"
    assert 74 == ran.returncode
    if "--json" in arguments:
        assert ("storage.failed", said) == (
            json.loads(ran.stderr)["error"]["code"],
            json.loads(ran.stderr)["error"]["message"],
        )
    else:
        assert f"error: {said}" == ran.stderr.splitlines()[0]
        assert "(storage.failed)" in ran.stderr
        assert "Traceback" not in ran.stderr


def test_work_goes_on_when_the_output_is_full():
    """
    Each item is done; the worst of what they came to and of the output decides how the command ends.
    """

    class Full(io.StringIO):
        def write(self, _text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    done, err = [], io.StringIO()

    def work(name: str):
        done.append(name)
        return samples.RESULTS["refresh"]

    for output in (TextOutput(Full(), err), JsonOutput(Full(), err)):
        call = CommandCall(output)
        call.lake = SimpleNamespace(journal=SimpleNamespace(listed_once=nullcontext))
        assert 74 == guarded(call, lambda call=call: call.each("refreshes", ["a", "b"], work))
    assert ["a", "b"] * 2 == done
    assert 2 == err.getvalue().count("the output cannot be written")


def test_an_output_that_was_closed_before_is_none(monkeypatch):
    """
    Work goes on, and says nothing.
    """
    monkeypatch.setattr(sys, "stdout", None)

    assert TextOutput().close() is None
    Pipe(None).lines(["more"])


def test_the_environment_gives_shared_options(tmp_path, monkeypatch, capsys):
    """
    MATERIALIZER_LAKE, MATERIALIZER_JSON and MATERIALIZER_STRICT_EXIT stand for their options.
    """
    monkeypatch.setenv("MATERIALIZER_JSON", "1")
    monkeypatch.setenv("MATERIALIZER_LAKE", str(tmp_path))
    monkeypatch.setenv("MATERIALIZER_STRICT_EXIT", "1")

    for command in (["refresh", "--all"], ["policy", "run", "--due"]):
        assert main(command) == 3
        assert json.loads(capsys.readouterr().out) == {"refreshes": []}


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    "arguments",
    [
        ["version"],
        ["status"],
        ["refresh", "--all"],
        ["plan", "x"],
        ["history", "x"],
        ["policy", "list"],
        ["policy", "run", "--due"],
    ],
)
def test_looking_at_a_quiet_lake_imports_no_engine(arguments):
    """
    Commands that may start no JVM do not even import pyspark; nor rich, which only the bar needs.
    """
    code = (
        f"import sys; from materializer.adapters.cli import main; main({arguments!r});"
        "print('imported:', sorted({'pyspark', 'delta', 'rich', 'airflow'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )

    assert done.stdout.splitlines()[-1] == "imported: []"

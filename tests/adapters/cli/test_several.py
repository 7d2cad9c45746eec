"""Commands over several aggregates: what fails is told, the others are done, and the worst decides the exit status."""

from __future__ import annotations

import io
import json

import pytest

from materializer.adapters.cli.call import CommandCall, guarded
from materializer.adapters.cli.output import JsonOutput
from materializer.adapters.cli.render.apply import ApplyResult
from materializer.adapters.cli.render.drop import DropResult
from materializer.errors import DataError, LeaseHeldError, SparkDiedError, VerifyFailedError
from materializer.services.definitions.changes import DefinitionChange

BUG = ZeroDivisionError("surprise")


def ended(*failures: Exception | None) -> tuple[int, list[str], list[str]]:
    """Do one thing after the other; return the exit status, which were done, and the codes that were told."""
    out, err = io.StringIO(), io.StringIO()
    call = CommandCall(JsonOutput(out, err))
    done: list[str] = []

    def one(item: tuple[int, Exception | None]) -> DropResult:
        if item[1] is not None:
            raise item[1]
        done.append(str(item[0]))
        return DropResult(str(item[0]))

    status = guarded(call, lambda: call.each("dropped", list(enumerate(failures)), one))
    return status, done, [json.loads(line)["error"]["code"] for line in err.getvalue().splitlines()]


def test_a_failure_does_not_stop_the_others() -> None:
    """
    Not even a bug: it is told with its traceback, and the next one is done.
    """
    assert (71, ["1"], ["spark.died"]) == ended(SparkDiedError("x"), None)
    assert (70, ["0", "2"], ["bug"]) == ended(None, BUG, None)


@pytest.mark.parametrize(
    ("failures", "status"),
    [
        ((LeaseHeldError("x"), DataError("x")), 66),
        ((DataError("x"), LeaseHeldError("x")), 66),
        ((LeaseHeldError("x"), VerifyFailedError("x")), 1),
        ((DataError("x"), SparkDiedError("x")), 66),
        ((SparkDiedError("x"), DataError("x"), BUG), 70),
        ((LeaseHeldError("x"), None), 75),
    ],
)
def test_the_worst_decides_the_exit_status(failures: tuple[Exception | None, ...], status: int) -> None:
    """
    A bug is worse than all others, and what may be tried again is better than they; of two that are as bad the first counts.
    """
    assert status == ended(*failures)[0]


def test_many_unchanged_definitions_are_one_line() -> None:
    """
    What changed is seen among a hundred of them; a few have a line each.
    """
    same = [DefinitionChange(f"v{i}", "unchanged") for i in range(100)]
    changed = DefinitionChange("bars", "created")

    lines = list(ApplyResult((*same[:50], changed, *same[50:])).lines(100))
    few = list(ApplyResult((*same[:3], changed)).lines(100))

    assert "100 definitions: unchanged" in lines
    assert [] == [line for line in lines if line.startswith("v")]
    assert any(line.startswith("bars: created") for line in lines)
    assert ["v0: unchanged", "v1: unchanged", "v2: unchanged"] == few[:3]

"""Spark Connect without a server: how a loss is recognised, and what a process does about it."""

from __future__ import annotations

import pytest
from grpc import StatusCode
from pyspark.errors import PySparkAssertionError, PySparkException, PySparkRuntimeError
from pyspark.errors.exceptions.connect import SparkConnectGrpcException, SparkException

from materializer.errors import SparkDiedError, StorageError
from materializer.spark.runtime import jvm
from materializer.spark.runtime.connect import loss_behind
from materializer.spark.runtime.failures import spoken, thrown


def refused(condition: str) -> SparkConnectGrpcException:
    """Return what the client raises where the server answers with a condition."""
    return SparkConnectGrpcException(f"[{condition}] words", errorClass=condition, messageParameters={})


@pytest.mark.parametrize(
    ("exc", "said"),
    [
        (SparkConnectGrpcException("x", grpc_status_code=StatusCode.UNAVAILABLE), "does not answer any more"),
        (refused("INVALID_HANDLE.SESSION_CHANGED"), "does not know the session"),
        (refused("INVALID_HANDLE.SESSION_CLOSED"), "does not know the session"),
        (refused("INVALID_HANDLE.SESSION_NOT_FOUND"), "does not know the session"),
        (
            PySparkAssertionError("Received incorrect server side session identifier for request."),
            "does not know the session",
        ),
        (
            PySparkRuntimeError(errorClass="RESPONSE_ALREADY_RECEIVED", messageParameters={"error_type": "x"}),
            "does not know the session",
        ),
        (refused("NO_ACTIVE_SESSION"), "does not know the session"),
        (refused("DIVIDE_BY_ZERO"), ""),
        (SparkConnectGrpcException("x", grpc_status_code=StatusCode.INTERNAL), ""),
        (ValueError("UNAVAILABLE"), ""),
    ],
)
def test_a_lost_server_is_told_from_a_failed_query(exc: Exception, said: str) -> None:
    """
    By the status of the call and the condition, never by words of the data.
    """
    found = loss_behind(exc)

    assert found.startswith(said)
    assert bool(found) is bool(said)


@pytest.mark.parametrize(("is_client", "hint"), [(True, "see that the server runs"), (False, "make a new session")])
def test_a_loss_is_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch, is_client: bool, hint: str) -> None:
    """
    It says what was running, and what helps: the command again, or a new session where it was the user's.
    """
    monkeypatch.setattr(jvm, "RECORD", jvm.JvmRecord(is_client=is_client))
    lost: PySparkException = SparkConnectGrpcException("x", grpc_status_code=StatusCode.UNAVAILABLE)
    with (
        pytest.raises(SparkDiedError, match="reading failed: the Spark Connect server does not answer") as caught,
        spoken("reading"),
    ):
        raise lost

    assert caught.value.hint.startswith(hint)
    assert 1 == jvm.RECORD.losses


def test_causes_are_read_from_what_the_server_says() -> None:
    """
    The client has no objects of the server; classes, conditions and messages of its causes stand in the stack trace.
    """
    trace = "org.apache.spark.SparkException\n\tat a.b(C.scala:1)\nCaused by: java.nio.file.AccessDeniedException: /lake/x\n\tat d"
    exc = SparkException("[FAILED] Job aborted.", errorClass="FAILED", messageParameters={}, server_stacktrace=trace)
    with pytest.raises(StorageError, match="permission denied"), spoken("writing"):
        raise exc

    assert [("org.apache.spark.SparkException", "FAILED"), ("java.nio.file.AccessDeniedException", "")] == [
        (one.name, one.condition) for one in thrown(exc)
    ]

"""A dead JVM, told without starting one: by the type of what is raised, by the process, and what a lake does about it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec import Struct
from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError

from materializer.api import Materializer
from materializer.config import Config
from materializer.errors import (
    DataError,
    OutputHandlerError,
    SparkDiedError,
    SparkError,
)
from materializer.services.each import each
from materializer.spark.run import spark as engines
from materializer.spark.run.executor import Executor
from materializer.spark.runtime import jvm, session
from materializer.spark.runtime.failures import feed_gaps, spoken


class Bridge(Struct):
    """What pyspark keeps of a JVM, over a process of ours."""

    proc: subprocess.Popen[bytes]

    def shutdown(self) -> None:
        """As py4j's."""


@pytest.fixture
def bridge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Bridge]]:
    """Make bridges to processes that live, the newest one pyspark's; pyspark and what we know of JVMs are put back."""
    monkeypatch.setattr(jvm, "RECORD", jvm.JvmRecord())
    for name in ("_gateway", "_jvm", "_active_spark_context"):
        monkeypatch.setattr(SparkContext, name, None)
    made: list[Bridge] = []

    def make(code: str = "input()", *, is_ours: bool = True) -> Bridge:
        process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
        new = Bridge(process)
        made.append(new)
        SparkContext._gateway = new  # type: ignore[assignment]
        if is_ours:
            jvm.launched(new, Path("no log"))
        return new

    yield make
    for one in made:
        one.proc.kill()
        one.proc.wait()
        if one.proc.stdin is not None:
            one.proc.stdin.close()


def killed(started: Bridge) -> None:
    """Kill a JVM and wait for it."""
    started.proc.kill()
    started.proc.wait()


def refused() -> None:
    """Ask a gateway that nobody serves."""
    parameters = JavaParameters(port=9), PythonParameters(port=0, eager_load=False)
    ClientServer(*parameters).jvm.java.lang.System.nanoTime()


def raising(error: Exception) -> Callable[[], None]:
    """Return what raises *error*."""

    def fail() -> None:
        raise error

    return fail


LOST: dict[str, Callable[[], None]] = {
    "connection refused": refused,
    "network error": raising(Py4JNetworkError("Answer from Java side is empty")),
    "no answer": raising(Py4JError("An error occurred while calling o1.x")),
    "end of a stream": raising(EOFError()),
    "connection reset": raising(ConnectionResetError()),
    "broken pipe": raising(BrokenPipeError()),
    "half an answer": raising(pa.ArrowInvalid("Tried reading schema message, was null or length 0")),
    "no socket": raising(PySparkRuntimeError("CANNOT_OPEN_SOCKET")),
    "state that was taken away": raising(AssertionError()),
}


@pytest.mark.parametrize("lost", LOST)
def test_whatever_is_raised_when_the_process_is_dead(bridge: Callable[..., Bridge], lost: str) -> None:
    """
    Each way in which pyspark fails then becomes one error, with the signal, what to do and the step.
    """
    killed(bridge())

    with (
        pytest.raises(SparkDiedError, match=r"Spark died: its process was ended by signal 9 \(SIGKILL\)") as caught,
        jvm.telling(),
    ):
        LOST[lost]()
    assert ("spark.died", 71, -9) == (caught.value.code, caught.value.exit_status, caught.value.values["status"])
    assert "short of memory" in caught.value.hint
    if lost == "state that was taken away":  # ours, unless the outermost boundary sees it
        return
    told = pytest.raises(SparkDiedError, match=r"^computing \(/t at version 3\) failed: Spark died")
    with told as caught, spoken("computing", table="/t", version=3, wrote="half"):
        LOST[lost]()
    assert "half" == caught.value.wrote
    with pytest.raises(SparkDiedError), feed_gaps("/t", 1, 2):
        LOST[lost]()


def test_the_process_is_waited_for(bridge: Callable[..., Bridge]) -> None:
    """
    Its sockets close before it can be seen to have ended; the heap that was full is told by its exit status.
    """
    bridge("import time, sys; time.sleep(0.5); sys.exit(52)")

    with (
        pytest.raises(SparkDiedError, match="ended with status 52, because its heap was full") as caught,
        jvm.telling(),
    ):
        refused()
    assert "spark.memory" in caught.value.hint


def test_what_fails_while_it_lives_is_what_it_was(
    bridge: Callable[..., Bridge], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A lost connection alone is no death, nor does a death take the place of an error that has another cause.
    """
    monkeypatch.setattr(jvm, "PATIENCE", 0.1)
    living = bridge()
    with pytest.raises(ConnectionRefusedError), jvm.telling():
        refused()
    with pytest.raises(SparkError) as caught, spoken("computing"):
        refused()
    assert "spark.failed" == caught.value.code

    killed(living)
    for other in (DataError("x"), OutputHandlerError("x"), ZeroDivisionError()):
        with pytest.raises(type(other)), jvm.telling():
            raise other


def test_a_connection_that_was_lost_elsewhere_is_not_waited_for(bridge: Callable[..., Bridge]) -> None:
    """
    An output handler may speak to a server of its own: what is not raised by the bridge says nothing about Spark.
    """
    bridge()

    assert jvm.death_behind(ConnectionRefusedError("mine")) is None


def test_what_belongs_to_the_one_that_died_before(
    bridge: Callable[..., Bridge], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A frame of the old session fails in the same way when a new one is there: it is still the old one that died.
    """
    monkeypatch.setattr(jvm, "PATIENCE", 0.1)
    killed(bridge())
    assert jvm.forget() is not None
    assert jvm.forget() is None, "it is forgotten"
    bridge()

    with pytest.raises(SparkDiedError, match="SIGKILL"), jvm.telling():
        raise Py4JNetworkError("the old one")


def test_it_is_forgotten_only_when_it_is_dead_and_ours(bridge: Callable[..., Bridge]) -> None:
    """
    A JVM that lives is left alone, and so is what somebody else started: that session is not ours to replace.
    """
    living = bridge()
    assert jvm.forget() is None
    killed(living)
    assert jvm.forget() is not None, "it was still known"

    killed(bridge(is_ours=False))
    for _ in range(2):
        assert jvm.forget() is not None
    with pytest.raises(SparkDiedError, match="the Spark of the session that was given died") as caught:
        session.start(Config())
    assert "new session" in caught.value.hint


# -- what a lake does about it -------------------------------------------------------------------------------------------


class FakeEngine(Struct):
    """An engine over a bridge; it can do nothing."""

    spark: Any
    python: Any = None
    budget: Any = None

    def death(self) -> jvm.Death | None:
        """As the engine's."""
        return jvm.death(self.spark)


@pytest.fixture
def starts(bridge: Callable[..., Bridge], monkeypatch: pytest.MonkeyPatch) -> list[Bridge]:
    """The JVMs that were started, in order, where each is a process that does nothing."""
    started: list[Bridge] = []

    def start(*_: Any, **__: Any) -> Bridge:
        jvm.forget()
        started.append(bridge())
        return started[-1]

    monkeypatch.setattr(session, "start", start)
    monkeypatch.setattr(engines, "Spark", FakeEngine)
    return started


def test_spark_is_started_anew_once(starts: list[Bridge], tmp_path: Path) -> None:
    """
    After a death the next one who asks gets a new session; after another, each gets the same error, and no JVM is started.
    """
    lake = Materializer(tmp_path, config=Config())
    first = lake.engine()
    assert lake.engine() is first
    killed(starts[0])
    second = lake.engine()
    assert second is not first
    killed(starts[1])
    for _ in range(3):
        with pytest.raises(SparkDiedError, match="SIGKILL"):
            lake.engine()

    assert 2 == len(starts)
    assert Materializer(tmp_path, config=Config()).engine() is not second, "who opens the lake again asks for one"
    assert 3 == len(starts)


def test_a_process_that_stays_starts_it_as_often_as_it_dies(starts: list[Bridge]) -> None:
    """
    Whoever lets it start again has a new process next time, and one that lives is left as it is.
    """
    executor = Executor(Config(), None, {})
    for count in range(1, 5):
        executor.start_again()
        living = executor.engine()
        executor.start_again()
        assert executor.engine() is living
        assert count == len(starts)
        killed(starts[-1])


def test_what_does_not_start_again_is_not_tried_again(
    starts: list[Bridge], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A machine without memory is not asked for a JVM by each aggregate.
    """
    lake = Materializer(tmp_path, config=Config())
    lake.engine()
    killed(starts[0])
    tried: list[int] = []

    def start(*_: Any, **__: Any) -> Any:
        tried.append(1)
        raise SparkError("Spark did not start: no memory")

    monkeypatch.setattr(session, "start", start)
    with pytest.raises(SparkError, match="did not start"):
        lake.engine()
    with pytest.raises(SparkDiedError):
        lake.engine()

    assert [1] == tried


def test_a_session_that_was_given_is_not_started_anew(
    starts: list[Bridge], bridge: Callable[..., Bridge], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It is its owner's: the error says that, every time.
    """
    monkeypatch.setattr(session, "refuse_unsafe_settings", lambda _: None)
    theirs = bridge(is_ours=False)
    lake = Materializer(tmp_path, spark=theirs, config=Config())  # type: ignore[arg-type]
    lake.engine()
    killed(theirs)
    for _ in range(2):
        with pytest.raises(SparkDiedError, match="session that was given"):
            lake.engine()

    assert [] == starts


def test_from_python_too_one_failure_does_not_stop_the_others() -> None:
    """
    Policies that are due and maintenance are done one after the other; the first failure is raised in the end, and says so.
    """
    done: list[str] = []

    def work(name: str) -> str:
        if name in "bd":
            raise DataError(name)
        done.append(name)
        return name

    with pytest.raises(DataError, match="b") as caught:
        each("policies", ["a", "b", "c", "d"], work)
    assert ["a", "c"] == done
    assert "nothing was written; of the others of the policies 2 were done, 1 failed" == caught.value.wrote
    assert ["a"] == each("policies", ["a"], work)

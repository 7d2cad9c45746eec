"""One call of a command: its shared options, the lake, its output and its exit status."""

# ruff: noqa: PLC0415 - what is heavy is imported when a command needs it

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from materializer.adapters.cli.output import JsonOutput, Output, TextOutput
from materializer.adapters.cli.render.result import DONE, IDLE, Result
from materializer.adapters.cli.words import repeat_environment
from materializer.errors import (
    JournalLostError,
    MaterializerError,
    RetryableError,
    StorageError,
    UnknownAggregateError,
    UsageError,
)

if TYPE_CHECKING:
    from materializer.api import Materializer

Item = TypeVar("Item")

BUG = 70
INTERRUPTED = 130


class CommandCall:
    """The context of one call, which a command body gets as its first argument."""

    def __init__(
        self,
        output: Output,
        *,
        lake: str | None = None,
        config: str | None = None,
        env: str | None = None,
        is_strict: bool = False,
        opened: Materializer | None = None,
    ) -> None:
        self.output = output
        self.status = 0
        self.root = lake
        self._config = config
        self._env = env
        self._is_strict = is_strict
        self._is_idle: bool | None = None
        self.only_asks = False
        """Whether the command still asks, and has written nothing."""
        if opened is not None:
            self.lake = opened

    @cached_property
    def lake(self) -> Materializer:
        """The lake, opened when a command first asks for it."""
        from materializer import config
        from materializer.api import Materializer

        return Materializer(self.root, config=config.read(self._config, env=self._env))

    def other(self, name: str) -> Materializer | str:
        """Return another lake: that of an environment of the configuration file, else the one at a place."""
        if name not in self.lake.config.environments:
            return name
        from materializer import config
        from materializer.api import Materializer

        environ = {
            key: value for key, value in os.environ.items() if key != f"{config.PREFIX}LAKE"
        }  # it is of this lake
        return Materializer(config=config.read(self._config, env=name, environ=environ))

    def show(self, result: Result) -> None:
        """Show a result; the command ends with its exit status, and as idle when every result is."""
        is_idle = result.exit_status == IDLE
        self._is_idle = is_idle and self._is_idle is not False
        self.status = worse(self.status, DONE if is_idle else result.exit_status)
        self.output.show(result)

    def fail(self, error: MaterializerError) -> None:
        """Show an error and go on; the worst error decides the exit status.

        Where the journal was lost, no error says that an aggregate was never defined.
        """
        if isinstance(error, UnknownAggregateError):
            error = next((e for e in self.lake.unusable() if isinstance(e, JournalLostError)), error)
        self.output.fail(error)
        self.status = worse(self.status, error.exit_status)

    def attempt(self, work: Callable[[], None]) -> None:
        """Do one of several pieces of work; an error of it, even a bug, is shown and stops no other piece."""
        try:
            work()
        except MaterializerError as exc:
            self.fail(exc)
        except Exception as exc:  # noqa: BLE001 - any error that is not a MaterializerError is a bug, and is shown as one
            self.output.crash(exc)
            self.status = worse(self.status, BUG)

    def each(self, listing: str, items: Sequence[Item], work: Callable[[Item], Result]) -> None:
        """Show the result of *work* on every item; an item that fails does not stop the others."""
        self.output.expect(listing)
        if not items:
            self._is_idle = True

        def one(item: Item) -> None:
            self.show(work(item))

        with self.lake.journal.listed_once() if len(items) > 1 else nullcontext():
            for item in items:
                self.attempt(partial(one, item))

    def names(self, name: str | None, *, is_all: bool) -> list[str]:
        """Return the aggregates that a name or ``--all`` selects, each after those that it reads.

        Raises:
            UsageError: If both or neither of a name and ``--all`` were given, or if all are meant and the lake's folder does not exist.
            JournalLostError: If all are meant, the journal has none, and tables of ours are there.
        """
        if (name is None) != is_all:
            found = "neither" if name is None else "both"
            raise UsageError(
                f"give the name of an aggregate or --all, got {found}", hint="'materializer status' lists the names"
            )
        if name is not None:
            return [name]
        names = self.lake.names()
        for error in [] if names else self.lake.unusable():
            raise error
        if not names and self.no_folder:
            raise UsageError(
                f"there is no folder {self.no_folder}",
                hint="is the lake's name right? 'materializer apply' begins a lake",
            )
        if not names:
            from materializer.adapters.cli.render.status import StatusResult

            self.output.announce(StatusResult(()))
        return names

    @property
    def no_folder(self) -> str:
        """The folder of the lake if it does not exist; "" if it does, and for a lake in an object store."""
        from pathlib import Path

        root = self.lake.root
        return str(root) if isinstance(root, Path) and not root.exists() else ""

    def close(self) -> int:
        """Write the lists that were begun, and return the exit status."""
        try:
            self.output.close()
        except StorageError as exc:
            self.fail(exc)
        return self.status or (IDLE if self._is_strict and self._is_idle else 0)

    def left(self) -> str:
        """Return in words the state in which an interrupted command left the lake."""
        rest = "what was finished stays, the rest is still dirty"
        if self.only_asks or "lake" not in self.__dict__:
            return "nothing was written"
        try:
            open_ = [(s.plan.n, s.name) for s in self.lake.journal.view().states.values() if s.plan is not None]
        except MaterializerError:
            return f"{rest}; the next command repairs it"
        if not open_:
            return f"{rest}; run the same command again to go on"
        refreshes = ", ".join(f"refresh {n} of '{name}'" for n, name in sorted(open_))
        return f"{refreshes} has not ended; the next command repairs it: {rest}"


def run(
    body: Callable[..., None],
    *,
    lake: str | None,
    config: str | None,
    env: str | None,
    json: bool,
    progress: bool,
    strict_exit: bool,
    **own: Any,
) -> int:
    """Run the body of a command with what was given for it and for every command, and return the exit status."""
    is_typed = env is not None and env != os.environ.get("MATERIALIZER_ENV")
    repeat_environment(env if env and is_typed else "")
    output = JsonOutput(tells_progress=progress) if json else TextOutput()
    call = CommandCall(output, lake=lake, config=config, env=env, is_strict=strict_exit)
    return guarded(call, lambda: body(call, **own))


def worse(one: int, other: int) -> int:
    """Return the worse of two exit statuses: a bug, then any other, then "try again"; *one* when both are as bad.

    Examples:
        >>> worse(0, 75), worse(75, 66), worse(71, 66), worse(71, 70)
        (75, 66, 71, 70)
    """
    return max(
        one, other, key=lambda status: (status == BUG, status not in (0, RetryableError.exit_status), status != 0)
    )


def guarded(call: CommandCall, body: Callable[[], None]) -> int:
    """Run a body and return the exit status that fits how it ended."""
    try:
        body()
        return call.close()
    except MaterializerError as exc:
        call.fail(exc)
        return call.close()
    except KeyboardInterrupt:
        call.output.interrupted(call.left())
        call.close()
        return INTERRUPTED
    except Exception as exc:  # noqa: BLE001 - any error that is not a MaterializerError is a bug, and is shown as one
        call.output.crash(exc)
        call.close()
        return BUG

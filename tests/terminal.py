"""A process in a pseudo-terminal, with which a test talks as a user does."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from pathlib import Path

from tests.paths import ROOT

PATIENCE = 30
"""Seconds in which a process shows what is waited for."""


class Terminal:
    """A process in a pseudo-terminal of 100 columns.

    Args:
        command: Program and arguments.
        folder: Its working directory; else that of this process.
        base: Its environment; else that of this process, with the source tree as a place of modules.
        patience: Seconds in which it shows what is waited for.
        variables: What its environment has besides.
    """

    def __init__(
        self,
        *command: str,
        folder: Path | None = None,
        base: Mapping[str, str] | None = None,
        patience: float = PATIENCE,
        **variables: str,
    ) -> None:
        self._own, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        env = os.environ | {"PYTHONPATH": str(ROOT)} if base is None else dict(base)
        env |= {"TERM": "xterm", "NO_COLOR": "1"} | variables
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=other, stdout=other, stderr=other, env=env, close_fds=True
        )
        os.close(other)
        self.shown = ""
        self._patience = patience
        self._seen = 0

    def wait(self, text: str) -> str:
        """Return what was shown since the last answer, as soon as *text* is there."""
        until = time.monotonic() + self._patience
        while text not in self.shown[self._seen :]:
            assert time.monotonic() < until, f"{text!r} was not shown:\n{self.shown}"
            self._read()
        return self.shown[self._seen :]

    def type(self, line: str, end: str = "\n") -> None:
        """Type a line."""
        self._seen = len(self.shown)
        os.write(self._own, f"{line}{end}".encode())

    def end(self) -> int:
        """Return the exit status of the process."""
        while self._process.poll() is None or select.select([self._own], [], [], 0)[0]:
            if not self._read():
                break
        os.close(self._own)
        return self._process.wait(PATIENCE)

    def _read(self) -> bool:
        if not select.select([self._own], [], [], 0.2)[0]:
            return True
        try:
            found = os.read(self._own, 65_536)
        except OSError:  # the other end was closed
            return False
        self.shown += found.decode(errors="replace").replace("\r\n", "\n")
        return bool(found)

"""A file of lines by key, beside the journal, to which changed lines are appended.

Of thousands of lines a refresh changes one. The last line of the file is a header, which says what the lines before it reflect.
Of several lines of one key the last one counts; a line without a value says that the key is gone. A file that is small, or that
grew to twice its size, is written anew, without the lines that do not count. On an object store it always is.

Appending holds a lock on the file, so that each header follows the one that its writer read. A file that was replaced
meanwhile gets no line.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from materializer.lake import places
from materializer.lake.hostile import MOST_BESIDE, content_beside

SMALL: Final = 1 << 18
"""A file of fewer bytes is written anew each time."""
_LONGEST_HEADER: Final = 1_024
_WHOLE: Final = "whole"
"""The key in a header for the bytes of the lines when they were written anew."""
UNUSABLE: Final = (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What reading a damaged file, or one of another release, raises."""


class Appended:
    """Such a file, which this process changes.

    Args:
        place: The file.
        header: Its newest header; None if it has none that can be read.
        descriptor: The open and locked file, for appending; None where nothing can be appended.
    """

    def __init__(self, place: str, header: Mapping[str, Any] | None = None, descriptor: int | None = None) -> None:
        self._place, self.header, self._descriptor = place, header, descriptor

    def put(
        self, header: Mapping[str, Any], lines: Mapping[str, str | None], is_wanted: Callable[[str], bool] | None
    ) -> None:
        """Change some lines.

        Args:
            header: What all lines reflect then.
            lines: The new values by key, without line breaks; None for a key that is gone.
            is_wanted: Whether the line of another key is still wanted, where the file is written anew; None if no other line counts.

        Raises:
            OSError: If the file cannot be written.
        """
        if is_wanted is not None and self.header is not None and self._descriptor is not None:
            size, whole = os.fstat(self._descriptor).st_size, self.header[_WHOLE]
            if SMALL <= size < min(2 * whole, MOST_BESIDE):
                os.write(self._descriptor, _text(lines) + _last(header, whole))  # of a part, readers see no header
                return
        known: dict[str, str] = {}
        if is_wanted is not None and self.header is not None:
            try:
                known = {key: value for key, value in read(self._place)[1].items() if is_wanted(key)}
            except UNUSABLE:
                forget(self._place)  # the new lines alone would pass for all
                return
        text = _text({key: value for key, value in (known | dict(lines)).items() if value is not None})
        places.put(self._place, text + _last(header, len(text)))


def read(place: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the newest header of such a file, and its lines by key; raises one of :data:`UNUSABLE`."""
    content = content_beside(place)
    try:
        *lines, last, rest = content.decode().split("\n")
    except UnicodeDecodeError:
        forget(place)
        raise
    if rest:
        raise ValueError("its last line is not whole")
    found: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(" ")
        found.pop(key, None)
        if value and key:
            found[key] = value
    return _header(last), found


def forget(place: str) -> None:
    """Remove a file of which a line cannot be read, where lines are appended: who changes it looks at its last line only."""
    with suppress(OSError):
        if places.is_local(place):
            Path(place).unlink()


@contextmanager
def changing(place: str) -> Iterator[Appended | None]:
    """Give such a file to change; None if another process changes it at this moment.

    Raises:
        OSError: If it cannot be read.
    """
    if not places.is_local(place):  # to look costs what writing does
        yield Appended(place)
        return
    try:
        descriptor = os.open(place, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # there is none, or what is there is none of ours
        yield Appended(place)
        return
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            yield Appended(place)
            return
        if found.st_nlink > 1:  # a copy of the lake shares it
            yield Appended(place, _newest(descriptor))
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        except OSError:  # a file system without locks
            yield Appended(place, _newest(descriptor))
            return
        yield Appended(place, _newest(descriptor), descriptor)
    finally:
        os.close(descriptor)


def _newest(descriptor: int) -> dict[str, Any] | None:
    """Return the header at the end of a file; None if there is none."""
    end = os.fstat(descriptor).st_size
    with suppress(*UNUSABLE):
        *_, last, rest = os.pread(descriptor, _LONGEST_HEADER, max(end - _LONGEST_HEADER, 0)).split(b"\n")
        return None if rest else _header(last.decode())
    return None


def _header(line: str) -> dict[str, Any]:
    key, _, text = line.partition(" ")
    header = json.loads(text)
    if key or type(header[_WHOLE]) is not int:
        raise ValueError("it is no header")
    return dict(header)


def _text(lines: Mapping[str, str | None]) -> bytes:
    return "".join(f"{key} {value or ''}\n" for key, value in lines.items()).encode()


def _last(header: Mapping[str, Any], whole: int) -> bytes:
    return f" {json.dumps({**header, _WHOLE: whole})}\n".encode()

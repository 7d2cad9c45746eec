"""What is asked of an object store, by its client; :mod:`materializer.lake.places` loads this module when it meets one."""

from __future__ import annotations

import errno
import io
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal

import obstore
import pyarrow as pa
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import ObjectStore, from_url

from materializer.errors import ConfigError
from materializer.errors.base import masked
from materializer.lake.store_settings import environment_of, options_of

WHOLE: Final = 8 << 20
"""A file of up to this size is read in one request."""
MOST: Final = 1000
"""How many files one request lists or deletes."""
_SMALL: Final = 1 << 18
_MOST_SMALL: Final = 64
_small: dict[str, bytes] = {}
"""Files of rows that were read."""
_REFUSED: Final = re.compile(
    r"SignatureDoesNotMatch|InvalidAccessKeyId|ExpiredToken|RequestTimeTooSkewed|AccessDenied|AuthenticationFailed"
    r"|AuthorizationFailure|401 Unauthorized|403 Forbidden",
    re.IGNORECASE,
)
_ELSEWHERE: Final = re.compile(
    r"PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint|redirect without LOCATION"
)
"""What S3 and its client say of a bucket in another region."""
_SAID: Final = re.compile(r"<Code>(.*?)</Code>\s*<Message>(.*?)</Message>", re.DOTALL)
"""What a store says of a failure, as XML."""
_EMPTY: Final = ("416 Range Not Satisfiable", "InvalidRange")
"""What a store says of the first bytes of an empty file."""
_NUMBERS: Final[Sequence[tuple[Any, int]]] = (
    (FileNotFoundError, errno.ENOENT),
    ((AlreadyExistsError, PreconditionError), errno.EEXIST),
    ((PermissionDeniedError, UnauthenticatedError), errno.EACCES),
)
_CONNECTION: Final = frozenset(
    {"allow_http", "allow_invalid_certificates", "connect_timeout", "proxy_url", "timeout", "user_agent"}
)
_clients: dict[tuple[str, tuple[tuple[str, str], ...]], ObjectStore] = {}
_guard: Final = threading.Lock()


def _opened(bucket: str, options: dict[str, str]) -> ObjectStore:
    """Return a client; it takes settings of its connections apart from the others.

    Raises:
        ConfigError: If it does not know a setting, or its value.
    """
    connection = {key.partition("_")[2]: key for key in options if key.partition("_")[2] in _CONNECTION}
    config = {key: value for key, value in options.items() if key not in connection.values()}
    client = {name: options[key] for name, key in connection.items()}
    try:
        return from_url(bucket, config=config, client_options=client)  # type: ignore[call-overload,no-any-return]
    except (BaseError, ValueError) as exc:
        hint = "see [storage] in the configuration, and the variables of this cloud in the environment"
        raise ConfigError(
            f"'{bucket}' cannot be opened: {masked(str(exc).strip().partition(chr(10))[0])}", hint=hint
        ) from None


class StorePlace:
    """A place on a store; failures are of the classes of the operating system.

    Args:
        place: Its URL.
    """

    def __init__(self, place: str) -> None:
        scheme, _, rest = place.partition("://")
        self.place = place
        self.bucket, _, self.key = rest.partition("/")
        options = options_of(scheme)
        known = (f"{scheme}://{self.bucket}", tuple(sorted((environment_of(scheme) | options).items())))
        with (
            _guard
        ):  # one client for each bucket and settings, those of the environment too: connections are used again
            if known not in _clients:
                _clients[known] = _opened(known[0], options)
            self.client = _clients[known]

    def head(self) -> Any | None:
        """Return what the store says of a file; None if there is none."""
        if not self.key:
            return None
        try:
            with self._failures():
                return obstore.head(self.client, self.key)
        except FileNotFoundError:
            return None

    def listed(self, *, before: str = "", most: int = MOST) -> Iterator[tuple[str, Any]]:
        """Yield the name of each file below this folder and what the store says of it, by name.

        Args:
            before: Only names from this one on.
            most: How many files the caller needs, about.
        """
        # a listing starts after a name: after one that is a character shorter
        offset = f"{self.key}/{before[:-1]}" if before else None
        with self._failures():
            for chunk in obstore.list(self.client, self.key or None, offset=offset, chunk_size=most):
                yield from ((meta["path"].removeprefix(self.key).lstrip("/"), meta) for meta in chunk)

    def level(self) -> tuple[list[str], list[tuple[str, Any]]]:
        """Return the names of the folders in this folder, and its files as :meth:`listed` yields them."""
        with self._failures():
            level = obstore.list_with_delimiter(self.client, self.key or None)
        folders = [prefix.rstrip("/").rpartition("/")[2] for prefix in level["common_prefixes"]]
        return folders, [(meta["path"].rpartition("/")[2], meta) for meta in level["objects"]]

    def read(self) -> bytes:
        """Return the content of a file."""
        with self._failures():
            return bytes(obstore.get(self.client, self.key).bytes())

    def opened(self) -> Any:
        """Return a file for `pyarrow`; a small one is read in one request, and not again."""
        if self.place in _small:
            return pa.BufferReader(_small[self.place])
        try:
            with self._failures():
                first = obstore.get(self.client, self.key, options={"range": (0, WHOLE)})
                if first.meta["size"] <= WHOLE:
                    return pa.BufferReader(self._remembered(bytes(first.bytes())))
        except OSError as exc:
            if not any(text in str(exc) for text in _EMPTY):
                raise
            return pa.BufferReader(b"")
        return pa.PythonFile(_Ranges(self, first.meta["size"]), mode="r")

    def _remembered(self, data: bytes) -> bytes:
        """Keep a small file of rows in memory: its name is unique, and its content never changes."""
        if len(data) <= _SMALL and self.place.endswith(".parquet"):
            while len(_small) >= _MOST_SMALL:
                _small.pop(next(iter(_small)), None)
            _small[self.place] = data
        return data

    def put(self, data: bytes, mode: Literal["create", "overwrite"]) -> str | None:
        """Write a file as a whole and return its tag, if the store gives one; ``create`` fails if it exists."""
        with self._failures():
            return obstore.put(self.client, self.key, data, mode=mode, use_multipart=False)["e_tag"]

    def copy(self, to: StorePlace) -> None:
        """Copy a file within the store, or to another one."""
        with self._failures():
            if self.client is to.client:
                obstore.copy(self.client, self.key, to.key)
                return
        to.put(self.read(), "overwrite")

    def delete(self, names: Sequence[str] = ("",)) -> None:
        """Delete files below this folder, in order, or the file itself; those that do not exist are not an error."""
        keys = [f"{self.key}/{name}" if name else self.key for name in names]
        with self._failures():
            for first in range(0, len(keys), MOST):
                obstore.delete(self.client, keys[first : first + MOST])

    def part(self, start: int, end: int) -> bytes:
        """Return some bytes of a file."""
        with self._failures():
            return bytes(obstore.get_range(self.client, self.key, start=start, end=end))

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, FileNotFoundError) as exc:
            number = next((number for kind, number in _NUMBERS if isinstance(exc, kind)), errno.EIO)
            said = _SAID.search(str(exc))
            text = masked(f"{said[1]}: {said[2]}" if said else str(exc).strip().partition("\n")[0])
            if "NoSuchBucket" in str(exc):
                number, text = errno.ENODEV, f"there is no bucket '{self.bucket}'"
            elif _ELSEWHERE.search(str(exc)):
                text = f"the bucket '{self.bucket}' is in another region"
            elif refused := _REFUSED.search(str(exc)):
                number = errno.EACCES
                text = f"the store refuses this request or its credentials ({text if said else refused[0]})"
            raise OSError(
                number, text, self.place
            ) from None  # the cause would print what was signed, and with which key


class _Ranges(io.RawIOBase):
    """A file of a store, of which each read is one request.

    The file system of `deltalake` for `pyarrow` would read with the lock of the interpreter, and no lease be renewed meanwhile.
    """

    def __init__(self, store: StorePlace, size: int) -> None:
        self._store = store
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._size, self._position + size)
        data = self._store.part(self._position, end) if end > self._position else b""
        self._position += len(data)
        return data

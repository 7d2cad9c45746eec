"""Places: where files are, by path or by URL. This is the only module that knows schemes.

A place is a text: a path of this machine, or ``s3://``, ``abfss://``, ``az://`` or ``gs://``. ``file://`` is a path, and ``s3a://`` is
``s3://``. On a path each function makes the calls of the operating system that it is named after; on a store it makes one
request where that is possible. Errors are of the same classes: ``FileNotFoundError``, ``PermissionError``, ``OSError``.

The client of stores is `obstore`. It is the client that `deltalake` has inside, by the same authors, so both understand the
same settings. `pyarrow.fs` has no conditional put, and cannot list from a name on.
"""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from msgspec import Struct

from materializer.errors import ConfigError
from materializer.lake import store_settings
from materializer.lake.store_settings import SCHEMES

if TYPE_CHECKING:
    from materializer.lake.stores import StorePlace

Identity: TypeAlias = tuple[int | str, ...]
"""What tells a file from another one of the same name."""
_SAME: Final = {"s3a": "s3", "gcs": "gs"}
_AT_ONCE: Final = 8  # files of a store that are read at the same time
_MARK: Final = ".folder"  # file that makes a folder of a store
_LOG: Final = "_delta_log/"


class FileEntry(Struct, frozen=True):
    """A file or a folder.

    Args:
        name: Its name, relative to the folder that was listed.
        bytes: Size of a file; 0 for a folder.
        modified: When a file was written, in seconds since the epoch; 0 for a folder.
        is_folder: Whether it is a folder.
    """

    name: str
    bytes: int
    modified: float
    is_folder: bool = False


# -- names ---------------------------------------------------------------------------------------------------------------


def is_local(place: str) -> bool:
    """Return whether a place is a path of this machine."""
    return "://" not in place


def normalised(place: str | Path) -> str:
    """Return a place in the form in which it is stored and compared; a relative path stays relative.

    Raises:
        ConfigError: If the scheme is unknown, or if the URL names no bucket or has credentials in it.

    Examples:
        >>> normalised("s3a://lake/a//b/"), normalised("file:///lake/a%20b"), normalised("lake/")
        ('s3://lake/a/b', '/lake/a b', 'lake')
    """
    text = str(place)
    if "://" not in text:
        return str(Path(text))
    url = urlsplit(text)
    scheme = _SAME.get(url.scheme, url.scheme)
    if scheme == "file":
        return str(Path(unquote(url.path)))
    shown = f"{url.scheme}://{url.hostname or ''}{url.path}"
    if scheme not in SCHEMES:
        raise ConfigError(f"'{shown}' has an unknown scheme", hint=f"known are {', '.join(SCHEMES)}, s3a and file")
    if url.query or url.password is not None or (url.username is not None and SCHEMES[scheme] != "azure_"):
        hint = "give credentials in the environment, or in [storage] of materializer.toml"
        raise ConfigError(f"the place '{shown}' must not have credentials or a query", hint=hint)
    if not url.netloc:
        raise ConfigError(f"'{shown}' names no bucket", hint=f"write {scheme}://BUCKET/FOLDER")
    return f"{scheme}://{url.netloc}{posixpath.normpath(f'/{url.path}').replace('//', '/')}".rstrip("/")


def resolved(place: str | Path) -> str:
    """Return a place as an absolute path without links, or as a URL."""
    text = normalised(place)
    return str(Path(text).resolve()) if is_local(text) else text


def absolute(place: str) -> str:
    """Return a place as an absolute path, with its links, or as a URL."""
    return os.path.abspath(place) if is_local(place) else place


def is_absolute(place: str) -> bool:
    """Return whether a place depends on no folder."""
    return not is_local(place) or os.path.isabs(place)


def inside(folder: str, place: str) -> str:
    """Return *place*, taken from *folder* if it depends on one.

    Examples:
        >>> inside("s3://lake", "trades"), inside("s3://lake", "/trades"), inside("/lake", "s3://other/trades")
        ('s3://lake/trades', '/trades', 's3://other/trades')
    """
    return normalised(place) if is_absolute(place) else normalised(f"{folder}/{place}")


def parent(place: str) -> str:
    """Return the folder that has a place in it."""
    return place.rpartition("/")[0]


def name(place: str) -> str:
    """Return the last part of a place."""
    return place.rpartition("/")[2]


# -- looking -------------------------------------------------------------------------------------------------------------


def exists(place: str) -> bool:
    """Return whether there is a file or a folder."""
    return os.path.exists(place) if is_local(place) else is_file(place) or is_folder(place)


def is_file(place: str) -> bool:
    """Return whether there is a file."""
    return os.path.isfile(place) if is_local(place) else _store(place).head() is not None


def is_folder(place: str) -> bool:
    """Return whether there is a folder; a store has a folder as long as it has a file in it."""
    return os.path.isdir(place) if is_local(place) else any(True for _ in _store(place).listed(most=1))


def identity(place: str) -> Identity | None:
    """Return what tells a file from another one of the same name; None if there is no file."""
    if is_local(place):
        return _stated(place)
    head = _store(place).head()
    return None if head is None else _identity(head)


def identities(folder: str) -> dict[str, Identity]:
    """Return the identities of the files in a folder, by name; none if there is no folder. A store costs one listing."""
    if not is_local(folder):
        return {n: _identity(meta) for n, meta in _store(folder).level()[1]}
    found = {n: _stated(f"{folder}/{n}") for n in names(folder)}
    return {n: known for n, known in found.items() if known is not None}


def run_of(folder: str, wanted: Iterable[str]) -> list[Identity]:
    """Return the identities of files of a folder, up to the first that does not exist.

    A path costs one ``stat`` for each, a store one listing for all.

    Args:
        folder: A folder.
        wanted: Names of files, in the order of their texts; there may be no end of them.
    """
    found: list[Identity] = []
    listed: dict[str, Identity] | None = None
    for each in wanted:
        if is_local(folder):
            known = _stated(f"{folder}/{each}")
        else:
            if listed is None:
                listed = {n: _identity(meta) for n, meta in _store(folder).listed(before=each)}
            known = listed.get(each)
        if known is None:
            break
        found.append(known)
    return found


def names(folder: str) -> list[str]:
    """Return the names of the files and folders in a folder, in no order; none if there is no folder."""
    if not is_local(folder):
        return [entry.name for entry in entries(folder)]
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def entries(folder: str) -> list[FileEntry]:
    """Return the files and folders in a folder, in no order; none if there is no folder."""
    if not is_local(folder):
        folders, found = _store(folder).level()
        return [*(FileEntry(n, 0, 0, is_folder=True) for n in folders), *(_entry(n, meta) for n, meta in found)]
    try:
        with os.scandir(folder) as scanned:
            return [_scanned(e) for e in scanned]
    except (FileNotFoundError, NotADirectoryError):
        return []


def files(folder: str) -> list[FileEntry]:
    """Return all files below a folder, by name; none if there is no folder."""
    if is_local(folder):
        walked = [f"{path}/{n}" for path, _, found in os.walk(folder) for n in found]
        all_files = []
        for path in walked:
            with suppress(FileNotFoundError):  # it has gone meanwhile
                stat = os.stat(path)
                all_files.append(FileEntry(os.path.relpath(path, folder), stat.st_size, stat.st_mtime))
    else:
        all_files = [_entry(n, meta) for n, meta in _store(folder).listed()]
    return sorted(all_files, key=lambda entry: entry.name)


def entry(place: str) -> FileEntry:
    """Return one file.

    Raises:
        FileNotFoundError: If there is none.
    """
    if is_local(place):
        stat = os.stat(place)
        return FileEntry(name(place), stat.st_size, stat.st_mtime)
    head = _store(place).head()
    if head is None:
        raise FileNotFoundError(errno.ENOENT, "there is no such file", place)
    return _entry(name(place), head)


def missing_of(folder: str, wanted: Iterable[str]) -> Iterator[str]:
    """Yield those of some files below a folder that do not exist; a store lists the folder, and asks for no file."""
    if is_local(folder):
        yield from (each for each in wanted if not os.path.exists(f"{folder}/{each}"))
        return
    present = {name for name, _ in _store(folder).listed()}
    yield from (each for each in wanted if each not in present)


# -- reading -------------------------------------------------------------------------------------------------------------


def read(place: str) -> bytes:
    """Return the content of a file.

    Raises:
        FileNotFoundError: If there is none.
    """
    if not is_local(place):
        return _store(place).read()
    with open(place, "rb") as file:  # a path object would take longer than the reading of a small file
        return file.read()


def opened(place: str) -> Any:
    """Return what `pyarrow` opens a file by: its path, or an open file of a store.

    Raises:
        FileNotFoundError: If a store has no such file; a path is not looked at.
    """
    return place if is_local(place) else _store(place).opened()


def all_opened(folder: str, wanted: Iterable[str]) -> list[Any]:
    """Return files below a folder as :func:`opened` does; those of a store are read at the same time."""
    if is_local(folder):
        return [f"{folder}/{each}" for each in wanted]
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - a lake on paths asks for none

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(opened, (f"{folder}/{each}" for each in wanted)))


# -- writing -------------------------------------------------------------------------------------------------------------


def make_folder(place: str) -> None:
    """Make a folder and those above it; one that exists is not an error. A store needs none."""
    if is_local(place):
        os.makedirs(place, exist_ok=True)


def make_new_folder(place: str) -> None:
    """Make a folder that does not exist, of several callers at once only for one.

    Raises:
        FileExistsError: If it exists.
    """
    if is_local(place):
        os.makedirs(place)
        return
    file, mark = f"{place}/{_MARK}", uuid4().hex.encode()
    if is_folder(place) or (put_if_absent(file, mark) is None and read(file) != mark):  # else only the answer was lost
        raise FileExistsError(errno.EEXIST, "the folder exists", place)


def put(place: str, data: bytes) -> None:
    """Write a file as a whole: readers see the old content or the new one, also when several threads or processes write."""
    if not is_local(place):
        _store(place).put(data, "overwrite")
        return
    own = f"{place}.{uuid4().hex}"
    try:
        Path(own).write_bytes(data)
        os.replace(own, place)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(own)


def put_if_absent(place: str, data: bytes) -> Identity | None:
    """Write a file if there is none, and return its identity; None if there is one. Of several calls at once one succeeds."""
    try:
        if not is_local(place):
            tag = _store(place).put(data, "create")
            return _identity({"e_tag": tag, "size": len(data)}) if tag else identity(place)
        own = f"{place}.{uuid4().hex}"
        try:
            Path(own).write_bytes(data)
            os.link(own, place)  # readers see the whole file or none
            return _stated(own)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(own)
    except FileExistsError:
        return None


def copy(place: str, to: str) -> None:
    """Copy a file, between any two places; the folder of *to* is made."""
    make_folder(parent(to))
    if is_local(place) and is_local(to):
        import shutil  # noqa: PLC0415 - not without work

        shutil.copyfile(place, to)
    elif is_local(place) or is_local(to):
        put(to, read(place))
    else:
        _store(place).copy(_store(to))


def move_file(place: str, to: str) -> None:
    """Move a file within a lake."""
    if is_local(place):
        os.rename(place, to)
        return
    copy(place, to)
    delete(place)


def move_folder(place: str, to: str) -> None:
    """Move a folder within a lake, to a name that is free.

    A path is renamed. A store copies files and then deletes them: logs last, and from their newest version down, so that a
    reader of a table meanwhile finds a hole in its log rather than an older version.
    """
    if is_local(place):
        os.rename(place, to)
        return
    found = [entry.name for entry in reversed(files(place))]
    for each in sorted(found, key=lambda n: _LOG in n):  # a stable order
        copy(f"{place}/{each}", f"{to}/{each}")
    _store(place).delete(sorted(found, key=lambda n: _LOG not in n))


def delete(place: str) -> None:
    """Delete a file.

    Raises:
        FileNotFoundError: If there is none; a store does not say so.
    """
    if is_local(place):
        os.remove(place)
    else:
        _store(place).delete()


def delete_folder(place: str, *, ignore_errors: bool = False) -> None:
    """Delete a folder with all that is in it; with *ignore_errors*, as much of it as possible."""
    if is_local(place):
        import shutil  # noqa: PLC0415 - not without work

        shutil.rmtree(place, ignore_errors=ignore_errors)
        return
    with suppress(*([OSError] if ignore_errors else [])):
        found = [entry.name for entry in files(place)]
        if found:
            _store(place).delete(sorted(found, key=lambda n: _LOG not in n))  # a table without a log is none


def delete_if_empty(place: str) -> None:
    """Delete a folder in which nothing is; a store has no such folders."""
    if is_local(place):
        with suppress(OSError):
            os.rmdir(place)


# -- settings ------------------------------------------------------------------------------------------------------------


def options_of(place: str) -> dict[str, str] | None:
    """Return the settings with which `deltalake` opens a place; None for a path."""
    return None if is_local(place) else store_settings.options_of(scheme(place))


def scheme(place: str) -> str:
    """Return the scheme of a place on a store; "" for a path."""
    return "" if is_local(place) else place.partition("://")[0]


# -- private -------------------------------------------------------------------------------------------------------------


def _store(place: str) -> StorePlace:
    from materializer.lake.stores import StorePlace  # noqa: PLC0415 - no client is loaded for a lake on paths

    return StorePlace(place)


def _identity(meta: Any) -> Identity:
    tag = (meta["e_tag"] or "").strip('"')  # ADLS has it in quotes, but not in its listings
    return (tag or meta["last_modified"].isoformat(), meta["size"])


def _entry(name: str, meta: Any) -> FileEntry:
    return FileEntry(name, meta["size"], meta["last_modified"].timestamp())


def _stated(path: str) -> Identity | None:
    with suppress(OSError):
        return (stat := os.stat(path)).st_ino, stat.st_mtime_ns, stat.st_size
    return None


def signature(path: str) -> tuple[int, ...]:
    """Return what tells a file of this machine from what it was before; raises OSError if there is none."""
    stat = os.stat(path)
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _scanned(entry: os.DirEntry[str]) -> FileEntry:
    if entry.is_dir():
        return FileEntry(entry.name, 0, 0, is_folder=True)
    return FileEntry(entry.name, (stat := entry.stat()).st_size, stat.st_mtime)

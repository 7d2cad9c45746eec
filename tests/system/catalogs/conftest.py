"""Tests with a Hive metastore: they run in a process of their own, because a process can choose the catalog of its sessions once."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from tests.servers import hive

HERE = Path(__file__).parent
POOL = pytest.StashKey[ProcessPoolExecutor]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say of the tests of this folder that they start a JVM, and are slow; skip them where there is no Java."""
    reason = hive.why_not()
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.slow)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[hive.Metastore]:
    """A metastore for all tests of this folder."""
    with hive.running(tmp_path_factory.mktemp("metastore")) as started:
        yield started


@pytest.fixture
def catalog(metastore: hive.Metastore, tmp_path: Path) -> tuple[hive.Metastore, Path]:
    """The metastore, and an empty folder for a lake."""
    return metastore, tmp_path


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Call a test of this folder in the other process."""
    if not pyfuncitem.path.is_relative_to(HERE):
        return None
    stash = pyfuncitem.session.config.stash
    if POOL not in stash:
        stash[POOL] = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        pyfuncitem.session.config.add_cleanup(stash[POOL].shutdown)
    names = pyfuncitem.function.__code__.co_varnames[: pyfuncitem.function.__code__.co_argcount]
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    relative = pyfuncitem.path.relative_to(HERE.parents[2]).with_suffix("")
    stash[POOL].submit(_called, ".".join(relative.parts), pyfuncitem.originalname, arguments, Path.cwd()).result()
    return True


def _called(module: str, name: str, arguments: dict[str, Any], folder: Path) -> None:
    os.chdir(folder)
    try:
        getattr(import_module(module), name)(**arguments)
    except BaseException:  # noqa: BLE001 - whatever it is; an error of Spark cannot be sent to another process
        said = traceback.format_exc()
    else:
        return
    raise AssertionError(said)

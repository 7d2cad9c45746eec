"""Arrow without pandas and without the texts of its help, in the process of a command.

Arrow imports pandas, if it is installed, for the first value that it converts, which takes a command longer than a late row. So Arrow
takes pandas for missing until something imports pandas; from then on both are as they are in any other process.

Arrow also writes the help of its functions when they are loaded, from that of their options, which takes half of the time to load them. A
command shows none of it: options are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

_ARROW, _PANDAS = "pyarrow", "pandas"
_HELP = "pyarrow.vendored.docscrape"
"""What Arrow reads the help of options with."""


def load_without_pandas() -> None:
    """Let Arrow leave pandas alone in this process, if neither was imported yet."""
    if not sys.modules.keys() & {_ARROW, _PANDAS}:
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds Arrow and pandas, and sees when they are loaded."""

    def __init__(self) -> None:
        self.is_missing = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == _HELP:
            return ModuleSpec(fullname, _NoHelp())  # type: ignore[arg-type]  # as below
        if fullname not in (_ARROW, _PANDAS):
            return None
        if fullname == _PANDAS and self.is_missing:
            raise ModuleNotFoundError(name=fullname)
        found = PathFinder.find_spec(fullname, path, target)
        if found is not None and found.loader is not None:
            found.loader = _Watched(found.loader, self)  # type: ignore[assignment]  # importing `Loader` takes time
        return found


class _NoHelp:
    """Loads a module that finds no help of options."""

    def create_module(self, spec: ModuleSpec) -> None:
        """Let a module be made."""

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["NumpyDocString"] = lambda _: {"Parameters": []}


class _Watched:
    """Loads one of both, and then tells Arrow whether there is pandas."""

    def __init__(self, loader: Any, finder: _Finder) -> None:
        self._loader, self._finder = loader, finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        if module.__name__ == _PANDAS:
            if (arrow := sys.modules.get(_ARROW)) is not None:
                with suppress(ImportError):
                    arrow.nulls(0).to_pandas()  # asks for pandas again
        elif _PANDAS not in sys.modules:
            self._finder.is_missing = True
            try:
                module.scalar(0)  # the first value
            finally:
                self._finder.is_missing = False

"""A disk that fills up."""

from __future__ import annotations

from pathlib import Path


class Disk:
    """A small disk of its own, mounted at a folder."""

    def __init__(self, folder: Path) -> None:
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Leave not a byte."""
        with self._ballast.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return

    @property
    def is_full(self) -> bool:
        """Whether it was filled."""
        return self._ballast.exists()

    def make_room(self) -> None:
        """Free what was filled."""
        self._ballast.unlink()

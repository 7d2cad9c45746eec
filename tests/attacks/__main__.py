"""Write the table of attacks into ``SECURITY.md``: ``python -m tests.attacks``."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Final

from tests.attacks.table import Attack
from tests.paths import ROOT

PAGE: Final = ROOT / "SECURITY.md"
_BEGIN, _END = "<!-- made: attacks -->\n", "<!-- end -->\n"


def attacks() -> list[tuple[Attack, str]]:
    """Return each attack with the test that makes it, in the order of files and of tests in them."""
    found = []
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        module = importlib.import_module(f"tests.attacks.{file.stem}")
        for name, test in vars(module).items():
            if isinstance(known := getattr(test, "attack", None), Attack):
                found.append((known, f"{file.name}::{name}"))
    return found


def table() -> str:
    """Return the table, one line for each attack, by what is attacked."""
    lines = ["| what is attacked | how | what comes of it | test |", "| --- | --- | --- | --- |"]
    ordered = sorted(attacks(), key=lambda found: found[0].room)  # a stable order
    for known, test in ordered:
        cells = [text.replace("|", "\\|") for text in (known.room, known.what, known.outcome)]
        lines.append(f"| {' | '.join(cells)} | `{test}` |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the page with the table of this state of the tests."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    return before + _BEGIN + table() + _END + rest.partition(_END)[2]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

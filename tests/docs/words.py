"""Limits on words that the glossary replaces, and on class names that several classes share.

``python -m tests.docs.words`` lowers the numbers in ``words.toml`` to those of today; it never raises one.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from tests.docs.blocks import PAGES
from tests.paths import ROOT

FILE: Final = Path(__file__).with_name("words.toml")
_HEAD: Final = """\
# What the glossary replaces and the code still has. `python -m tests.docs.words` lowers these numbers; nothing raises them.
"""
_FENCED: Final = re.compile(r"^ *(`{3,}|~{3,}|:{3,}).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`[^`]*`")
_MADE: Final = re.compile(r"<!-- made: .*?<!-- end -->", re.DOTALL)


def sources() -> Iterator[Path]:
    """Yield the modules of the product."""
    return (ROOT / "materializer").rglob("*.py")


def allowed() -> Mapping[str, Mapping[str, int]]:
    """Return the numbers that are allowed, by table: ``words`` and ``classes``."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def occurrences(word: str, text: str) -> int:
    """Return how often a word occurs in a text.

    A word with a capital letter is the name of a class and is counted as it is written; any other word in both cases.

    Examples:
        >>> occurrences("kept", "Kept rows are kept, kept_from is not counted")
        2
        >>> occurrences("Bound", "Bound, bound")
        1
    """
    return len(re.findall(rf"\b{re.escape(word)}\b", text, flags=0 if word != word.lower() else re.IGNORECASE))


@cache
def words() -> dict[str, int]:
    """Return how often each listed word occurs in the product."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources())
    return {word: occurrences(word, text) for word in allowed()["words"]}


@cache
def classes() -> dict[str, int]:
    """Return the names that several classes of the product share, each with the number of these classes."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in sources())
    counts = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return {name: count for name, count in counts.items() if count > 1}


def prose() -> dict[str, str]:
    """Return the written text of each page: without blocks, code and parts that are generated, and no page about engines."""
    pages = (page for page in PAGES if "engines" not in Path(page).parts)
    return {page: _written((ROOT / page).read_text(encoding="utf-8")) for page in pages}


def _written(text: str) -> str:
    for left_out in (_MADE, _FENCED, _CODE):
        text = left_out.sub("", text)
    return text


def lowered() -> str:
    """Return the text of the file with today's numbers where these are lower. A class name that is no longer shared is removed."""
    before, found, shared = allowed(), words(), classes()
    now = {
        "words": {word: min(count, found[word]) for word, count in before["words"].items()},
        "classes": {name: min(count, shared[name]) for name, count in before["classes"].items() if name in shared},
    }
    tables = (
        f"\n[{table}]\n" + "".join(f'"{name}" = {n}\n' for name, n in sorted(counts.items()))
        for table, counts in now.items()
    )
    return _HEAD + "".join(tables)


if __name__ == "__main__":
    FILE.write_text(lowered(), encoding="utf-8")

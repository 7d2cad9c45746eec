"""The planted mistakes: what the code promises, where the promise is kept, and which test sees it broken.

``catalogue/*.toml`` holds them, one ``[[mistake]]`` each::

    id = "C31"                             # unique; a letter for the package, and a number or a word
    rule = "Rows exactly a gap apart …"    # the promise, in one sentence
    file = "materializer/core/…"           # where it is kept
    text = '''if a < b:'''                 # stands there exactly once; take a line of its neighbourhood along where it does not
    instead = '''if a <= b:'''             # the mistake
    tests = ["tests/core/test_x.py::test_y"]   # the cheapest that must fail; parts of a node id
    harmless = "…"                         # instead of `tests`: why it cannot matter
    also = [{ file = "…", text = "…", instead = "…" }]   # further places, e.g. a second guard to be taken away
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tests.paths import ROOT

FOLDER: Final = Path(__file__).parent / "catalogue"


@dataclass(frozen=True)
class Place:
    """Where a mistake is planted.

    Args:
        file: The file, from the root of the repository.
        text: What stands there exactly once.
        instead: What stands there with the mistake.
    """

    file: str
    text: str
    instead: str

    def why_not(self, root: Path) -> str | None:
        """Say why the mistake cannot be planted, or None."""
        path = root / self.file
        if not path.is_file():
            return f"{self.file} does not exist"
        found = path.read_text().count(self.text)
        if found != 1:
            return f"the text stands {found} times in {self.file}, not once: {self.text!r}"
        return f"{self.file}: the replacement is the text itself" if self.text == self.instead else None

    def plant(self, root: Path) -> None:
        """Put the mistake into the copy below a folder."""
        path = root / self.file
        path.write_text(path.read_text().replace(self.text, self.instead))


@dataclass(frozen=True)
class Mistake:
    """A planted mistake.

    Args:
        id: Its name.
        rule: What the code promises.
        places: Where it is planted, all at once.
        tests: Node ids of pytest, of which one must fail.
        harmless: Why it cannot matter, when no test can see it.
    """

    id: str
    rule: str
    places: tuple[Place, ...]
    tests: tuple[str, ...]
    harmless: str | None

    def why_not(self, root: Path = ROOT) -> list[str]:
        """Say what is wrong with the entry, as the files are now."""
        wrong = [why for place in self.places if (why := place.why_not(root))]
        if bool(self.tests) == bool(self.harmless):
            wrong.append("an entry has either tests or a reason why it is harmless")
        return wrong + [why for test in self.tests if (why := _why_no_test(test, root))]

    def digest(self, root: Path = ROOT) -> str:
        """A hash of the entry and of the files that it changes."""
        files = sorted({place.file for place in self.places})
        found = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode())
        for file in files:
            found.update((root / file).read_bytes())
        return found.hexdigest()[:16]


def load(folder: Path = FOLDER) -> list[Mistake]:
    """Read every file of the catalogue, in the order of ids.

    Raises:
        ValueError: An id stands there twice, or an entry has a key that is not known.
    """
    entries = [each for path in sorted(folder.glob("*.toml")) for each in tomllib.loads(path.read_text())["mistake"]]
    twice = [name for name, n in Counter(each["id"] for each in entries).items() if n > 1]
    if twice:
        raise ValueError(f"these ids stand in the catalogue twice: {', '.join(twice)}")
    return sorted(map(_mistake, entries), key=lambda each: each.id)


def named(mistakes: Iterable[Mistake], only: Iterable[str]) -> list[Mistake]:
    """Return those with these ids, or whose ids begin so.

    Raises:
        ValueError: No id begins so.
    """
    every = list(mistakes)
    found = {name: [each for each in every if each.id.startswith(name)] for name in only}
    missing = [name for name, those in found.items() if not those]
    if missing:
        raise ValueError(f"no id begins so: {', '.join(missing)}")
    exact = {each.id for each in every} & set(found)
    ids = exact | {each.id for name, those in found.items() if name not in exact for each in those}
    return [each for each in every if each.id in ids]


def _mistake(entry: Mapping[str, Any]) -> Mistake:
    left = dict(entry)
    name, rule = left.pop("id"), left.pop("rule")
    places = [Place(left.pop("file"), left.pop("text"), left.pop("instead"))]
    places += [Place(**place) for place in left.pop("also", [])]
    made = Mistake(name, rule, tuple(places), tuple(left.pop("tests", [])), left.pop("harmless", None))
    if left:
        raise ValueError(f"{name} has keys that are not known: {', '.join(left)}")
    return made


def _why_no_test(test: str, root: Path) -> str | None:
    file, *names = test.partition("[")[0].split("::")
    path = root / file
    if not path.is_file():
        return f"{file} does not exist"
    text = path.read_text()
    missing = [
        name
        for name in names
        if not re.search(rf"^\s*(?:def|class) {re.escape(name)}\b|^{re.escape(name)} = ", text, re.MULTILINE)
    ]
    return f"{file} has no {missing[0]}" if missing else None

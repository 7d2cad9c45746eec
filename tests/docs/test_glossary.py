"""docs/glossary.md names things that exist, and the code and the pages use its words."""

from __future__ import annotations

import re
import tomllib
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

from tests.docs import words
from tests.paths import ROOT

PAGE: Final = ROOT / "docs" / "glossary.md"
TERMS: Final = [
    tuple(cell.strip() for cell in line.strip("| ").split(" | "))
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| term |", "| --- |"))
]
BANNED: Final = (
    *("whoever", "nobody", "somebody", "told", "held back"),
    *("does likewise", "as ever", "stand in the way", "taken along", "frozen bound", "retired bound"),
)
"""Phrases that no page uses. A process is not a person, a verb has an object, and the frozen *boundary* is not a bound."""
LOWER: Final = (
    "`python -m tests.docs.words` lowers the numbers of tests/docs/words.toml when a word or a shared name has gone"
)


def resolved(name: str) -> Any:
    """Return what a code name of the glossary names.

    Raises:
        ModuleNotFoundError: If its module does not exist.
        AttributeError: If the module has no such name.
    """
    parts = f"materializer.{name}".split(".")
    module = next(".".join(parts[:n]) for n in range(len(parts) - 1, 0, -1) if _is_module(parts[:n]))
    attribute = ".".join(parts[module.count(".") + 1 :])
    return reduce(getattr, attribute.split("."), import_module(module))


def _is_module(parts: list[str]) -> bool:
    path = ROOT.joinpath(*parts)
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def anchors(path: Path) -> set[str]:
    """Return the anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_a_line_of_the_table_is_whole() -> None:
    """
    Each line has the term, at least one sentence, a name of the code and a link.
    """
    assert [] == [line for line in TERMS if len(line) != 4 or not all(line) or not line[1].endswith((".", ")"))]
    assert 40 <= len(TERMS)


def test_terms_are_in_order_and_unique() -> None:
    """
    Terms are sorted, and each stands there once.
    """
    terms = [line[0] for line in TERMS]

    assert sorted(set(terms)) == terms


@pytest.mark.parametrize("name", sorted({name for line in TERMS for name in re.findall(r"`([^`]+)`", line[2])}))
def test_a_name_of_the_code_exists(name: str) -> None:
    """
    Its module can be imported and has the name.
    """
    assert resolved(name) is not None


@pytest.mark.parametrize("name", ["journal.fold.nothing", "services.aggregate.Aggregate.nothing"])
def test_a_name_that_does_not_exist_is_seen(name: str) -> None:
    """
    The test above can fail.
    """
    with pytest.raises(AttributeError):
        resolved(name)


@pytest.mark.parametrize("target", sorted({link for line in TERMS for link in re.findall(r"\]\(([^)]+)\)", line[3])}))
def test_a_link_has_its_target(target: str) -> None:
    """
    The page exists, and so does the heading.
    """
    name, _, anchor = target.partition("#")
    page = PAGE.parent / name

    assert page.exists()
    assert not anchor or anchor in anchors(page)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/index.md"])
def test_the_glossary_is_found(page: str) -> None:
    """
    README, CONTRIBUTING and the index of the site link the glossary.
    """
    text = (ROOT / page).read_text(encoding="utf-8")

    assert "docs/glossary.md" in text or "\nglossary\n" in text


def test_pages_avoid_what_takes_two_readings() -> None:
    """
    No page has a banned phrase in its text, except for the glossary, which may explain one.
    """
    texts = {page: text for page, text in words.prose().items() if page != "docs/glossary.md"}

    assert [] == [
        (page, phrase) for page, text in texts.items() for phrase in BANNED if words.occurrences(phrase, text)
    ]


def test_words_that_were_replaced_get_fewer() -> None:
    """
    The code has at most as many of them as `words.toml` allows. New code uses the word of the glossary.
    """
    allowed = words.allowed()["words"]
    more = {word: f"{n}, allowed {allowed[word]}" for word, n in words.words().items() if n > allowed[word]}

    assert more == {}, LOWER


def test_no_new_name_is_shared_by_classes() -> None:
    """
    Each class has a name of its own; the shared names that `words.toml` lists may only get fewer.
    """
    allowed = words.allowed()["classes"]
    more = {
        name: f"{n}, allowed {allowed.get(name, 1)}" for name, n in words.classes().items() if n > allowed.get(name, 1)
    }

    assert more == {}, LOWER


def test_the_list_can_only_be_lowered() -> None:
    """
    The command that writes `words.toml` raises no number and adds no name.
    """
    before, after = words.allowed(), tomllib.loads(words.lowered())

    assert set(after["words"]) == set(before["words"])
    assert set(after["classes"]) <= set(before["classes"])
    assert all(n <= before[table][name] for table, numbers in after.items() for name, n in numbers.items())

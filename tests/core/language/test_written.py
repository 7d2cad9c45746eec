"""YAML is read as it is written: nothing that a text might stand for, and nothing that can grow."""

from __future__ import annotations

import pytest

from materializer.core.language.written import Text, UnreadableYamlError, WrittenList, WrittenMapping, read_yaml


def test_texts_stay_texts() -> None:
    """
    A country `no`, a day, a number and an exponent are the texts that stand there; only a plain `null`, `~` and nothing are null.
    """
    found = read_yaml("a: no\nb: 2024-03-01\nc: 1e3\nd: 'null'\ne: null\nf: ~\ng:\nh: 010\n")

    assert isinstance(found, WrittenMapping)
    values = {key.text: value for key, value in found.items}
    texts = {name: value.text for name, value in values.items() if isinstance(value, Text)}
    assert (texts["a"], texts["b"]) == ("no", "2024-03-01")
    assert (texts["c"], texts["d"], texts["h"]) == ("1e3", "null", "010")
    assert {name for name, value in values.items() if isinstance(value, Text) and value.is_null} == {"e", "f", "g"}


def test_places_are_those_of_the_text() -> None:
    """
    Lines and columns count from one.
    """
    found = read_yaml("a:\n  - b: 1\n    c: 2\n")

    assert isinstance(found, WrittenMapping)
    ((_, listed),) = found.items
    assert isinstance(listed, WrittenList)
    assert isinstance(listed.items[0], WrittenMapping)
    assert [(key.line, key.column) for key, _ in listed.items[0].items] == [(2, 5), (3, 5)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &x [1]\nb: *x\n", "aliases"),
        ("a: !!python/object/apply:os.system ['true']\n", "tag"),
        ("a: !!str 1\n", "tag"),
        ("[" * 21 + "]" * 21, "more than 20"),
        ("a: 1\na: 2\n", "twice"),
        ("a: 1\n---\nb: 1\n", "several documents"),
        ("? [1]\n: 2\n", "no text"),
        ("a: [1\n", "no YAML"),
        ("a: \x01", "no YAML"),
    ],
)
def test_what_is_not_read_is_refused(text: str, words: str) -> None:
    """
    Aliases, with which a small file becomes a large one, tags, which make objects, deep nesting, and keys that stand twice.
    """
    with pytest.raises(UnreadableYamlError, match=words):
        read_yaml(text)

"""YAML as it is written: texts, lists and mappings with their places, and nothing that a text might stand for.

A value means what the type of its column says: `no` is a country in a column of texts, and `2024-03-01` a day, an instant or a
text. So YAML's own guesses are never made, and no object is made of what a file says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import yaml
from msgspec import Struct, field

MAX_BYTES: Final = 1 << 20
"""The largest file that is read."""
MAX_DEPTH: Final = 20
"""Lists and mappings inside one another."""
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UnreadableYamlError(Exception):
    """A text is no YAML, or has a part that is not read; the message says so, and the place is that of the text."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line, self.column = line, column


class Text(Struct, frozen=True):
    """A single value.

    Args:
        text: The text.
        line: 1-based line.
        column: 1-based column.
        is_quoted: Whether it stands in quotes or is a block, so that it is a text in any case.
    """

    text: str
    line: int = 0
    column: int = 0
    is_quoted: bool = False

    @property
    def is_null(self) -> bool:
        """Whether it stands for no value."""
        return not self.is_quoted and self.text in _NULLS


class WrittenList(Struct, frozen=True):
    """A list."""

    items: list[Written]
    line: int
    column: int


class WrittenMapping(Struct, frozen=True):
    """A mapping, whose keys are different texts."""

    items: list[tuple[Text, Written]]
    line: int
    column: int


Written: TypeAlias = Text | WrittenList | WrittenMapping


class _Open(Struct):
    """A list or a mapping whose end is not read yet."""

    is_list: bool
    line: int
    column: int
    parts: list[Written] = field(default_factory=list)

    def closed(self) -> Written:
        if self.is_list:
            return WrittenList(self.parts, self.line, self.column)
        pairs: dict[str, tuple[Text, Written]] = {}
        for key, value in zip(self.parts[::2], self.parts[1::2], strict=True):
            if not isinstance(key, Text):
                raise UnreadableYamlError("a key of a mapping is no text", key.line, key.column)
            if key.text in pairs:
                raise UnreadableYamlError(f"the key `{key.text}` stands twice in one mapping", key.line, key.column)
            pairs[key.text] = key, value
        return WrittenMapping([*pairs.values()], self.line, self.column)


def read_yaml(text: str) -> Written:
    """Return what a text of YAML has; an empty mapping of an empty text.

    Raises:
        UnreadableYamlError: If it is no YAML, has several documents, anchors, aliases or tags, a key twice, or is too deep.
    """
    found: list[Written] = []
    opened: list[_Open] = []
    for event in _events(text):
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if getattr(event, "anchor", None) is not None:
            raise UnreadableYamlError("anchors and aliases are not read; write the rows out", line, column)
        if getattr(event, "tag", None) not in {None, "!"}:
            raise UnreadableYamlError(f"the tag `{event.tag}` is not read; write the value alone", line, column)
        match event:
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                if len(opened) == MAX_DEPTH:
                    raise UnreadableYamlError(f"more than {MAX_DEPTH} lists and mappings in one another", line, column)
                opened.append(_Open(isinstance(event, yaml.SequenceStartEvent), line, column))
            case yaml.ScalarEvent():
                (opened[-1].parts if opened else found).append(Text(event.value, line, column, bool(event.style)))
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                closed = opened.pop().closed()
                (opened[-1].parts if opened else found).append(closed)
    if len(found) > 1:
        raise UnreadableYamlError("several documents in one file", found[1].line, found[1].column)
    return found[0] if found else WrittenMapping([], 1, 1)


def _events(text: str) -> Iterator[yaml.Event]:
    try:
        yield from yaml.parse(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise UnreadableYamlError(f"this is no YAML: {exc.problem or exc.context}", *place) from exc
    except yaml.YAMLError as exc:
        raise UnreadableYamlError(f"this is no YAML: {str(exc).splitlines()[0]}") from exc

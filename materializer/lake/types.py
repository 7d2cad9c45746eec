"""Spark's names of types, as text and as the JSON in a Delta table's schema.

Text is what ``DataFrame.schema.simpleString`` and ``DESCRIBE`` use: ``bigint``, ``decimal(38,5)``,
``array<struct<a:int>>``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from materializer.core.spec.table_names import quoted

_JSON_OF: Final = {"bigint": "long", "int": "integer", "smallint": "short", "tinyint": "byte"}
_TEXT_OF: Final = {json_name: text for text, json_name in _JSON_OF.items()}
_PLAIN: Final = frozenset(
    {"string", "double", "float", "boolean", "binary", "date", "timestamp", "timestamp_ntz", "variant", *_JSON_OF}
)
_ALIASES: Final = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint", "real": "float"}
_TOKEN: Final = re.compile(r"\s*(`(?:[^`]|``)+`|decimal\(\s*\d+\s*,\s*-?\d+\s*\)|[^<>,:\s]+|[<>,:])", re.IGNORECASE)


def text_of(data_type: Any) -> str:
    """Return the text of a type that is given as schema JSON.

    Examples:
        >>> text_of({"type": "array", "elementType": "long", "containsNull": True})
        'array<bigint>'
    """
    if isinstance(data_type, str):
        return _TEXT_OF.get(data_type, data_type)
    match data_type["type"]:
        case "array":
            return f"array<{text_of(data_type['elementType'])}>"
        case "map":
            return f"map<{text_of(data_type['keyType'])},{text_of(data_type['valueType'])}>"
        case _:
            inside = ",".join(f"{_quoted(f['name'])}:{text_of(f['type'])}" for f in data_type["fields"])
            return f"struct<{inside}>"


def json_of(text: str) -> Any:
    """Return the schema JSON of a type that is given as text; all nested values may be null.

    Raises:
        ValueError: If *text* is not a type that Delta can store.

    Examples:
        >>> json_of("map<string,int>")
        {'type': 'map', 'keyType': 'string', 'valueType': 'integer', 'valueContainsNull': True}
    """
    tokens = _TOKEN.findall(text)
    data_type, rest = _parsed(tokens, text)
    if rest or "".join(tokens) != re.sub(r"\s+(?=(?:[^`]*`[^`]*`)*[^`]*$)", "", text):
        raise ValueError(f"{text!r} is no type")
    return data_type


def columns_of(schema_json: str) -> list[tuple[str, str]]:
    """Return (name, type text) of each column of a schema."""
    return [(f["name"], text_of(f["type"])) for f in json.loads(schema_json)["fields"]]


def schema_of(columns: Iterable[Sequence[str]]) -> str:
    """Return the JSON of a schema of nullable columns given as (name, type text)."""
    fields = [{"name": n, "type": json_of(t), "nullable": True, "metadata": {}} for n, t in columns]
    return json.dumps({"type": "struct", "fields": fields})


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else quoted(name)


def _parsed(tokens: list[str], text: str) -> tuple[Any, list[str]]:
    if not tokens:
        raise ValueError(f"{text!r} is no type")
    name, rest = tokens[0].lower(), tokens[1:]
    match name:
        case "array":
            element, rest = _parsed(_after("<", rest, text), text)
            return {"type": "array", "elementType": element, "containsNull": True}, _after(">", rest, text)
        case "map":
            key, rest = _parsed(_after("<", rest, text), text)
            value, rest = _parsed(_after(",", rest, text), text)
            data = {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
            return data, _after(">", rest, text)
        case "struct":
            fields = []
            rest = _after("<", rest, text)
            while rest and rest[0] != ">":
                field = rest[0][1:-1].replace("``", "`") if rest[0].startswith("`") else rest[0]
                data, rest = _parsed(_after(":", rest[1:], text), text)
                fields.append({"name": field, "type": data, "nullable": True, "metadata": {}})
                rest = _after(",", rest, text) if rest[:1] == [","] else rest
            return {"type": "struct", "fields": fields}, _after(">", rest, text)
    name = _ALIASES.get(name, name)
    if name.startswith("decimal("):
        return name.replace(" ", ""), rest
    if name not in _PLAIN:
        raise ValueError(f"{text!r} is no type that a Delta table stores")
    return _JSON_OF.get(name, name), rest


def _after(expected: str, tokens: list[str], text: str) -> list[str]:
    if tokens[:1] != [expected]:
        raise ValueError(f"{text!r} is no type: {expected!r} expected")
    return tokens[1:]

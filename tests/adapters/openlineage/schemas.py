"""The schemas of OpenLineage, as its repository publishes them (Apache License 2.0; in `spec/`, unchanged), and what breaks them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

SPEC: Final = Path(__file__).parent / "spec"


def _schema(uri: str) -> dict[str, Any]:
    """Return the schema at an address of the standard, whatever its version."""
    return json.loads((SPEC / uri.partition("#")[0].rpartition("/")[2]).read_text(encoding="utf-8"))


def _retrieved(uri: str) -> Resource[Any]:
    return Resource.from_contents(_schema(uri))


_REGISTRY: Final = Registry(retrieve=_retrieved)


def problems(event: Mapping[str, Any]) -> list[str]:
    """Return what breaks the schema of events, and what breaks the schema that each facet names."""
    return [*_broken(event, event["schemaURL"]), *_of_facets(event)]


def _of_facets(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _of_facets(item)
    elif isinstance(value, Mapping):
        if "_schemaURL" in value:
            yield from _broken(value, value["_schemaURL"])
        for item in value.values():
            yield from _of_facets(item)


def _broken(value: Any, uri: str) -> Iterator[str]:
    validator = Draft202012Validator(
        {"$ref": uri}, registry=_REGISTRY, format_checker=Draft202012Validator.FORMAT_CHECKER
    )
    yield from (f"{uri}: {'/'.join(map(str, e.absolute_path))}: {e.message}" for e in validator.iter_errors(value))

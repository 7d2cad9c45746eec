"""The properties of a definition: settings for which SQL has no clause.

Some say how the source is read (`sequence`, `time.resolution`, `time.timezone`) and become fields of the spec. The others
are stored as text after a check of their form, and never change a result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from msgspec import Struct, field

from materializer.core.engines.registry import ENGINES, LATENESS
from materializer.core.policy.policies import DEFAULT, KEYS, MAX_STALENESS, OPEN, key_of, split_key
from materializer.core.policy.retention import PROPERTIES as KEPT
from materializer.core.policy.table_properties import (
    EVERY,
    LOG_ENTRIES,
    ON_REPLACE,
    RETENTION,
    refusal_of_retention,
)
from materializer.core.refresh.lateness import KNOWN_AT
from materializer.core.refresh.output_feed import PROPERTY as CHANGE_FEED
from materializer.core.spec.spec import CONTINUOUS, Resolution
from materializer.core.spec.table_names import OUTPUT, parts_of
from materializer.core.sql.functions import names_in, nearest
from materializer.core.time.grid import parse_width
from materializer.errors import MaterializerError, Problem
from materializer.structs import ComparedInPart

if TYPE_CHECKING:
    from materializer.core.sql.tokens import Fragment

_RESOLUTIONS: Final = ("s", "ms", "us", "ns")
_CRON_ALIASES: Final = ("@hourly", "@daily", "@weekly", "@monthly", "@yearly")
_CRON_LIMITS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_CRON_NAMES: Final = names_in("jan feb mar apr may jun jul aug sep oct nov dec sun mon tue wed thu fri sat")
_ENGINES_ONLY: Final = ("fill", "closed")


class PropertyValues(ComparedInPart, Struct, frozen=True):
    """The settings that the properties of a definition give.

    Args:
        sequence: Column that orders rows of one instant.
        resolution: Meaning of a tick of an integer time column.
        timezone: Default zone of the bucket.
        stored: The properties that are stored unchanged, sorted.
        engine: Engine that computes the aggregate.
        lateness: How late rows are treated.
        params: The engine's parameters.
        sound: Well-formed properties of policies and retention; a policy with a refused property is left out whole.
        places: Place of each property in the definition.
    """

    _UNCOMPARED: ClassVar = frozenset({"sound", "places"})

    sequence: str | None = None
    resolution: Resolution = Resolution.NONE
    timezone: str | None = None
    stored: tuple[tuple[str, str], ...] = ()
    engine: str = CONTINUOUS
    lateness: str = "recompute"
    params: tuple[tuple[str, str], ...] = ()
    sound: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, Fragment] = field(default_factory=dict)


def read_properties(
    items: Iterable[tuple[str, str, Fragment]], problems: list[Problem], implied_engine: str = CONTINUOUS
) -> PropertyValues:
    """Return the settings of the properties; add a problem to *problems* for each property that is unknown or malformed.

    Args:
        items: (name, value, place) of each property.
        problems: List that receives problems.
        implied_engine: Engine when no property names one.
    """
    values: dict[str, str] = {}
    places: dict[str, Fragment] = {}
    refused: set[str] = set()
    params: dict[str, str] = {}
    given = list(items)
    engine = next((v.lower() for n, v, _ in given if n.lower() == "engine"), implied_engine)
    for name, value, place in given:
        key = name.lower()
        param = key.removeprefix("engine.")
        if engine in ENGINES and not _is_ours(key) and param not in params:
            params[param] = value  # the engine itself checks the value
            continue
        if key in values:
            problems.append(place.problem("definition.property", f"the property '{key}' is given twice", "keep one"))
            continue
        values[key], places[key] = value, place
        refusal = (
            _refusal(key, value) if engine == CONTINUOUS or key != "lateness" or value.lower() not in LATENESS else None
        )
        if refusal and engine != CONTINUOUS and key in _ENGINES_ONLY:
            refusal = None  # of an engine whose name is wrong
        if refusal:
            problems.append(place.problem(*refusal))
            refused.add(key)
    stored = tuple(sorted((k, v) for k, v in values.items() if _is_stored(k)))
    resolution = values.pop("time.resolution", "none").lower()
    return PropertyValues(
        sequence=values.pop("sequence", None),
        resolution=Resolution(resolution) if resolution in _RESOLUTIONS else Resolution.NONE,
        timezone=values.pop("time.timezone", None),
        stored=stored,
        engine=engine if engine in ENGINES else CONTINUOUS,
        lateness=values.get("lateness", "recompute").lower(),
        params=tuple(sorted(params.items())),
        sound=_sound(stored, refused),
        places=places,
    )


def refusals(properties: Mapping[str, str]) -> list[tuple[str, str, str, str]]:
    """Return (property, code, message, hint) for each property that is unknown or malformed."""
    found = ((key, _refusal(key, value)) for key, value in properties.items())
    return [(key, *refusal) for key, refusal in found if refusal]


def _refusal(key: str, value: str) -> tuple[str, str, str] | None:
    if key in _ENGINES_ONLY or (key == "lateness" and value.lower() in LATENESS[1:]):
        message = f"'{key}' is a parameter of engines, and a continuous aggregate is none"
        return "definition.engine-only", message, "add 'engine' = 'time_series', or leave it away"
    if key == "engine" and value.lower() not in (CONTINUOUS, *ENGINES):
        hint = nearest(value.lower(), list(ENGINES)) or f"the engines are {', '.join((CONTINUOUS, *ENGINES))}"
        return "definition.engine", f"there is no engine '{value}'", hint
    if key == "lateness" and value.lower() not in LATENESS:
        return "definition.lateness", f"there is no lateness '{value}'", f"write one of {', '.join(LATENESS)}"
    form = _form_key(key)
    if form not in KNOWN:
        known = (*KNOWN, *_alike(key))
        hint = nearest(key, known) or f"the properties are {', '.join(sorted(KNOWN))}"
        return "definition.unknown-property", f"there is no property '{key}'", hint
    expected = FORMS[form](value) if form in FORMS else None
    return (
        ("definition.property", f"the property '{key}' must be {expected}, got '{value}'", "correct the value")
        if expected
        else None
    )


def _form_key(key: str) -> str:
    """Return the property with the form of *key*: for a named policy, the same property of the default policy."""
    split = split_key(key)
    return key_of(DEFAULT, split[1]) if split else key


def _alike(key: str) -> list[str]:
    """Return the properties of the policy that a misspelt *key* names, or none when it names no policy."""
    policy = _policy_of(key)
    return [] if policy == DEFAULT else [key_of(policy, part) for part in KEYS]


def _policy_of(key: str) -> str:
    """Return the policy that a property, which may be misspelt, belongs to."""
    return key.split(".")[1] if key.startswith("refresh.") and key.count(".") == 2 else DEFAULT


def _sound(stored: Iterable[tuple[str, str]], refused: set[str]) -> dict[str, str]:
    """Return the properties of policies and retention, without policies with a refused property: their rest would mislead."""
    broken = {_policy_of(key) for key in refused if key.startswith("refresh.") and key != MAX_STALENESS}
    return {
        k: v
        for k, v in stored
        if (k in (MAX_STALENESS, *KEPT) and k not in refused) or (split_key(k) and _policy_of(k) not in broken)
    }


def _is_ours(key: str) -> bool:
    return key in KNOWN or key.startswith("refresh.")


def _is_stored(key: str) -> bool:
    return _form_key(key) in _STORED


def _offset(value: str) -> str | None:
    if value.lower() in OPEN:
        return None
    try:
        parse_width(value)
    except (ValueError, MaterializerError):
        return "a length such as '7 days', a whole number, or 'none'"
    return None


def _promise(value: str) -> str | None:
    return _length(value, "a length such as '2 hours' that is longer than nothing")


def _kept(value: str) -> str | None:
    return _length(value, "a length such as '90 days' that is longer than nothing, or a whole number")


def _length(value: str, expected: str) -> str | None:
    try:
        width = parse_width(value)
    except (ValueError, MaterializerError):
        return expected
    parts = (width.months, width.days, width.micros, width.ticks or 0)
    return None if min(parts) >= 0 < max(parts) else expected


def _schedule(value: str) -> str | None:
    fields = value.lower().split()
    if value.lower() in _CRON_ALIASES:
        return None
    if len(fields) == 5 and all(_is_cron_field(f, *limits) for f, limits in zip(fields, _CRON_LIMITS, strict=True)):
        return None
    return "five cron fields such as '*/5 * * * *', or one of " + ", ".join(_CRON_ALIASES)


def _is_cron_field(field: str, low: int, high: int) -> bool:
    for part in field.split(","):
        base, slash, step = part.partition("/")
        if slash and not (step.isdigit() and int(step) > 0):
            return False
        ends = base.split("-")
        if base != "*" and (len(ends) > 2 or not all(_is_cron_value(end, low, high) for end in ends)):
            return False
    return True


def _is_cron_value(text: str, low: int, high: int) -> bool:
    return text in _CRON_NAMES or (text.isdigit() and low <= int(text) <= high)


def _one_of(*values: str) -> Callable[[str], str | None]:
    listed = " or ".join(f"'{value}'" for value in values)
    return lambda value: None if value.lower() in values else listed


def _whole_number(least: int) -> Callable[[str], str | None]:
    return lambda value: None if value.isdigit() and int(value) >= least else f"a whole number of at least {least}"


def _object(value: str) -> str | None:
    try:
        is_object = isinstance(json.loads(value), dict)
    except ValueError:
        is_object = False
    return None if is_object else "a JSON object such as '{\"most\": 300}'"


def _path(value: str) -> str | None:
    return None if value.strip() else "the path of a suite, or 'none'"


def _table(value: str) -> str | None:
    return None if parts_of(value) else "a name in a catalog such as 'catalog.schema.name' or 'schema.name'"


def _column(value: str) -> str | None:
    return None if value.strip() else "the name of a column"


FORMS: Final[dict[str, Callable[[str], str | None]]] = {
    "sequence": _column,
    "time.resolution": _one_of(*_RESOLUTIONS),
    "time.timezone": lambda value: None if value.strip() else "a time zone such as 'Europe/Paris'",
    "refresh.start_offset": _offset,
    "refresh.end_offset": _offset,
    "refresh.schedule": _schedule,
    "refresh.max_runs": _whole_number(0),
    "refresh.order": _one_of("newest", "oldest"),
    "refresh.catch_dirt": _one_of("true", "false"),
    MAX_STALENESS: _promise,
    **dict.fromkeys(KEPT, _kept),
    LOG_ENTRIES: _whole_number(1),
    EVERY: _whole_number(1),
    RETENTION: refusal_of_retention,
    "versions.keep": _whole_number(0),
    "quality.suite": _path,
    "quality.source_suite": _path,
    "quality.on_failure": _one_of("refresh", "buckets"),
    "quality.checks": _one_of("true", "false"),
    "quality.canaries": _whole_number(0),
    "quality.canaries.every": _whole_number(1),
    "quality.parameters": _object,
    "quality.schedule": _schedule,
    CHANGE_FEED: _one_of("true", "false"),
    OUTPUT: _table,
    KNOWN_AT: _column,
    ON_REPLACE: _one_of("refresh", "refuse"),
    "output_handler": lambda value: None if value.isidentifier() else "the name of a function",
    "msg_as_table": _one_of("true", "false"),
}
"""For each property that is a text: what says which values it takes, where it does not take a value."""
HANDLER: Final = ("output_handler", "msg_as_table")
"""Properties of the handler that receives the output."""
_STORED: Final = frozenset(
    k
    for k in FORMS
    if k.startswith(("refresh.", "log.", "maintain.", "quality.", "versions."))
    or k in (*HANDLER, CHANGE_FEED, OUTPUT, KNOWN_AT, ON_REPLACE, *KEPT)
)
KNOWN: Final = frozenset((*FORMS, "engine", "lateness"))
"""Every property, without the names of policies and of parameters."""

"""Reads the SQL form of an engine's definition into the same parts as the Python form.

``GROUP BY`` holds the keys and, for most engines, ``window(time, size [, step])`` or ``session_window(time, gap)``; every
other parameter is a property. ``reactive_state`` has no ``GROUP BY``: its keys are the property ``keys``, and SELECT lists
the time like any other column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from materializer.core.engines.registry import LATENESS
from materializer.core.language.engine_define import ROWS, define_engine
from materializer.core.language.selection import Item, group_expressions, group_pieces, item_of
from materializer.core.language.statement import EngineDraft
from materializer.core.spec.spec import AggregateSpec
from materializer.core.spec.table_names import quoted
from materializer.core.sql.time_bucket import refuse_interval
from materializer.core.sql.tokens import Fragment, Refused, string_value, words
from materializer.errors import DefinitionError, Problem

_SIZES: Final[Mapping[str, tuple[str, str]]] = {
    "time_series": ("window_size", "step"),
    "daily_time_series": ("window_size", "step"),
    "hopping_window": ("duration", "period"),
    "compressed_hopping_window": ("duration", "period"),
    "event_time_window": ("interval_duration", "creation_period"),
    "session_window": ("session_gap", ""),
}
"""For each engine the names of the parameters that the lengths in ``window(time, size, step)`` set."""
_LABELS: Final = {
    "time_series": ("use_window_start_time", "END"),
    "daily_time_series": ("use_window_start_time", "END"),
    "session_window": ("use_session_start_time", "START"),
}
"""For each engine the parameter that chooses the label of a window, and the end of the window that is the default label."""
_CLAUSES: Final = {
    "comment": "write COMMENT '…' before TBLPROPERTIES",
    "known_python": "name the functions in python_aggregates of the configuration",
    "measures": "write the measures into SELECT",
    "name": "the name stands behind CREATE MATERIALIZED VIEW",
    "properties": "write each of them into TBLPROPERTIES",
    "resolution": "write 'time.resolution'",
    "source": "the source stands behind FROM",
    "where": "write a WHERE clause",
}
"""What is a clause and no property, though the Python form has an argument of this name."""
_FIXED: Final = {"hopping_window": "END", "compressed_hopping_window": "START", "event_time_window": "END"}
"""The end of a window that is its label, for engines that have no other."""


class _Parts(Struct):
    """The parts of the definition read so far."""

    params: dict[str, str]
    time: str = ""
    window: tuple[str, ...] = ()
    label: str = ""
    places: dict[str, Fragment] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    measures: dict[str, str] = field(default_factory=dict)


def engine_of_draft(
    draft: EngineDraft, python: frozenset[str], problems: list[Problem], columns: frozenset[str] = frozenset()
) -> AggregateSpec | None:
    """Return the spec of an engine's draft; None after adding to *problems* what is wrong with the draft."""
    parts = _Parts(dict(draft.settings.params))
    parts.time = parts.params.pop("time", "")
    named = [k.strip() for k in parts.params.pop("keys", "").split(",") if k.strip()]
    try:
        grouped = _grouped(draft, group_pieces(draft.clauses, columns), parts)
    except Refused as refused:
        problems.append(refused.problem)
        return None
    names = {g.text for g in grouped if g.text.lower() not in columns}
    since = len(problems)
    for clause in sorted(parts.params.keys() & _CLAUSES.keys()):
        message = f"there is no property '{clause}'"
        problems.append(draft.place.problem("definition.unknown-property", message, _CLAUSES[clause]))
    if (refusal := _last_instant(draft) or _field_of_sessions(draft, columns)) is not None:
        problems.append(refusal)
        return None
    for piece in draft.clauses["SELECT"].split():
        item = item_of(piece, problems)
        if item is not None:
            _place(draft, item, grouped, names, named, parts, problems)
    if not parts.time:
        hint = "add window(time, …) or session_window(time, …) to GROUP BY, or the property 'time'"
        problems.append(draft.place.problem("definition.missing-time-column", "no time column is named", hint))
    if len(problems) > since:
        return None
    where = draft.clauses.get("WHERE")
    try:
        spec = define_engine(
            draft.name,
            draft.source.name,
            engine=draft.engine,
            time=parts.time if any(sign in parts.time for sign in "`(") else quoted(parts.time),
            keys=parts.keys,
            measures=parts.measures,
            where=where.text if where is not None else None,
            sequence=draft.settings.sequence,
            lateness=draft.settings.lateness if draft.settings.lateness in LATENESS else "recompute",  # refused before
            resolution=draft.settings.resolution if draft.settings.resolution.value != "none" else None,
            comment=draft.comment,
            properties=dict(draft.settings.stored),
            known_python=python,
            **parts.params,
        )
    except DefinitionError as exc:
        problems += [parts.places.get(p.about, draft.place).problem(p.code, p.message, p.hint) for p in exc.problems]
        return None
    return replace(spec, sql=draft.place.text)


def _last_instant(draft: EngineDraft) -> Problem | None:
    """Return why a window is not labelled by its last instant.

    Grouped by `window_time` of a session window, Spark joins no rows into sessions, and it takes it nowhere else.
    """
    for clause in (draft.clauses["SELECT"], *(draft.clauses[name] for name in ("GROUP BY",) if name in draft.clauses)):
        for at in range(len(clause)):
            if words(clause.tokens[at : at + 2]) == "WINDOW_TIME (":
                is_session = draft.engine == "session_window"
                why = "Spark joins no sessions grouped by it" if is_session else f"{draft.engine} has no such label"
                hint = f"select {'session_window' if is_session else 'window'}.end, which is a microsecond later"
                message = f"`window_time` is no label of a window here: {why}"
                return clause.problem("definition.misplaced-bucket", message, hint, token=at)
    return None


def _field_of_sessions(draft: EngineDraft, columns: frozenset[str]) -> Problem | None:
    """Return why rows are not grouped by a field of their session: Spark joins none of them into sessions then."""
    for piece in group_expressions(draft.clauses, columns):
        is_call = words(piece.tokens[:2]) == "SESSION_WINDOW ("
        if words(piece.tokens[:2]) == "SESSION_WINDOW ." or (is_call and piece.closing(1) < len(piece) - 1):
            window = piece.part(0, piece.closing(1) + 1).text if is_call else "session_window(time, gap)"
            message = f"GROUP BY holds `{piece.text}`: Spark joins no rows into sessions that are grouped by a field"
            hint = f"write `{window}` into GROUP BY in its place; SELECT may have the field"
            return piece.problem("definition.misplaced-bucket", message, hint)
    return None


def _grouped(draft: EngineDraft, group: Sequence[Fragment], parts: _Parts) -> list[Fragment]:
    """Return the keys of GROUP BY; store the parts that divide time as parameters."""
    keys = []
    for piece in group:
        if words(piece.tokens[:2]) in ("WINDOW (", "SESSION_WINDOW ("):
            parts.window = piece.normal
            column, *lengths = piece.part(2, piece.closing(1)).split()
            is_name = len(column) == 1 or (len(column) == 3 and words(column.tokens[1:2]) == ".")
            parts.time = quoted(column.tokens[-1].text) if is_name else column.text or parts.time
            for length in lengths:
                refuse_interval(length, piece.tokens[0].text.lower())
            for name, length in zip(_SIZES.get(draft.engine, ("", "")), lengths, strict=False):
                text = string_value(length.tokens[0]) if len(length) == 1 else None
                if name and name not in parts.params:
                    parts.places[name] = length
                if name:
                    parts.params.setdefault(name, length.text if text is None else text)
            if draft.engine == "time_series" and "window_size" in parts.params:
                parts.params.setdefault("step", parts.params["window_size"])
        else:
            keys.append(piece)
    return keys


def _place(
    draft: EngineDraft,
    item: Item,
    grouped: list[Fragment],
    names: set[str],
    named: list[str],
    parts: _Parts,
    problems: list[Problem],
) -> None:
    """Store an item of SELECT as the label, a key or a measure."""
    text = item.expression.text
    head = words(item.expression.tokens[:1])
    if head in ("WINDOW", "SESSION_WINDOW") or (not draft.clauses.get("GROUP BY") and text == parts.time):
        _label(draft, item, parts, problems)
    elif not item.name:
        problems.append(item.place.problem("definition.missing-alias", f"`{text}` has no name", "add AS name"))
    elif (
        item.name in names
        or any(item.expression.normal == g.normal for g in grouped)
        or (draft.engine == ROWS and (item.name in named or text in named))
    ):
        parts.keys[item.name] = text
    else:
        parts.measures[item.name] = text


def _label(draft: EngineDraft, item: Item, parts: _Parts, problems: list[Problem]) -> None:
    normal, fixed = item.expression.normal, _FIXED.get(draft.engine)
    is_field = words(item.expression.tokens[-2:-1]) == "."
    end = words(item.expression.tokens[-1:]) if is_field else ""
    call = normal[:-2] if is_field else normal
    if parts.window and len(call) > 1 and call != parts.window:
        message = f"`{item.expression.text}` is selected, but GROUP BY divides time by another window"
        problems.append(item.place.problem("definition.bucket-differs", message, "write the same expression in both"))
        return
    if is_field and end not in ("START", "END"):
        message = f"`{item.expression.text}`: a window has a start and an end"
        problems.append(item.place.problem("definition.window-struct", message, "select its start"))
        return
    if fixed is not None and end in ("START", "END") and end != fixed:
        message = f"`{item.expression.text}`: {draft.engine} labels a window by its {fixed.lower()}"
        hint = f"select window.{fixed.lower()}; the output has window_start and window_end besides"
        problems.append(item.place.problem("definition.engine-parameter", message, hint))
    if end and item.name.lower() == f"window_{end.lower()}":
        return  # which each output has
    if parts.label:
        message = f"`{item.place.text}` is a second label of a window, after `{parts.label}`"
        hint = "take it away, or call it window_start or window_end, which the output has besides"
        problems.append(item.place.problem("definition.duplicate-bucket", message, hint))
        return
    name = item.name or ("time" if end else words(item.expression.tokens[:1]).lower())
    parts.label = parts.params.setdefault("label", name if name.lower() not in ("start", "end") else "time")
    option, default = _LABELS.get(draft.engine, ("", ""))
    if option and end in ("START", "END") and end != default:
        parts.params.setdefault(option, str(end == "START").lower())

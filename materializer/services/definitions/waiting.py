"""A next version that waits to be built: what it changes, and which of its checks hold for what is published already.

A suite that is applied holds at once, as far as it is about columns that what is published has, too. The other expectations
wait for the next version. Until then the published version keeps its own expectations about columns that the next version
changes or drops, so that a definition never takes a check away before it is built.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from materializer.core.aggregates.parts import normalised
from materializer.core.compiled.difference_lines import differences
from materializer.core.quality.suite import Expectation, Suite, read
from materializer.core.spec.spec import AggregateSpec
from materializer.journal.state import AggregateState
from materializer.journal.view import View
from materializer.services.definitions.suites import OUTPUT, SOURCE, parameters_of

_SHAPE: Final = "expect_table_column"
"""Expectations about all columns of a table begin with this."""
_GATE: Final = "quality."
_Columns: TypeAlias = Mapping[str, tuple[Any, ...]]
"""What the values of each column are."""


class WaitingCheck(Struct, frozen=True):
    """An expectation that does not hold for what is published.

    Args:
        suite: ``output`` or ``source``.
        expectation: Its type.
        columns: The columns that it names.
        why: Why it waits.
    """

    suite: str
    expectation: str
    columns: tuple[str, ...]
    why: str

    @property
    def text(self) -> str:
        """The expectation, and why it waits."""
        of = f" of {', '.join(self.columns)}" if self.columns else ""
        return f"{self.expectation}{of}: {self.why}"


class WaitingVersion(Struct, frozen=True):
    """A next version that is not published yet.

    Args:
        changes: What it changes, in a few words each.
        command: The command that builds and publishes it.
        checks: Its expectations that do not hold for what is published.
    """

    changes: tuple[str, ...]
    command: str
    checks: tuple[WaitingCheck, ...] = ()

    @property
    def text(self) -> str:
        """What it changes, and the command that builds it."""
        changes = ", ".join(self.changes) or "the same definition as before"
        return f"waits to be built ({changes}); '{self.command}' builds and publishes it"


def waiting_version(view: View, state: AggregateState) -> WaitingVersion | None:
    """Return the next version of an aggregate in a few words; None if there is none."""
    build = None if state.builds else view.build_of(state)
    if build is None:
        return None
    now, then = AggregateSpec.from_json(state.spec), AggregateSpec.from_json(build.spec)
    checks = tuple(waiting_checks(state, then, build.schemas, str(build.source.path), holding=now))
    return WaitingVersion(_changes(now, then), f"materializer build {state.name}", checks)


def waiting_checks(
    state: AggregateState,
    then: AggregateSpec,
    schemas: Mapping[str, Any],
    source: str,
    *,
    holding: AggregateSpec | None = None,
) -> Iterator[WaitingCheck]:
    """Yield the expectations of a next version that do not hold for what is published, with the reason.

    Args:
        state: The aggregate, as it is published.
        then: The definition of its next version, resolved.
        schemas: Column names and types of the tables of the next version.
        source: The folder of its source.
        holding: The definition whose expectations hold now; None for the one that :func:`guarded` returns.
    """
    holding = guarded(state, then, schemas, source) if holding is None else holding
    entries = {kind: _entries(text) for kind, text in holding.suites}
    sides = _Sides.of(state, then, schemas, source)
    for kind, text in then.suites:
        for e, entry in zip(_filled(text, then), _entries(text), strict=True):
            if entry not in entries.get(kind, ()):
                why = sides.why_not(kind, e) or "it was applied for the next version only"
                yield WaitingCheck(kind, e.type, _named(e), why)


def guarded(state: AggregateState, then: AggregateSpec, schemas: Mapping[str, Any], source: str) -> AggregateSpec:
    """Return the definition of what is published with the expectations of its next version that can hold already.

    Args:
        state: The aggregate, as it is published.
        then: The definition of its next version, resolved.
        schemas: Column names and types of the tables of the next version.
        source: The folder of its source.
    """
    now = AggregateSpec.from_json(state.spec)
    if now.engine != then.engine:
        return now
    sides = _Sides.of(state, then, schemas, source)
    before, after = dict(now.suites), dict(then.suites)
    suites = []
    for kind in (OUTPUT, SOURCE):
        entries = [
            entry
            for spec, text in ((then, after.get(kind)), (now, before.get(kind)))
            if text is not None
            for e, entry in zip(_filled(text, spec), _entries(text), strict=True)
            if bool(sides.why_not(kind, e)) is (spec is now)
        ]
        if entries:
            suite = json.loads(after.get(kind) or before[kind]) | {"expectations": entries}
            suites.append((kind, json.dumps(suite, separators=(",", ":"))))
    properties = {name: value for name, value in now.properties if not name.startswith(_GATE)}
    properties |= {name: value for name, value in then.properties if name.startswith(_GATE)}
    return replace(now, suites=tuple(suites), properties=tuple(sorted(properties.items())))


class _Sides(Struct, frozen=True):
    """The output columns of what is published and of its next version, and whether both read one source."""

    now: _Columns
    then: _Columns
    has_same_source: bool

    @classmethod
    def of(cls, state: AggregateState, then: AggregateSpec, schemas: Mapping[str, Any], source: str) -> _Sides:
        now = AggregateSpec.from_json(state.spec)
        return cls(_columns(now, state.schemas), _columns(then, schemas), source == str(state.source.path))

    def why_not(self, kind: str, e: Expectation) -> str:
        """Return why an expectation says nothing about both versions alike; "" if it does."""
        if kind == SOURCE:
            return "" if self.has_same_source else "the next version reads another source"
        differing = {name for name in {*self.now, *self.then} if self.now.get(name) != self.then.get(name)}
        if e.type.startswith(_SHAPE) and self.now.keys() != self.then.keys():
            return "the next version has other columns"
        texts = [str(value) for arg, value in e.kwargs.items() if arg == "row_condition" or arg.endswith("query")]
        named = [n for n in sorted(differing) if n in _named(e) or any(_mentions(text, n) for text in texts)]
        if not named:
            return ""
        if new := [n for n in named if n not in self.now]:
            return f"column '{new[0]}' comes with the next version"
        if gone := [n for n in named if n not in self.then]:
            return f"column '{gone[0]}' goes with the next version"
        return f"column '{named[0]}' has other values in the next version"


def _columns(spec: AggregateSpec, schemas: Mapping[str, Any]) -> _Columns:
    """Return the output columns of a definition, each with what makes its values other ones: its type, expression, and groups."""
    groups = (spec.grid, tuple(sorted(normalised(key.sql) for key in spec.keys)))
    made: dict[str, tuple[Any, ...]] = {key.name: (normalised(key.sql),) for key in spec.keys}
    made |= dict.fromkeys(spec.edges, (spec.grid,))
    for measure in spec.measures:
        made[measure.name] = (normalised(measure.formula.fill([call.text for call in measure.formula.calls])), *groups)
    return {str(name): (str(kind), *made.get(str(name), ())) for name, kind in schemas[OUTPUT]}


def _named(e: Expectation) -> tuple[str, ...]:
    """Return the columns that the arguments of an expectation name."""
    values = [e.kwargs.get(arg) for arg in ("column", "column_A", "column_B", "column_list")]
    return tuple(str(n) for value in values if value for n in (value if isinstance(value, list) else [value]))


def _mentions(sql: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sql, re.IGNORECASE) is not None


def _filled(text: str, spec: AggregateSpec) -> tuple[Expectation, ...]:
    suite: Suite = read(text).filled(parameters_of(spec))
    return suite.expectations


def _entries(text: str) -> list[Any]:
    entries: list[Any] = json.loads(text)["expectations"]
    return entries


def _changes(now: AggregateSpec, then: AggregateSpec) -> tuple[str, ...]:
    """Return what another definition adds, drops and changes.

    Suites are left out: what of them waits is said for each expectation.
    """
    signs: dict[str, str] = {}
    for line in differences(now, then):
        part = line[2:].partition(": ")[0]
        signs[part] = signs.get(part, "") + line[0]
    words = {"+": "adds", "-": "drops"}
    return tuple(
        f"{words.get(sign, 'changes')} {part}"
        for part, sign in signs.items()
        if part != "columns" and not part.startswith(("suite of", f"property {_GATE}", "type of"))
    )

"""The result of an audit: one finding for each expectation, as plain values that the journal can store."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, Final, Self

from msgspec import Struct, field

from materializer.core.codec import JsonForm, as_json, from_json

BUILT_IN: Final = -1
"""Index of a check that belongs to no suite."""
_FROZEN: Final = JsonForm(dict, lambda data: MappingProxyType(dict(data)))


class Severity(StrEnum):
    """How much a failure matters; only a critical failure prevents buckets from being published."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Its rank; the mildest severity has the lowest."""
        return tuple(Severity).index(self)


class Auditor(StrEnum):
    """The implementation that evaluated an expectation."""

    COMPILED = "compiled"
    GREAT_EXPECTATIONS = "great_expectations"


class Finding(Struct, frozen=True):
    """The result of one expectation.

    Args:
        index: Its position in the suite, from 0; :data:`BUILT_IN` for a built-in check.
        type: Its type, such as ``expect_column_values_to_not_be_null``.
        kwargs: Its arguments, parameters filled in.
        severity: How much a failure matters.
        success: Whether the expectation is met.
        observed: The compared value (a number, a text, or None), for an expectation about a whole column or table.
        unexpected_count: Number of rows that do not meet it; None when it is not about rows.
        element_count: Number of rows that were checked; None when it is not about rows.
        engine: The implementation that evaluated it.
        error: Why it could not be evaluated, which counts as not met; "" otherwise.
    """

    index: int
    type: str
    kwargs: Annotated[Mapping[str, Any], _FROZEN]
    severity: Severity
    success: bool
    observed: Any = None
    unexpected_count: int | None = None
    element_count: int | None = None
    engine: Auditor = Auditor.COMPILED
    error: str = ""

    def words(self) -> str:
        """Return the finding as text for people.

        Examples:
            >>> kwargs = {"column": "price", "max_value": 9}
            >>> Finding(0, "expect_x", kwargs, Severity.CRITICAL, False, unexpected_count=2, element_count=1_000).words()
            'expect_x of price fails for 2 of 1,000 rows'
        """
        column = self.kwargs.get("column") or self.kwargs.get("column_list")
        name = f"{self.type} of {column}" if column else self.type
        if self.error:
            return f"{name} could not be answered: {self.error}"
        if self.unexpected_count is not None:
            return f"{name} fails for {self.unexpected_count:,} of {self.element_count or 0:,} rows"
        return f"{name} found {self.observed}"

    def as_json(self) -> dict[str, Any]:
        """Return the finding as plain JSON values."""
        data: dict[str, Any] = as_json(self)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the finding that :meth:`as_json` wrote."""
        return from_json(cls, data)


def critical_words(verdict: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the critical failures of a gate's verdict, as the journal has it: a text for each suite."""
    found = []
    for kind in ("output", "source", "canaries"):
        suite = verdict.get(kind, {})
        failed = [Finding.from_json(f) for f in suite.get("failed", [])]
        if words := [f.words() for f in failed if f.severity is Severity.CRITICAL]:
            name = suite.get("suite") or ("built-in checks" if kind == "output" else kind)
            found.append(f"{name}: {', '.join(words)}")
    return tuple(found)


class Verdict(Struct, frozen=True):
    """The findings of a suite.

    Args:
        suite: Name of the suite, "" for the built-in checks alone.
        findings: Built-in checks first, then one finding for each expectation, in the suite's order.
        parameters: The values of the suite's parameters.

    Examples:
        >>> failed = Finding(0, "expect_table_row_count_to_equal", {"value": 3}, Severity.WARNING, False, observed=2)
        >>> verdict = Verdict("daily", (failed,))
        >>> verdict.worst, verdict.is_publishable
        (<Severity.WARNING: 'warning'>, True)
    """

    suite: str
    findings: tuple[Finding, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The findings of expectations that are not met."""
        return tuple(f for f in self.findings if not f.success)

    @property
    def worst(self) -> Severity | None:
        """The highest severity of a failure; None when everything is met."""
        return max((f.severity for f in self.failed), key=lambda s: s.rank, default=None)

    @property
    def is_publishable(self) -> bool:
        """Whether no critical expectation failed."""
        return self.worst is not Severity.CRITICAL

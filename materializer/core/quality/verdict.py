"""What an audit found, expectation by expectation, as plain values that the journal can keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Self

BUILT_IN: Final = -1
"""Place of a check that stands in no suite."""


class Severity(StrEnum):
    """How much a failure matters; only a critical one keeps buckets from being published."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Its place, the mildest first."""
        return tuple(Severity).index(self)


class Auditor(StrEnum):
    """Who answered."""

    COMPILED = "compiled"
    GREAT_EXPECTATIONS = "great_expectations"


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer to one expectation.

    Args:
        index: Its place in the suite, from 0; :data:`BUILT_IN` for a built-in check.
        type: Its type, such as ``expect_column_values_to_not_be_null``.
        kwargs: Its arguments, parameters filled in.
        severity: How much a failure matters.
        success: Whether it is met.
        observed: The value that was compared, of an expectation about a whole: a number, a text, or None.
        unexpected_count: How many rows do not meet it; None where it is not about rows.
        element_count: How many rows were looked at; None likewise.
        engine: Who answered.
        error: Why it could not be answered, which counts as not met; "" otherwise.
    """

    index: int
    type: str
    kwargs: Mapping[str, Any]
    severity: Severity
    success: bool
    observed: Any = None
    unexpected_count: int | None = None
    element_count: int | None = None
    engine: Auditor = Auditor.COMPILED
    error: str = ""

    def words(self) -> str:
        """Return what it found, in words.

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
        """Return it as plain values."""
        return {f.name: getattr(self, f.name) for f in fields(self)} | {
            "kwargs": dict(self.kwargs),
            "severity": str(self.severity),
            "engine": str(self.engine),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return what :meth:`as_json` made plain."""
        typed = {"severity": Severity(data["severity"]), "engine": Auditor(data["engine"])}
        return cls(**(dict(data) | typed | {"kwargs": MappingProxyType(dict(data["kwargs"]))}))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answers to a suite.

    Args:
        suite: Name of the suite, "" for the built-in checks alone.
        findings: One for each expectation, in the suite's order; built-in checks first.
        parameters: The values that its parameters were given.

    Examples:
        >>> failed = Finding(0, "expect_table_row_count_to_equal", {"value": 3}, Severity.WARNING, False, observed=2)
        >>> verdict = Verdict("daily", (failed,))
        >>> verdict.worst, verdict.is_publishable
        (<Severity.WARNING: 'warning'>, True)
        >>> Verdict.from_json(verdict.as_json()) == verdict
        True
    """

    suite: str
    findings: tuple[Finding, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def failed(self) -> tuple[Finding, ...]:
        """What is not met."""
        return tuple(f for f in self.findings if not f.success)

    @property
    def worst(self) -> Severity | None:
        """The highest severity that failed; None when everything is met."""
        return max((f.severity for f in self.failed), key=lambda s: s.rank, default=None)

    @property
    def is_publishable(self) -> bool:
        """Whether nothing critical failed."""
        return self.worst is not Severity.CRITICAL

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "suite": self.suite,
            "findings": [f.as_json() for f in self.findings],
            "parameters": dict(self.parameters),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return what :meth:`as_json` made plain."""
        return cls(data["suite"], tuple(map(Finding.from_json, data["findings"])), dict(data["parameters"]))

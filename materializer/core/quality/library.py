"""The port of the library that evaluates expectations which are not compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from materializer.core.quality.failing import Failing
from materializer.core.quality.suite import Expectation, Suite
from materializer.core.quality.verdict import Finding
from materializer.errors import Problem


class ExpectationLibrary(Protocol):
    """A library of expectations. A *frame* is one of Spark, which this package does not know."""

    def examine(
        self, frame: Any, suite: Suite, expectations: Sequence[Expectation], bucket: str, *, most: int
    ) -> tuple[list[Finding], Failing]:
        """Evaluate *expectations* over a frame and return their findings, in order, and the places of failures."""
        ...

    def refusals(self, expectations: Sequence[Expectation]) -> list[tuple[int, Problem]]:
        """Return what the library finds wrong with arguments, each with the place of its expectation in the suite."""
        ...

    def render(self, frame: Any, suite: Suite, folder: Path) -> Path:
        """Write pages that show the verdict of a suite over a frame, and return the first page."""
        ...


Library: TypeAlias = Callable[[], ExpectationLibrary]
"""Loads the library on first use; nothing imports it before."""

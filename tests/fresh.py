"""Laws that are checked with the same data in every run, checked with data that nobody has seen."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Law = Callable[[], None]


def check(law: Law, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a law with data drawn from a seed; what `hypothesis.seed` would set, for this time only."""
    monkeypatch.setattr(law, "_hypothesis_internal_use_seed", seed)
    law()


def for_new_data(law: Law) -> Callable[[int, pytest.MonkeyPatch], None]:
    """Return a test of a law, against the same model, with data from the seed that is printed at the beginning of the run."""

    def test(fresh_seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        check(law, fresh_seed, monkeypatch)

    test.__doc__ = law.__doc__
    return test

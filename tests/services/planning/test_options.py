"""What may be asked of a refresh."""

from __future__ import annotations

import pytest

from materializer.core.refresh.strategies import STRATEGIES
from materializer.errors import UsageError
from materializer.services.planning.options import RefreshOptions


def test_an_unknown_strategy_is_refused() -> None:
    """
    The hint lists those that there are; it is not taken for a recompute.
    """
    for known in ("", *STRATEGIES):
        RefreshOptions(strategy=known)
    with pytest.raises(UsageError, match="no strategy 'whole'") as caught:
        RefreshOptions(strategy="whole")
    assert "recompute-keys" in caught.value.hint

"""What only this engine can say of a run: a custom facet, as the standard allows."""

from __future__ import annotations

import attr
from openlineage.client.facet_v2 import RunFacet


@attr.define
class MaterializerRunFacet(RunFacet):
    """What a refresh did.

    Args:
        outcome: What it came to, such as ``refreshed`` or ``up-to-date``; "" before its end, and if it did not complete.
        runs: Number of runs.
        strategies: How buckets were computed.
        executors: What computed them: ``local`` or ``spark``.
        rowsRead: Rows that were aggregated.
        rowsWritten: Rows that were written to the output.
        buckets: Buckets that were replaced.
        seconds: Wall time of the runs.
        predictedSeconds: Wall time of the runs, as predicted.
        refreshes: Numbers of the refreshes in the journal.
        policy: The refresh policy that asked for it, or "".
    """

    outcome: str
    runs: int
    strategies: list[str]
    executors: list[str]
    rowsRead: int  # noqa: N815 - names of the standard are written so
    rowsWritten: int  # noqa: N815 - as above
    buckets: int
    seconds: float
    predictedSeconds: float  # noqa: N815 - as above
    refreshes: list[int]
    policy: str = ""

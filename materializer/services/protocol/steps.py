"""The next step of a process: a refresh, a switch, or the recovery of either."""

from __future__ import annotations

from typing import cast

from materializer.services.protocol import refresh_steps, switch_steps
from materializer.services.protocol.process import At, Ports, Process

SWITCH_STEPS = frozenset(at for at in At if at.name.startswith("SWITCH_"))


def advance(p: Process, ports: Ports) -> Process:
    """Do the next step of *p* and return where it stands then.

    Args:
        p: The process. Its step decides whether *ports* must be those of a switch.
        ports: What the step reads and writes.

    Raises:
        LeaseHeldError: If another live process holds the lease.
        LeaseLostError: If another process took the lease over; that process recovers.
        WriteFencedError: If the plan's write was skipped because recovery fenced it.
        MaterializerError: Whatever planning or computing found; a plan that could not be computed is aborted first.
    """
    if p.at in SWITCH_STEPS:
        return switch_steps.advance(p, cast("switch_steps.SwitchPorts", ports))
    return refresh_steps.advance(p, ports)

"""Explore the refresh protocol: ``python -m tests.model [MUTATION] [--versions N --takeovers K …]``."""

from __future__ import annotations

import argparse
import sys
import time
from types import ModuleType

from tests.model import chains, sources, switches
from tests.model.exploration import FULL, Bounds
from tests.model.mutations import MUTATIONS, explore


def main() -> int:
    """Print the number of states, or the shortest way to a broken rule; return 1 when one was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("mutation", nargs="?", choices=MUTATIONS, help="break one rule on purpose")
    parser.add_argument("--list", action="store_true", help="name the mutations")
    parser.add_argument("--versions", type=int, help="source versions")
    parser.add_argument("--takeovers", type=int, default=1, help="leases taken over")
    parser.add_argument("--refreshes", type=int, default=3, help="processes started")
    parser.add_argument("--failures", action="store_true", help="computing and writing may fail")
    parser.add_argument("--cleanings", type=int, default=0, help="times that old commits become unreadable")
    parser.add_argument("--gates", action="store_true", help="a gate may hold buckets back")
    parser.add_argument(
        "--calls", action="store_true", help="others may come between any two calls, not only two steps"
    )
    parser.add_argument("--besides", type=int, default=0, help="commits to the journal besides those of refreshes")
    parser.add_argument("--switches", action="store_true", help="a switch to another version instead, and its mistakes")
    parser.add_argument("--chains", action="store_true", help="a roll-up and its parent instead, and its mistakes")
    parser.add_argument("--sources", action="store_true", help="a source that becomes another, and its mistakes")
    args = parser.parse_args()
    if args.switches or args.chains or args.sources:
        return _explored(switches if args.switches else chains if args.chains else sources)
    if args.list:
        print(*(f"{name:18} {m.says}" for name, m in MUTATIONS.items()), sep="\n")
        return 0
    own = Bounds(
        args.versions or 0,
        args.takeovers,
        args.refreshes,
        args.failures,
        args.cleanings,
        args.gates,
        args.calls,
        args.besides,
    )
    for bounds in FULL if args.versions is None else (own,):
        begun = time.perf_counter()
        found = explore(bounds, args.mutation)
        print(*(found.trace or ["every rule holds"]), sep="\n")
        print(f"{found.states} states, {time.perf_counter() - begun:.1f} s, {bounds}")
        if found.trace:
            return 1
    return 0


def _explored(what: ModuleType) -> int:
    """Print the number of states of each exploration of a switch, a chain or a source, and which mistakes are caught."""
    wrong = 0
    for bounds in what.FULL:
        found = what.explore(bounds)
        print(*(found.trace or ["every rule holds"]), sep="\n")
        print(f"{found.states} states, {bounds}")
        wrong += bool(found.trace)
    for name, mistake in what.MISTAKES.items():
        found = what.explore(mistake.bounds, name)
        print(f"{name:18} {'caught' if found.trace else 'NOT CAUGHT'}: {mistake.says}")
        wrong += not found.trace
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

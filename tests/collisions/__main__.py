"""Several processes commit at the same moment to one store, and answers are lost: no commit is lost, none is made twice.

    python -m tests.collisions --store s3 --commits 2000

In each round every process waits for the others and then commits: to the journal in one half of the rounds, to a table of ours in
the other. Those that lose read again and repeat, until each commit of each round is made. In the end journal and table have to have
each commit once, in versions without a gap. Prints one line of JSON; the status is 1 if something is wrong.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.collisions.rounds import AGGREGATE, work
from tests.servers import proxy
from tests.servers.stores import STORES


def found(root: str) -> dict[str, Any]:
    """Return what the journal and the table have."""
    from deltalake import DeltaTable

    from materializer.journal.store import JournalStore
    from materializer.lake import places
    from materializer.lake.log import latest_version

    rows = JournalStore(root).read().rows
    taken = [json.loads(r.payload)["lease"]["owner"] for r in rows if r.kind == "lease_taken"]
    table = DeltaTable(f"{root}/table", storage_options=places.options_of(f"{root}/table"))
    names = table.to_pyarrow_table()["name"].to_pylist()
    versions = latest_version(f"{root}/table"), latest_version(f"{root}/_materializer/journal")
    return {"journal": taken, "table": names, "versions": versions}


def collide(root: str, processes: int, rounds: int) -> dict[str, Any]:
    """Run the rounds and return what is wrong."""
    import pyarrow as pa

    from materializer.adapters.memory.lake import DEFINED
    from materializer.journal.journal import Journal
    from materializer.lake.write.commit import create_table

    create_table(f"{root}/table", pa.schema([("name", pa.string())]), name="table")
    Journal(root).transact(lambda _: [(AGGREGATE, DEFINED)])
    before = found(root)["versions"]
    context = mp.get_context("spawn")
    barrier, failures = context.Barrier(processes), context.Queue()
    children = [context.Process(target=work, args=(root, i, rounds, barrier, failures)) for i in range(processes)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    wrong = [failures.get() for _ in range(sum(bool(child.exitcode) for child in children))]
    after = found(root)
    expected = {
        "table": {f"{p}-{at}" for p in range(processes) for at in range(0, rounds, 2)},
        "journal": {f"{p}-{at}" for p in range(processes) for at in range(1, rounds, 2)},
    }
    for what, names in expected.items():
        counts = Counter(after[what])
        wrong += [f"{what}: {len(names - counts.keys())} lost"] if names - counts.keys() else []
        doubled = [name for name, count in counts.items() if count > 1]
        wrong += [f"{what}: {len(doubled)} made twice"] if doubled else []
    made = [b - a for a, b in zip(before, after["versions"], strict=True)]
    if made != [len(expected["table"]), len(expected["journal"])]:
        wrong.append(f"versions: {made} for {[len(names) for names in expected.values()]} commits")
    return {"commits": sum(map(len, expected.values())), "wrong": wrong}


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=sorted(STORES), default="s3")
    parser.add_argument("--commits", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--lose", type=float, default=0.05, help="share of conditional puts whose answer is lost")
    args = parser.parse_args()
    store = STORES[args.store]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        server = stack.enter_context(store.started(Path(folder)))
        between = stack.enter_context(proxy.started(server.port))
        os.environ.update(server.environment(between.port))
        root = f"{server.bucket('collisions')}/lake"
        between.set(lose=args.lose)
        begun = time.perf_counter()
        report = collide(root, args.processes, args.commits // args.processes)
        seconds = round(time.perf_counter() - begun, 1)
        lost = sum(1 for r in between.requests() if r.fault)
    print(json.dumps({"store": args.store, **report, "answers_lost": lost, "seconds": seconds}))
    return int(bool(report["wrong"]))


if __name__ == "__main__":
    sys.exit(main())

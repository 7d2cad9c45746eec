"""``demo``, ``setup`` and ``version``."""

from __future__ import annotations

import platform
from typing import Final

from materializer.adapters.cli import options
from materializer.adapters.cli.call import CommandCall
from materializer.adapters.cli.listed import listed

PANEL = "Learn"
_PARTS = ("pyspark", "delta-spark", "deltalake", "sqlglot")


def demo(call: CommandCall, *, verbose: options.Verbose = False) -> None:
    """Run the main job on a year of flights: late data, corrections, refreshes, verification."""
    from materializer.demo.run import main

    call.status = main(lake=call.root, settings=call.lake.config, is_verbose=verbose)


def setup(call: CommandCall, *, again: options.Again = False) -> None:
    """Fetch Spark's jars, and keep what Java loads of them, so that later commands start quicker."""
    from materializer.adapters.cli.render.about import SetupResult
    from materializer.demo.prepare import prepare

    call.show(SetupResult(prepare(call.lake.config, again=again)))


def version(call: CommandCall) -> None:
    """Print what is installed."""
    from importlib import metadata

    import materializer
    from materializer.adapters.cli.render.about import VersionResult

    parts = {p: metadata.version(p) for p in _PARTS}
    call.show(VersionResult({"materializer": materializer.__version__, "python": platform.python_version(), **parts}))


COMMANDS: Final = listed(PANEL, demo, setup, version)

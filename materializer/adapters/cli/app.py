"""The program: one command is read and run, and its exit status is the process's."""

# ruff: noqa: PLC0415 - modules are loaded without looks for circles, and Typer where it is needed

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Args:
        argv: Arguments without the program's name; the process's own by default.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # Arrow's own pool keeps what two threads have freed
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start threads, which no command needs
    gc.set_threshold(
        100_000, 20, 100
    )  # a command makes many values, which live until it ends: to look for circles costs a quarter of it
    from materializer.adapters.cli import completion, plain
    from materializer.adapters.cli.arrow import load_without_pandas
    from materializer.adapters.cli.call import run
    from materializer.adapters.cli.output import show_logs

    load_without_pandas()
    show_logs()
    arguments = list(sys.argv[1:] if argv is None else argv)
    call = None if completion.is_asked() else plain.read(arguments, os.environ)
    if call is not None:
        status = run(call.command.body, **call.values)
    else:
        from materializer.adapters.cli import application

        status = application.read(arguments)
    if argv is None:
        gc.freeze()  # the process ends, and to look for circles once more takes a tenth of a short command
    return status

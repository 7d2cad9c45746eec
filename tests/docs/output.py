"""What pages show of real runs, taken from real runs: ``python -m tests.docs.output [--demo] [--pages [PAGE…]]``; without either, both.

``--demo`` runs the demo and keeps all that it says in ``docs/tour.txt``; the tour and the README show parts of that. It also runs the
commands that the tour ends with, on the lake that the demo left. ``--pages`` follows ``docs/policies.md`` and the pages about migrations, or those that are named, on the small lake of the stories.
Which part of an output a page shows is said here, not there: a test compares each page with ``docs/tour.txt``, and what the
commands of the pages print with what they show, wall times and sizes left out; the rows that ``show`` prints are compared as they are.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from tests.docs.blocks import Block, blocks, commands
from tests.paths import ROOT

if TYPE_CHECKING:
    from tests.docs.stories import Story

TOLD: Final = ROOT / "docs" / "tour.txt"
LEFT_OUT: Final = "…"
Part = str | tuple[str, str]
"""What is left out, or lines from one that is like the first expression until one that is like the second."""
DEMO: Final[Mapping[str, Sequence[Part]]] = {
    "README.md#6": [(r"  known ", r"  2 Dec ")],
    "docs/tour.md#2": [(r"1\. ", r"$"), LEFT_OUT, (r"3\. ", r"$")],
    "docs/tour.md#4": [(r"  known ", r"  2 Dec "), LEFT_OUT, (r"  7 Dec ", r"$")],
    "docs/tour.md#5": [(r"4\. ", r"$")],
    "docs/tour.md#6": [(r"5\. ", r"$")],
    "docs/tour.md#7": [(r"6\. ", r"$")],
}
"""By block: which parts of ``docs/tour.txt`` it shows, in their order."""
_WHAT: Final = [(r"\w+: ", r"  executor "), LEFT_OUT]
"""What is dirty, of a plan: how it is computed depends on prices, which a lake learns from wall times."""
PARTS: Final[Mapping[tuple[str, str], Sequence[Part]]] = {
    ("docs/environments.md#4", "apply"): [(r"volumes", r"    source"), LEFT_OUT, (r"    only", r"$|\S")],
    ("docs/environments.md#5", "plan"): [(r"\w+: ", r"  captured ")],
    ("docs/from-databricks.md#7", "plan"): _WHAT,
    ("docs/from-dbt.md#7", "plan"): _WHAT,
    ("docs/policies.md#4", "status"): [LEFT_OUT, (r"  policies ", r"  last refresh "), LEFT_OUT],
    ("docs/tour.md#8", "refresh"): [(r"departures_daily", r"destinations_monthly")],
}
"""By block and command: which parts of its output are shown; all of it elsewhere."""
_TIMES: Final = re.compile(
    r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z"  # when it was
    r"|\b\d[\d,]*(\.\d+)? (B|kB|MB|GB)\b"
    r"|\b(\d+ (h|min) )*\d+(\.\d+)? (ms|s)\b|\b\d+ (h|min)(?= |$)"
    r"|\b\d+\.\d+\b"
    r"|\b\d+ commits?\b"  # who takes long renews its lease
)
CHOSEN: Final = re.compile(r"\b[a-z-]+( \+ [a-z-]+)* +[\d,]+ of")
"""By which strategy, with how many rows read: that depends on prices, which a lake learns from wall times."""


def excerpt(text: str, parts: Sequence[Part]) -> str:
    r"""Return the parts of a text, each looked for behind the one before.

    Raises:
        ValueError: If a part is not there.

    Examples:
        >>> excerpt("a 1\n  more\nb 2\nc 3\n", [("a ", "b "), "…", ("c ", "$")])
        'a 1\n  more\n…\nc 3\n'
    """
    lines, at, found = text.splitlines(), 0, []
    for part in parts:
        if isinstance(part, str):
            found.append(part)
            continue
        first, until = part
        at = next((i for i in range(at, len(lines)) if re.match(first, lines[i])), len(lines))
        if at == len(lines):
            raise ValueError(f"no line is like {first!r} in:\n{text}")
        end = next((i for i in range(at + 1, len(lines)) if re.match(until, lines[i])), len(lines))
        found += "\n".join(lines[at:end]).rstrip().splitlines()
        at = end
    return "".join(f"{line.rstrip()}\n" for line in found).rstrip("\n") + "\n"


def masked(text: str) -> str:
    r"""Return a text without its line breaks, and without what differs from run to run: wall times, moments, sizes, commits.

    Examples:
        >>> masked("done  read 36 rows, 5 commits,\n   1.1 MB, 1 min 34 s; 0.52 s at 2026-11-21T08:02:13.122Z")
        'done read 36 rows, ~, ~, ~; ~ at ~'
    """
    return _TIMES.sub("~", " ".join(text.split()))


def shown(block: Block, words: Sequence[str], printed: str) -> str:
    """Return what a page shows of what a command printed."""
    command = next((word for word in words[1:] if (block.name, word) in PARTS), "")
    text = excerpt(printed, PARTS[block.name, command]) if command else printed
    return f"{text.rstrip()}\n" if text.strip() else ""


def differences(block: Block, printed: Sequence[str]) -> list[str]:
    """Return what a page shows of its commands and what they printed, where these differ in more than wall times and sizes.

    Rows are compared whole: a value with a decimal point is no wall time.
    """
    found = [masked(text) for text in (block.text, console(block, printed))]
    if found[0] != found[1]:
        return found
    pairs = [
        ("\n".join(command.output), text)
        for command, text in zip(commands(block), printed, strict=True)
        if command.words[1:2] == ("show",) and command.output
    ]
    return [text for pair in pairs for text in pair if pair[0].split() != pair[1].split()]


def of_demo(told: str) -> dict[str, str]:
    """Return what each block shows of what the demo told."""
    return {name: excerpt(told, parts) for name, parts in DEMO.items()}


def replaced(page: str, texts: Mapping[str, str]) -> str:
    """Return a page with other texts in some of its blocks, which are named."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    for block in reversed(blocks(page)):
        if block.name in texts:
            lines[block.line : block.line + len(block.text.splitlines())] = texts[block.name].splitlines()
    return "".join(f"{line}\n" for line in lines)


def console(block: Block, printed: Sequence[str]) -> str:
    """Return a block of commands with what each printed; those whose output the page does not show show nothing."""
    lines: list[str] = []
    told = iter(printed)
    for group in _groups(block):
        said = [shown(block, c.words, next(told)) for c in commands(replace(block, text=f"{group[0]}\n"))]
        lines.append(group[0])
        lines += "".join(said).splitlines() if len([line for line in group if line]) > 1 else []
        lines += [""] if group[-1] == "" else []
    return "".join(f"{line}\n" for line in lines)


def _groups(block: Block) -> Iterator[list[str]]:
    group: list[str] = []
    for line in block.text.splitlines():
        if line.startswith("$ ") and group:
            yield group
            group = []
        group.append(line)
    yield group


# -- real runs -----------------------------------------------------------------------------------------------------------


def demo(folder: str) -> tuple[str, str]:
    """Run the demo in a folder, and what the tour does with its lake; return what it told, and the block of commands."""
    told = _called(folder, "demo")
    [block] = [b for b in blocks("docs/tour.md") if b.language == "console"]
    printed = [
        _called(folder, *command.words[1:], "--lake", ".demo/lake") if command.words[0].endswith("materializer") else ""
        for command in commands(block)
    ]
    return told, console(block, printed)


def _demo() -> None:
    with tempfile.TemporaryDirectory(prefix="tour-") as folder:
        told, typed = demo(folder)
    TOLD.write_text(told, encoding="utf-8")
    [name] = [b.name for b in blocks("docs/tour.md") if b.language == "console"]
    for page in ("README.md", "docs/tour.md"):
        (ROOT / page).write_text(replaced(page, of_demo(told) | {name: typed}), encoding="utf-8")


def _called(folder: str, *arguments: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MATERIALIZER")}
    environment["PATH"] = (
        f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', '')}"  # as readers have it
    )
    return subprocess.run(
        [sys.executable, "-m", "materializer", *arguments],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


def _pages(pages: Sequence[str]) -> None:
    import pytest

    from materializer.config import Config, SparkConfig
    from materializer.spark.runtime import session
    from tests.docs import stories

    tables = {"flights": stories.some_flights(), "trades": stories.trades()}
    with tempfile.TemporaryDirectory(prefix="pages-") as top:
        options = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": top}
        spark = session.start(Config(spark=SparkConfig(options=options)))
        for page in pages:
            with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(dir=top) as folder:
                patch.chdir(folder)
                stories.sources("lake", tables)
                texts = followed(page, partial(stories.Story, page, spark, patch))
            (ROOT / page).write_text(replaced(page, texts), encoding="utf-8")
        spark.stop()


def followed(page: str, begin: Callable[[Callable[[], str]], Story]) -> dict[str, str]:
    """Do the blocks of a page in this folder; return the blocks of commands by name, with what the commands print.

    Args:
        page: The page.
        begin: Makes its story, given what returns the text printed since the last call.
    """
    from tests.docs import stories

    out, err = io.StringIO(), io.StringIO()

    def read() -> str:
        text = out.getvalue() or err.getvalue()
        for stream in (out, err):
            stream.seek(0)
            stream.truncate()
        return text

    texts = {}
    with redirect_stdout(out), redirect_stderr(err):
        story = begin(read)
        story.is_compared = False
        for block in blocks(page):
            if block.language not in stories.LANGUAGES or stories.is_done_elsewhere(block):
                continue
            story.do(block)
            if block.language == "console":
                texts[block.name] = console(block, story.outputs)
    return texts


def main(argv: Sequence[str] | None = None) -> int:
    """Run what pages show, and write it into them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", action="store_true", help="the demo, for the tour and the README")
    parser.add_argument("--pages", nargs="*", metavar="PAGE", help="commands of these pages; all without a name")
    asked = parser.parse_args(argv)
    if asked.demo or asked.pages is None:
        _demo()
    if asked.pages is not None or not asked.demo:
        from tests.docs.stories import COMPARED

        _pages(asked.pages or COMPARED)
    return 0


if __name__ == "__main__":
    sys.exit(main())

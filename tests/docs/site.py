"""The documentation's site of several versions: ``python -m tests.docs.site [TAG…] [--out FOLDER]``.

Each TAG of the repository is built into a folder of its name, and the working tree into ``development``. A page lets a reader choose among
the versions in ``versions.js``, which lies beside the folders and is written anew by each call, from the folders that are there. So a
version is built once, and knows those that come later. Nothing is fetched over the network, and the site may be opened as files.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.paths import ROOT

WORKING: Final = "development"
"""The version of the working tree, which the configuration of Sphinx names, too."""
FIRST: Final = "index.html"
_REDIRECT: Final = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={0}/index.html"><a href="{0}/index.html">{0}</a>\n'


def build(out: Path, tags: Sequence[str], *, repository: Path = ROOT) -> list[str]:
    """Build the working tree and some tags; return the names of all versions that are there, newest first.

    The configuration and the templates are those of this repository, so that old versions have the list of versions, too.

    Args:
        out: The folder of the site.
        tags: What is built beside the working tree.
        repository: What has the tags, and pages in ``docs``.

    Raises:
        ValueError: If a tag is unknown, or its name cannot be that of a folder.
        subprocess.CalledProcessError: If Sphinx fails; warnings of the working tree are errors.
    """
    known = _git(repository, "tag").split()
    for tag in tags:
        if tag not in known:
            raise ValueError(f"no tag {tag!r}; nothing was built; known are: {', '.join(known) or 'none'}")
        if not re.fullmatch(r"\w[\w.+-]*", tag) or tag == WORKING:
            raise ValueError(f"the tag {tag!r} cannot be the name of a folder of the site; nothing was built")
    for tag in tags:
        with tempfile.TemporaryDirectory(prefix="site-") as folder:
            archive = Path(folder) / "pages.tar"
            _git(repository, "archive", f"--output={archive}", tag)
            with tarfile.open(archive) as pages:
                pages.extractall(folder, filter="data")
            _sphinx(Path(folder), out / tag, tag)
    _sphinx(repository, out / WORKING, WORKING, "-W", "--keep-going")
    return index(out)


def index(out: Path) -> list[str]:
    """Write the list of the versions in a folder, and the page that leads to the newest tag; return their names, newest first."""
    names = sorted((p.parent.name for p in out.glob(f"*/{FIRST}")), key=_newness, reverse=True)
    versions = [
        {
            "name": name,
            "pages": sorted(
                str(p.relative_to(out / name)) for p in (out / name).rglob("*.html") if "_static" not in p.parts
            ),
        }
        for name in names
    ]
    (out / "versions.js").write_text(f"window.materializerVersions = {json.dumps(versions)};\n", encoding="utf-8")
    tags = [name for name in names if name != WORKING]
    (out / FIRST).write_text(_REDIRECT.format((tags or names)[0]), encoding="utf-8")
    return names


def _newness(name: str) -> tuple[bool, list[tuple[int, str]]]:
    """The working tree is the newest; numbers in the name of a tag count as numbers, and 1.0rc1 is older than 1.0."""
    numbers, _, rest = name.lstrip("v").partition("rc")
    parts = [(int(n), "") for n in re.findall(r"\d+", numbers)]
    return name == WORKING, [*parts, (-1, rest.zfill(4)) if rest else (0, "")]


def _sphinx(tree: Path, folder: Path, version: str, *options: str) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    names = ("-D", f"release={version}", "-c", str(ROOT / "docs"))
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", *options, *names, str(tree / "docs"), str(folder)]
    subprocess.run(command, cwd=tree, env=os.environ | {"PYTHONPATH": str(tree)}, check=True)
    shutil.rmtree(folder / ".doctrees", ignore_errors=True)


def _git(repository: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=repository, check=True, capture_output=True, text=True).stdout


def main(argv: Sequence[str] | None = None) -> int:
    """Build the site, and print its versions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tags", nargs="*", metavar="TAG", help="tags to build beside the working tree")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "build" / "sites", help="folder of the site, build/sites without it"
    )
    asked = parser.parse_args(argv)
    try:
        names = build(asked.out, asked.tags)
    except ValueError as problem:
        parser.error(str(problem))
    print(f"{asked.out}: {', '.join(names)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

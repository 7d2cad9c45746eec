"""What came of each shard, kept as a line of JSON: the newest outcome, and of which state of the repository it is."""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.paths import ROOT
from tests.shards.cut import Shard

FILE: Final = Path(__file__).with_name("record.jsonl")
PRODUCT: Final = ("materializer", "sql", "expectations", "dags", "pyproject.toml", "constraints.txt", "tests")
PAGES: Final = ("docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
"""What only tests of pages depend on."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a shard.

    Args:
        shard: Its name.
        commit: The commit that was checked out.
        tree: The state of all that its tests depend on.
        passed: How many tests passed.
        failed: How many failed, or did not come to an end.
        skipped: How many were skipped.
        names: Those that failed.
        seconds: How long it took.
        seed: What random data were drawn from.
        at: When it began.
    """

    shard: str
    commit: str
    tree: str
    passed: int
    failed: int
    skipped: int
    names: tuple[str, ...]
    seconds: int
    seed: int
    at: str


def read(file: Path = FILE) -> dict[str, Outcome]:
    """Return the newest outcome of each shard.

    Raises:
        ValueError: For a line that cannot be read.
    """
    found: dict[str, Outcome] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines() if file.is_file() else [], 1):
        try:
            entry = json.loads(line)
            found[entry["shard"]] = Outcome(**entry | {"names": tuple(entry["names"])})
        except (ValueError, KeyError, TypeError) as exc:
            raise ValueError(f"line {number} of {file} is no outcome of a shard: {exc!r}") from exc
    return found


def keep(outcome: Outcome, shards: Iterable[str], file: Path = FILE) -> None:
    """Put an outcome in the place of an older one; outcomes of shards that are no more go."""
    found = {**read(file), outcome.shard: outcome}
    lines = [json.dumps(asdict(found[name])) for name in sorted(found.keys() & set(shards))]
    aside = file.with_suffix(".new")
    aside.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    aside.replace(file)


def state(outcome: Outcome | None, tree: str) -> str:
    """Return in a word what is known of a shard at a state of the repository."""
    if outcome is None:
        return "never"
    if outcome.tree != tree:
        return "stale"
    if outcome.failed:
        return "failed"
    return "passed" if outcome.passed else "skipped"


def tree_of(shard: Shard, blobs: Mapping[str, str], imported: Iterable[str]) -> str:
    """Return what stands for all that a shard depends on.

    That is the product, what the tests share, the file of the shard, other files of tests that it imports, and its tests. Pages
    count where tests of pages are; this runner and its record do not.

    Args:
        shard: The shard.
        blobs: The hash of each file of a commit, by path.
        imported: Files of tests that its file imports from.
    """
    own = {shard.file, *imported}

    def counts(path: str) -> bool:
        if path.startswith("tests/"):
            is_a_test = Path(path).name.startswith("test_") and path.endswith(".py")
            return path in own or not (is_a_test or path.startswith("tests/shards/"))
        return path.startswith(PRODUCT) or (shard.file.startswith("tests/docs/") and path.startswith(PAGES))

    parts = [*shard.tests, *(f"{path} {blob}" for path, blob in sorted(blobs.items()) if counts(path))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def imports_of(file: str, root: Path = ROOT) -> set[str]:
    """Return the files of tests from which a file of tests imports, also by way of others and of what `conftest.py` brings."""
    known: set[Path] = set()
    waiting = [
        root / file,
        *(folder / "conftest.py" for folder in (root / file).parents if folder.is_relative_to(root)),
    ]
    while waiting:
        path = waiting.pop()
        if path not in known and path.is_file():
            known.add(path)
            waiting += _named(path, root)
    return {str(path.relative_to(root)) for path in known if path.name.startswith("test_")} - {file}


def _named(path: Path, root: Path) -> Iterator[Path]:
    """Give the files that the imports of a file may mean."""
    for line in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(line, ast.ImportFrom):
            module = (line.module or "").split(".")
            folder = path.parents[line.level - 1] if line.level else root
            if line.level or module[0] == "tests":
                yield folder.joinpath(*module).with_suffix(".py")
                yield from (folder.joinpath(*module, name.name).with_suffix(".py") for name in line.names)


def blobs() -> dict[str, str]:
    """Return the hash of each file of the newest commit that a test may depend on."""
    said = _git("ls-tree", "-r", "HEAD", "--", *PRODUCT, *PAGES)
    return {path: what.split()[2] for what, _, path in (line.partition("\t") for line in said.splitlines())}


def commit() -> str:
    """Return the newest commit, in short."""
    return _git("rev-parse", "--short", "HEAD").strip()


def changed() -> list[str]:
    """Return what stands otherwise than in the newest commit; the record itself may."""
    said = _git("status", "--porcelain", "--", *PRODUCT, *PAGES, f":!{FILE.relative_to(ROOT)}")
    return [line[3:] for line in said.splitlines()]


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout

"""How slow tests are cut into shards, when an outcome still counts, and what is run next."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from dataclasses import replace as with_fields

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests import drawn
from tests.shards import record
from tests.shards.__main__ import chosen, next_of
from tests.shards.cut import MOST, Shard, cut, seconds_of
from tests.shards.record import Outcome

FILES = ("system/test_a", "system/processes/test_b", "model/test_c", "docs/test_d")
TESTS = st.lists(
    st.builds("tests/{}.py::test_{}[{}]".format, st.sampled_from(FILES), st.integers(0, 9), st.integers(0, 99)),
    unique=True,
    max_size=300,
)
A = Shard("system/a", ("tests/system/test_a.py::test_one", "tests/system/test_a.py::test_two"))
D = Shard("docs/d", ("tests/docs/test_d.py::test_one",))
BLOBS = {
    "materializer/core/refresh/plan.py": "1",
    "docs/index.md": "1",
    "tests/conftest.py": "1",
    "tests/shards/cut.py": "1",
    "tests/shards/record.jsonl": "1",
    "tests/system/lake.py": "1",
    "tests/system/test_a.py": "1",
    "tests/system/test_b.py": "1",
    "tests/docs/test_d.py": "1",
}
DONE = Outcome("system/a", "c", "t", 2, 0, 0, (), 100, 7, "2026-01-01T00:00:00Z")


@given(TESTS)
def test_each_slow_test_is_in_one_shard(tests: list[str]) -> None:
    """
    Shards are a partition, each of one file, with a name of its own, and none is longer than allowed unless one test is.
    """
    shards = cut(tests)

    assert sorted(tests) == sorted(t for shard in shards for t in shard.tests)
    assert len(shards) == len({shard.name for shard in shards})
    for shard in shards:
        assert {shard.file} == {t.partition("::")[0] for t in shard.tests}
        assert shard.seconds <= MOST or 1 == len(shard.tests)
    assert shards == cut(tests)


def test_the_slow_tests_of_this_run_are_cut(slow_tests) -> None:
    """
    Of all that was collected here each slow test is in one shard, and no shard takes more than twenty minutes, as far as known.
    """
    shards = cut(slow_tests)

    assert sorted(slow_tests) == sorted(t for shard in shards for t in shard.tests)
    assert len(slow_tests) == len(set(slow_tests))
    assert [] == [shard.name for shard in shards if shard.seconds > MOST]


def test_what_moved_to_the_shards_has_a_quick_sibling(slow_tests, quick_tests) -> None:
    """
    Each entry of `tests/slow.toml` stands for slow tests, and the test beside it runs in every `make test`.
    """
    listed = tomllib.loads((record.ROOT / "tests/slow.toml").read_text(encoding="utf-8"))["slow"]
    files = {test.split("::")[0] for test in [*slow_tests, *quick_tests]}
    both = [e for e in listed if {e["test"].split("::")[0], e["sibling"].split("::")[0]} <= files]

    assert [] == [e["test"] for e in both if not any(t.startswith(e["test"]) for t in slow_tests)]
    assert [] == [e["test"] for e in both if any(t.startswith(e["test"]) for t in quick_tests)]
    quick = [
        *quick_tests,
        *(slow_tests if drawn.is_all() else ()),
    ]  # where nothing is drawn, the shards take the siblings, too
    assert [] == [e["sibling"] for e in both if not any(t.startswith(e["sibling"]) for t in quick)]


def test_the_longest_beginning_counts() -> None:
    """
    Of a file there may be a time, and another of one of its tests.
    """
    assert 3 == seconds_of("tests/system/test_engines.py::test_case[x]")
    assert 15 == seconds_of("tests/system/test_engines.py::test_another")


@pytest.mark.parametrize(
    ("path", "of_a", "of_d"),
    [
        ("materializer/core/refresh/plan.py", True, True),
        ("tests/conftest.py", True, True),
        ("tests/system/lake.py", True, True),
        ("tests/system/test_a.py", True, False),
        ("tests/system/test_b.py", True, False),
        ("tests/docs/test_d.py", False, True),
        ("docs/index.md", False, True),
        ("tests/shards/cut.py", False, False),
        ("tests/shards/record.jsonl", False, False),
    ],
)
def test_an_outcome_counts_until_something_changes_that_it_depends_on(path: str, of_a: bool, of_d: bool) -> None:
    """
    The product, what tests share, the shard's file, and files of tests that it imports; pages where pages are tested.
    """
    now = BLOBS | {path: "2"}
    imported = {"tests/system/test_b.py"}

    assert of_a == (record.tree_of(A, BLOBS, imported) != record.tree_of(A, now, imported))
    assert of_d == (record.tree_of(D, BLOBS, ()) != record.tree_of(D, now, ()))


def test_other_tests_make_another_shard_of_it() -> None:
    """
    An outcome of a shard with fewer tests is none of one with more.
    """
    assert record.tree_of(A, BLOBS, ()) != record.tree_of(replace(A, tests=A.tests[:1]), BLOBS, ())


def test_a_file_of_tests_depends_on_those_that_it_imports(tmp_path) -> None:
    """
    Directly, by way of a file that is no test, and by what `conftest.py` brings.
    """
    folder = tmp_path / "tests" / "system"
    folder.mkdir(parents=True)
    (folder / "test_a.py").write_text("from tests.system.helpers import row\nfrom tests.system import test_b\n")
    (folder / "helpers.py").write_text("from .test_c import row\n")
    (folder / "conftest.py").write_text("from tests.system.test_d import row\n")
    for name in "bcde":
        (folder / f"test_{name}.py").touch()

    assert {f"tests/system/test_{name}.py" for name in "bcd"} == record.imports_of("tests/system/test_a.py", tmp_path)


def test_the_record_keeps_the_newest_outcome_of_each_shard(tmp_path) -> None:
    """
    A newer one takes the place of an older one, and a shard that is no more goes; a line that cannot be read is an error.
    """
    file = tmp_path / "record.jsonl"
    failed = with_fields(DONE, passed=1, failed=1, names=("tests/system/test_a.py::test_two",))
    for outcome in (DONE, with_fields(DONE, shard="system/gone"), with_fields(DONE, shard="docs/d"), failed):
        record.keep(outcome, ["system/a", "docs/d"], file)

    assert {"system/a": failed, "docs/d": with_fields(DONE, shard="docs/d")} == record.read(file)
    file.write_text('{"shard": "x"}\n')
    with pytest.raises(ValueError, match="line 1"):
        record.read(file)


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (None, "never"),
        (DONE, "passed"),
        (with_fields(DONE, failed=1), "failed"),
        (with_fields(DONE, passed=0, skipped=2), "skipped"),
        (with_fields(DONE, tree="older"), "stale"),
        (with_fields(DONE, tree="older", failed=1), "stale"),
    ],
)
def test_what_is_known_of_a_shard(outcome: Outcome | None, state: str) -> None:
    """
    An outcome of another state of the repository says nothing of this one.
    """
    assert state == record.state(outcome, "t")


def test_what_is_run_next() -> None:
    """
    What has no outcome here, in order; of what is named also what has one; and only what ends in time.
    """
    states = {"system/a": "passed", "docs/d": "stale"}
    assert [D] == chosen((A, D), (), states)
    assert [A] == chosen((A, D), ("system",), states)
    with pytest.raises(SystemExit, match="no shard is called so: nothing"):
        chosen((A, D), ("nothing",), states)

    assert A == next_of([A, D], 120, {"system/a": DONE})
    assert D == next_of([A, D], 119, {"system/a": DONE})
    assert next_of([A, D], 14, {"system/a": DONE}) is None


def test_the_kept_record_can_be_read() -> None:
    """
    Every outcome names its failed tests, and says of which commit it is.
    """
    for outcome in record.read().values():
        assert outcome.failed == len(outcome.names)
        assert outcome.commit
        assert outcome.tree


def test_the_command_says_what_it_does() -> None:
    """
    Without collecting anything.
    """
    said = subprocess.run([sys.executable, "-m", "tests.shards", "--help"], capture_output=True, text=True, check=True)

    assert "--minutes" in said.stdout

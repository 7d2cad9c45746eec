from __future__ import annotations

from collections import Counter
from itertools import accumulate, groupby, pairwise

from hypothesis import given
from hypothesis import strategies as st

from materializer.core.policy.compaction import FEW, FileExtent, Group, cuts, depth, groups, is_small
from tests.fresh import for_new_data

TARGET = 8
Table = dict[str, list[int]]
"""Files by name, each the bucket of every row, sorted."""

TABLES = st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=20).map(sorted), max_size=25).map(
    lambda files: {f"f{i}": rows for i, rows in enumerate(files)}
)
FRESH = st.lists(st.integers(0, 40), min_size=1, max_size=40).map(
    lambda buckets: {f"f{i}": [bucket] for i, bucket in enumerate(buckets)}
)


def pieces_of(table: Table) -> list[FileExtent]:
    return [FileExtent(name, len(rows), 10 * len(rows), rows[0], rows[-1]) for name, rows in table.items()]


def rewritten(table: Table, found: list[Group], round_: int) -> Table:
    """Return the table after its groups were written again, as the driver does it."""
    left = dict(table)
    for g, group in enumerate(found):
        rows = sorted(row for p in group.pieces for row in left.pop(p.path))
        buckets = [list(same) for _, same in groupby(rows)]
        ends = [0, *accumulate(cuts([len(b) for b in buckets], TARGET))]
        for i, (start, end) in enumerate(pairwise(ends)):
            left[f"r{round_}-{g}-{i}"] = [row for bucket in buckets[start:end] for row in bucket]
    return left


def maintained(table: Table) -> tuple[Table, int]:
    """Return the table after as many rounds as find something, and how many these were."""
    for round_ in range(20):
        found = groups(pieces_of(table), TARGET)
        if not found:
            return table, round_
        table = rewritten(table, found, round_)
    raise AssertionError("maintenance does not end")


def over(table: Table, at: float) -> int:
    """How many files lie over an instant between two buckets, counted one by one."""
    return sum(rows[0] < at < rows[-1] for rows in table.values())


@given(TABLES | FRESH)
def test_maintenance_keeps_all_rows_and_ends(table: Table) -> None:
    """
    Rows are the same, new files hold enough of them, and what was maintained needs nothing.
    """
    after, rounds = maintained(table)
    before = Counter(row for rows in table.values() for row in rows)

    assert before == Counter(row for rows in after.values() for row in rows)
    assert len(after) <= len(table) + before.total() // TARGET
    assert rounds <= 3
    assert [] == groups(pieces_of(after), TARGET)


test_maintenance_keeps_all_rows_and_ends_for_new_data = for_new_data(test_maintenance_keeps_all_rows_and_ends)


@given(TABLES | FRESH)
def test_few_files_lie_over_each_other_afterwards(table: Table) -> None:
    """
    After maintenance fewer than FEW files lie over any instant, and never more than before where they were few.
    """
    after, _ = maintained(table)

    assert depth(pieces_of(after)) < FEW
    for bucket in range(41):
        assert over(after, bucket + 0.5) <= max(over(table, bucket + 0.5), FEW - 1)


@given(TABLES)
def test_depth_is_what_counting_gives(table: Table) -> None:
    """
    The sweep agrees with counting the files over each instant.
    """
    counted = max((over(table, bucket + 0.5) for bucket in range(31)), default=0)

    assert max(counted, min(1, len(table))) == depth(pieces_of(table))


@given(TABLES | FRESH)
def test_no_file_is_in_two_groups(table: Table) -> None:
    """
    Groups are disjoint, hold at least two files, and runs of small files hold small files only.
    """
    found = groups(pieces_of(table), TARGET)
    names = [p.path for g in found for p in g.pieces]

    assert len(set(names)) == len(names)
    assert all(len(g.pieces) > 1 for g in found)
    assert all(is_small(p, TARGET) for g in found if g.why == "small" for p in g.pieces)


@given(st.lists(st.integers(1, 30), max_size=40), st.integers(1, 20))
def test_cuts_take_every_bucket_once(counts: list[int], target: int) -> None:
    """
    Every bucket is in one file; a file is not small unless it is the last, and no larger than it has to be.
    """
    sizes = cuts(counts, target)
    ends = [0, *accumulate(sizes)]
    rows = [sum(counts[a:b]) for a, b in pairwise(ends)]

    assert len(counts) == sum(sizes)
    assert all(n >= target for n in rows[:-1])
    assert all(n < 2.5 * target or n - target <= max(counts) for n in rows)


def test_late_files_are_merged_with_each_other_first() -> None:
    """
    Wide files over a well laid out table are cut among themselves; the table below stays as it is.
    """
    base = {f"base{i}": [i * 10 + j for j in range(10)] for i in range(10)}
    late = {f"late{i}": [i, 50, 99 - i] for i in range(3)}

    [group] = groups(pieces_of(base | late), TARGET)

    assert ("deep", set(late)) == (group.why, {p.path for p in group.pieces})


def test_what_is_fine_is_left_alone() -> None:
    """
    Few small files, and files that share a bucket at their ends, need nothing.
    """
    small = {f"s{i}": [i] for i in range(FEW - 1)}
    chained = {f"c{i}": [*range(10 * i, 10 * i + 11)] for i in range(50)}

    assert [] == groups(pieces_of(small), TARGET)
    assert [] == groups(pieces_of(chained), TARGET)
    assert 1 == depth(pieces_of(chained))


def test_a_few_are_too_many() -> None:
    """
    FEW small files side by side are written again, half of what a file should hold is not small, and what is left over
    after a large file is a file of its own.
    """
    [group] = groups(pieces_of({f"s{i}": [i] for i in range(FEW)}), TARGET)

    assert ("small", FEW) == (group.why, len(group.pieces))
    assert [] == groups(pieces_of({f"s{i}": [i] * (TARGET // 2) for i in range(FEW)}), TARGET)
    assert [1, 1] == cuts([2 * TARGET, 1], TARGET)
    assert [2] == cuts([2 * TARGET - 1, 1], TARGET)


def test_late_files_side_by_side_are_merged_apart() -> None:
    """
    The one file below both holds most rows and stays; the late ones on its left and on its right only share an end.
    """
    base = {"base": [i for i in range(21) for _ in range(4)]}
    left, right = ({f"{at}-{i}": [at, at + 5, at + 10] for i in range(FEW - 1)} for at in (0, 10))
    found = groups(pieces_of(base | left | right), TARGET)

    assert [("deep", set(left)), ("deep", set(right))] == [(g.why, {p.path for p in g.pieces}) for g in found]

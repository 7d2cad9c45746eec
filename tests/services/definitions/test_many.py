"""Many definitions in one command."""

from __future__ import annotations

from pathlib import Path

from materializer.lake import places
from materializer.services.activity import hearing
from tests.counting import calls_of, calls_to
from tests.services.no_spark import LocalLake, each, view


def statements(count: int) -> str:
    """Return so many definitions over one source."""
    return "\n".join(view(f"of_{number}", each(f"{number + 1} hours")) + ";" for number in range(count))


def test_the_work_grows_with_their_number_alone(tmp_path: Path) -> None:
    """
    None is compared with each other one: four times as many take four times as much work.
    """
    (tmp_path / "lake").mkdir()
    lake = LocalLake(tmp_path / "lake")
    few, many = statements(10), statements(40)
    lake.apply(few, dry_run=True)

    assert calls_of(lambda: lake.apply(many, dry_run=True)) < 5 * calls_of(lambda: lake.apply(few, dry_run=True))
    assert calls_to(places.resolved, lambda: lake.apply(many, dry_run=True)) < 5 * 40


def test_a_long_apply_says_how_far_it_is(tmp_path: Path) -> None:
    """
    While it checks the definitions, and while it writes them.
    """
    lake, heard = LocalLake(tmp_path), list[str]()
    with hearing(heard.append):
        lake.apply(statements(3))

    assert [f"checking definitions, {n} of 3" for n in range(3)] == [words for words in heard if "checking" in words]
    assert [f"writing definitions, {n} of 3" for n in range(3)] == [words for words in heard if "writing" in words]

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutations.catalogue import Mistake, Place, load, named
from tests.mutations.running import run


def _entry(folder: Path, test: str, *, text: str = "a - b", instead: str = "a + b") -> Mistake:
    """A folder with one function and one test, and a mistake in the function."""
    (folder / "code.py").write_text("def less(a, b):\n    return a - b\n")
    (folder / "test_code.py").write_text(f"from code_ import less\n\n{test}\n".replace("code_", "own"))
    (folder / "code.py").rename(folder / "own.py")
    return Mistake("X1", "Less is less.", (Place("own.py", text, instead),), ("test_code.py",), None)


@pytest.mark.parametrize("mistake", load(), ids=lambda each: each.id)
def test_every_entry_applies(mistake):
    """
    The text of an entry stands in its file once, and its tests exist: the catalogue follows the code.
    """
    assert mistake.why_not() == []


def test_a_mistake_that_a_test_sees_is_killed(tmp_path):
    """
    The test that fails is named, and the file is as it was.
    """
    mistake = _entry(tmp_path, "def test_less():\n    assert less(3, 1) == 2")
    before = (tmp_path / "own.py").read_text()
    found = run(tmp_path, mistake, 60)
    assert (found.outcome, found.why) == ("killed", "test_less")
    assert (tmp_path / "own.py").read_text() == before


@pytest.mark.parametrize(
    ("test", "instead", "outcome"),
    [
        ("def test_less():\n    assert less(3, 0) == 3", "a + b", "survived"),
        ("def test_less():\n    assert less(3, 1) == 2", "a -", "broken"),
        (
            "import pytest\n\n@pytest.fixture\ndef two():\n    return 2 / less(2, -2)\n\ndef test(two):\n    pass",
            "a + b",
            "broken",
        ),
    ],
    ids=["no test sees it", "nothing can be collected", "an error before the test"],
)
def test_what_does_not_fail_a_test_is_not_killed(tmp_path, test, instead, outcome):
    """
    Only a failed test kills: what cannot be imported or set up says nothing about the tests.
    """
    assert run(tmp_path, _entry(tmp_path, test, instead=instead), 60).outcome == outcome


def test_ids_may_be_named_by_their_beginning():
    """
    An id that exists is that one alone; any other text names all that begin so.
    """
    mistakes = [Mistake(name, "", (), (), "so") for name in ("L1", "L10", "M1")]
    assert [each.id for each in named(mistakes, ["L1"])] == ["L1"]
    assert [each.id for each in named(mistakes, ["L"])] == ["L1", "L10"]
    with pytest.raises(ValueError, match="no id begins so: K"):
        named(mistakes, ["K"])

"""The table of attacks."""

from __future__ import annotations

from tests.attacks.__main__ import PAGE, attacks, page


def test_the_page_has_each_attack() -> None:
    """
    SECURITY.md is made from the tests; `python -m tests.attacks` writes it.
    """
    assert len(attacks()) > 30
    assert PAGE.read_text(encoding="utf-8") == page()

"""Calls that are read without Typer: as Typer reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from materializer.adapters.cli import application, plain
from materializer.adapters.cli.commands import MODULES, named
from materializer.adapters.cli.listed import ListedCommand, ListedGroup, Option
from materializer.adapters.cli.options import parameters


def all_commands() -> Iterator[tuple[tuple[str, ...], ListedCommand]]:
    """Every command, with the words that call it."""
    for name in MODULES:
        found = named(name)
        if isinstance(found, ListedGroup):
            yield from (((name, inner), command) for inner, command in found.commands.items())
        else:
            yield (name,), found


COMMANDS = dict(all_commands())
WORDS = st.sampled_from(
    ["hourly", "a.sql", "2024-01-01", "local", "newest", "3", "", "-", "--", "-1", "--all=1", "ä", "a b", "\udc80"]
)


def options_of(words: tuple[str, ...]) -> list[str]:
    """The options of a command."""
    taken = [each.annotation.__metadata__[0] for each in parameters(COMMANDS[words].body)]
    return [each.name for each in taken if isinstance(each, Option)]


@st.composite
def calls(draw: st.DrawFn) -> list[str]:
    """The words of a call, more often right than wrong."""
    words = draw(st.sampled_from(sorted(COMMANDS)))
    options = st.sampled_from(options_of(words))
    return [*words, *draw(st.lists(st.one_of(options, WORDS, st.sampled_from(["hourly", "all"])), max_size=6))]


def by_typer(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> tuple[Any, dict[str, Any]] | None:
    """What Typer gives to the body of a command; None where it is not called."""
    called: list[tuple[Any, dict[str, Any]]] = []

    def run(body: Callable[..., None], **values: Any) -> int:
        called.append((body, values))
        return 0

    with monkeypatch.context() as patched:
        patched.setattr(application, "run", run)
        application.read(words)
    return called[0] if called else None


@given(
    words=calls(),
    environ=st.fixed_dictionaries(
        {}, optional={"MATERIALIZER_LAKE": WORDS, "MATERIALIZER_JSON": st.sampled_from(["", "1", "no"])}
    ),
)
def test_a_call_is_read_as_typer_reads_it(words: list[str], environ: dict[str, str]) -> None:
    """
    A call that is read has the command and the values that Typer finds; others are Typer's.
    """
    with pytest.MonkeyPatch.context() as patched:
        for name in ("MATERIALIZER_LAKE", "MATERIALIZER_JSON"):
            patched.delenv(name, raising=False)
        for name, value in environ.items():
            patched.setenv(name, value)
        call = plain.read(words, environ)

        assert call is None or (call.command.body, call.values) == by_typer(patched, words)


@pytest.mark.parametrize(
    "call",
    [
        "refresh hourly",
        "refresh --all --json --lake lake",
        "refresh hourly --executor local --start 2024-01-01",
        "apply hourly.sql daily.sql",
        "policy run --due",
        "history hourly",
        "changes hourly --strict-exit",
    ],
)
def test_calls_that_come_often_are_read(call: str) -> None:
    """
    Names, options with texts, flags, and one of a few words.
    """
    assert plain.read(call.split(), {}) is not None


@pytest.mark.parametrize(
    "call", ["", "refresh --help", "refresh hourly daily", "plan hourly --start", "expire hourly", "list"]
)
def test_what_is_wrong_or_asks_is_not_read(call: str) -> None:
    """
    Typer says what is wrong, and shows help.
    """
    assert plain.read(call.split(), {}) is None

from __future__ import annotations

import io
import json
import re

import pytest

from materializer.adapters.cli.app import main
from materializer.adapters.cli.output import TextOutput
from materializer.adapters.cli.render.explain import ExplainResult
from materializer.errors import DefinitionError, LeaseLostError, Problem
from materializer.errors.explained import all_codes, plain

CODES = all_codes()


@pytest.mark.parametrize("code", CODES)
def test_a_code_says_what_why_what_to_do_and_what_was_written(code):
    """
    Each text is there and says something of its own, *why* and *written* in whole sentences, without signs of Markdown.
    """
    found = CODES[code]
    texts = [plain(text) for text in (found.when, found.why, found.do, found.wrote)]

    assert 4 == len({text.lower().rstrip(".") for text in texts})
    assert all(text.strip() == text and text for text in texts)
    assert all(text[0].isupper() or text.startswith(("exchange_calendars", "'")) for text in (texts[1], texts[3]))
    assert all(text.endswith(".") for text in (texts[1], texts[3]))
    assert not [text for text in texts if "](" in text or "``" in text]


@pytest.mark.parametrize("asked", ["window.frozen", "WINDOW.FROZEN", "(window.frozen)"])
def test_a_code_is_found_as_it_is_printed(capsys, asked):
    """
    In any letters, and in the brackets in which an error prints it.
    """
    assert 0 == main(["explain", asked])
    shown = capsys.readouterr().out

    assert shown.startswith("window.frozen\n")
    assert "thaw NAME" in shown
    assert "Nothing was written." in shown
    assert "64: the request makes no sense" in shown


def test_without_a_code_all_are_listed_by_exit_status(capsys):
    """
    Each once, below its status; problems and findings have groups of their own.
    """
    assert 0 == main(["explain"])
    lines = capsys.readouterr().out.splitlines()
    heads = [line for line in lines if line and not line.startswith((" ", "'"))]
    codes = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]

    assert sorted(CODES) == sorted(codes)
    assert {"64", "65", "66", "69", "70", "71", "74", "75", "1", "130"} == {h.partition(":")[0] for h in heads[:-4]}
    groups = ["problems in definitions", "problems in suites", "problems in tests of definitions", "findings of doctor"]
    assert groups == heads[-4:]


def test_the_first_part_of_a_code_lists_what_is_below_it(capsys):
    """
    And nothing else.
    """
    assert 0 == main(["explain", "window", "--json"])
    found = json.loads(capsys.readouterr().out)["codes"]

    assert ["window.invalid", "window.too-small", "window.frozen", "window.retired"] == [c["code"] for c in found]


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        ("frozen", "'window.frozen' or 'history.frozen'"),
        ("definition.unkown-column", "'definition.unknown-column'"),
        ("lease.hold", "'lease.held'"),
        ("qqqq", "'materializer explain' lists all codes"),
        ("", "'materializer explain' lists all codes"),
    ],
)
def test_a_code_that_is_none_names_similar_ones(capsys, asked, near):
    """
    By its last part, or by its letters; else the list is named, and that command works.
    """
    assert 64 == main(["explain", asked])

    assert near in capsys.readouterr().err


@pytest.mark.parametrize("width", [60, 100])
def test_explanations_keep_to_the_width(width):
    """
    Of every code, as narrow as a terminal is taken to be; the list in 100 columns.
    """
    shown = [ExplainResult((e,), is_detailed=True) for e in CODES.values()]
    shown += [ExplainResult(tuple(CODES.values()))] if width == 100 else []

    assert [] == [line for result in shown for line in result.lines(width) if len(line) > width]


@pytest.mark.parametrize(
    "error", [LeaseLostError("it was lost", hint=""), DefinitionError([Problem("definition.width-zero", "zero")])]
)
def test_an_error_without_a_hint_names_its_explanation(capsys, error):
    """
    The command that it names works.
    """
    err = io.StringIO()
    TextOutput(io.StringIO(), err).fail(error)
    [command] = re.findall(r"'materializer (explain [^']+)'", " ".join(err.getvalue().split()))

    assert 0 == main(command.split())
    assert capsys.readouterr().out.startswith(command.split()[1])

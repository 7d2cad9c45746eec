"""Arrow converts values without pandas, until something imports pandas: each in a new process, because modules are loaded once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.paths import ROOT

BEGIN = "import sys; from materializer.adapters.cli.arrow import load_without_pandas; load_without_pandas(); "
VALUES = "import pyarrow as pa; import pyarrow.dataset; rows = pa.table({'v': pa.array([1.0, None])}); "


def printed(program: str) -> list[str]:
    """Return the words that a program prints."""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", BEGIN + program]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout.split()


def test_values_are_converted_without_pandas() -> None:
    """
    A list, a scalar and a comparison make Arrow ask for pandas; it is not loaded.
    """
    work = (
        "import pyarrow.compute as pc; print(pc.equal(rows['v'], pa.scalar(1.0)).to_pylist(), 'pandas' in sys.modules)"
    )

    assert ["[True,", "None]", "False"] == printed(VALUES + work)


@pytest.mark.parametrize("first", ["", VALUES, VALUES + "rows.to_pandas(); "])
def test_pandas_is_known_once_it_is_loaded(first: str) -> None:
    """
    Rows become a frame and a missing value of a series null, whether Arrow or pandas was loaded first.
    """
    work = "import pandas as pd; import pyarrow as pa; print(pa.array(pd.Series([1.0, float('nan')])).null_count, len(pa.table({'v': [1]}).to_pandas()))"

    assert ["1", "1"] == printed(first + work)


def test_what_is_loaded_already_stays_as_it_is() -> None:
    """
    Where a process has loaded Arrow before, nothing is changed.
    """
    program = "import sys; import pyarrow; before = list(sys.meta_path); " + BEGIN + "print(before == sys.meta_path)"
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env)

    assert ["True"] == ran.stdout.split()


def test_functions_take_their_options_without_the_help_of_these() -> None:
    """
    They are named as ever, and do the same; what reads help is not loaded.
    """
    work = (
        "import pyarrow.compute as pc, inspect; print(pc.round(1.25, ndigits=1), pc.round(2.5, 0, 'half_up'), "
        "*inspect.signature(pc.round).parameters, pc.round.__doc__ is not None, 'pydoc' in sys.modules)"
    )

    assert ["1.2", "3.0", "x", "ndigits", "round_mode", "options", "memory_pool", "True", "False"] == printed(work)

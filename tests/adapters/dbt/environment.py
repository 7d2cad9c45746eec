"""An environment with dbt, beside ours: dbt wants older versions of some packages. ``python -m tests.adapters.dbt.environment``.

It lies in `.cache/dbt`, has dbt and what dbt needs, and takes everything else from the environment that made it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

from tests.paths import ROOT

FOLDER: Final = Path(os.environ.get("MATERIALIZER_TEST_DBT", "") or ROOT / ".cache" / "dbt")
"""Where it is; ``MATERIALIZER_TEST_DBT`` names another folder."""
PACKAGES: Final = ("dbt-core==1.10.23", "dbt-spark==1.10.3")
"""What dbt is here, tested together."""
MISSING: Final = "needs an environment with dbt: make dbt-env"
"""Why a test is skipped without it."""


def python() -> Path | None:
    """Return the interpreter of the environment, None if it was not made."""
    found = FOLDER / "bin" / "python"
    return found if (FOLDER / "made").exists() else None


def make() -> None:
    """Make the environment."""
    subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
    pip = [str(FOLDER / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *PACKAGES], check=True)
    own = subprocess.run(
        [str(FOLDER / "bin" / "python"), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    # what dbt does not bring comes from here; its own packages go first
    (Path(own) / "beside.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    (FOLDER / "made").write_text("\n".join(PACKAGES), encoding="utf-8")


if __name__ == "__main__":
    make()

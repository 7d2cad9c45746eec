"""What importing costs and pulls in, and which package may know which."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

HEAVY = ("pyspark", "delta", "py4j", "airflow", "great_expectations")
SCRIPT = """
import importlib, json, pkgutil, sys, time
names = ["materializer"]
package = importlib.import_module(sys.argv[1])
if hasattr(package, "__path__"):
    names += [m.name for m in pkgutil.walk_packages(package.__path__, sys.argv[1] + ".")]
began = time.process_time()
for name in names:
    importlib.import_module(name)
print(json.dumps({"seconds": time.process_time() - began, "modules": sorted({m.split(".")[0] for m in sys.modules})}))
"""


def imported(package: str) -> dict[str, object]:
    """Import *package* and everything below it in a fresh interpreter."""
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, package], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("package", ["materializer.core", "materializer.lake", "materializer.journal"])
def test_what_plans_never_pulls_in_spark(package: str) -> None:
    """
    Every module of the package imports in well under a second of CPU, without Spark or an optional dependency.
    """
    found = imported(package)

    assert not {*HEAVY, "pandas"} & set(found["modules"])
    assert found["seconds"] < 1.0


def test_the_core_knows_no_storage() -> None:
    """
    The core stands on the standard library and sqlglot alone.
    """
    assert not {"deltalake", "pyarrow", "pandas", "numpy"} & set(imported("materializer.core")["modules"])


def test_the_package_and_its_settings_load_no_engine() -> None:
    """
    Importing the package, or reading the configuration, starts nothing and loads no engine.
    """
    assert not {*HEAVY, "deltalake", "pandas"} & set(imported("materializer.config")["modules"])


def test_spark_modules_are_imported_where_needed() -> None:
    """
    The checks before a start (Java, jars) do not wait for pyspark to be imported.
    """
    assert "pyspark" not in imported("materializer.spark.runtime.session")["modules"]


def test_imports_keep_their_direction() -> None:
    """
    The import contracts of pyproject.toml hold.
    """
    tool = Path(sys.executable).parent / "lint-imports"
    if not tool.exists() and shutil.which("lint-imports") is None:
        pytest.skip("import-linter is not installed (extra `dev`)")
    ran = subprocess.run(
        [str(tool) if tool.exists() else "lint-imports", "--no-cache"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stdout


def test_modules_are_short() -> None:
    """
    A module has at most 450 lines.
    """
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "materializer").rglob("*.py")}
    long = {str(path.relative_to(ROOT / "materializer")) for path, count in lines.items() if count > 450}

    assert set() == long

"""Spark Declarative Pipelines: a folder with definitions, run by Spark's own command against a Spark Connect server."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from tests.servers.connect import url_of
from tests.servers.spark import SparkProcess

SPEC = """\
name: beside
storage: file://{folder}/storage
configuration:
  spark.sql.sources.default: delta
libraries:
  - glob:
      include: {include}/**
"""


def why_not() -> str:
    """Return why no pipeline can be run here; "" if one can."""
    missing = [name for name in ("grpc", "yaml", "pyspark.pipelines") if importlib.util.find_spec(name) is None]
    return f"pipelines need {', '.join(missing)}" if missing else ""


def run(server: SparkProcess, folder: Path, include: str = "views", *, text: str = "") -> str:
    """Run the definitions in a folder below *folder* as a pipeline, and return what the command printed.

    Args:
        server: What computes.
        folder: The folder of the pipeline.
        include: The folder of the definitions.
        text: The description of the pipeline; by default one with Delta tables in the default database.

    Raises:
        RuntimeError: If it failed.
    """
    spec = folder / "spark-pipeline.yml"
    spec.write_text(text or SPEC.format(folder=folder, include=include), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "pyspark.pipelines.cli", "run", "--spec", str(spec)],
        cwd=folder, capture_output=True, text=True, check=False, timeout=400,
        env=os.environ | {"SPARK_REMOTE": url_of(server)},
    )  # fmt: skip
    printed = ran.stdout + ran.stderr
    if ran.returncode != 0:
        raise RuntimeError(printed)
    return printed

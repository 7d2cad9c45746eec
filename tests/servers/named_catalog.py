"""A catalog ``named`` beside the session's own, with Delta tables: what the connector of Unity Catalog is to Spark.

Its tables are those of the session's catalog, under names of three parts that begin otherwise. The class is compiled by the JDK.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

from materializer.machine import cache_dir
from materializer.spark.runtime import jars
from tests.servers.spark import HOME

_SOURCE = Path(__file__).with_name("NamedCatalog.java")


def why_not() -> str:
    """Return why this machine cannot compile it; "" if it can."""
    if shutil.which("javac") is None:
        return "a catalog of our own needs a JDK, and there is no javac"
    return "" if jars.find(None, cache_dir()) else "the Delta jars are not cached"


def options(folder: Path) -> Mapping[str, str]:
    """Return the options of a session that has the catalog; its jar is made in *folder* on the first call."""
    jar = folder / "named-catalog.jar"
    if not jar.exists():
        delta = jars.find(None, cache_dir())
        assert delta is not None
        path = ":".join([f"{HOME / 'jars'}/*", *map(str, delta)])
        subprocess.run(["javac", "-nowarn", "-proc:none", "-cp", path, "-d", folder, _SOURCE], check=True)
        with ZipFile(jar, "w") as archive:
            archive.write(folder / "NamedCatalog.class", "NamedCatalog.class")
    return {"spark.jars": str(jar), "spark.sql.catalog.named": "NamedCatalog"}

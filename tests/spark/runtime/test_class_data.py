"""The class-data archive: where it lies, when it is used, and that `setup` makes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from materializer.config import Config, SparkConfig
from materializer.spark.runtime import class_data
from materializer.spark.runtime.options import embedded_options

FOUND = (Path("/jars/a.jar"), Path("/jars/b.jar"))


def options(cache: Path, archive_to: Path | None = None, **spark: object) -> dict[str, str]:
    """Return the Spark options of an embedded start."""
    return embedded_options(
        Config(spark=SparkConfig(**spark)), FOUND, cache=cache, scratch=cache, archive_to=archive_to
    )


def made(cache: Path) -> Path:
    """Put something where the archive of this machine would lie."""
    place = class_data.place(cache, FOUND)
    place.parent.mkdir(parents=True)
    place.touch()
    return place


def test_it_belongs_to_one_java_and_one_class_path(tmp_path: Path) -> None:
    """
    Another Java, another Spark, or a jar that was exchanged has an archive of its own.
    """
    jar = tmp_path / "a.jar"
    jar.write_text("one")
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch()
    before = class_data.place(tmp_path, [jar])
    assert before == class_data.place(tmp_path, [jar])

    others = {
        class_data.place(tmp_path, [jar], os.environ | {"JAVA_HOME": str(home)}),
        class_data.place(tmp_path, [jar], os.environ | {"SPARK_HOME": str(tmp_path)}),
        class_data.place(tmp_path, []),
    }
    jar.write_text("another")
    others.add(class_data.place(tmp_path, [jar]))

    assert 5 == len(others | {before})


def test_it_is_used_where_there_is_one(tmp_path: Path) -> None:
    """
    A start without one names none: Java would look for it in vain.
    """
    assert "SharedArchiveFile" not in options(tmp_path)["spark.driver.extraJavaOptions"]
    place = made(tmp_path)

    found = options(tmp_path)

    assert f"-XX:SharedArchiveFile={place}" in found["spark.driver.extraJavaOptions"]
    assert "/jars/a.jar:/jars/b.jar" == found["spark.driver.extraClassPath"]
    assert "spark.jars" not in found


def test_what_makes_it_uses_none(tmp_path: Path) -> None:
    """
    An archive is made by a JVM that loads its classes itself.
    """
    made(tmp_path)
    flags = options(tmp_path, tmp_path / "new.jsa")["spark.driver.extraJavaOptions"]

    assert f"-XX:ArchiveClassesAtExit={tmp_path}/new.jsa" in flags
    assert "SharedArchiveFile" not in flags


def test_long_work_and_clusters_have_none(tmp_path: Path) -> None:
    """
    There the jars are told to Spark, which brings them to its executors.
    """
    made(tmp_path)
    for found in (options(tmp_path, profile="long"), options(tmp_path, options={"spark.master": "spark://host:7077"})):
        assert "SharedArchiveFile" not in found["spark.driver.extraJavaOptions"]
        assert "/jars/a.jar,/jars/b.jar" == found["spark.jars"]


def test_what_users_put_on_the_class_path_stays(tmp_path: Path) -> None:
    """
    It comes behind ours, and their flags behind ours too.
    """
    made(tmp_path)
    theirs = {"spark.driver.extraClassPath": "/x.jar", "spark.driver.extraJavaOptions": "-Dx=1"}
    found = options(tmp_path, options=theirs)

    assert "/jars/a.jar:/jars/b.jar:/x.jar" == found["spark.driver.extraClassPath"]
    assert found["spark.driver.extraJavaOptions"].endswith("-Dx=1")


@pytest.mark.slow
def test_setup_makes_it_and_the_next_start_maps_it(tmp_path: Path) -> None:
    """
    On a machine that has not even the jars; then a JVM has it open, and `setup` finds it there.
    """
    environ = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "MATERIALIZER_LAKE": str(tmp_path / "lake")}

    def setup() -> dict[str, object]:
        command = [sys.executable, "-m", "materializer", "setup", "--json"]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
        found: dict[str, object] = json.loads(done.stdout)["setup"]
        return found

    first, second = setup(), setup()
    look = (
        "from materializer.config import Config; from materializer.spark.runtime import session; s = session.start(Config());"
        "print(open(f'/proc/{session.jvm_pid(s)}/maps').read())"
    )
    maps = subprocess.run([sys.executable, "-c", look], env=environ, capture_output=True, text=True, check=True).stdout

    assert (True, False) == (first["is_new"], second["is_new"])
    assert first["archive"] == second["archive"]
    assert str(first["archive"]) in maps
    assert [Path(str(first["archive"]))] == list((tmp_path / "materializer" / "classes").iterdir())
    assert not (tmp_path / "lake").exists()

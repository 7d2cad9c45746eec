"""What ``doctor`` says of the machine it runs on: Java, jars and the class-data archive; no JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from materializer.api import Materializer
from materializer.config import Config, SparkConfig
from materializer.machine import cache_dir
from materializer.services.report.tables import DoctorFinding
from materializer.spark.runtime import class_data, jars


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of ours."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return cache_dir()


def java(folder: Path, says: str) -> Path:
    """Make a Java that tells its version and return its home."""
    file = folder / "bin" / "java"
    file.parent.mkdir(parents=True)
    file.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    file.chmod(0o755)
    return folder


def fill(folder: Path) -> Path:
    """Put something where the two jars are looked for, and return the folder."""
    folder.mkdir(parents=True)
    for name in jars.NAMES:
        (folder / name).touch()
    return folder


def said(root: Path, about: str, **spark: object) -> list[tuple[str, str, str]]:
    """Return level, code and hint of each finding about the machine whose code holds a word."""
    found: list[DoctorFinding] = Materializer(root / "lake", config=Config(spark=SparkConfig(**spark))).doctor()
    return [(f.level, f.code, f.hint) for f in found if f.subject == "environment" and about in f.code]


def test_a_java_that_serves_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    With its version, and there is nothing to mend.
    """
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "java", 'openjdk version "21.0.4" 2024-07-16')))
    found = Materializer(tmp_path / "lake").doctor()

    assert DoctorFinding("ok", "environment", "doctor.java", "Java 21") in found


def test_a_java_home_that_is_wrong_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    It hides the Java on PATH, so that installing one would not help: set it right, or unset it.
    """
    hint = "let JAVA_HOME name a Java 17 or newer (a JRE is enough), or unset it to take the one on PATH"
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    assert [("error", "java.missing", hint)] == said(tmp_path, "java")

    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "java", 'java version "1.8.0_392"')))
    assert [("error", "java.too-old", hint)] == said(tmp_path, "java")


def test_no_java_at_all_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The hint is what to install, and where it is looked for.
    """
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    hint = "install Java 17 or newer (a JRE is enough) and put it on PATH or name it in JAVA_HOME"
    assert [("error", "java.missing", hint)] == said(tmp_path, "java")


def test_jars_that_are_not_cached_are_a_note(tmp_path: Path, cache: Path) -> None:
    """
    The first start fetches them; what a machine without network needs is in the hint. Of the archive nothing is said yet.
    """
    [(level, code, hint)] = said(tmp_path, "jars")
    assert ("note", "doctor.jars") == (level, code)
    assert "reach Maven Central once" in hint
    assert all(name in hint for name in (*jars.NAMES, "MATERIALIZER_JARS"))
    assert [] == said(tmp_path, "archive")

    fill(cache / "jars")
    assert [("ok", "doctor.jars", "")] == said(tmp_path, "jars")


def test_a_folder_without_the_jars_is_an_error(tmp_path: Path, cache: Path) -> None:
    """
    What the user named counts alone, although the cache holds them.
    """
    fill(cache / "jars")
    assert [("error", "jars.unreachable", jars.HINT)] == said(tmp_path, "jars", jars=tmp_path)

    assert [("ok", "doctor.jars", "")] == said(tmp_path, "jars", jars=fill(tmp_path / "given"))


def test_no_archive_is_a_note(tmp_path: Path, cache: Path) -> None:
    """
    The command that makes one is named, where the profile would use one and there is none for this Java and these jars.
    """
    found = jars.find(None, fill(cache / "jars").parent)
    assert found is not None
    assert [("note", "doctor.archive", "run 'materializer setup' once")] == said(tmp_path, "archive")
    assert [] == said(tmp_path, "archive", profile="long")

    place = class_data.place(cache, found)
    place.parent.mkdir()
    place.touch()
    assert [] == said(tmp_path, "archive")

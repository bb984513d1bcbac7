"""Spark's archives on Python's path: left out where they can be, and read once where they cannot."""

from __future__ import annotations

import importlib.util
import sys
import zipfile
from pathlib import Path

import pytest

from kafkalite.spark.archives import keep_directories, use_installed


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark as pip installs it, with its archive at the head of the path, and nothing imported from it."""
    home = tmp_path / "site" / "pyspark"
    archive = home / "python" / "lib" / "pyspark.zip"
    archive.parent.mkdir(parents=True)
    (home / "__init__.py").write_text("")
    pack(archive, "pyspark/__init__")
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setattr(sys, "path", [str(archive), str(home.parent), *sys.path])
    monkeypatch.setattr(sys, "path_importer_cache", dict(sys.path_importer_cache))
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    return home


def pack(archive: Path, *modules: str) -> None:
    """An archive of empty modules."""
    with zipfile.ZipFile(archive, "w") as file:
        for module in modules:
            file.writestr(f"{module}.py", "")


def found() -> str:
    """The path from which PySpark would be imported."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return spec.origin


# trap: kafkalite/spark/archives.py: Spark's archives come before the installed PySpark on the path, and each process
# compiles them again.
def test_the_installed_package_goes_before_the_archive(home: Path) -> None:
    assert "pyspark.zip" in found()
    assert use_installed() == {str(home / "python" / "lib" / "pyspark.zip")}
    assert found() == str(home / "__init__.py")
    assert not [path for path in (*sys.path, *sys.path_importer_cache) if path.endswith("pyspark.zip")]


def test_the_archive_stays_where_another_spark_would_be_found(home: Path) -> None:
    sys.path.remove(str(home.parent))
    assert use_installed() == set()
    assert "pyspark.zip" in found()


def test_the_archive_stays_where_spark_is_not_installed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sys.path[:]
    (home / "__init__.py").unlink()
    use_installed()
    monkeypatch.delenv("SPARK_HOME")
    use_installed()
    assert sys.path == before


# trap: kafkalite/spark/archives.py: Spark's Python reads its archives again before each task.
def test_directories_of_archives_are_read_once(home: Path) -> None:
    archive = home / "python" / "lib" / "pyspark.zip"
    of_a_user = home.parent / "of-a-user.zip"
    sys.path[0:1] = [str(archive), str(of_a_user)]
    pack(of_a_user, "another")
    assert importlib.util.find_spec("another") is not None
    keep_directories()
    pack(archive, "pyspark/__init__", "made_later")
    pack(of_a_user, "another", "added_later")
    importlib.invalidate_caches()
    assert importlib.util.find_spec("made_later") is None
    assert importlib.util.find_spec("added_later") is not None

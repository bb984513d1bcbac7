"""Spark's own archives on the path of its Python processes: left out or read only once.

Answers to: nothing in Kafka; it is about ``org.apache.spark.api.python.PythonUtils.sparkPythonPath``, which puts
``pyspark.zip`` and the jar of Spark's core before everything else. Shell: it changes Python's path.

Every process compiles modules from an archive again (half a second and 25 MB). Before each task it clears the caches of
all finders, and then Python 3.11 reads the directories of the archives again: a tenth of a second, more than many tasks
take.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from zipimport import zipimporter


def use_installed() -> set[str]:
    """Take the archives off the path if the same Spark is installed as a package. Call it before PySpark is imported.

    Returns the paths that were taken off.
    """
    home = os.environ.get("SPARK_HOME")
    if not home or not (Path(home) / "__init__.py").is_file():
        return set()
    before = sys.path[:]
    sys.path[:] = [path for path in before if not (_is_archive(path) and _is_of(path, home))]
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None or not _is_of(spec.origin, home):
        sys.path[:] = before  # without the archives another Spark would be found, or none
        return set()
    left_out = set(before) - set(sys.path)
    for path in left_out:
        sys.path_importer_cache.pop(path, None)
    return left_out


def keep_directories() -> None:
    """Have Spark's archives read once, because they do not change while Spark runs."""
    home = os.environ.get("SPARK_HOME")
    for finder in sys.path_importer_cache.values():
        if home and isinstance(finder, zipimporter) and _is_of(finder.archive, home):
            finder.invalidate_caches = _nothing  # type: ignore[method-assign]


def _is_archive(path: str) -> bool:
    return path.endswith(("pyspark.zip", ".jar"))


def _is_of(path: str, home: str) -> bool:
    return Path(home).resolve() in Path(path).resolve().parents


def _nothing() -> None:
    """Replaces ``invalidate_caches``."""

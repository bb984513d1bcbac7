"""Spark's own archives on the path of its Python processes: not looked into where that can be spared.

Answers to: nothing in Kafka; it is about ``org.apache.spark.api.python.PythonUtils.sparkPythonPath``, which puts
``pyspark.zip`` and the jar of Spark's core before everything else. Shell: it changes Python's path.

Modules from an archive are compiled anew by every process (half a second and 25 MB), and before each task a process
asks all finders to forget what they know, at which Python 3.11 reads the directories of the archives again: a tenth of
a second, more than many a task takes.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from zipimport import zipimporter


def use_installed() -> set[str]:
    """Leave the archives out where the same Spark is there as an installed package; before PySpark is imported.

    Returns what was left out.
    """
    home = os.environ.get("SPARK_HOME")
    if not home or not (Path(home) / "__init__.py").is_file():
        return set()
    before = sys.path[:]
    sys.path[:] = [path for path in before if not (_is_archive(path) and _is_of(path, home))]
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None or not _is_of(spec.origin, home):
        sys.path[:] = before  # another Spark would be found, or none
        return set()
    left_out = set(before) - set(sys.path)
    for path in left_out:
        sys.path_importer_cache.pop(path, None)
    return left_out


def keep_directories() -> None:
    """Let Spark's archives be read once: nobody changes them while a Spark runs."""
    home = os.environ.get("SPARK_HOME")
    for finder in sys.path_importer_cache.values():
        if home and isinstance(finder, zipimporter) and _is_of(finder.archive, home):
            finder.invalidate_caches = _nothing  # type: ignore[method-assign]


def _is_archive(path: str) -> bool:
    return path.endswith(("pyspark.zip", ".jar"))


def _is_of(path: str, home: str) -> bool:
    return Path(home).resolve() in Path(path).resolve().parents


def _nothing() -> None:
    """What there is to forget."""

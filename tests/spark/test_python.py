"""The interpreter of Spark's Python processes: what it becomes, and with which path."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kafkalite.spark import python


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The programs that it would have become."""
    found: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda path, arguments: found.append([path, *arguments]))
    return found


@pytest.mark.parametrize(
    ("asked", "becomes"),
    [
        (["-m", "pyspark.daemon", "pyspark.worker"], ["-m", "kafkalite.spark.daemon", "pyspark.worker"]),
        (["-m", "pyspark.daemon", "pyspark.sql.worker.x"], ["-m", "kafkalite.spark.daemon", "pyspark.sql.worker.x"]),
        (["-m", "kafkalite.spark.daemon", "pyspark.worker"], ["-m", "kafkalite.spark.daemon", "pyspark.worker"]),
        (["-m", "pyspark.sql.worker.y"], ["-m", "pyspark.sql.worker.y"]),
        (["job.py", "-m", "pyspark.daemon"], ["job.py", "-m", "pyspark.daemon"]),
        ([], []),
    ],
)
def test_it_is_python_with_our_daemon(
    asked: list[str], becomes: list[str], became: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(sys, "argv", ["kafkalite-python", *asked])
    python.main()
    assert became == [[sys.executable, sys.executable, *becomes]]


def test_what_is_left_out_of_its_path_is_left_out_of_theirs(
    became: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["kafkalite-python", "job.py"])
    monkeypatch.setattr(python, "use_installed", lambda: {"/spark/pyspark.zip"})
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(("/spark/pyspark.zip", "/mine", "")))
    python.main()
    assert os.environ["PYTHONPATH"] == os.pathsep.join(("/mine", ""))
    assert len(became) == 1


def test_it_lies_beside_the_interpreter_or_is_the_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter = tmp_path / "python3"
    monkeypatch.setattr(sys, "executable", str(interpreter))
    assert python.program() == str(interpreter)
    (tmp_path / "kafkalite-python").touch()
    assert python.program() == str(tmp_path / "kafkalite-python")

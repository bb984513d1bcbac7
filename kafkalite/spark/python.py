"""The program ``kafkalite-python``: Python for ``PYSPARK_PYTHON``, whose processes start sooner and are smaller.

Answers to: nothing in Kafka; Spark starts all its Python processes by it
(``org.apache.spark.api.python.PythonWorkerFactory``). Shell: it becomes another program.

A setting names the daemon of Spark's tasks, but none those of the processes that look for sources and plan queries:
only as the interpreter of all of them can we have a say in their start.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from kafkalite.spark.archives import use_installed

NAME = "kafkalite-python"


def main() -> None:
    """Become Python, without Spark's archives on its path; our daemon where Spark asks for its own."""
    arguments = sys.argv[1:]
    if arguments[:2] == ["-m", "pyspark.daemon"]:
        arguments[1] = "kafkalite.spark.daemon"
    left_out = use_installed()
    if left_out:
        path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        os.environ["PYTHONPATH"] = os.pathsep.join(entry for entry in path if entry not in left_out)
    os.execv(sys.executable, [sys.executable, *arguments])


def program() -> str:
    """Its path; that of the interpreter where it was not installed beside it."""
    installed = Path(sys.executable).with_name(NAME)
    return str(installed) if installed.is_file() else sys.executable

"""The program ``kafkalite-python``: Python for ``PYSPARK_PYTHON``, whose processes start sooner and are smaller.

Answers to: nothing in Kafka; Spark starts all its Python processes by it
(``org.apache.spark.api.python.PythonWorkerFactory``). Shell: it becomes another program.

Spark has a setting for the daemon of its tasks, but none for those of the processes that find sources and plan queries.
To change how these start, this program is the interpreter of all of them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from kafkalite.spark.archives import use_installed

NAME = "kafkalite-python"


def main() -> None:
    """Execute Python without Spark's archives on its path, and with this package's daemon in place of Spark's."""
    arguments = sys.argv[1:]
    if arguments[:2] == ["-m", "pyspark.daemon"]:
        arguments[1] = "kafkalite.spark.daemon"
    left_out = use_installed()
    if left_out:
        path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        os.environ["PYTHONPATH"] = os.pathsep.join(entry for entry in path if entry not in left_out)
    os.execv(sys.executable, [sys.executable, *arguments])


def program() -> str:
    """The path of this program, or of the interpreter if the program is not installed beside it."""
    installed = Path(sys.executable).with_name(NAME)
    return str(installed) if installed.is_file() else sys.executable

"""A Spark cluster on this machine: a standalone master and workers, from PySpark's jars."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from types import TracebackType

import psutil
import pyspark

from integration.harness.peers import java
from integration.harness.wait import wait_for

SPARK_HOME = Path(pyspark.__file__).parent
HEAP = "-Xmx256m"
EXECUTOR_MB = 1024
"""Memory of a worker for executors: one executor of 512 MB, and Spark's overhead."""


class StandaloneCluster:
    """A master and ``workers`` of one core each, with all their files in ``folder``."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._start("master", "org.apache.spark.deploy.master.Master", "--port", "0")
        self.master = wait_for(lambda: self._said("master", r"Starting Spark master at (spark://\S+)"), "a master", 120)
        for number in range(1, workers + 1):
            where = ("--work-dir", str(folder / f"work-{number}"))
            resources = ("--cores", "1", "--memory", f"{EXECUTOR_MB}M")
            self._start(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *where, *resources, self.master)
        for number in range(1, workers + 1):
            wait_for(lambda: self._said(f"worker-{number}", "(Successfully registered)"), "a worker", 120)  # noqa: B023

    def freeze_worker(self, number: int) -> None:
        """SIGSTOP for a worker, its executors and their Python processes."""
        # The worker first, because it would replace the others.
        for process in self._tree(number):
            process.suspend()

    def thaw_worker(self, number: int) -> None:
        """SIGCONT after :meth:`freeze_worker`."""
        for process in self._tree(number):
            process.resume()

    def kill_worker(self, number: int) -> None:
        """``kill -9`` for a worker, its executors and their Python processes, as if its machine had died."""
        # Suspend the worker first, because it would otherwise report the death of its executors.
        self.freeze_worker(number)
        for process in reversed(self._tree(number)):
            process.kill()
        self._processes[number].wait()

    def _tree(self, number: int) -> list[psutil.Process]:
        """The processes of a worker: its own, and then those below it."""
        worker = psutil.Process(self._processes[number].pid)
        return [worker, *worker.children(recursive=True)]

    def has_worked(self, number: int) -> bool:
        """Whether a worker ever ran an executor that a driver used."""
        outputs = (self._folder / f"work-{number}").glob("app-*/*/stderr")
        return any("Successfully registered with driver" in output.read_text(errors="replace") for output in outputs)

    def close(self) -> None:
        """Stop all processes that still run."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait()

    def __enter__(self) -> StandaloneCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, name: str, main: str, *arguments: str) -> None:
        command = [java(), HEAP, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{SPARK_HOME}/jars/*", main]
        command += ["--host", "127.0.0.1", "--webui-port", "0", *arguments]
        # Variables of Spark's start scripts; executors inherit them from their worker.
        scripts = {"SPARK_HOME": str(SPARK_HOME), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1"}
        environment = {**os.environ, **scripts}
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=self._folder
                )
            )

    def _said(self, name: str, expression: str) -> str:
        found = re.search(expression, (self._folder / f"{name}.log").read_text(errors="replace"))
        return found[1] if found else ""

"""One Spark session that reads a topic repeatedly, in a separate process with the measured Spark.

``python -m integration.bench.spark_job ORDER``: JSON in, JSON out (the last line).
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kafkalite.spark import python

SAMPLE = 0.25
"""Seconds between two samples of the memory."""
TICKS = os.sysconf("SC_CLK_TCK")


class Memory(threading.Thread):
    """The greatest memory of this process and its descendants together, in bytes; shared pages count once."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._looking = threading.Event()
        self._looking.set()

    def run(self) -> None:
        """Sample the memory every :data:`SAMPLE` seconds."""
        while self._looking.wait():
            self.peak = max(self.peak, sum(proportional_size(pid) for pid in family(os.getpid())))
            time.sleep(SAMPLE)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Take no samples during a timed run, because a sample costs time for each process."""
        self._looking.clear()
        yield
        self._looking.set()


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    found = [pid]
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [one for child in thread.read_text().split() for one in family(int(child))]
        except OSError:
            continue  # it has ended
    return found


def proportional_size(pid: int) -> int:
    """Proportional set size of a process (shared pages are divided among their processes); 0 if it has ended."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    return 0


def cpu_seconds() -> float:
    """CPU seconds of this process and its descendants, including those that have ended and were waited for."""
    total = 0
    for pid in family(os.getpid()):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        total += sum(map(int, fields[11:15]))
    return total / TICKS


def session(jars: str) -> SparkSession:
    """Two cores, and no more memory than the work needs."""
    # Harmless for a session that runs no Python.
    os.environ["PYSPARK_PYTHON"] = python.program()
    builder = SparkSession.builder.master("local[2]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.jars": jars,
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def measure(order: dict[str, Any], memory: Memory, work: Callable[[int], float]) -> dict[str, Any]:
    """Call ``work(number)``, which returns its rows a second: ``warm`` times unmeasured, ``rounds`` times for the
    rates, ``looks`` times for the memory. Returns the rates, their CPU seconds, and the greatest memory."""
    memory.start()
    numbers = iter(range(order["warm"] + order["rounds"] + order["looks"]))
    for number in islice(numbers, order["warm"]):
        work(number)
    with memory.paused():
        rates, before = [], cpu_seconds()
        for number in islice(numbers, order["rounds"]):
            rates.append(work(number))
        used = cpu_seconds() - before
    for number in numbers:
        work(number)
    return {"rates": rates, "cpu": used, "memory": memory.peak}


def rate(rows: int, work: Callable[[], object]) -> float:
    """Rows a second of ``work``, which moves ``rows`` rows."""
    began = time.perf_counter()
    work()
    return rows / (time.perf_counter() - began)


def main() -> None:
    """Read the topic repeatedly and print the figures."""
    order: dict[str, Any] = json.loads(sys.argv[1])
    spark = session(order["jars"])
    if order["format"] == "kafkalite":
        from kafkalite.spark.source import KafkaliteDataSource

        spark.dataSource.register(KafkaliteDataSource)
    reader = spark.read.format(order["format"]).options(**order["options"])

    def read(_: int) -> float:
        return rate(order["rows"], reader.load().write.format("noop").mode("overwrite").save)

    found = measure(order, Memory(), read)
    print(json.dumps({"version": spark.version, **found}))


if __name__ == "__main__":
    main()

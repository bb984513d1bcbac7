"""One Spark session that reads a topic again and again: run by the Spark that is measured, in a process of its own.

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
"""Seconds from one look at the memory to the next."""
TICKS = os.sysconf("SC_CLK_TCK")


class Memory(threading.Thread):
    """The most that all processes under this one have had together, in bytes; what they share counts once."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._looking = threading.Event()
        self._looking.set()

    def run(self) -> None:
        """Look every now and then."""
        while self._looking.wait():
            self.peak = max(self.peak, sum(proportional_size(pid) for pid in family(os.getpid())))
            time.sleep(SAMPLE)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """While something is timed: to look costs the more the more processes there are."""
        self._looking.clear()
        yield
        self._looking.set()


def family(pid: int) -> list[int]:
    """A process and all that come from it."""
    found = [pid]
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [one for child in thread.read_text().split() for one in family(int(child))]
        except OSError:
            continue  # it has ended
    return found


def proportional_size(pid: int) -> int:
    """Resident memory of a process, shared pages divided among those that share them; 0 where it has ended."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    return 0


def cpu_seconds() -> float:
    """What this process and all that come from it have used, those that have ended and were waited for, too."""
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
    # For a session that runs no Python it changes nothing.
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
    """``work(number)``, which returns its rows a second: ``warm`` times, then ``rounds`` times that count, then
    ``looks`` times for the memory's sake. The rates of those that count, their processor seconds, the most memory."""
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
    """Rows a second of what moves so many."""
    began = time.perf_counter()
    work()
    return rows / (time.perf_counter() - began)


def main() -> None:
    """Read again and again."""
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

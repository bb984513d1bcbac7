"""One Spark session that reads a topic again and again: run by the Spark that is measured, in a process of its own.

``python -m integration.bench.spark_job ORDER``: JSON in, JSON out (the last line).
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

SAMPLE = 0.25
"""Seconds from one look at the memory to the next."""
TICKS = os.sysconf("SC_CLK_TCK")


class Memory(threading.Thread):
    """The most that all processes under this one have had together, in bytes; what they share counts once.

    ``cost``: the processor seconds that looking took.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self.cost = 0.0

    def run(self) -> None:
        """Look every now and then."""
        while True:
            self.peak = max(self.peak, sum(proportional_size(pid) for pid in family(os.getpid())))
            self.cost = time.thread_time()
            time.sleep(SAMPLE)


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
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.jars": jars,
        # For a session that runs no Python it changes nothing.
        "spark.python.daemon.module": "kafkalite.spark.daemon",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main() -> None:
    """Read ``rounds`` times after ``warm`` times; rows a second of each, processor seconds of all, the most memory."""
    order: dict[str, Any] = json.loads(sys.argv[1])
    memory = Memory()
    memory.start()
    spark = session(order["jars"])
    if order["format"] == "kafkalite":
        from kafkalite.spark.source import KafkaliteDataSource

        spark.dataSource.register(KafkaliteDataSource)
    reader = spark.read.format(order["format"]).options(**order["options"])
    rates, before = [], 0.0
    for number in range(order["warm"] + order["rounds"]):
        if number == order["warm"]:
            before = cpu_seconds() - memory.cost
        began = time.perf_counter()
        reader.load().write.format("noop").mode("overwrite").save()
        if number >= order["warm"]:
            rates.append(order["rows"] / (time.perf_counter() - began))
    used = cpu_seconds() - memory.cost - before
    print(json.dumps({"version": spark.version, "rates": rates, "cpu": used, "memory": memory.peak}))


if __name__ == "__main__":
    main()

"""The archive of the classes that the JVM of a Spark driver loads: with it a driver starts in half the CPU time.

``python -m integration.harness.spark_archive`` makes it, by a driver with a batch, a stream and Python's functions.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from integration.harness.class_archive import ClassArchive
from kafkalite.common.errors import StartupError
from kafkalite.embedded.zookeeper import find_java

SUBMIT_OPTIONS = "SPARK_SUBMIT_OPTS"
"""The environment variable with JVM flags that ``spark-submit`` gives to its driver."""
FAST_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""The simple compiler and collector, because the driver of a test runs for seconds and these start it fastest."""
FOLDER = Path(__file__).parents[2] / "build"
_IN_THE_DRIVER = "--in-the-driver"


def archive() -> ClassArchive:
    """The archive for this Java and the installed Spark, whose jars it must have been made with."""
    # Not imported, because each worker of the tests asks for it, and most have no test of Spark.
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    jars = Path(spec.origin).parent / "jars"
    return ClassArchive(FOLDER, find_java(), f"spark-{version('pyspark')}-{jars.stat().st_mtime_ns:x}")


def submit_options() -> str:
    """The value of :data:`SUBMIT_OPTIONS` with which drivers start fast; empty where Java is missing."""
    try:
        return " ".join((*FAST_START, *archive().reading()))
    except StartupError:
        return ""


def make() -> None:
    """Make the archive if there is none."""
    FOLDER.mkdir(exist_ok=True)
    made = archive()
    if made.exists:
        return
    with made.flags(may_write=True) as flags:
        # The pipes end with the JVM, which writes the archive after its Python process has ended.
        done = subprocess.run(
            [sys.executable, "-m", "integration.harness.spark_archive", _IN_THE_DRIVER],
            env=os.environ | {SUBMIT_OPTIONS: " ".join((*FAST_START, *flags))},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        print(f"no archive of Spark's classes, so that drivers start slowly: {done.stderr[-500:]}", file=sys.stderr)


def _use_spark(folder: str) -> None:
    from pyspark.sql import functions as f

    from integration.harness.spark import start_session

    session = start_session("local[2]", {"spark.sql.shuffle.partitions": "2", "spark.sql.warehouse.dir": folder})
    session.sparkContext.parallelize(range(10), 2).map(str).collect()
    numbers = session.range(100).select("id", f.to_json(f.struct("id")).alias("text"))
    numbers.groupBy(f.col("id") % 7).count().write.parquet(f"{folder}/counts")
    stream = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    windows = stream.withWatermark("timestamp", "1 second").groupBy(f.window("timestamp", "1 second")).count()
    query = windows.writeStream.format("memory").queryName("windows").outputMode("complete").start()
    while not query.recentProgress:
        query.awaitTermination(0.1)
    query.stop()
    session.stop()


if __name__ == "__main__":
    if _IN_THE_DRIVER in sys.argv:
        with tempfile.TemporaryDirectory() as directory:
            _use_spark(directory)
    else:
        make()

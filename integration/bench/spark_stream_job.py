"""One Spark session in which a stream reads a topic to its end repeatedly, each time with a new checkpoint.

The first micro-batch of each stream is not measured, because a stream starts once and then runs for days.

``python -m integration.bench.spark_stream_job ORDER``: JSON in, JSON out (the last line).
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from integration.bench.spark_job import Memory, measure, session
from kafkalite.spark.source import KafkaliteDataSource

MICRO_BATCHES = 2
"""Few and long ones, because with any source Spark takes a tenth of a second for the checkpoint files of each."""


def main() -> None:
    """Run streams one after the other, each with :data:`MICRO_BATCHES`."""
    order: dict[str, Any] = json.loads(sys.argv[1])
    spark = session(order["jars"])
    spark.dataSource.register(KafkaliteDataSource)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": order["rows"] // MICRO_BATCHES}
    frame = spark.readStream.format(order["format"]).options(**order["options"], **options).load()
    with tempfile.TemporaryDirectory() as checkpoints:

        def read(number: int) -> float:
            writer = frame.writeStream.format("noop").option("checkpointLocation", Path(checkpoints, str(number)))
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            done = [progress for progress in query.recentProgress if progress.numInputRows]
            assert sum(progress.numInputRows for progress in done) == order["rows"]
            seconds: float = sum(progress.durationMs["triggerExecution"] for progress in done[1:]) / 1000
            rows: int = sum(progress.numInputRows for progress in done[1:])
            return rows / seconds

        found = measure(order, Memory(), read)
    print(json.dumps({"version": spark.version, **found}))


if __name__ == "__main__":
    main()

"""The keys of a compacted topic that have a value.

Answers to: nothing in Kafka; reading a ``KTable``'s changelog. Blocking shell.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkalite.spark.batch_reader import BatchReader
from kafkalite.spark.options import SourceOptions


def live_keys(options: Mapping[str, str]) -> set[bytes]:
    """By the last committed record of each; ``options`` are those of ``format("kafkalite")``. Raises as its reader."""
    reader = BatchReader(SourceOptions.parse({**options, "kafka.isolation.level": "read_committed"}, streaming=False))
    found: set[bytes] = set()
    for task in reader.partitions():
        for batch in reader.read(task):
            keys, values = batch.column("key").to_pylist(), batch.column("value")
            for key, there in zip(keys, values.is_valid().to_pylist(), strict=True):
                if there:
                    found.add(key)
                else:
                    found.discard(key)
    return found

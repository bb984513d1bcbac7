"""Spark's own source and kafkalite's fail on damaged batches of the broker's log, and name the offset."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from integration.harness.records import FIRST_TIMESTAMP, Item
from integration.spark.topics import new_topic, produce
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.record.batch import CRC_POSITION, CRC_START, HEADER_SIZE, crc32c, iter_headers

EACH = 20
"""Records of each of the three batches."""


def corrupt(batch: memoryview) -> None:
    """Flip a bit, so that the checksum is wrong."""
    batch[-1] ^= 1


def cut_short(batch: memoryview) -> None:
    """Overwrite half of the records by zeros, under the old count and a right checksum."""
    middle = (HEADER_SIZE + len(batch)) // 2
    batch[middle:] = bytes(len(batch) - middle)
    batch[CRC_POSITION:CRC_START] = crc32c(batch[CRC_START:]).to_bytes(4, "big")


class Damage(NamedTuple):
    """A damage to a batch, and the error of kafkalite's source."""

    inflict: Callable[[memoryview], None]
    message: str


@pytest.mark.parametrize("source", ["kafka", "kafkalite"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize(
    "damage", [Damage(corrupt, "is corrupt (stored crc = "), Damage(cut_short, "")], ids=["corrupt", "cut-short"]
)
def test_a_damaged_second_batch_fails_the_query_with_its_offset(
    spark: SparkSession, shared_cluster: LocalCluster, source: str, codec: str, damage: Damage
) -> None:
    topic = new_topic(shared_cluster, "damaged")
    for first in range(0, 3 * EACH, EACH):
        values = (b"%d of the records" % number for number in range(first, first + EACH))
        produce(shared_cluster, topic, [Item(0, FIRST_TIMESTAMP, None, value, ()) for value in values], codec)
    harm(shared_cluster, topic, damage.inflict)
    reader = spark.read.format(source).option("kafka.bootstrap.servers", shared_cluster.bootstrap)
    frame = reader.option("subscribe", topic).option("kafkaConsumer.pollTimeoutMs", "20000").load()
    with pytest.raises(Exception) as caught:
        frame.collect()
    said = str(caught.value)
    if source == "kafka":
        assert f"{topic}-0" in said
    else:
        where = f"topic {topic}, partition 0: the record batch at offset {EACH} (to {2 * EACH - 1}) cannot be read: "
        assert where in said
        assert damage.message in said


def harm(cluster: LocalCluster, topic: str, inflict: Callable[[memoryview], None]) -> None:
    """Change the second batch in the segment of the only partition's only replica."""
    (path,) = cluster.directory.glob(f"**/{topic}-0/{0:020d}.log")
    content = bytearray(path.read_bytes())
    batches = [(pos, header.size) for pos, header in iter_headers(memoryview(content)) if header.record_count]
    assert len(batches) == 3
    start, size = batches[1]
    inflict(memoryview(content)[start : start + size])
    with path.open("r+b") as file:
        file.seek(start)
        file.write(content[start : start + size])

"""Log files of brokers, compared as bytes."""

from __future__ import annotations

import zlib
from pathlib import Path

from kafkalite.embedded.cluster import LocalCluster


def partition_dir(cluster: LocalCluster, broker_id: int, topic: str, partition: int) -> Path:
    """Where a broker keeps a partition."""
    return cluster.broker_dir(broker_id) / "data" / f"{topic}-{partition}"


def log_bytes(directory: Path) -> tuple[int, int]:
    """(size, CRC) of all batches of a partition, in order, wherever the segments begin and end."""
    size = crc = 0
    for path in sorted(directory.glob("*.log")):
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                size += len(piece)
                crc = zlib.crc32(piece, crc)
    return size, crc


def assert_replicas_identical(cluster: LocalCluster, topic: str, partitions: int) -> None:
    """Batch for batch, all replicas of all partitions have the same bytes. For a cluster that was stopped."""
    for partition in range(partitions):
        found = {
            broker_id: log_bytes(partition_dir(cluster, broker_id, topic, partition))
            for broker_id in cluster.broker_ids
        }
        assert len(set(found.values())) == 1, f"{topic}-{partition}: (size, CRC) by broker {found}"

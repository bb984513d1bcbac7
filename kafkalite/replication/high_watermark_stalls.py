"""Notices partitions whose high watermark stands still although their log grows or has uncommitted records.

Answers to: nothing in Kafka, where only the time-outs of producers show it. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkalite.common.events import EventKind, EventRecorder
from kafkalite.common.types import TopicPartition
from kafkalite.replication.partition import Partition


class HighWatermarkStalls:
    """Records when a leader's high watermark has not moved between two looks, and when it moves again."""

    def __init__(self, record: EventRecorder) -> None:
        self._record = record
        self._behind: dict[TopicPartition, tuple[int, int]] = {}
        """Leader epoch and high watermark of each partition that had uncommitted records at the last look."""
        self._stalled: set[TopicPartition] = set()

    def look(self, leaders: Iterable[Partition]) -> None:
        """Compare with the last look; call it at intervals in which followers fetch many times."""
        behind: dict[TopicPartition, tuple[int, int]] = {}
        for partition in leaders:
            log = partition.log
            if log.high_watermark >= log.log_end_offset:
                continue
            tp = partition.topic_partition
            behind[tp] = now = (partition.leader_epoch, log.high_watermark)
            if self._behind.get(tp) == now and tp not in self._stalled:
                self._stalled.add(tp)
                waits_for = [each for each in partition.high_watermark_followers if each.log_end_offset <= now[1]]
                self._tell(partition, "stands still", ", ".join(f"broker {each.broker_id} lags" for each in waits_for))
        for partition in [each for each in leaders if each.topic_partition in self._stalled]:
            tp = partition.topic_partition
            if tp not in behind or self._behind.get(tp) != behind[tp]:
                self._stalled.discard(tp)
                self._tell(partition, "moves again", "")
        self._stalled &= behind.keys()
        self._behind = behind

    def _tell(self, partition: Partition, what: str, why: str) -> None:
        log = partition.log
        self._record(
            EventKind.HIGH_WATERMARK,
            f"{partition.topic_partition}: high watermark {log.high_watermark} {what}, log end {log.log_end_offset}",
            topic=partition.topic_partition.topic,
            partition=partition.topic_partition.partition,
            leader_epoch=partition.leader_epoch,
            why=why,
        )

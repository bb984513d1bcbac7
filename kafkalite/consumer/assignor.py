"""Who reads which partition: ranges of the partitions over the sorted streams of all members.

Answers to: ``kafka.consumer.{PartitionAssignor,RangeAssignor,AssignmentContext,ConsumerThreadId}``. Pure.

There is no coordinator: every member computes the assignment of all from what it reads in ZooKeeper, and takes
its own part. Members that read the same come to the same; those that did not collide at the owner znodes and try again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafkalite.common.types import TopicPartition


class ThreadId(NamedTuple):
    """One stream of one member; as text it is what an owner znode holds."""

    consumer: str
    number: int

    def __str__(self) -> str:
        return f"{self.consumer}-{self.number}"


def assign(
    members: Mapping[str, Mapping[str, int]], partitions: Mapping[str, Sequence[int]]
) -> dict[TopicPartition, ThreadId]:
    """Each partition's reader.

    ``members``: consumer id → topic → streams. ``partitions``: topic → its partitions. Topic by topic, the sorted
    partitions are cut into as many ranges as there are streams; where that does not come out even the first streams
    have one more; where there are more streams than partitions, the last have none.
    """
    owners: dict[TopicPartition, ThreadId] = {}
    for topic, numbers in partitions.items():
        threads = threads_of(topic, members)
        if not threads:
            continue
        ordered = sorted(numbers)
        each, extra = divmod(len(ordered), len(threads))
        for position, thread in enumerate(threads):
            start = each * position + min(position, extra)
            for number in ordered[start : start + each + (position < extra)]:
                owners[TopicPartition(topic, number)] = thread
    return owners


def threads_of(topic: str, members: Mapping[str, Mapping[str, int]]) -> list[ThreadId]:
    """All streams that read ``topic``, in the order on which all members agree: that of Java's strings."""
    threads = [
        ThreadId(consumer, number) for consumer, topics in members.items() for number in range(topics.get(topic, 0))
    ]
    return sorted(threads, key=lambda thread: str(thread).encode("utf-16-be"))

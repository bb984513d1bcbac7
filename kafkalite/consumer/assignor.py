"""The assignment of partitions: ranges of the partitions over the sorted streams of all members.

Answers to: ``kafka.consumer.{PartitionAssignor,RangeAssignor,AssignmentContext,ConsumerThreadId}``. Pure.

There is no coordinator: every member computes the assignment of all members from what it reads in ZooKeeper, and takes
its own part. Members that read the same compute the same; others collide at the owner znodes and try again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafkalite.common.types import TopicPartition


class ThreadId(NamedTuple):
    """One stream of one member; its text is the content of an owner znode."""

    consumer: str
    number: int

    def __str__(self) -> str:
        return f"{self.consumer}-{self.number}"


def assign(
    members: Mapping[str, Mapping[str, int]], partitions: Mapping[str, Sequence[int]]
) -> dict[TopicPartition, ThreadId]:
    """The stream that reads each partition.

    ``members``: consumer id → topic → streams. ``partitions``: topic → its partitions. For each topic the sorted
    partitions are cut into as many ranges as there are streams. If the number does not divide evenly, the first streams
    get one more; if there are more streams than partitions, the last streams get none.
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
    """All streams that read ``topic``, in the order of Java's strings, because all members must agree on the order."""
    threads = [
        ThreadId(consumer, number) for consumer, topics in members.items() for number in range(topics.get(topic, 0))
    ]
    return sorted(threads, key=lambda thread: str(thread).encode("utf-16-be"))

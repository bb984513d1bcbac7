"""``/admin``: what operators and the old tools ask the controller for.

Answers to: ``kafka.zk.{DeleteTopicsTopicZNode,ReassignPartitionsZNode,PreferredReplicaElectionZNode}``. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkalite.common.types import TopicPartition
from kafkalite.zk.znodes.codec import MalformedZnodeError, from_json, integer, integers, to_json

DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"


def delete_topic_path(topic: str) -> str:
    """The wish that ``topic`` be deleted (empty)."""
    return f"{DELETE_TOPICS}/{topic}"


def partition_entries(data: bytes, what: str) -> list[tuple[TopicPartition, dict[str, object]]]:
    """The entries under ``partitions``. Raises :class:`MalformedZnodeError`."""
    listed = from_json(data, what).get("partitions")
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise MalformedZnodeError(f"{what}: partitions: not a list of objects: {listed!r}")
    return [
        (TopicPartition(str(entry.get("topic")), integer(entry.get("partition"), f"{what} partition")), entry)
        for entry in listed
    ]


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """A version 1 list of partitions."""
    return to_json({"version": 1, "partitions": [{"topic": tp.topic, "partition": tp.partition} for tp in partitions]})


def encode_reassignment(targets: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
    """The reassignments that are wanted."""
    entries = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas)} for tp, replicas in targets.items()
    ]
    return to_json({"version": 1, "partitions": entries})


def decode_reassignment(data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    """The reverse. Raises :class:`MalformedZnodeError`."""
    return {
        tp: integers(entry.get("replicas"), f"{REASSIGN_PARTITIONS} replicas")
        for tp, entry in partition_entries(data, REASSIGN_PARTITIONS)
    }


def decode_preferred_election(data: bytes) -> list[TopicPartition]:
    """The partitions whose preferred replica shall lead. Raises :class:`MalformedZnodeError`."""
    return [tp for tp, _ in partition_entries(data, PREFERRED_REPLICA_ELECTION)]

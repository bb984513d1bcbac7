"""``/admin``, and the notifications: what operators, the old tools and brokers request of the controller.

Answers to: ``kafka.zk.{DeleteTopicsTopicZNode,ReassignPartitionsZNode,PreferredReplicaElectionZNode}`` and
``kafka.zk.{IsrChangeNotificationSequenceZNode,LogDirEventNotificationSequenceZNode}``. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkalite.common.types import TopicPartition
from kafkalite.zk.znodes.codec import from_json, integer, integers, json_objects, to_json

DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"


def delete_topic_path(topic: str) -> str:
    """The request to delete ``topic``; the znode is empty."""
    return f"{DELETE_TOPICS}/{topic}"


def partition_entries(data: bytes, what: str) -> list[tuple[TopicPartition, dict[str, object]]]:
    """The entries under ``partitions``. Raises :class:`MalformedZnodeError`."""
    listed = json_objects(from_json(data, what).get("partitions"), f"{what}: partitions")
    return [
        (TopicPartition(str(entry.get("topic")), integer(entry.get("partition"), f"{what} partition")), entry)
        for entry in listed
    ]


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """A version 1 list of partitions."""
    return to_json({"version": 1, "partitions": [{"topic": tp.topic, "partition": tp.partition} for tp in partitions]})


def encode_reassignment(targets: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
    """The requested reassignments."""
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


ISR_CHANGES = "/isr_change_notification"
ISR_CHANGE_PREFIX = f"{ISR_CHANGES}/isr_change_"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = f"{LOG_DIR_EVENTS}/log_dir_event_"
LOG_DIR_FAILURE = 1


def encode_isr_change(partitions: Iterable[TopicPartition]) -> bytes:
    """Leaders changed the ISR of these partitions."""
    return encode_partitions(partitions)


def decode_isr_change(data: bytes) -> list[TopicPartition]:
    """The reverse. Raises ``MalformedZnodeError``."""
    return [tp for tp, _ in partition_entries(data, ISR_CHANGES)]


def encode_log_dir_event(broker_id: int) -> bytes:
    """A log directory of this broker failed."""
    return to_json({"version": 1, "broker": broker_id, "event": LOG_DIR_FAILURE})


def decode_log_dir_event(data: bytes) -> int:
    """Id of the broker. Raises ``MalformedZnodeError``."""
    return integer(from_json(data, LOG_DIR_EVENTS).get("broker"), f"{LOG_DIR_EVENTS} broker")

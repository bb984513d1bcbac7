"""``/isr_change_notification`` and ``/log_dir_event_notification``: what brokers tell the controller.

Answers to: ``kafka.zk.{IsrChangeNotificationSequenceZNode,LogDirEventNotificationSequenceZNode}``. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkalite.common.types import TopicPartition
from kafkalite.zk.znodes.admin import encode_partitions, partition_entries
from kafkalite.zk.znodes.codec import from_json, integer, to_json

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

"""``/consumers``: groups of ZooKeeper consumers, and the offsets of all groups.

Answers to: ``kafka.zk.ConsumerOffset`` and the ``ZKGroupDirs`` of Kafka 0.8 to 0.10. Pure.

Names of groups stand in paths as ``encode_name`` writes them; ``decode_name`` gives them back where groups are listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafkalite.common.types import TopicPartition
from kafkalite.zk.znodes.codec import MalformedZnodeError, encode_name, from_json, integer, json_object, to_json

CONSUMERS = "/consumers"


def group_path(group: str) -> str:
    """A group."""
    return f"{CONSUMERS}/{encode_name(group)}"


def ids_path(group: str) -> str:
    """Where a group's members stand."""
    return f"{group_path(group)}/ids"


def owner_path(group: str, tp: TopicPartition) -> str:
    """Which stream of which member reads ``tp``: the text ``<consumer id>-<stream>``."""
    return f"{group_path(group)}/owners/{encode_name(tp.topic)}/{tp.partition}"


def offsets_path(group: str) -> str:
    """Where a group's offsets stand."""
    return f"{group_path(group)}/offsets"


def offset_path(group: str, tp: TopicPartition) -> str:
    """The next offset that ``group`` reads from ``tp``."""
    return f"{group_path(group)}/offsets/{encode_name(tp.topic)}/{tp.partition}"


@dataclass(frozen=True, slots=True)
class ConsumerRegistration:
    """A member: streams by topic (or by pattern); ``pattern`` is ``static``, ``white_list`` or ``black_list``."""

    subscription: Mapping[str, int]
    pattern: str
    timestamp_ms: int


def encode_consumer(registration: ConsumerRegistration) -> bytes:
    """The registration of a member (version 1)."""
    return to_json(
        {
            "version": 1,
            "subscription": dict(registration.subscription),
            "pattern": registration.pattern,
            "timestamp": str(registration.timestamp_ms),
        }
    )


def decode_consumer(path: str, data: bytes) -> ConsumerRegistration:
    """The reverse. Raises :class:`MalformedZnodeError`."""
    value = from_json(data, path)
    subscription = json_object(value.get("subscription"), f"{path}: subscription")
    streams = {str(topic): integer(count, f"{path} subscription") for topic, count in subscription.items()}
    return ConsumerRegistration(streams, str(value.get("pattern")), integer(value.get("timestamp", -1), path))


def encode_offset(offset: int) -> bytes:
    """An offset as plain digits."""
    return str(offset).encode("ascii")


def decode_offset(path: str, data: bytes) -> int:
    """The reverse. Raises :class:`MalformedZnodeError`."""
    try:
        offset = int(data)
    except ValueError:
        raise MalformedZnodeError(f"{path}: not an offset: {data!r}") from None
    if not -1 << 63 <= offset < 1 << 63:
        # An offset that was mistyped by hand must not make the answer for all partitions impossible to encode.
        raise MalformedZnodeError(f"{path}: no answer has room for the offset {offset}")
    return offset

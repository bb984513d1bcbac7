"""The messages of the members of a consumer group to each other, and the range assignor.

Answers to: ``org.apache.kafka.clients.consumer.internals.ConsumerProtocol`` (version 1),
``clients.consumer.{RangeAssignor,CooperativeStickyAssignor}``. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkalite.common.types import TopicPartition

_VERSION = 1
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_NO_DATA = _INT32.pack(-1)
RANGE, STICKY = "range", "cooperative-sticky"


class ConsumerProtocolSubscription(NamedTuple):
    """The topics that a member wants to read, and the partitions that it owns (for the cooperative protocol)."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()


def encode_subscription(subscription: ConsumerProtocolSubscription) -> bytes:
    """The bytes of a subscription in JoinGroup."""
    topics = b"".join(map(_text, subscription.topics))
    head = _INT16.pack(_VERSION) + _INT32.pack(len(subscription.topics)) + topics
    return head + _NO_DATA + _encode_partitions(subscription.owned)


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """The inverse of :func:`encode_subscription`. Raises ``struct.error`` and ``UnicodeDecodeError``."""
    version, count = struct.unpack_from(">hi", data)
    at = 6
    topics = []
    for _ in range(count):
        topic, at = _read_text(data, at)
        topics.append(topic)
    size = _INT32.unpack_from(data, at)[0]
    at += 4 + max(size, 0)
    owned = _decode_partitions(data, at) if version >= 1 else ()
    return ConsumerProtocolSubscription(tuple(topics), owned)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """The bytes of an assignment in SyncGroup."""
    return _INT16.pack(_VERSION) + _encode_partitions(partitions) + _NO_DATA


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """The inverse of :func:`encode_assignment`; empty if the coordinator has no assignment. Raises the errors of
    :func:`decode_subscription`."""
    return _decode_partitions(data, 2) if data else ()


def assign_ranges(
    members: Mapping[str, ConsumerProtocolSubscription],
    partitions: Mapping[str, int],
    instances: Mapping[str, str | None],
) -> dict[str, list[TopicPartition]]:
    """Topic by topic, ranges of the partitions to the members in the order of their instance ids and member ids."""
    found: dict[str, list[TopicPartition]] = {member: [] for member in members}
    # Static members first, by their instance id, so that a restart under another member id changes nothing.
    ordered = sorted(members, key=lambda member: (instances.get(member) is None, instances.get(member) or member))
    for topic, count in partitions.items():
        readers = [member for member in ordered if topic in members[member].topics]
        if not readers:
            continue
        each, extra = divmod(count, len(readers))
        start = 0
        for index, member in enumerate(readers):
            size = each + (index < extra)
            found[member] += [TopicPartition(topic, number) for number in range(start, start + size)]
            start += size
    return found


def assign_sticky(
    members: Mapping[str, ConsumerProtocolSubscription], partitions: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Even shares of which each member keeps what it owns. Partitions that another member still owns are left out,
    because their owner must release them first: it joins again, and the next round assigns them (KIP-429)."""
    every = [TopicPartition(topic, number) for topic, count in partitions.items() for number in range(count)]
    found: dict[str, list[TopicPartition]] = {member: [] for member in members}
    claims: dict[TopicPartition, list[str]] = {}
    for member in sorted(members):
        for partition in members[member].owned:
            claims.setdefault(partition, []).append(member)
    # A partition that two members claim, such as a fenced one and its successor, has no owner.
    owners = {partition: claimants[0] for partition, claimants in claims.items() if len(claimants) == 1}
    most = -(-len(every) // len(members)) if members else 0
    loose: list[TopicPartition] = []
    for partition in every:
        owner = owners.get(partition)
        if owner is not None and partition.topic in members[owner].topics and len(found[owner]) < most:
            found[owner].append(partition)
        else:
            loose.append(partition)
    for partition in loose:
        readers = [member for member in sorted(members) if partition.topic in members[member].topics]
        if readers:
            member = min(readers, key=lambda reader: len(found[reader]))
            if claims.get(partition, [member]) == [member]:
                found[member].append(partition)
    return found


def _text(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    end = at + 2 + _INT16.unpack_from(data, at)[0]
    return data[at + 2 : end].decode(), end


def _encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    out = [_INT32.pack(len(topics))]
    for topic, numbers in topics.items():
        out += (_text(topic), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    return b"".join(out)


def _decode_partitions(data: bytes, at: int) -> tuple[TopicPartition, ...]:
    count = _INT32.unpack_from(data, at)[0]
    at += 4
    found = []
    for _ in range(count):
        topic, at = _read_text(data, at)
        size = _INT32.unpack_from(data, at)[0]
        found += [TopicPartition(topic, number) for number in struct.unpack_from(f">{size}i", data, at + 4)]
        at += 4 + 4 * size
    return tuple(found)

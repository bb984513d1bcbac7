"""The topics to which the members of a group subscribe, if their metadata is a consumer's subscription.

Answers to: ``GroupMetadata.{isSubscribedToTopic,computeSubscribedTopics}`` and
``org.apache.kafka.clients.consumer.internals.ConsumerProtocol.deserializeSubscription``. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Set
from typing import Final

from kafkalite.coordinator.group.group_metadata import GroupMetadata

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


def subscribed_topics(group: GroupMetadata) -> Set[str] | None:
    """The topics to which members of ``group`` subscribe; ``None`` if their metadata cannot be decoded."""
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    topics: set[str] = set()
    for member in group.members:
        try:
            topics |= decode_topics(member.metadata(group.protocol))
        except ValueError:
            return None
    return topics


def decode_topics(subscription: bytes) -> set[str]:
    """The topics of an encoded ``ConsumerProtocolSubscription`` of any version. Raises ``ValueError``."""
    try:
        version, count = struct.unpack_from(">hi", subscription)
        if version < 0 or count < 0:
            raise ValueError(f"a subscription of version {version} with {count} topics")
        topics, position = set(), 6
        for _ in range(count):
            (length,) = struct.unpack_from(">h", subscription, position)
            position += 2
            if length < 0 or position + length > len(subscription):
                raise ValueError("a subscription that is cut short")
            topics.add(subscription[position : position + length].decode("utf-8"))
            position += length
        return topics
    except struct.error as error:
        raise ValueError(f"a subscription that is cut short: {error}") from None

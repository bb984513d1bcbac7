"""Decodes the topics in a consumer's subscription, the metadata of a member of protocol type ``consumer``.

Answers to: ``org.apache.kafka.clients.consumer.internals.ConsumerProtocol.deserializeSubscription``. Pure.
"""

from __future__ import annotations

import struct
from typing import Final

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


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

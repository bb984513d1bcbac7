"""The one exception for bytes that are not Kafka's protocol.

Answers to: ``org.apache.kafka.common.protocol.types.SchemaException`` and ``InvalidReceiveException``. Pure.
"""

from __future__ import annotations


class ProtocolError(Exception):
    """Bytes that cannot be what they claim to be; their sender is disconnected."""

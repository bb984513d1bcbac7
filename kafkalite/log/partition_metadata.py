"""The ``partition.metadata`` file: to which topic id a folder belongs.

Answers to: ``org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile``. Pure.
"""

from __future__ import annotations

import uuid

from kafkalite.common.types import uuid_from_text, uuid_to_text

_VERSION = 0


def encode_partition_metadata(topic_id: uuid.UUID) -> bytes:
    """The file's bytes."""
    return f"version: {_VERSION}\ntopic_id: {uuid_to_text(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> uuid.UUID:
    """The topic id in a file's bytes. Raises ``ValueError``."""
    fields = dict(line.split(":", 1) for line in data.decode("utf-8", "replace").splitlines() if ":" in line)
    version = fields.get("version", "").strip()
    if version != str(_VERSION):
        raise ValueError(f"partition.metadata has version {version or 'none'}")
    return uuid_from_text(fields.get("topic_id", "").strip())

"""Checkpoint files: small texts with a version, a count and one entry a line.

Answers to: ``org.apache.kafka.server.common.CheckpointFile`` and
``kafka.server.checkpoints.OffsetCheckpointFile``. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkalite.common.types import TopicPartition

RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET = "log-start-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
CLEANER_OFFSET = "cleaner-offset-checkpoint"

_VERSION = 0


class CheckpointError(Exception):
    """A checkpoint file that is not what it should be."""


def encode_lines(lines: Iterable[str]) -> bytes:
    """Version, count and ``lines`` as a file's bytes."""
    entries = list(lines)
    return "\n".join([str(_VERSION), str(len(entries)), *entries, ""]).encode()


def decode_lines(data: bytes) -> list[list[str]]:
    """The fields of each line of a file. Raises :class:`CheckpointError`."""
    if not data.endswith(b"\n"):
        # A number that was cut short would be taken for a smaller one.
        raise CheckpointError("the last line has no end")
    lines = data.decode("utf-8", "replace").splitlines()
    try:
        version, count = int(lines[0]), int(lines[1])
    except (IndexError, ValueError):
        raise CheckpointError("version or number of entries is missing") from None
    if version != _VERSION:
        raise CheckpointError(f"version {version} is not known")
    entries = [line.split() for line in lines[2:] if line.strip()]
    if len(entries) != count:
        raise CheckpointError(f"{count} entries were promised, {len(entries)} are there")
    return entries


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """One offset a partition."""
    return encode_lines(f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items())


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    """The reverse of :func:`encode_offsets`. Raises :class:`CheckpointError`."""
    offsets = {}
    for fields in decode_lines(data):
        try:
            topic, partition, offset = fields
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise CheckpointError(f"entry {' '.join(fields)!r} is not: topic partition offset") from None
    return offsets

"""Message formats 0 and 1: single messages, and compressed wrappers that hold a message set.

Answers to: ``org.apache.kafka.common.record.{LegacyRecord,AbstractLegacyRecordBatch}``. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkalite.record.records import Record


def encode_message_set(records: Sequence[Record], magic: int, *, codec: int = 0, timestamp_type: int = 0) -> bytes:
    """``records`` as messages of ``magic`` 0 or 1; with a codec, as one wrapper message."""
    raise NotImplementedError

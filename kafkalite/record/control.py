"""The markers that end transactions: control batches of one record.

Answers to: ``org.apache.kafka.common.record.{ControlRecordType,EndTransactionMarker}`` and
``MemoryRecords.withEndTransactionMarker``. Pure.
"""

from __future__ import annotations

import struct
from typing import Final

from kafkalite.record.records import Record, encode_batch

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1


def encode_marker(
    producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int, timestamp_ms: int
) -> bytes:
    """A transaction marker in the form in which a leader appends it."""
    key = _KEY.pack(0, _COMMIT if commit else _ABORT)
    record = Record(-1, timestamp_ms, key, _VALUE.pack(0, coordinator_epoch), ())
    return encode_batch(
        [record], producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True, is_control=True
    )

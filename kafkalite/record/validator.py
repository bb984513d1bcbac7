"""What a leader checks and fills in before it appends what a producer sent.

Answers to: ``org.apache.kafka.storage.internals.log.LogValidator`` and ``UnifiedLog.analyzeAndValidateRecords``. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import Buffer
from kafkalite.record.batch import BatchHeader


class RecordValidationError(ApiError):
    """A batch refused for some of its records; ``record_errors`` are (index in the batch, why), as Produce v8+ tells."""

    def __init__(self, code: ErrorCode, message: str, record_errors: Sequence[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


class ValidationConfig:
    """What of a topic's configuration bears on an append. Timestamp limits in milliseconds."""

    __slots__ = (
        "compacted",
        "compression_type",
        "max_message_bytes",
        "message_timestamp_after_max_ms",
        "message_timestamp_before_max_ms",
        "target_magic",
        "timestamp_type",
    )

    def __init__(
        self,
        timestamp_type: int = 0,
        message_timestamp_before_max_ms: int = 0x7FFFFFFFFFFFFFFF,
        message_timestamp_after_max_ms: int = 0x7FFFFFFFFFFFFFFF,
        max_message_bytes: int = 1048588,
        compacted: bool = False,
        compression_type: str = "producer",
        target_magic: int = 2,
    ) -> None:
        self.timestamp_type = timestamp_type
        self.message_timestamp_before_max_ms = message_timestamp_before_max_ms
        self.message_timestamp_after_max_ms = message_timestamp_after_max_ms
        self.max_message_bytes = max_message_bytes
        self.compacted = compacted
        self.compression_type = compression_type
        self.target_magic = target_magic


class ValidBatches:
    """What is to be written: ``buffer``, its ``headers`` with their final offsets, and what the log must know of it.

    ``offset_of_max_timestamp`` is the last offset of the batch that holds the largest timestamp, as the time index
    wants it; ``log_append_time`` is -1 where the records keep their own time.
    """

    __slots__ = (
        "buffer",
        "first_offset",
        "headers",
        "last_offset",
        "log_append_time",
        "max_timestamp",
        "offset_of_max_timestamp",
        "record_count",
    )

    def __init__(
        self,
        buffer: Buffer,
        headers: list[BatchHeader],
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        offset_of_max_timestamp: int,
        record_count: int,
        log_append_time: int,
    ) -> None:
        self.buffer = buffer
        self.headers = headers
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.max_timestamp = max_timestamp
        self.offset_of_max_timestamp = offset_of_max_timestamp
        self.record_count = record_count
        self.log_append_time = log_append_time


def validate_for_leader(
    records: memoryview,
    next_offset: int,
    leader_epoch: int,
    config: ValidationConfig,
    now_ms: int,
    *,
    from_client: bool = True,
) -> ValidBatches:
    """``records`` checked, with offsets from ``next_offset`` on and ``leader_epoch`` filled in."""
    raise NotImplementedError

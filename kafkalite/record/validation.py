"""The topic configuration that an append is validated with, the result of the validation, and the errors of records.

Answers to: ``LogValidator.ValidationResult``, ``LogAppendInfo`` and ``RecordValidationException``. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import Buffer
from kafkalite.record.batch import LOG_APPEND_TIME, NO_TIMESTAMP, BatchHeader
from kafkalite.record.compression import CODECS, MAX_DECOMPRESSED_BYTES


class RecordValidationError(ApiError):
    """A batch refused for some of its records.

    ``record_errors`` are pairs (index in the batch, reason), as in the answers of Produce v8 and later.
    """

    def __init__(self, code: ErrorCode, message: str, record_errors: Sequence[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


class ValidationConfig:
    """The part of a topic's configuration that an append depends on. Timestamp limits in milliseconds.

    ``compression_type`` is a codec's name or ``producer`` (keep the producer's codec). ``plain`` says that only header,
    size and CRC of a magic-2 batch must be checked, the common case. Immutable: make a new one for a new configuration.
    """

    __slots__ = (
        "compacted",
        "compression_type",
        "max_message_bytes",
        "message_timestamp_after_max_ms",
        "message_timestamp_before_max_ms",
        "plain",
        "target_codec",
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
        self.target_codec = None if compression_type == "producer" else CODECS[compression_type]
        """Codec that batches are stored with; None: the producer's."""
        self.plain = timestamp_type == 0 and not compacted and self.target_codec is None and target_magic == 2


class ValidBatches:
    """The bytes to write: ``buffer``, its ``headers`` with their final offsets, and their largest timestamp.

    ``offset_of_max_timestamp`` is the last offset of the batch that holds the largest timestamp, for the time
    index; ``log_append_time`` is -1 if the records keep their own time.
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


def check_size(size: int, config: ValidationConfig) -> None:
    """Refuse a batch of more than ``max.message.bytes`` bytes."""
    if size > config.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size is {size} bytes which exceeds the maximum configured value of "
            f"{config.max_message_bytes}.",
        )


def timestamp_error(timestamp: int, append_time: bool, config: ValidationConfig, now_ms: int) -> str | None:
    """Why a record's ``timestamp`` is refused at ``now_ms``; None if it is accepted.

    ``append_time`` says that the producer set the type LogAppendTime, which only a broker may set.
    """
    if config.timestamp_type == LOG_APPEND_TIME or timestamp == NO_TIMESTAMP:
        if append_time:
            return "Invalid timestamp type in message. Producer should not set timestamp type to LogAppendTime."
        return None
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    if now_ms - timestamp <= before and timestamp - now_ms <= after:
        return None
    return (
        f"Timestamp {timestamp} of message is out of range. "
        f"The timestamp should be within [{now_ms - before}, {now_ms + after}]"
    )


def invalid_timestamp(errors: list[tuple[int, str]]) -> RecordValidationError:
    """The refusal of a batch for the timestamps of the records that ``errors`` names."""
    text = "One or more records have been rejected due to invalid timestamp"
    return RecordValidationError(ErrorCode.INVALID_TIMESTAMP, text, errors)


def keyless_records(indexes: Sequence[int]) -> RecordValidationError:
    """The refusal of a batch whose records ``indexes`` have no key, on a compacted topic."""
    errors = [(index, "Compacted topic cannot accept message without key") for index in indexes]
    text = f"One or more records have been rejected due to {len(errors)} record errors: {errors[0][1]}"
    return RecordValidationError(ErrorCode.INVALID_RECORD, text, errors)


def max_unfolded(config: ValidationConfig) -> int:
    """The decompressed bytes that are allowed in a batch whose records must be read."""
    return max(MAX_DECOMPRESSED_BYTES, 4 * config.max_message_bytes)

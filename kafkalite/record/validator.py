"""The leader's checks of a producer's records before the append, and the fields that it fills in.

Answers to: ``org.apache.kafka.storage.internals.log.LogValidator`` and ``UnifiedLog.analyzeAndValidateRecords``. Pure.

Kafka walks every record of every append. Here a magic-2 batch is judged by its header (structure, sizes, CRC, offset
range against record count, timestamps by the batch's largest), and its records are walked only if the result depends
on them: null keys on compacted topics, and conversion from message formats 0 and 1. LogAppendTime is two header fields
and a new CRC. For another codec than the producer's the same records are compressed again, because everything within
a batch is relative to its header.
"""

from __future__ import annotations

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.record.assign import LEADER_FIELDS, assign_batches, convert_batches, patch_batch
from kafkalite.record.batch import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    ChecksumError,
    CorruptRecordError,
    check_crc,
    compute_crc,
    crc32c,
    iter_headers,
)
from kafkalite.record.compression import ZSTD
from kafkalite.record.records import check_keys, payload
from kafkalite.record.validation import (
    RecordValidationError,
    ValidationConfig,
    ValidBatches,
    check_size,
    invalid_timestamp,
    keyless_records,
    max_unfolded,
    timestamp_error,
)

__all__ = ["RecordValidationError", "ValidBatches", "ValidationConfig", "patch_batch", "validate_for_leader"]

_SMALLEST_RECORD = 7
_REFUSED_ATTRIBUTES = CONTROL_MASK | TIMESTAMP_TYPE_MASK
"""Attributes that a client's batch may not have, so that it takes the full validation."""


def validate_for_leader(
    records: memoryview,
    next_offset: int,
    leader_epoch: int,
    config: ValidationConfig,
    now_ms: int,
    *,
    from_client: bool = True,
) -> ValidBatches:
    """Check ``records``, fill in offsets from ``next_offset`` and ``leader_epoch``; returns them ready to be written.

    Fields are patched in place if ``records`` is writable, else in one copy. ``from_client`` is False for batches of
    the broker's own coordinators: these may be control batches and batches without sequences.

    Raises :class:`ApiError` with CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE,
    UNSUPPORTED_COMPRESSION_TYPE or UNSUPPORTED_FOR_MESSAGE_FORMAT; nothing is patched then.
    """
    size = len(records)
    # The fast path: one whole batch that needs no change but offset and leader epoch. Any other batch takes the full
    # validation, which also finds the text of the error.
    if size >= HEADER_SIZE and records[MAGIC_POSITION] == 2 and config.plain and size <= config.max_message_bytes:
        header = BatchHeader(*HEADER.unpack_from(records))
        delta = header.last_offset_delta
        timestamp = header.max_timestamp
        if (
            header.size == size
            and header.base_offset == 0
            and header.record_count == delta + 1 > 0
            and not header.attributes & _REFUSED_ATTRIBUTES
            and (header.producer_id < 0 or header.base_sequence >= 0)
            and (
                timestamp == NO_TIMESTAMP
                or (
                    timestamp - now_ms <= config.message_timestamp_after_max_ms
                    and now_ms - header.base_timestamp <= config.message_timestamp_before_max_ms
                )
            )
            and header.attributes & COMPRESSION_MASK <= 4
            and crc32c(records[CRC_START:]) == header.crc
            and (header.attributes & COMPRESSION_MASK or (delta + 1) * _SMALLEST_RECORD <= size - HEADER_SIZE)
        ):
            if records.readonly:
                records = memoryview(bytearray(records))
            LEADER_FIELDS.pack_into(records, 0, next_offset, size - LOG_OVERHEAD, leader_epoch)
            header.base_offset = next_offset
            header.leader_epoch = leader_epoch
            last = next_offset + delta
            return ValidBatches(records, [header], next_offset, last, timestamp, last, delta + 1, -1)
    try:
        return _validate(records, next_offset, leader_epoch, config, now_ms, from_client)
    except CorruptRecordError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error


def _validate(
    records: memoryview, next_offset: int, leader_epoch: int, config: ValidationConfig, now_ms: int, from_client: bool
) -> ValidBatches:
    """The full validation: every check in Kafka's order, then the changes."""
    batches = list(iter_headers(records, allow_partial_tail=True))
    if not batches:
        raise ApiError(ErrorCode.INVALID_RECORD, "Record batch has no batches at all")
    magic = batches[0][1].magic
    for pos, header in batches:
        if from_client and header.magic == 2 and header.base_offset != 0:
            raise _invalid(f"The baseOffset of the record batch should be 0, but it is {header.base_offset}")
        check_size(header.size, config)
        if not check_crc(records, pos, header):
            computed = compute_crc(records, pos, header)
            raise ChecksumError(f"Record is corrupt (stored crc = {header.crc}, computed crc = {computed})")
    for _, header in batches:
        if header.magic != magic:
            raise _invalid(f"Batch magic {header.magic} is not the same as the first batch's magic byte {magic}")
    if from_client and len(batches) > 1 and (magic == 2 or any(header.compression for _, header in batches)):
        raise _invalid("Compressed outer record has more than one batch")
    try:
        if magic == 2:
            for pos, header in batches:
                _check_batch(header, config, from_client)
                _check_records(records, pos, header, config, now_ms)
        if magic < 2 or config.target_magic < 2:
            return convert_batches(records, batches, next_offset, leader_epoch, config, now_ms)
        return assign_batches(records, batches, next_offset, leader_epoch, config, now_ms)
    except ChecksumError:
        raise
    except CorruptRecordError as error:
        # The bytes arrived as they were sent: a retry, which CORRUPT_MESSAGE asks for, would not help.
        raise _invalid(str(error)) from error


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, message)


def _check_batch(header: BatchHeader, config: ValidationConfig, from_client: bool) -> None:
    count = header.record_count
    if from_client:
        span = f"[{header.base_offset}, {header.last_offset}]"
        if header.last_offset_delta < 0:
            raise _invalid(f"Batch has an invalid offset range: {span}")
        if count <= 0:
            raise _invalid(f"Invalid reported count for record batch: {count}")
        if header.last_offset_delta + 1 != count:
            raise _invalid(f"Inconsistent batch offset range {span} and count of records {count}")
        if header.is_control:
            raise _invalid("Clients are not allowed to write control records")
        if header.has_producer_id and header.base_sequence < 0:
            raise _invalid(f"Invalid sequence number {header.base_sequence} with producerId {header.producer_id}")
    if config.target_magic < 2 and (header.is_transactional or header.has_producer_id):
        kind = "Transactional" if header.is_transactional else "Idempotent"
        raise ApiError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"{kind} records cannot be used with magic version {config.target_magic}",
        )
    if header.compression > ZSTD:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type id: {header.compression}")
    if not header.compression and count * _SMALLEST_RECORD > header.size - HEADER_SIZE:
        raise _invalid(f"{count} records cannot fit into {header.size - HEADER_SIZE} bytes")


def _check_records(records: memoryview, pos: int, header: BatchHeader, config: ValidationConfig, now_ms: int) -> None:
    """Kafka's checks of every record. A missing key is reported before a bad timestamp."""
    missing: list[int] = []
    if config.compacted and not header.is_control:
        missing = check_keys(payload(records, header, pos, max_unfolded(config)), header.record_count)
    why = None
    if len(missing) < header.record_count:
        append_time = header.timestamp_type == LOG_APPEND_TIME
        why = timestamp_error(header.max_timestamp, append_time, config, now_ms)
        if not append_time and header.base_timestamp != NO_TIMESTAMP:
            # The first record's own time is checked instead of the oldest one.
            why = why or timestamp_error(header.base_timestamp, append_time, config, now_ms)
    if why:
        raise invalid_timestamp([(0, why)])
    if missing:
        raise keyless_records(missing)

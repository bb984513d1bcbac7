"""The leader's checks of a producer's records before the append, and its changes to them.

Answers to: ``org.apache.kafka.storage.internals.log.LogValidator``, ``UnifiedLog.analyzeAndValidateRecords``,
``LogAppendInfo`` and ``RecordValidationException``. Pure.

Kafka walks every record of every append. Here a magic-2 batch is judged by its header (structure, sizes, CRC, offset
range against record count, timestamps by the batch's largest), and its records are walked only if the result depends
on them: null keys on compacted topics, and conversion from message formats 0 and 1. LogAppendTime is two header fields
and a new CRC. For another codec than the producer's the same records are compressed again, because everything within
a batch is relative to its header.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import Buffer
from kafkalite.record.batch import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    CRC_POSITION,
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
from kafkalite.record.compression import CODECS, MAX_DECOMPRESSED_BYTES, ZSTD, compress
from kafkalite.record.convert import RecordConversionStats, records_of
from kafkalite.record.faults import InvalidRecordsError, RecordFault
from kafkalite.record.legacy import encode_message_set
from kafkalite.record.records import Record, assemble, check_keys, encode_batch, payload


class RecordValidationError(InvalidRecordsError):
    """A batch refused for some of its records.

    ``record_errors`` are pairs (index in the batch, reason), as in the answers of Produce v8 and later.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        record_errors: Sequence[tuple[int, str]],
        fault: RecordFault | None = None,
    ) -> None:
        super().__init__(code, message, fault, len(record_errors))
        self.record_errors = record_errors


def _no_clock() -> float:
    return 0.0


@dataclass(slots=True, eq=False)
class ValidationConfig:
    """The part of a topic's configuration that an append depends on. Timestamp limits in milliseconds.

    ``compression_type`` is a codec's name or ``producer`` (keep the producer's codec). ``plain`` says that only header,
    size and CRC of a magic-2 batch must be checked, the common case. Immutable: make a new one for a new configuration.
    ``monotonic`` is the clock, in seconds, that conversions are timed by.
    """

    timestamp_type: int = 0
    message_timestamp_before_max_ms: int = 0x7FFFFFFFFFFFFFFF
    message_timestamp_after_max_ms: int = 0x7FFFFFFFFFFFFFFF
    max_message_bytes: int = 1048588
    compacted: bool = False
    compression_type: str = "producer"
    target_magic: int = 2
    monotonic: Callable[[], float] = _no_clock
    target_codec: int | None = field(init=False)
    """Codec that batches are stored with; None: the producer's."""
    plain: bool = field(init=False)

    def __post_init__(self) -> None:
        self.target_codec = None if self.compression_type == "producer" else CODECS[self.compression_type]
        self.plain = (
            self.timestamp_type == 0 and not self.compacted and self.target_codec is None and self.target_magic == 2
        )


@dataclass(slots=True, eq=False)
class ValidBatches:
    """The bytes to write: ``buffer``, its ``headers`` with their final offsets, and their largest timestamp.

    ``log_append_time`` is -1 if the records keep their own time. ``conversion``: what it cost to make new batches,
    ``None`` where the producer's are written.
    """

    buffer: Buffer
    headers: list[BatchHeader]
    last_offset: int
    max_timestamp: int
    log_append_time: int
    conversion: RecordConversionStats | None = None


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
    return RecordValidationError(ErrorCode.INVALID_RECORD, text, errors, RecordFault.NO_KEY)


def max_unfolded(config: ValidationConfig) -> int:
    """The decompressed bytes that are allowed in a batch whose records must be read."""
    return max(MAX_DECOMPRESSED_BYTES, 4 * config.max_message_bytes)


LEADER_FIELDS = struct.Struct(">qii")
"""Base offset, batch length, leader epoch: the start of a batch, outside its CRC."""
_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_POSITION = 35
_CRC_AND_ATTRIBUTES = struct.Struct(">Ih")


def assign_batches(
    records: memoryview,
    batches: list[tuple[int, BatchHeader]],
    next_offset: int,
    leader_epoch: int,
    config: ValidationConfig,
    now_ms: int,
) -> ValidBatches:
    """Magic 2 stays magic 2: fields are patched, bodies are compressed again if the topic has another codec."""
    buffer: Buffer = records
    conversion = None
    if any(_wants_codec(header, config) for _, header in batches):
        began = config.monotonic()
        rebuilt = memory = 0
        parts: list[Buffer] = []
        for pos, header in batches:
            part: Buffer = records[pos : pos + header.size]
            if _wants_codec(header, config):
                codec = config.target_codec or 0
                body = payload(records, header, pos, max_unfolded(config))
                header.attributes = header.attributes & ~COMPRESSION_MASK | codec
                part = assemble(header, compress(codec, body))
                check_size(header.size, config)
                rebuilt += header.record_count
                memory += len(body) + len(part)
            parts.append(part)
        buffer = bytearray(b"".join(parts))
        conversion = RecordConversionStats(rebuilt, memory, config.monotonic() - began)
    elif records.readonly:
        buffer = bytearray(records)
    view = memoryview(buffer)
    pos = 0
    for _, header in batches:
        header.base_offset, header.leader_epoch = next_offset, leader_epoch
        next_offset = header.next_offset
        patch_batch(view, pos, header, config.timestamp_type, now_ms)
        pos += header.size
    return _result(view[:pos], [header for _, header in batches], config, now_ms, conversion)


def _wants_codec(header: BatchHeader, config: ValidationConfig) -> bool:
    # Kafka leaves an uncompressed marker of the coordinators uncompressed.
    return config.target_codec not in (None, header.compression) and not header.is_control


def patch_batch(view: memoryview, pos: int, header: BatchHeader, timestamp_type: int, now_ms: int) -> None:
    """Write the leader's fields of ``header`` into the batch at ``pos``, and the append time with LogAppendTime.

    Always offset, length and leader epoch; timestamp type, largest timestamp and CRC only if they change.
    """
    LEADER_FIELDS.pack_into(view, pos, header.base_offset, header.size - LOG_OVERHEAD, header.leader_epoch)
    if timestamp_type == LOG_APPEND_TIME:
        header.attributes |= TIMESTAMP_TYPE_MASK
        header.max_timestamp = now_ms
    elif header.timestamp_type == LOG_APPEND_TIME:
        header.attributes &= ~TIMESTAMP_TYPE_MASK
    else:
        return
    _MAX_TIMESTAMP.pack_into(view, pos + _MAX_TIMESTAMP_POSITION, header.max_timestamp)
    _CRC_AND_ATTRIBUTES.pack_into(view, pos + CRC_POSITION, 0, header.attributes)
    header.crc = crc32c(view[pos + CRC_START : pos + header.size])
    _CRC_AND_ATTRIBUTES.pack_into(view, pos + CRC_POSITION, header.crc, header.attributes)


def _result(
    view: memoryview,
    headers: list[BatchHeader],
    config: ValidationConfig,
    now_ms: int,
    conversion: RecordConversionStats | None,
) -> ValidBatches:
    return ValidBatches(
        view,
        headers,
        headers[-1].last_offset,
        max(header.max_timestamp for header in headers),
        now_ms if config.timestamp_type == LOG_APPEND_TIME else -1,
        conversion,
    )


def convert_batches(
    records: memoryview,
    batches: list[tuple[int, BatchHeader]],
    next_offset: int,
    leader_epoch: int,
    config: ValidationConfig,
    now_ms: int,
) -> ValidBatches:
    """Convert from another format than the topic's: the records are checked singly and written into one new batch."""
    began = config.monotonic()
    produced: list[Record] = []
    missing: list[int] = []
    untimely: list[tuple[int, str]] = []
    codec = 0
    for pos, header in batches:
        codec = header.compression or codec
        append_time = header.timestamp_type == LOG_APPEND_TIME
        for record in records_of(records, header, pos, max_unfolded(config)):
            if config.compacted and record.key is None:
                missing.append(len(produced))
            elif why := timestamp_error(record.timestamp, append_time, config, now_ms):
                untimely.append((len(produced), why))
            produced.append(record)
    if untimely:
        raise invalid_timestamp(untimely)
    if missing:
        raise keyless_records(missing)
    if config.timestamp_type == LOG_APPEND_TIME:
        produced = [record._replace(timestamp=now_ms) for record in produced]
    produced = [record._replace(offset=next_offset + index) for index, record in enumerate(produced)]
    codec = codec if config.target_codec is None else config.target_codec
    if config.target_magic < 2:
        data = encode_message_set(produced, config.target_magic, codec=codec, timestamp_type=config.timestamp_type)
    else:
        data = encode_batch(
            produced,
            codec=codec,
            timestamp_type=config.timestamp_type,
            log_append_time=now_ms,
            leader_epoch=leader_epoch,
        )
    headers = [header for _, header in iter_headers(data)]
    for header in headers:
        check_size(header.size, config)
    memory = len(data) + sum(len(record.key or b"") + len(record.value or b"") for record in produced)
    conversion = RecordConversionStats(len(produced), memory, config.monotonic() - began)
    return _result(memoryview(data), headers, config, now_ms, conversion)


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
            return ValidBatches(records, [header], next_offset + delta, timestamp, -1)
    try:
        return _validate(records, next_offset, leader_epoch, config, now_ms, from_client)
    except CorruptRecordError as error:
        fault = RecordFault.MESSAGE_CRC if isinstance(error, ChecksumError) else None
        raise InvalidRecordsError(ErrorCode.CORRUPT_MESSAGE, str(error), fault) from error


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
            raise _invalid(
                f"Batch magic {header.magic} is not the same as the first batch's magic byte {magic}",
                RecordFault.MAGIC_NUMBER,
            )
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


def _invalid(message: str, fault: RecordFault | None = None) -> ApiError:
    return InvalidRecordsError(ErrorCode.INVALID_RECORD, message, fault)


def _check_batch(header: BatchHeader, config: ValidationConfig, from_client: bool) -> None:
    count = header.record_count
    fault = RecordFault.OFFSET_OR_SEQUENCE
    if from_client:
        span = f"[{header.base_offset}, {header.last_offset}]"
        if header.last_offset_delta < 0:
            raise _invalid(f"Batch has an invalid offset range: {span}", fault)
        if count <= 0:
            raise _invalid(f"Invalid reported count for record batch: {count}", fault)
        if header.last_offset_delta + 1 != count:
            raise _invalid(f"Inconsistent batch offset range {span} and count of records {count}", fault)
        if header.is_control:
            raise _invalid("Clients are not allowed to write control records", fault)
        if header.has_producer_id and header.base_sequence < 0:
            raise _invalid(
                f"Invalid sequence number {header.base_sequence} with producerId {header.producer_id}", fault
            )
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

"""The leader's changes to produced batches: offsets and epochs, append time, codec, message format.

Answers to: ``LogValidator``'s ``assignOffsetsNonCompressed``, ``convertAndAssignOffsetsNonCompressed`` and
``buildRecordsAndAssignOffsets``. Pure.
"""

from __future__ import annotations

import struct

from kafkalite.common.types import Buffer
from kafkalite.record.batch import (
    COMPRESSION_MASK,
    CRC_POSITION,
    CRC_START,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    crc32c,
    iter_headers,
)
from kafkalite.record.compression import compress
from kafkalite.record.convert import records_of
from kafkalite.record.legacy import encode_message_set
from kafkalite.record.records import Record, assemble, encode_batch, payload
from kafkalite.record.validation import (
    ValidationConfig,
    ValidBatches,
    check_size,
    invalid_timestamp,
    keyless_records,
    max_unfolded,
    timestamp_error,
)

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
    if any(_wants_codec(header, config) for _, header in batches):
        parts: list[Buffer] = []
        for pos, header in batches:
            part: Buffer = records[pos : pos + header.size]
            if _wants_codec(header, config):
                codec = config.target_codec or 0
                body = payload(records, header, pos, max_unfolded(config))
                header.attributes = header.attributes & ~COMPRESSION_MASK | codec
                part = assemble(header, compress(codec, body))
                check_size(header.size, config)
            parts.append(part)
        buffer = bytearray(b"".join(parts))
    elif records.readonly:
        buffer = bytearray(records)
    view = memoryview(buffer)
    pos = 0
    for _, header in batches:
        header.base_offset, header.leader_epoch = next_offset, leader_epoch
        next_offset = header.next_offset
        patch_batch(view, pos, header, config.timestamp_type, now_ms)
        pos += header.size
    return _result(view[:pos], [header for _, header in batches], config, now_ms)


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


def _result(view: memoryview, headers: list[BatchHeader], config: ValidationConfig, now_ms: int) -> ValidBatches:
    newest = max(headers, key=lambda header: header.max_timestamp)
    return ValidBatches(
        view,
        headers,
        headers[0].base_offset,
        headers[-1].last_offset,
        newest.max_timestamp,
        newest.last_offset,
        headers[-1].next_offset - headers[0].base_offset,
        now_ms if config.timestamp_type == LOG_APPEND_TIME else -1,
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
    result = _result(memoryview(data), headers, config, now_ms)
    result.first_offset, result.record_count = next_offset, len(produced)
    return result

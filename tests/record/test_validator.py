"""What a leader refuses, what it fills in, and what it leaves alone."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.record.batch import BatchHeader, check_crc, iter_headers, read_header
from kafkalite.record.compression import compress
from kafkalite.record.convert import records_of
from kafkalite.record.faults import InvalidRecordsError, RecordFault
from kafkalite.record.legacy import encode_message, encode_message_set
from kafkalite.record.records import Record, assemble, encode_batch, iter_records
from kafkalite.record.validator import RecordValidationError, ValidationConfig, ValidBatches, validate_for_leader

from .samples import kafka_commit_marker, records

NOW = 1_000_000
PLAIN = ValidationConfig()


def run(
    data: bytes | memoryview, config: ValidationConfig = PLAIN, *, next_offset: int = 500, from_client: bool = True
) -> ValidBatches:
    view = data if isinstance(data, memoryview) else memoryview(bytearray(data))
    return validate_for_leader(view, next_offset, 7, config, NOW, from_client=from_client)


def refusal(data: bytes, config: ValidationConfig = PLAIN, *, from_client: bool = True) -> ApiError:
    view = memoryview(bytearray(data))
    with pytest.raises(ApiError) as caught:
        validate_for_leader(view, 500, 7, config, NOW, from_client=from_client)
    assert bytes(view) == data, "nothing is patched in what is refused"
    return caught.value


def changed(data: bytes, **fields: int) -> bytes:
    """``data`` with other header fields and a CRC to match."""
    header = read_header(data)
    body = bytes(memoryview(data)[61:])
    for name, value in fields.items():
        setattr(header, name, value)
    return assemble(header, body)


def stored(result: ValidBatches) -> list[Record]:
    found = []
    for (pos, header), told in zip(iter_headers(result.buffer), result.headers, strict=True):
        assert check_crc(result.buffer, pos, header)
        assert [getattr(header, n) for n in BatchHeader.__slots__] == [getattr(told, n) for n in BatchHeader.__slots__]
        found += records_of(result.buffer, header, pos)
    return found


@pytest.mark.parametrize("codec", range(5))
def test_offsets_and_epoch_are_patched_in_place_and_nothing_else(codec: int) -> None:
    data = encode_batch(records(4), codec=codec, producer_id=3, producer_epoch=1, base_sequence=9)
    view = memoryview(bytearray(data))
    result = run(view)
    assert result.buffer is view
    assert data[16:] == bytes(view[16:])
    assert (result.last_offset, result.max_timestamp, result.log_append_time) == (503, 1003, -1)
    assert [(r.offset, r.sequence) for r in stored(result)] == [(500 + i, 9 + i) for i in range(4)]
    assert (result.headers[0].leader_epoch, result.headers[0].producer_id, result.headers[0].base_sequence) == (7, 3, 9)


def test_read_only_buffers_are_copied() -> None:
    data = encode_batch(records(1))
    result = run(memoryview(data))
    assert read_header(data).base_offset == 0 and read_header(result.buffer).base_offset == 500


@pytest.mark.parametrize(
    ("fields", "code", "why"),
    [
        ({"base_offset": 1}, ErrorCode.INVALID_RECORD, "baseOffset"),
        ({"record_count": 0}, ErrorCode.INVALID_RECORD, "count"),
        ({"record_count": 5}, ErrorCode.INVALID_RECORD, "Inconsistent"),
        ({"last_offset_delta": -1, "record_count": 0}, ErrorCode.INVALID_RECORD, "offset range"),
        ({"last_offset_delta": 900, "record_count": 901}, ErrorCode.INVALID_RECORD, "cannot fit"),
        ({"producer_id": 4}, ErrorCode.INVALID_RECORD, "sequence"),
        ({"attributes": 0x20}, ErrorCode.INVALID_RECORD, "control"),
        ({"attributes": 0x05}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "5"),
        ({"max_timestamp": -1, "attributes": 0x08}, ErrorCode.INVALID_TIMESTAMP, "timestamp"),
    ],
)
def test_headers_that_are_refused(fields: dict[str, int], code: ErrorCode, why: str) -> None:
    error = refusal(changed(encode_batch(records(4)), **fields))
    assert error.code is code
    texts = [error.message] + [text for _, text in getattr(error, "record_errors", ())]
    assert any(why in text for text in texts)


@pytest.mark.parametrize("position", [17, 22, 40, 60, 61, -1])
def test_flipped_bytes_are_corrupt(position: int) -> None:
    data = bytearray(encode_batch(records(4)))
    data[position] ^= 0x40
    assert refusal(bytes(data)).code is ErrorCode.CORRUPT_MESSAGE


def test_size_limit() -> None:
    data = encode_batch(records(4))
    run(data, ValidationConfig(max_message_bytes=len(data)))
    assert refusal(data, ValidationConfig(max_message_bytes=len(data) - 1)).code is ErrorCode.MESSAGE_TOO_LARGE


def test_exactly_one_batch() -> None:
    data = encode_batch(records(4))
    assert refusal(data + data).code is ErrorCode.INVALID_RECORD
    for nothing in (b"", data[:-1], data[:11]):
        assert refusal(nothing).code is ErrorCode.INVALID_RECORD
    result = run(data + data[:-1])  # what follows and is cut short is left out, as Kafka trims it
    assert len(result.buffer) == len(data) and len(stored(result)) == 4


def test_coordinators_may_write_markers_and_several_batches() -> None:
    result = run(kafka_commit_marker() * 2, from_client=False)
    assert [header.base_offset for header in result.headers] == [500, 501]
    assert result.headers[0].is_control and result.last_offset == 501


@pytest.mark.parametrize(
    ("before", "after", "timestamp", "good"),
    [
        (2**63 - 1, 3_600_000, NOW + 3_600_000, True),
        (2**63 - 1, 3_600_000, NOW + 3_600_001, False),
        (1000, 2**63 - 1, NOW - 1000, True),
        (1000, 2**63 - 1, NOW - 1001, False),
        (1000, 1000, -1, True),
    ],
)
@pytest.mark.parametrize("magic", [1, 2])
def test_timestamp_limits(before: int, after: int, timestamp: int, good: bool, magic: int) -> None:
    config = ValidationConfig(message_timestamp_before_max_ms=before, message_timestamp_after_max_ms=after)
    record = [Record(0, timestamp, b"k", b"v")]
    data = encode_batch(record) if magic == 2 else encode_message_set(record, 1)
    if good:
        run(data, config)
    else:
        error = refusal(data, config)
        assert error.code is ErrorCode.INVALID_TIMESTAMP
        assert isinstance(error, RecordValidationError) and error.record_errors[0][0] == 0


def test_append_time_is_two_fields_and_a_crc() -> None:
    for codec in range(5):
        data = encode_batch(records(3), codec=codec)
        result = run(data, ValidationConfig(timestamp_type=1))
        assert (result.last_offset, result.log_append_time, result.max_timestamp) == (502, NOW, NOW)
        assert {r.timestamp for r in stored(result)} == {NOW}
        assert bytes(result.buffer)[61:] == data[61:]
        assert result.headers[0].timestamp_type == 1


def test_producers_may_not_claim_append_time() -> None:
    data = encode_batch(records(1), timestamp_type=1, log_append_time=55)
    assert refusal(data, ValidationConfig(timestamp_type=1)).code is ErrorCode.INVALID_TIMESTAMP
    # With CreateTime Kafka lets it pass and sets the type right.
    [record] = stored(run(data))
    assert record.timestamp == 1000


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("build", [lambda r, c: encode_batch(r, codec=c), None])
def test_compacted_topics_want_keys(codec: int, build: Callable[[list[Record], int], bytes] | None) -> None:
    if build is None and codec == 4:
        return
    compacted = ValidationConfig(compacted=True)
    some = [Record(i, 0, None if i == 2 else b"k", b"v") for i in range(4)]
    make = build or (lambda r, c: encode_message_set(r, 1, codec=c))
    error = refusal(make(some, codec), compacted)
    assert error.code is ErrorCode.INVALID_RECORD
    assert isinstance(error, RecordValidationError) and [index for index, _ in error.record_errors] == [2]
    assert len(stored(run(make(some[:2], codec), compacted))) == 2


@pytest.mark.parametrize("source", range(5))
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_recompression(source: int, target: str) -> None:
    config = ValidationConfig(compression_type=target)
    data = encode_batch(records(5), codec=source, producer_id=3, producer_epoch=1, base_sequence=9)
    result = run(data, config)
    assert result.headers[0].compression == config.target_codec
    assert (result.headers[0].producer_id, result.headers[0].base_sequence) == (3, 9)
    assert [r[1:4] for r in stored(result)] == [r[1:4] for r in records(5)]
    assert [r.offset for r in stored(result)] == list(range(500, 505))


def test_recompression_that_grows_past_the_limit() -> None:
    data = encode_batch([Record(0, 0, None, bytes(5000))], codec=1)
    config = ValidationConfig(compression_type="uncompressed", max_message_bytes=1000)
    assert refusal(data, config).code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(("magic", "codec"), [(m, c) for m in range(2) for c in range(4)])
@pytest.mark.parametrize("timestamp_type", [0, 1])
def test_old_formats_become_one_new_batch(magic: int, codec: int, timestamp_type: int) -> None:
    data = encode_message_set(records(4), magic, codec=codec)
    result = run(data, ValidationConfig(timestamp_type=timestamp_type))
    assert [(h.magic, h.compression, h.record_count) for h in result.headers] == [(2, codec, 4)]
    assert result.last_offset == 503
    found = stored(result)
    assert [r.offset for r in found] == [500, 501, 502, 503]
    assert [(r.key, r.value) for r in found] == [(r.key, r.value) for r in records(4)]
    times = [NOW] * 4 if timestamp_type else [-1] * 4 if magic == 0 else [r.timestamp for r in records(4)]
    assert [r.timestamp for r in found] == times
    assert result.headers[0].leader_epoch == 7


def test_old_producers_that_number_badly_are_renumbered() -> None:
    inner = encode_message(0, 1, 0, 5, b"k", b"a") + encode_message(0, 1, 0, 6, b"k", b"b")
    data = encode_message(0, 1, 1, 6, None, compress(1, inner, magic=1))
    assert [(r.offset, r.value) for r in stored(run(data))] == [(500, b"a"), (501, b"b")]


@pytest.mark.parametrize("magic", [0, 1])
def test_old_format_refusals(magic: int) -> None:
    data = bytearray(encode_message_set(records(2), magic))
    data[-1] ^= 1
    assert refusal(bytes(data)).code is ErrorCode.CORRUPT_MESSAGE
    wrapper = encode_message_set(records(2), magic, codec=1)
    assert refusal(wrapper * 2).code is ErrorCode.INVALID_RECORD
    mixed = encode_message_set(records(1), 0) + encode_message_set(records(1), 1)
    assert refusal(mixed).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("target", [0, 1])
def test_topics_of_an_old_format(target: int) -> None:
    config = ValidationConfig(target_magic=target)
    result = run(encode_batch(records(3), codec=1), config)
    assert result.last_offset == 502
    assert [r.offset for r in stored(result)] == [500, 501, 502]
    idempotent = encode_batch(records(3), producer_id=1, producer_epoch=0, base_sequence=0)
    assert refusal(idempotent, config).code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_append_time_of_old_producers_is_refused_too() -> None:
    for config, timestamp in ((ValidationConfig(timestamp_type=1), 5), (PLAIN, -1)):
        for codec in (0, 1):
            data = encode_message_set([Record(0, timestamp, b"k", b"v")], 1, codec=codec, timestamp_type=1)
            assert refusal(data, config).code is ErrorCode.INVALID_TIMESTAMP


def test_a_record_without_a_key_is_that_first_and_a_timestamp_of_another_one_wins() -> None:
    config = ValidationConfig(compacted=True, message_timestamp_after_max_ms=0)
    late, keyless = Record(0, NOW + 1, b"k", b"v"), Record(0, NOW + 1, None, b"v")
    for build in (encode_batch, lambda found: encode_message_set(found, 1)):
        assert refusal(build([keyless]), config).code is ErrorCode.INVALID_RECORD
        assert refusal(build([late, keyless._replace(offset=1)]), config).code is ErrorCode.INVALID_TIMESTAMP


def test_malformed_records_behind_a_right_crc_are_invalid_not_corrupt() -> None:
    # CORRUPT_MESSAGE would have producers send them again for ever.
    header = read_header(encode_batch(records(3)))
    data = assemble(header, b"\x7f" * 40)
    run(data)  # not walked, so not seen
    assert refusal(data, ValidationConfig(compacted=True)).code is ErrorCode.INVALID_RECORD
    header.attributes = 1
    assert refusal(assemble(header, b"no gzip at all"), ValidationConfig(compression_type="lz4")).code is (
        ErrorCode.INVALID_RECORD
    )


def test_bombs_are_refused() -> None:
    # A header and a body of zeros that unfolds a thousandfold: refused where it would have to be looked into.
    bomb = encode_batch([Record(0, 0, None, bytes(40 << 20))], codec=1)
    assert len(bomb) < 1 << 20
    assert refusal(bomb, ValidationConfig(compacted=True)).code is ErrorCode.MESSAGE_TOO_LARGE


def test_iter_records_of_what_was_stored_keeps_headers() -> None:
    data = encode_batch([Record(0, 5, b"k", None, [("a", b"1"), ("b", None)])], codec=3)
    result = run(data, ValidationConfig(compression_type="zstd"))
    [record] = iter_records(result.buffer, result.headers[0])
    assert record == Record(500, 5, b"k", None, [("a", b"1"), ("b", None)], -1)


def test_struct_of_the_patch() -> None:
    result = run(encode_batch(records(1)), next_offset=2**40)
    assert struct.unpack_from(">qii", result.buffer) == (2**40, len(result.buffer) - 12, 7)


GOOD = encode_batch(records(3))
IDEMPOTENT = encode_batch(records(3), producer_id=1, producer_epoch=0, base_sequence=4)
WRAPPED = bytearray(encode_message_set(records(2), 1))
WRAPPED[-1] ^= 1


@pytest.mark.parametrize(
    ("data", "fault", "count"),
    [
        (GOOD[:-1] + b"?", RecordFault.MESSAGE_CRC, 1),
        (bytes(WRAPPED), RecordFault.MESSAGE_CRC, 1),
        (encode_message(0, 1, 1, 6, None, compress(1, bytes(WRAPPED), magic=1)), RecordFault.MESSAGE_CRC, 1),
        (encode_message_set(records(1), 0) + encode_message_set(records(1), 1), RecordFault.MAGIC_NUMBER, 1),
        (
            encode_message(0, 1, 1, 6, None, compress(1, encode_message_set(records(1), 0), magic=1)),
            RecordFault.MAGIC_NUMBER,
            1,
        ),
        (changed(GOOD, record_count=4), RecordFault.OFFSET_OR_SEQUENCE, 1),
        (changed(GOOD, last_offset_delta=-1), RecordFault.OFFSET_OR_SEQUENCE, 1),
        (changed(IDEMPOTENT, base_sequence=-1), RecordFault.OFFSET_OR_SEQUENCE, 1),
        (changed(kafka_commit_marker(), base_offset=0), RecordFault.OFFSET_OR_SEQUENCE, 1),
        (encode_batch([Record(i, 0, None, b"v") for i in range(3)]), RecordFault.NO_KEY, 3),
        (changed(GOOD, base_offset=1), None, 1),
        (GOOD * 2, None, 1),
    ],
    ids=[
        *("CRC of a batch", "CRC of a message", "CRC inside of a wrapper", "two formats", "another format inside"),
        *("more records than offsets", "offsets that descend", "negative sequence", "control records", "no keys"),
        *("base offset", "two batches"),
    ],
)
def test_a_refusal_has_the_fault_that_kafka_counts(data: bytes, fault: RecordFault | None, count: int) -> None:
    error = refusal(data, ValidationConfig(compacted=fault is RecordFault.NO_KEY))
    assert isinstance(error, InvalidRecordsError)
    assert (error.fault, error.count) == (fault, count)


def test_only_new_batches_have_a_cost() -> None:
    times = iter([1.0, 1.5, 2.0, 2.25])
    data = encode_batch(records(3), codec=1)
    compressing = ValidationConfig(compression_type="lz4", monotonic=lambda: next(times))
    found = run(data, compressing)
    unpacked = len(encode_batch(records(3))) - 61
    assert found.conversion == (3, unpacked + len(found.buffer), 0.5)
    assert run(encode_batch(records(3), codec=3), compressing).conversion is None
    assert run(data).conversion is None
    assert run(data, ValidationConfig(timestamp_type=1)).conversion is None

    old = run(encode_message_set(records(4), 1), ValidationConfig(monotonic=lambda: next(times)))
    payloads = sum(len(record.key or b"") + len(record.value or b"") for record in records(4))
    assert old.conversion == (4, payloads + len(old.buffer), 0.25)

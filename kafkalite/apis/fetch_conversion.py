"""Stored records for consumers that are too old to read them as they are.

Answers to: ``org.apache.kafka.common.record.LazyDownConversionRecords`` and ``KafkaApis.maybeConvertFetchedData``.
Pure.

Versions before 4 get messages of magic 0 (up to version 1) or 1; versions before 10 get nothing from a topic whose
``compression.type`` is zstd.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import Buffer, FileRegion
from kafkalite.record.batch import CorruptRecordError
from kafkalite.record.convert import ConvertedRecords, RecordConversionStats, down_convert


def down_converted(
    version: int,
    records: FileRegion | Buffer,
    fetch_offset: int,
    read_on: Callable[[int], FileRegion | Buffer | None],
    monotonic: Callable[[], float],
) -> tuple[bytes, RecordConversionStats]:
    """``records`` as messages for a Fetch of ``version`` 0 to 3, and what that cost by the clock ``monotonic``.

    Where they make no message at all (control batches, batches that compaction emptied, a part of a large batch), the
    records from a later offset on are taken by ``read_on``, which gives at least one whole batch or ``None``: such a
    client goes on from the last message that it got, and would ask for the same offset for ever.

    Raises :class:`ApiError`.
    """
    began = monotonic()
    magic = 0 if version <= 1 else 1
    found, memory = _converted(magic, records, fetch_offset)
    offset = fetch_offset
    while not found.data:
        offset = max(offset, found.next_offset)
        following = read_on(offset)
        if following is None:
            break
        found, more = _converted(magic, following, fetch_offset)
        memory += more
        if found.next_offset <= offset:
            break
    return found.data, RecordConversionStats(found.converted, memory, monotonic() - began)


def _converted(magic: int, records: FileRegion | Buffer, fetch_offset: int) -> tuple[ConvertedRecords, int]:
    """The messages, and the bytes of both forms."""
    data = records.read() if isinstance(records, FileRegion) else records
    try:
        found = down_convert(data, magic, fetch_offset)
    except CorruptRecordError as error:
        # The append checked the batch as a whole, but only the conversion reads every record.
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    return found, len(data) + len(found.data)


def check_compression(compression_type: str) -> None:
    """Whether a Fetch before version 10 is served from a topic with that ``compression.type`` (KIP-110).

    Raises :class:`ApiError`. A zstd batch that its producer chose, in a topic of another type, is sent as it is:
    Kafka does so, and clients that know zstd without knowing version 10 depend on it.
    """
    if compression_type == "zstd":
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)

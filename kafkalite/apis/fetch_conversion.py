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
    version: int, records: FileRegion | Buffer, fetch_offset: int, monotonic: Callable[[], float]
) -> tuple[bytes, RecordConversionStats]:
    """``records`` as messages for a Fetch of ``version`` 0 to 3, and what that cost by the clock ``monotonic``.

    Raises :class:`ApiError`.
    """
    began = monotonic()
    data = records.read() if isinstance(records, FileRegion) else records
    found = _converted(version, data, fetch_offset)
    cost = RecordConversionStats(found.converted, len(data) + len(found.data), monotonic() - began)
    return found.data, cost


def _converted(version: int, data: Buffer, fetch_offset: int) -> ConvertedRecords:
    try:
        return down_convert(data, 0 if version <= 1 else 1, fetch_offset)
    except CorruptRecordError as error:
        # The append checked the batch as a whole, but only the conversion reads every record.
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error


def check_compression(compression_type: str) -> None:
    """Whether a Fetch before version 10 is served from a topic with that ``compression.type`` (KIP-110).

    Raises :class:`ApiError`. A zstd batch that its producer chose, in a topic of another type, is sent as it is:
    Kafka does so, and clients that know zstd without knowing version 10 depend on it.
    """
    if compression_type == "zstd":
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)

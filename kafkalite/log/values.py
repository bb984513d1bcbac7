"""What the log answers: outcomes of appends, reads and look-ups.

Answers to: ``org.apache.kafka.storage.internals.log.{LogAppendInfo,FetchDataInfo,AbortedTxn}`` and
``FileRecords.TimestampAndOffset``. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import FileRegion
from kafkalite.record.convert import RecordConversionStats

NO_TIMESTAMP = -1
"""Timestamp of a record that has none."""


@dataclass(slots=True, eq=False)
class AppendInfo:
    """One append, or the earlier append of the same batch.

    ``log_append_time`` is -1 where producers set the timestamps; ``size`` is in bytes. ``conversion``: what it cost to
    make other batches of the producer's, if that was done.
    """

    first_offset: int
    last_offset: int
    log_append_time: int
    log_start_offset: int
    size: int
    conversion: RecordConversionStats | None = None


@dataclass(slots=True, eq=False)
class ReadInfo:
    """One read: ``records`` (``None`` = nothing), its ``size`` in bytes, and the offset that was asked for."""

    offset: int
    records: FileRegion | None
    size: int


class AbortedTxn(NamedTuple):
    """An aborted transaction, as the ``.txnindex`` file and Fetch answers have it."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TimestampOffset(NamedTuple):
    """The answer of a look-up by timestamp; ``leader_epoch`` is -1 where it is not known."""

    timestamp: int
    offset: int
    leader_epoch: int = -1


class UnexpectedAppendOffsetError(ApiError):
    """A replicated batch starts below the log's end: the follower has to truncate first."""

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        self.first_offset = first_offset
        self.last_offset = last_offset

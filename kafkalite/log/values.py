"""What the log answers: outcomes of appends, reads and look-ups.

Answers to: ``org.apache.kafka.storage.internals.log.{LogAppendInfo,FetchDataInfo,AbortedTxn}`` and
``FileRecords.TimestampAndOffset``. Pure.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import FileRegion

NO_TIMESTAMP = -1
"""Timestamp of a record that has none."""


class AppendInfo:
    """One append. ``duplicate`` says that the offsets are those of an earlier append of the same batch.

    ``log_append_time`` is -1 where producers set the timestamps; ``size`` is in bytes; ``leader_epoch`` is
    that of the last batch.
    """

    __slots__ = (
        "duplicate",
        "first_offset",
        "last_offset",
        "leader_epoch",
        "log_append_time",
        "log_start_offset",
        "max_timestamp",
        "record_count",
        "size",
    )

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        log_append_time: int,
        log_start_offset: int,
        max_timestamp: int,
        record_count: int,
        size: int,
        duplicate: bool,
        leader_epoch: int,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.log_append_time = log_append_time
        self.log_start_offset = log_start_offset
        self.max_timestamp = max_timestamp
        self.record_count = record_count
        self.size = size
        self.duplicate = duplicate
        self.leader_epoch = leader_epoch


class ReadInfo:
    """One read: ``records`` (``None`` = nothing), its ``size`` in bytes, and the offset that was asked for.

    ``first_entry_incomplete``: the first batch is larger than what was allowed, and so is cut short.
    """

    __slots__ = ("first_entry_incomplete", "offset", "records", "size")

    def __init__(
        self, offset: int, records: FileRegion | None, size: int, first_entry_incomplete: bool = False
    ) -> None:
        self.offset = offset
        self.records = records
        self.size = size
        self.first_entry_incomplete = first_entry_incomplete


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

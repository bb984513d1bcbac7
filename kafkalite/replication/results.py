"""What replication answers, partition by partition.

Answers to: ``kafka.server.{LogAppendResult,FetchPartitionData}``. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import FileRegion, TopicPartition

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5

READ_UNCOMMITTED = 0
READ_COMMITTED = 1

_NONE = ErrorCode.NONE


@dataclass(slots=True, eq=False)
class ProduceResult:
    """One partition's answer to a Produce request.

    ``record_errors`` are pairs (index in the batch, why) where single records were the reason.
    """

    topic_partition: TopicPartition
    error: ErrorCode = _NONE
    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: Sequence[tuple[int, str]] = ()


@dataclass(slots=True, eq=False)
class FetchResult:
    """One partition's answer to a Fetch request.

    ``records`` is ``None`` where there is nothing. ``diverging_epoch`` is ``(epoch, end offset)``: the follower's log
    ends differently and is to be truncated. ``leader_hint`` is ``(leader id, leader epoch)`` beside
    NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH. Beside OFFSET_OUT_OF_RANGE the high watermark and the log's start
    are given. ``throttled``: there are records, which the leader's replication quota holds back. ``to_added``: it
    is for a follower that a reassignment adds.
    """

    topic_partition: TopicPartition
    error: ErrorCode = _NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: FileRegion | None = None
    size: int = 0
    throttled: bool = False
    aborted: list[tuple[int, int]] | None = None
    preferred_read_replica: int = -1
    diverging_epoch: tuple[int, int] | None = None
    leader_hint: tuple[int, int] | None = None
    to_added: bool = False


@dataclass(frozen=True, slots=True)
class OffsetResult:
    """The answer to one partition of ListOffsets; offset and timestamp are -1 where nothing was found."""

    error: ErrorCode
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class EpochEndOffset:
    """The answer to one partition of OffsetForLeaderEpoch; -1 and -1 where the epoch is not known."""

    topic_partition: TopicPartition
    error: ErrorCode
    leader_epoch: int = -1
    end_offset: int = -1


@dataclass(frozen=True, slots=True)
class DeleteRecordsResult:
    """The answer to one partition of DeleteRecords; ``low_watermark`` is the lowest log start of all live replicas."""

    low_watermark: int
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    """One replica in a log directory; ``offset_lag`` is how far its end is behind the high watermark.

    ``is_future``: a copy that is to take the replica's place; its lag is how far it is behind the replica, -1 where
    that is not known.
    """

    topic_partition: TopicPartition
    size: int
    offset_lag: int
    is_future: bool = False


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """One log directory with the replicas asked for; sizes in bytes, -1 where unknown."""

    log_dir: str
    error: ErrorCode
    replicas: tuple[ReplicaDescription, ...] = ()
    total_bytes: int = -1
    usable_bytes: int = -1

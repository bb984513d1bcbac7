"""What a group has committed of a partition, and who commits within a transaction.

Answers to: ``kafka.common.OffsetAndMetadata`` and ``GroupMetadata.CommitRecordMetadataAndOffset``. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

NO_EPOCH = -1
NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A commit: the next offset to read, and what its committer said with it.

    Times are milliseconds since the epoch. ``commit_timestamp_ms``: -1 for now (in a commit) or unknown (a plain
    number). ``expire_timestamp_ms``: when it goes where its committer asked for a retention of its own (OffsetCommit
    2 to 4), else -1.
    """

    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int = NO_TIMESTAMP
    expire_timestamp_ms: int = NO_TIMESTAMP


@dataclass(frozen=True, slots=True)
class TxnProducer:
    """Who stages offsets in a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

"""One partition's log.

Answers to: ``kafka.log.UnifiedLog`` and ``kafka.log.LocalLog``. Deterministic.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from kafkalite.common.types import TopicPartition
from kafkalite.log.config import LogConfig
from kafkalite.log.values import AbortedTxn, AppendInfo, ReadInfo, TimestampOffset

if TYPE_CHECKING:
    from kafkalite.log.producer_state import ProducerStateManager

__all__ = ["AbortedTxn", "AppendInfo", "Log", "ReadInfo", "TimestampOffset"]


class Log:
    """An ordered sequence of record batches in segment files."""

    topic_partition: TopicPartition
    topic_id: uuid.UUID | None
    dir: str
    log_dir: str
    config: LogConfig
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    size: int

    @property
    def last_stable_offset(self) -> int:
        raise NotImplementedError

    @property
    def latest_epoch(self) -> int | None:
        raise NotImplementedError

    def append_as_leader(
        self,
        records: memoryview,
        leader_epoch: int,
        now_ms: int,
        *,
        from_client: bool = True,
        required_acks: int = 1,
    ) -> AppendInfo:
        raise NotImplementedError

    def append_as_follower(self, records: memoryview) -> AppendInfo:
        raise NotImplementedError

    def read(self, offset: int, max_bytes: int, upper_bound: int, min_one_message: bool) -> ReadInfo:
        raise NotImplementedError

    def aborted_transactions(self, start: int, upper: int) -> list[AbortedTxn]:
        raise NotImplementedError

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        raise NotImplementedError

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        raise NotImplementedError

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        raise NotImplementedError

    def truncate_to(self, offset: int) -> bool:
        raise NotImplementedError

    def truncate_fully_and_start_at(self, offset: int) -> None:
        raise NotImplementedError

    def assign_epoch_start(self, epoch: int, start_offset: int) -> None:
        raise NotImplementedError

    def update_high_watermark(self, high_watermark: int) -> bool:
        raise NotImplementedError

    def increment_log_start_offset(self, offset: int) -> bool:
        raise NotImplementedError

    def delete_old_segments(self, now_ms: int) -> int:
        raise NotImplementedError

    def flush(self, up_to: int | None = None) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    @property
    def producer_state(self) -> ProducerStateManager:
        raise NotImplementedError

    def set_topic_id(self, topic_id: uuid.UUID) -> None:
        raise NotImplementedError

    def update_config(self, config: LogConfig) -> None:
        raise NotImplementedError

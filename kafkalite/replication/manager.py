"""The replicas of this broker: appends, fetches, leadership.

Answers to: ``kafka.server.ReplicaManager``. Deterministic.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence

from kafkalite.cluster.control import ControlResponse, LeaderAndIsr, StopReplica
from kafkalite.cluster.model import PartitionState
from kafkalite.common.clock import Clock
from kafkalite.common.types import TopicPartition
from kafkalite.replication.config import ReplicationConfig
from kafkalite.replication.ports import (
    BrokerDirectory,
    IsrPort,
    LeaderConnector,
    LogStore,
    OfflineListener,
    TopicConfigs,
)
from kafkalite.replication.results import (
    DeleteRecordsResult,
    EpochEndOffset,
    FetchParams,
    FetchResult,
    LogDirDescription,
    OffsetResult,
    ProduceResult,
)
from kafkalite.replication.watch import FetchWatch
from kafkalite.zk.port import SessionState


class ReplicaManager:
    """Every replica that this broker holds. One reactor thread calls it."""

    def __init__(
        self,
        config: ReplicationConfig,
        logs: LogStore,
        metadata: BrokerDirectory,
        isr: IsrPort,
        connect: LeaderConnector,
        topic_configs: TopicConfigs,
        clock: Clock,
    ) -> None:
        self.on_offline: OfflineListener = lambda _: None

    def registered(self, broker_epoch: int, session: int) -> None:
        """This broker's znode was made in ``session`` with czxid ``broker_epoch``. Call after every registration."""
        raise NotImplementedError

    def append_records(
        self,
        timeout_ms: int,
        required_acks: int,
        entries: Sequence[tuple[TopicPartition, memoryview]],
        on_done: Callable[[list[ProduceResult]], object],
        *,
        from_client: bool = True,
    ) -> None:
        """Append to the leaders here; results come in the order of ``entries``, at once when nothing must be waited for."""
        raise NotImplementedError

    def fetch(
        self, params: FetchParams, partitions: Sequence[object], on_done: Callable[[list[FetchResult]], object]
    ) -> None:
        """Read ``partitions`` (``protocol.fetch.FetchPartition``, ``topic`` filled in) and the dirty ones of ``params.watch``."""
        raise NotImplementedError

    def watch(self, watch: FetchWatch, tp: TopicPartition) -> None:
        """``watch`` wants to know of news of ``tp`` from now on."""
        raise NotImplementedError

    def unwatch(self, watch: FetchWatch, tp: TopicPartition) -> None:
        """``tp`` left the session of ``watch``."""
        raise NotImplementedError

    def unwatch_all(self, watch: FetchWatch) -> None:
        """The session of ``watch`` is over; a fetch that waits in it is answered."""
        raise NotImplementedError

    async def list_offset(
        self,
        tp: TopicPartition,
        timestamp: int,
        isolation: int | None,
        current_leader_epoch: int = -1,
        from_follower_ok: bool = False,
    ) -> OffsetResult:
        """``isolation`` ``None`` is a follower's question (up to the log's end)."""
        raise NotImplementedError

    def end_offset_for_epoch(self, tp: TopicPartition, current_leader_epoch: int, epoch: int) -> EpochEndOffset:
        raise NotImplementedError

    def delete_records(
        self,
        timeout_ms: int,
        offsets: Mapping[TopicPartition, int],
        on_done: Callable[[dict[TopicPartition, DeleteRecordsResult]], object],
    ) -> None:
        raise NotImplementedError

    async def become_leader_or_follower(self, request: LeaderAndIsr) -> ControlResponse:
        raise NotImplementedError

    async def stop_replicas(self, request: StopReplica) -> ControlResponse:
        raise NotImplementedError

    async def apply_states(self, states: Sequence[PartitionState]) -> None:
        raise NotImplementedError

    async def topics_deleted(self, topics: Mapping[str, uuid.UUID] | Iterable[str]) -> None:
        raise NotImplementedError

    def on_zk_state(self, state: SessionState) -> None:
        raise NotImplementedError

    def describe_log_dirs(self, partitions: Iterable[TopicPartition] | None = None) -> list[LogDirDescription]:
        raise NotImplementedError

    async def shutdown(self) -> None:
        raise NotImplementedError

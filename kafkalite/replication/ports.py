"""What replication needs from others, as it sees it.

Answers to: nothing in Kafka (its ReplicaManager knows the classes themselves). Pure: protocols only.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, Protocol

from kafkalite.cluster.model import Broker, LeaderAndIsr
from kafkalite.common.types import TopicPartition


class FutureLogStore(Protocol):
    """``kafkalite.log.future_logs.FutureLogs``, as far as replication uses it."""

    @property
    def logs(self) -> Mapping[TopicPartition, Any]: ...
    @property
    def preferred(self) -> MutableMapping[TopicPartition, str]: ...
    def create(self, topic_partition: TopicPartition, log_dir: str) -> None: ...
    def drop(self, topic_partition: TopicPartition) -> object: ...
    def copy(self, topic_partition: TopicPartition, max_bytes: int) -> Awaitable[int]: ...
    def is_caught_up(self, topic_partition: TopicPartition) -> bool: ...
    def is_durable(self, topic_partition: TopicPartition) -> bool: ...
    def make_durable(self, topic_partition: TopicPartition) -> Awaitable[None]: ...
    def replace_current(self, topic_partition: TopicPartition) -> Any: ...


class LogStore(Protocol):
    """``kafkalite.log.log_manager.LogManager``, as far as replication uses it."""

    on_dir_failure: Callable[[str], None]

    @property
    def log_dirs(self) -> Sequence[str]: ...
    @property
    def offline_dirs(self) -> Iterable[str]: ...
    @property
    def logs(self) -> Mapping[TopicPartition, Any]: ...
    @property
    def future_logs(self) -> FutureLogStore: ...
    def is_online(self, log_dir: str) -> bool: ...
    def space(self, log_dir: str) -> tuple[int, int]: ...
    def get(self, tp: TopicPartition) -> Any: ...
    def get_or_create(self, tp: TopicPartition, topic_id: uuid.UUID | None, is_new: bool, config: Any) -> Any: ...
    def delete(self, tp: TopicPartition) -> Awaitable[None]: ...
    def handle_failure(self, log_dir: str) -> None: ...
    def checkpoint_high_watermarks(self) -> None: ...


class BrokerDirectory(Protocol):
    """``kafkalite.cluster.metadata.MetadataCache``, as far as replication uses it."""

    def broker(self, broker_id: int) -> Broker | None: ...
    def alive(self, broker_id: int) -> bool: ...
    def state(self, topic_partition: TopicPartition) -> LeaderAndIsr | None: ...


class IsrPort(Protocol):
    """The state znodes, as a leader writes them. Failures are :class:`kafkalite.zk.zk_client.ZkError`."""

    def update(self, state: LeaderAndIsr, session: int) -> Awaitable[LeaderAndIsr]:
        """Write leader, epoch and ISR where the znode's version is ``state.zk_version``; the state with its new
        version.

        Raises ``BadVersionError``/``NoNodeError`` when another wrote it (re-read), ``ConnectionLostError`` when the
        outcome is unknown, ``SessionExpiredError`` when the session is over.
        """

    def read(self, state: LeaderAndIsr) -> Awaitable[LeaderAndIsr | None]:
        """The znode as it is now, with ``state``'s assignment and topic id; ``None`` where it is gone."""

    def notify(self, partitions: Sequence[TopicPartition]) -> Awaitable[None]:
        """Tell the controller that the ISRs of ``partitions`` changed."""


class LeaderEndPoint(Protocol):
    """A leader as its followers reach it: ``RemoteLeaderEndPoint`` over a connection, or a fake network in tests."""

    def fetch(self, request: Any, version: int) -> Awaitable[Any]:
        """A ``protocol.fetch.FetchRequest`` to the leader, its ``FetchResponse`` back. Raises anything when it
        fails.
        """

    def close(self) -> None:
        """Drop the connection; what is outstanding fails."""


class LeaderConnection(Protocol):
    """``kafkalite.network.client.BrokerConnection``, as far as replication uses it."""

    def connect(self) -> Awaitable[None]: ...
    def send(self, api_key: int, version: int, body: Any, timeout: float) -> Awaitable[memoryview]: ...
    def close(self) -> None: ...


LeaderConnector = Callable[[Broker, int], LeaderEndPoint]
"""Makes the end point to reach ``broker`` with, for the fetcher of the given number."""

TopicConfigs = Callable[[str], Awaitable[Any]]
"""A topic's ``LogConfig``, asked for when a log of it is created."""

OfflineListener = Callable[[Sequence[TopicPartition]], None]
"""Told when partitions went offline because their log directory failed."""

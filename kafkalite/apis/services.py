"""What the handlers of requests work with: one immutable set of services, built by the composition root.

Answers to: the constructor of ``kafka.server.KafkaApis``. Pure.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.security.client_quotas import ClientQuotas

if TYPE_CHECKING:
    from kafkalite.admin.config_admin import ConfigAdmin
    from kafkalite.admin.producer_ids import ProducerIdManager
    from kafkalite.admin.topic_admin import TopicAdmin
    from kafkalite.cluster.control import ControlRequest, ControlResponse
    from kafkalite.cluster.metadata import MetadataCache
    from kafkalite.common.clock import Clock
    from kafkalite.controller.controller import Controller
    from kafkalite.coordinator.group.group_coordinator import GroupCoordinator
    from kafkalite.coordinator.offsets.offset_manager import OffsetManager
    from kafkalite.coordinator.transaction.transaction_coordinator import TransactionCoordinator
    from kafkalite.log.log_manager import LogManager
    from kafkalite.network.request import ConnectionInfo
    from kafkalite.network.request_metrics import RequestChannelMetrics
    from kafkalite.replication.offset_queries import OffsetQueries
    from kafkalite.replication.partition_table import PartitionTable
    from kafkalite.replication.replica_manager import ReplicaManager
    from kafkalite.security.authorizer_interface import Authorizer
    from kafkalite.security.token_manager import TokenManager
    from kafkalite.zk.stores.config import ConfigStore


_KEPT_BYTES: Final = 8 << 20


class EncodedAnswers:
    """Answers made from one version of the metadata, kept until there is another; at most 8 MiB of them."""

    __slots__ = ("_answers", "_bytes", "_version")

    def __init__(self) -> None:
        self._version = -1
        self._bytes = 0
        self._answers: dict[Hashable, bytes] = {}

    def find(self, key: Hashable, version: int) -> bytes | None:
        """The answer to ``key`` where it was made from that ``version``."""
        return self._answers.get(key) if version == self._version else None

    def keep(self, key: Hashable, version: int, answer: bytes) -> None:
        """Remember ``answer``; what was made from other versions, or does not fit, is dropped."""
        if version != self._version or self._bytes + len(answer) > _KEPT_BYTES:
            self._answers = {}
            self._bytes = 0
            self._version = version
        if len(answer) <= _KEPT_BYTES:
            self._answers[key] = answer
            self._bytes += len(answer)


class ControlRequests(Protocol):
    """What carries out the requests of the controller and of brokers that stop: the control plane."""

    @property
    def inter_broker_listener(self) -> str:
        """Name of the listener on which brokers fetch from each other."""

    def carry_out(self, request: ControlRequest, connection: ConnectionInfo) -> Awaitable[ControlResponse]:
        """Carry ``request`` out after those that came before it on ``connection``."""


@dataclass(frozen=True, slots=True)
class ApiConfig:
    """What the APIs take from server.properties: Kafka's keys with ``_`` for ``.``."""

    auto_create_topics_enable: bool
    delete_topic_enable: bool
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    request_timeout_ms: int


@dataclass(frozen=True, slots=True)
class BrokerServices:
    """Everything that an API may ask of this broker.

    Without an ``authorizer`` every client may do everything, without ``request_metrics`` no request is counted.
    """

    broker_id: int
    cluster_id: str
    api_config: ApiConfig
    metadata: MetadataCache
    replicas: ReplicaManager
    partitions: PartitionTable
    offset_queries: OffsetQueries
    logs: LogManager
    controller: Controller
    control: ControlRequests
    topics: TopicAdmin
    configs: ConfigAdmin
    config_store: ConfigStore
    tokens: TokenManager
    producer_ids: ProducerIdManager
    offsets: OffsetManager
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    clock: Clock
    rng: random.Random = field(default_factory=random.Random)
    answers: EncodedAnswers = field(default_factory=EncodedAnswers)
    quotas: ClientQuotas = field(default_factory=ClientQuotas)
    authorizer: Authorizer | None = None
    request_metrics: RequestChannelMetrics | None = None

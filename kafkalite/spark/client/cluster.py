"""A cluster as a client sees it: leaders, coordinators, connections, and retries after errors that may pass.

Answers to: ``org.apache.kafka.clients.{Metadata,consumer.internals.ConsumerNetworkClient}``. Blocking shell.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.spark.client.config import ClientConfig
from kafkalite.spark.client.connection import SparkConnection
from kafkalite.spark.client.errors import RETRIABLE, BrokerUnreachableError, KafkaClientError

T = TypeVar("T")
GROUP, TRANSACTION = 0, 1
"""Kinds of coordinators, as FindCoordinator numbers them."""


@dataclass(frozen=True)
class TopicState:
    """One topic as Metadata describes it: partition → leader (-1: none), or the ``error``."""

    name: str
    leaders: dict[int, int]
    error: int = 0
    internal: bool = False


class ClusterConnections:
    """Connections to the brokers, made when needed and kept. Use it in one thread, and close it."""

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self._addresses: dict[int, tuple[str, int]] = {}
        self._connections: dict[tuple[str, int], SparkConnection] = {}
        self._leaders: dict[TopicPartition, int] = {}

    def __enter__(self) -> ClusterConnections:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. Later calls make new ones."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def any_connection(self) -> SparkConnection:
        """A connection to any broker. Raises :class:`BrokerUnreachableError` if none can be reached."""
        for connection in self._connections.values():
            if not connection.closed:
                return connection
        error: BrokerUnreachableError | None = None
        for address in dict.fromkeys((*self._addresses.values(), *self.config.bootstrap_servers)):
            try:
                return self._connect(address)
            except BrokerUnreachableError as lost:
                error = lost
        servers = ", ".join(f"{host}:{port}" for host, port in self.config.bootstrap_servers)
        raise BrokerUnreachableError(f"no broker of {servers} can be reached: {error}")

    def broker(self, broker_id: int) -> SparkConnection:
        """The connection to a broker by its id. Raises :class:`BrokerUnreachableError`."""
        return self._connect(self.address(broker_id))

    def address(self, broker_id: int) -> tuple[str, int]:
        """Host and port of a broker. Raises :class:`BrokerUnreachableError`."""
        address = self._addresses.get(broker_id)
        if address is None:
            self.refresh(())
            address = self._addresses.get(broker_id)
        if address is None:
            raise BrokerUnreachableError(f"broker {broker_id} is not there")
        return address

    def brokers(self) -> list[int]:
        """Ids of the live brokers. Raises as :meth:`refresh`."""
        self.refresh(())
        return sorted(self._addresses)

    def topics(self, names: Collection[str] | None) -> dict[str, TopicState]:
        """The states of topics (``None``: of all), errors included; leaders are remembered.

        Raises :class:`KafkaClientError`, after ``default.api.timeout.ms`` at the latest.
        """
        return self.retry("Metadata", lambda: self.refresh(names))

    def refresh(self, names: Collection[str] | None, *, create: bool = False) -> dict[str, TopicState]:
        """:meth:`topics`, asked once; ``create`` lets a broker with ``auto.create.topics.enable`` make what is not
        there."""

        connection = self.any_connection()
        kind = messages.MetadataRequest.MetadataRequestTopic
        answer = connection.ask(
            ApiKey.METADATA,
            {
                "topics": None if names is None else [kind(name=name) for name in names],
                "allow_auto_topic_creation": create,
            },
            9,
        )
        self._addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers} or self._addresses
        found = {}
        for topic in answer.topics:
            leaders = {partition.partition_index: partition.leader_id for partition in topic.partitions}
            found[topic.name] = TopicState(topic.name, leaders, topic.error_code, topic.is_internal)
            self._leaders.update((TopicPartition(topic.name, index), leader) for index, leader in leaders.items())
        return found

    def leader(self, partition: TopicPartition) -> int:
        """Id of the leader. Raises ``ApiError``, with a code that may pass if the leader is not known now."""
        leader = self._leaders.get(partition, -1)
        if leader < 0:
            state = self.refresh((partition.topic,)).get(partition.topic)
            if state is None or partition.partition not in state.leaders:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if state is not None and state.error:
                    code = ErrorCode(state.error)
                raise ApiError(code, f"{partition} is not there")
            leader = state.leaders[partition.partition]
            if leader < 0:
                raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
        return leader

    def leader_connection(self, partition: TopicPartition) -> SparkConnection:
        """The connection to the leader of a partition. Raises as :meth:`leader` and :meth:`broker`."""
        return self.broker(self.leader(partition))

    def forget(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Forget the leaders of these partitions (of none: of all), so that they are asked for again."""
        named = list(partitions)
        if not named:
            self._leaders.clear()
        for partition in named:
            self._leaders.pop(partition, None)

    def find_coordinators(self, kind: int, keys: Collection[str]) -> dict[str, int]:
        """The ids of the brokers that coordinate ``keys``: groups (:data:`GROUP`) or transactional ids
        (:data:`TRANSACTION`).

        Raises ``ApiError`` and :class:`BrokerUnreachableError`; call it inside :meth:`retry`.
        """
        connection = self.any_connection()
        if connection.version(ApiKey.FIND_COORDINATOR, 4) < 4:
            asked = [({"key": key, "key_type": kind}, key) for key in keys]
            answers = [(key, connection.ask(ApiKey.FIND_COORDINATOR, fields, 3)) for fields, key in asked]
        else:
            fields = {"key_type": kind, "coordinator_keys": list(keys)}
            answers = [(found.key, found) for found in connection.ask(ApiKey.FIND_COORDINATOR, fields, 4).coordinators]
        places = {}
        for key, answer in answers:
            if answer.error_code:
                raise ApiError(ErrorCode(answer.error_code), f"no coordinator of {key}")
            self._addresses[answer.node_id] = (answer.host, answer.port)
            places[key] = answer.node_id
        return places

    def retry(self, what: str, attempt: Callable[[], T], timeout_ms: int | None = None) -> T:
        """Call ``attempt``, again after errors that may pass and lost connections, with fresh metadata.

        ``timeout_ms``: limit for all attempts (default: ``default.api.timeout.ms``). Raises the last error as a
        :class:`KafkaClientError` that begins with ``what``; does not catch other exceptions.
        """
        limit = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline = time.monotonic() + limit / 1000
        pause = self.config.retry_backoff_ms / 1000
        while True:
            try:
                return attempt()
            except (ApiError, BrokerUnreachableError) as error:
                passing = isinstance(error, BrokerUnreachableError) or error.code in RETRIABLE
                if not passing or time.monotonic() + pause > deadline:
                    waited = f" (tried for {limit} ms)" if passing else ""
                    raise KafkaClientError(f"{what}: {error}{waited}") from None
            self.forget()
            time.sleep(pause)
            pause = min(pause * 2, self.config.retry_backoff_max_ms / 1000)

    def _connect(self, address: tuple[str, int]) -> SparkConnection:
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            connection = self._connections[address] = SparkConnection(*address, self.config)
        return connection

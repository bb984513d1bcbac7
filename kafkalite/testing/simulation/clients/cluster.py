"""A client's metadata of the cluster (brokers, leaders with their epochs), and a connection to each broker.

Answers to: ``org.apache.kafka.clients.{Metadata,NetworkClient,ClusterConnectionStates}``. Deterministic.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import spawn
from kafkalite.common.types import ZERO_UUID, TopicPartition
from kafkalite.network.client import ConnectionLost
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_response, encode_request, request_class
from kafkalite.protocol.errors import ProtocolError
from kafkalite.testing.simulation.clients.host import ClientHost, Link, Wakeup

METADATA_VERSION = 12
_PASSING = frozenset(
    (
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    )
)
"""Errors that Metadata may contain for a topic or a partition."""


@dataclass(frozen=True)
class Patience:
    """How long a client waits; seconds. Shorter than Java's defaults, so that more happens in less virtual time."""

    request: float = 3.0
    connect: float = 1.0
    retry: float = 0.05
    retry_max: float = 0.4
    reconnect: float = 0.05
    reconnect_max: float = 0.5
    metadata_age: float = 10.0


class Leader(NamedTuple):
    """The leader of a partition and its epoch; -1: not known."""

    node: int
    epoch: int


NO_LEADER = Leader(-1, -1)


class _Peer:
    """One broker's address, and the connection to it."""

    def __init__(self) -> None:
        self.link: Link | None = None
        self.opening = False
        self.failures = 0
        self.not_before = 0.0


class ClusterClient:
    """One client's metadata and connections. ``changed`` is called at new metadata and new or lost connections."""

    def __init__(self, host: ClientHost, name: str, patience: Patience | None = None) -> None:
        self.host = host
        self.name = name
        self.patience = patience or Patience()
        self.changed: Callable[[], None] = lambda: None
        self.updated = Wakeup(host.clock)
        self.nodes: dict[int, tuple[str, int]] = {}
        self.controller = -1
        self.topics: dict[str, int] = {}
        """Topic → number of partitions, of the wanted topics that exist."""
        self.topic_ids: dict[str, uuid.UUID] = {}
        self._leaders: dict[TopicPartition, Leader] = {}
        self._wanted: dict[str, None] = {}
        self._peers: dict[tuple[str, int], _Peer] = {}
        self._needed = False
        self._updating = False
        self._fetched_at = -1e9
        self._closed = False

    # Wanted topics and their leaders

    def want(self, topics: Iterable[str]) -> None:
        """Keep the metadata of these topics."""
        for topic in topics:
            if topic not in self._wanted:
                self._wanted[topic] = None
                self.request_update()

    def leader(self, partition: TopicPartition) -> Leader:
        """The leader; :data:`NO_LEADER` if it is not known, and then metadata are requested."""
        if self.host.clock.monotonic() - self._fetched_at > self.patience.metadata_age:
            self.request_update()
        leader = self._leaders.get(partition, NO_LEADER)
        if leader.node not in self.nodes:
            self.request_update()
            return NO_LEADER
        return leader

    def hint(self, partition: TopicPartition, leader: tuple[int, int] | None) -> None:
        """Take the leader named in an answer (KIP-951), if its epoch is newer."""
        if leader is not None and leader[1] > self._leaders.get(partition, NO_LEADER).epoch and leader[0] in self.nodes:
            self._leaders[partition] = Leader(*leader)

    # Metadata

    def request_update(self) -> None:
        """Request metadata, because they may be old."""
        self._needed = True
        if not self._updating and not self._closed:
            self._updating = True
            spawn(self._update(), f"metadata of {self.name}")

    async def _update(self) -> None:
        pause = self.patience.retry
        while self._needed and not self._closed:
            early = self._fetched_at + self.patience.retry - self.host.clock.monotonic()
            if early > 0:
                await self.host.sleep(early)
            self._needed = False
            try:
                await self._refresh()
                pause = self.patience.retry
            except ConnectionLost:
                self._needed = True
                await self.host.sleep(pause)
                pause = min(pause * 2, self.patience.retry_max)
                continue
            self.updated.wake()
            self.changed()
        self._updating = False

    async def _refresh(self) -> None:
        kind = messages.MetadataRequest.MetadataRequestTopic
        topics = list(self._wanted)
        answer = await self.ask_any(
            ApiKey.METADATA,
            METADATA_VERSION,
            topics=[kind(version=METADATA_VERSION, topic_id=ZERO_UUID, name=topic) for topic in topics],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        self._fetched_at = self.host.clock.monotonic()
        if answer.brokers:
            self.nodes = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self.controller = answer.controller_id
        for topic in answer.topics:
            if topic.name in self._wanted:
                self._learn(topic)

    def _learn(self, topic: Any) -> None:
        name = topic.name
        if topic.error_code:
            if ErrorCode(topic.error_code) not in _PASSING:
                self.host.unexpected(self.name, f"Metadata of {name}", topic.error_code)
            self._forget(name)
            return
        if self.topic_ids.get(name, topic.topic_id) != topic.topic_id:
            self._forget(name)
        self.topic_ids[name] = topic.topic_id
        self.topics[name] = max(self.topics.get(name, 0), len(topic.partitions))
        for entry in topic.partitions:
            partition = TopicPartition(name, entry.partition_index)
            code = ErrorCode(entry.error_code)
            if code and code not in _PASSING:
                self.host.unexpected(self.name, f"Metadata of {partition}", code)
            # An answer of a broker that lags must not bring an older leader back (KIP-320).
            if entry.leader_epoch >= self._leaders.get(partition, NO_LEADER).epoch:
                self._leaders[partition] = Leader(entry.leader_id, entry.leader_epoch)

    def _forget(self, topic: str) -> None:
        for partition in range(self.topics.pop(topic, 0)):
            self._leaders.pop(TopicPartition(topic, partition), None)
        self.topic_ids.pop(topic, None)

    async def known(self, topics: Iterable[str], seconds: float) -> bool:
        """Wait until these topics are known, ``seconds`` at most; whether they are."""
        wanted = list(topics)
        self.want(wanted)
        deadline = self.host.clock.monotonic() + seconds
        while any(topic not in self.topics for topic in wanted):
            left = deadline - self.host.clock.monotonic()
            if left <= 0 or self._closed:
                return False
            self.request_update()
            await self.updated.wait(left)
        return True

    # Connections

    def ready(self, node: int) -> Link | None:
        """The open connection to a broker. If there is none, it is opened, and ``changed`` will be called."""
        address = self.nodes.get(node)
        if address is None or self._closed:
            return None
        peer = self._peers.setdefault(address, _Peer())
        if peer.link is not None and peer.link.connected:
            return peer.link
        if not peer.opening:
            spawn(self._open(address, peer), f"a connection of {self.name}")
        return peer.link if peer.link is not None and peer.link.connected else None

    async def link(self, address: tuple[str, int]) -> Link:
        """An open connection. Raises :class:`ConnectionLost`."""
        peer = self._peers.setdefault(address, _Peer())
        if peer.link is None or not peer.link.connected:
            if peer.opening:
                # Another coroutine of this client opens the connection already, so try again later.
                await self.host.sleep(self.patience.connect / 4)
            else:
                await self._open(address, peer)
        if peer.link is None or not peer.link.connected:
            raise ConnectionLost(f"no connection to {address[0]}:{address[1]}")
        return peer.link

    async def _open(self, address: tuple[str, int], peer: _Peer) -> None:
        peer.opening = True
        try:
            early = peer.not_before - self.host.clock.monotonic()
            if early > 0:
                await self.host.sleep(early)
            if self._closed:
                return
            link = self.host.connect(address[0], address[1], self.name)
            try:
                await link.connect(self.patience.connect)
            except ConnectionLost:
                pause = min(self.patience.reconnect * 2**peer.failures, self.patience.reconnect_max)
                peer.failures += 1
                peer.not_before = self.host.clock.monotonic() + pause * (0.8 + 0.4 * self.host.rng.random())
                peer.link = None
                self.request_update()
            else:
                peer.failures = 0
                peer.not_before = self.host.clock.monotonic() + self.patience.reconnect
                peer.link = link
                if address not in self._peers:
                    link.close()
        finally:
            peer.opening = False
        self.changed()

    # Requests

    async def ask(
        self, link: Link, key: ApiKey, version: int, timeout: float | None = None, /, **fields: object
    ) -> Any:
        """Send one request, with kafka-python's names of fields; returns the decoded answer.

        Raises :class:`ConnectionLost`, also if the answer cannot be decoded, which is a violation.
        """
        body = encode_request(key, version, request_class(key)(version=version, **fields))
        answer = await link.send(int(key), version, body, self.patience.request if timeout is None else timeout)
        try:
            return decode_response(key, version, answer)
        except ProtocolError as error:
            self.host.violation(f"{self.name}: {error}")
            link.close()
            raise ConnectionLost(str(error)) from None

    async def ask_any(self, key: ApiKey, version: int, timeout: float | None = None, /, **fields: object) -> Any:
        """:meth:`ask` of any broker: one with an open connection, otherwise a random one."""
        known = dict.fromkeys(self.nodes.values())
        links = [peer.link for address, peer in self._peers.items() if peer.link is not None and address in known]
        links = [link for link in links if link.connected]
        if links:
            return await self.ask(self.host.rng.choice(links), key, version, timeout, **fields)
        addresses = list(dict.fromkeys((*self.nodes.values(), *self.host.bootstrap)))
        self.host.rng.shuffle(addresses)
        lost = ConnectionLost("no broker is known")
        for address in addresses:
            if self._closed:
                break
            try:
                return await self.ask(await self.link(address), key, version, timeout, **fields)
            except ConnectionLost as error:
                lost = error
        raise lost

    async def ask_node(
        self, node: int, key: ApiKey, version: int, timeout: float | None = None, /, **fields: object
    ) -> Any:
        """:meth:`ask` of one broker."""
        if node not in self.nodes:
            self.request_update()
            await self.updated.wait(self.patience.retry_max)
        address = self.nodes.get(node)
        if address is None:
            raise ConnectionLost(f"broker {node} is not known")
        return await self.ask(await self.link(address), key, version, timeout, **fields)

    def close(self) -> None:
        """Close all connections, for good."""
        self._closed = True
        for peer in list(self._peers.values()):
            if peer.link is not None:
                peer.link.close()
        self._peers.clear()
        self.updated.wake()

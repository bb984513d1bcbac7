"""Brokers: the cluster's id, generated broker ids, registration, the live brokers, and blocks of producer ids.

Answers to: ``kafka.zk.KafkaZkClient`` (``registerBroker``, ``getAllBrokerAndEpochsInCluster``,
``getOrGenerateBrokerId``, ``createOrGetClusterId``) and ``kafka.coordinator.transaction.ZkProducerIdManager``. Reactor
shell.
"""

from __future__ import annotations

import logging
import random

from kafkalite.cluster.model import Broker
from kafkalite.common.clock import Clock
from kafkalite.common.errors import StartupError
from kafkalite.common.tasks import Future, gather
from kafkalite.common.types import random_uuid, uuid_to_text
from kafkalite.zk.stores.paths import children_of_ensured, ensure, read
from kafkalite.zk.zk_client import BadVersionError, NodeExistsError, NoNodeError, Watch, WatchEvent, ZkClient
from kafkalite.zk.znodes import brokers, cluster
from kafkalite.zk.znodes.cluster import BLOCK_SIZE, LATEST_BLOCK, ProducerIdBlock
from kafkalite.zk.znodes.codec import MalformedZnodeError

log = logging.getLogger(__name__)


class BrokerIdInUse(StartupError):  # noqa: N818
    """Another live session holds the znode of this broker id."""


class BrokerStore:
    """``/brokers/ids``, ``/brokers/seqid`` and ``/cluster/id``.

    ``conflict_wait``: seconds that :meth:`register` waits for the znode of a dead incarnation of this broker to go;
    a little more than the longest session timeout in use.
    """

    def __init__(
        self, client: ZkClient, clock: Clock, conflict_wait: float = 20.0, rng: random.Random | None = None
    ) -> None:
        self._client = client
        self._clock = clock
        self._conflict_wait = conflict_wait
        self._rng = rng or random.Random()
        self._registered: tuple[int, int] | None = None

    async def cluster_id(self) -> str:
        """The cluster's id; the first broker that asks generates it."""
        while True:
            found = await read(self._client, cluster.CLUSTER_ID)
            if found is not None:
                return cluster.decode_cluster_id(found[0])
            await ensure(self._client, cluster.CLUSTER_ID.rpartition("/")[0])
            generated = uuid_to_text(random_uuid(self._rng))
            try:
                await self._client.create(cluster.CLUSTER_ID, cluster.encode_cluster_id(generated))
            except NodeExistsError:
                continue

    async def generate_id(self, reserved_max: int) -> int:
        """A broker id that no other broker was given, greater than ``reserved_max`` (``reserved.broker.max.id``)."""
        await ensure(self._client, brokers.SEQID)
        stat = await self._client.set(brokers.SEQID, b"")
        return reserved_max + stat.version

    async def register(self, broker: Broker, jmx_port: int = -1) -> tuple[int, int]:
        """Register ``broker``; returns its epoch (the czxid of its znode) and the session that owns the znode.

        The session may have begun while this method waited. A znode of another session, such as that of this broker
        before a restart, has ``conflict_wait`` seconds to go; then :class:`BrokerIdInUse` is raised.
        """
        path = brokers.broker_path(broker.id)
        data = brokers.encode_broker(broker, self._clock.time_ms(), jmx_port)
        deadline = self._clock.monotonic() + self._conflict_wait
        await ensure(self._client, brokers.IDS)
        while True:
            session = self._client.session
            try:
                _, stat = await self._client.create(path, data, ephemeral=True, session=session)
            except NodeExistsError:
                changed: Future[None] = Future()
                found = await self._client.exists(path, _once(changed))
                if found is None:
                    continue
                if found.ephemeral_owner == session:
                    # This session made it: the answer to an earlier attempt was lost with the connection.
                    await self._client.set(path, data, session=session)
                    self._registered = (broker.id, session)
                    return found.czxid, session
                remaining = deadline - self._clock.monotonic()
                if remaining <= 0:
                    raise BrokerIdInUse(
                        f"broker id {broker.id} is in use: {path} belongs to a live ZooKeeper session "
                        f"(0x{found.ephemeral_owner & 0xFFFFFFFFFFFFFFFF:x}); stop that broker "
                        "or choose another broker.id"
                    ) from None
                log.info("%s belongs to another session; waiting up to %.1f s for it to go", path, remaining)
                timer = self._clock.call_later(remaining, _fire, changed)
                await changed
                timer.cancel()
                continue
            self._registered = (broker.id, session)
            return stat.czxid, session

    async def update(self, broker: Broker, jmx_port: int = -1) -> None:
        """Overwrite the znode that ``broker`` registered in the current session; its epoch stays.

        Raises ``ZkError``.
        """
        data = brokers.encode_broker(broker, self._clock.time_ms(), jmx_port)
        await self._client.set(brokers.broker_path(broker.id), data, session=self._client.session)

    async def live(self, watch: Watch | None = None) -> tuple[dict[int, Broker], int]:
        """The live brokers by id, each with its epoch; ``watch`` sees the next broker that comes, goes or changes.

        The second value orders such lists: it grows with each broker that comes or goes, and the list is at least as
        new as it says.
        """
        container = await self._client.exists(brokers.IDS)
        names = await children_of_ensured(self._client, brokers.IDS, watch)
        ids = sorted(int(name) for name in names if name.isdigit())
        found = await gather(read(self._client, brokers.broker_path(broker_id), watch) for broker_id in ids)
        live = {}
        for broker_id, entry in zip(ids, found, strict=True):
            if entry is None:
                continue
            try:
                live[broker_id] = brokers.decode_broker(broker_id, entry[0], entry[1].czxid)
            except MalformedZnodeError as error:
                log.warning("ignored: %s", error)
        return live, 0 if container is None else container.children_version

    async def unregister(self) -> None:
        """Remove the registration that :meth:`register` made, if it still exists."""
        if self._registered is None:
            return
        broker_id, session = self._registered
        self._registered = None
        path = brokers.broker_path(broker_id)
        stat = await self._client.exists(path)
        if stat is not None and stat.ephemeral_owner == session:
            try:
                await self._client.delete(path, session=session)
            except NoNodeError:
                return


def _fire(future: Future[None]) -> None:
    if not future.called:
        future.callback(None)


def _once(future: Future[None]) -> Watch:
    def watch(_: WatchEvent) -> None:
        _fire(future)

    return watch


_LAST_ID = (1 << 63) - 1


class ProducerIdStore:
    """``/latest_producer_id_block``, advanced by each broker that needs a block."""

    def __init__(self, client: ZkClient) -> None:
        self._client = client

    async def allocate(self, broker_id: int) -> range:
        """A block of ids that no other broker has, recorded before it is used.

        If the answer of ZooKeeper is lost, the block is wasted. Raises ``MalformedZnodeError``.
        """
        while True:
            found = await read(self._client, LATEST_BLOCK)
            start = cluster.decode_block(found[0]).end + 1 if found is not None and found[0] else 0
            if start > _LAST_ID - BLOCK_SIZE + 1:
                raise MalformedZnodeError(f"{LATEST_BLOCK}: all producer ids are given away")
            data = cluster.encode_block(ProducerIdBlock(broker_id, start, start + BLOCK_SIZE - 1))
            try:
                if found is None:
                    await self._client.create(LATEST_BLOCK, data)
                else:
                    await self._client.set(LATEST_BLOCK, data, found[1].version)
            except (BadVersionError, NodeExistsError):
                continue
            return range(start, start + BLOCK_SIZE)

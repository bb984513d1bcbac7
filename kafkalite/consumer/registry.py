"""The znodes by which the members of a group know each other: read under watches, written within one session.

Answers to: ``kafka.utils.{ZkUtils,ZKGroupDirs,ZKGroupTopicDirs}``. Deterministic (through ``zk/zk_client``).

Every ephemeral znode here, and every commit, is bound to the session: after its end another member may own the
partitions of this one, so a late write is never sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkalite.common.tasks import gather
from kafkalite.common.types import TopicPartition
from kafkalite.consumer.assignor import ThreadId
from kafkalite.consumer.subscription import Subscription
from kafkalite.zk.stores.paths import ensure, read, read_or_watch
from kafkalite.zk.zk_client import NodeExistsError, NoNodeError, Watch, ZkClient
from kafkalite.zk.znodes.brokers import IDS, broker_path, decode_broker
from kafkalite.zk.znodes.codec import decode_name, encode_name
from kafkalite.zk.znodes.consumers import (
    ConsumerRegistration,
    decode_consumer,
    decode_offset,
    encode_consumer,
    encode_offset,
    ids_path,
    offset_path,
    owner_path,
)
from kafkalite.zk.znodes.topics import TOPICS, decode_topic, topic_path


class Registry:
    """The znodes of ``group`` as the member ``consumer_id`` sees and writes them. Fails with ``ZkError``.

    ``protocol``: the security protocol by which the member reaches brokers.
    """

    def __init__(self, client: ZkClient, group: str, consumer_id: str, protocol: str = "PLAINTEXT") -> None:
        self.group = group
        self.consumer_id = consumer_id
        self._client = client
        self._protocol = protocol

    # Members

    async def register(self, subscription: Subscription, now_ms: int) -> None:
        """Become a member: the others see it and rebalance. Raises ``NodeExistsError`` if the name is taken."""
        data = encode_consumer(ConsumerRegistration(subscription.streams, subscription.pattern, now_ms))
        path = f"{ids_path(self.group)}/{encode_name(self.consumer_id)}"
        if not await self._create(path, data):
            raise NodeExistsError(path)

    async def members(self, watch: Watch) -> dict[str, Subscription]:
        """Consumer id → subscription. ``watch`` fires when members come or go."""
        ids = ids_path(self.group)
        names = await self._client.get_children(ids, watch)
        found = await gather(read(self._client, f"{ids}/{name}") for name in names)
        return {
            decode_name(name): Subscription.of(decode_consumer(f"{ids}/{name}", entry[0]))
            for name, entry in zip(names, found, strict=True)
            if entry is not None  # deleted since the list was read; the watch will fire
        }

    # Topics, partitions and brokers

    async def topics(self, watch: Watch) -> list[str]:
        """All topics. ``watch`` fires when there are new ones."""
        return sorted(await self._client.get_children(TOPICS, watch))

    async def partitions(self, topic: str, watch: Watch) -> list[int]:
        """The partitions of a topic; none if the topic does not exist (yet). ``watch`` fires when there are more."""
        found = await read_or_watch(self._client, topic_path(topic), watch)
        return [] if found is None else sorted(decode_topic(topic, found[0]).partitions)

    async def brokers(self, watch: Watch) -> list[str]:
        """``host:port`` of the listeners that live brokers have for the member's protocol.

        ``watch`` fires when brokers come or go.
        """
        names = await self._client.get_children(IDS, watch)
        found = await gather(read(self._client, broker_path(int(name))) for name in names)
        brokers = [decode_broker(int(n), entry[0]) for n, entry in zip(names, found, strict=True) if entry is not None]
        return sorted(
            f"{endpoint.host}:{endpoint.port}"
            for broker in brokers
            for endpoint in broker.endpoints
            if endpoint.security_protocol == self._protocol
        )

    # Owners

    async def claim(self, tp: TopicPartition, thread: ThreadId) -> bool:
        """Become the owner of ``tp``; ``False`` if another member still owns it."""
        return await self._create(owner_path(self.group, tp), str(thread).encode())

    async def release(self, partitions: Iterable[TopicPartition]) -> None:
        """Release those of ``partitions`` that this member owns."""
        await gather(self._release(owner_path(self.group, tp)) for tp in partitions)

    async def owner_is_gone(self, tp: TopicPartition, watch: Watch) -> bool:
        """Whether ``tp`` has no owner; otherwise ``watch`` fires when its owner goes."""
        return await self._client.exists(owner_path(self.group, tp), watch) is None

    # Offsets

    async def offset(self, tp: TopicPartition) -> int | None:
        """The next offset to read, as written last, by this member or any other program; ``None`` if there is none."""
        path = offset_path(self.group, tp)
        entry = await read(self._client, path)
        return None if entry is None else decode_offset(path, entry[0])

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write next offsets, each as a plain number."""
        session = self._client.session
        await gather(self._commit(offset_path(self.group, tp), offset, session) for tp, offset in offsets.items())

    # Inside

    async def _commit(self, path: str, offset: int, session: int) -> None:
        while True:
            try:
                await self._client.set(path, encode_offset(offset), session=session)
                return
            except NoNodeError:
                await ensure(self._client, path.rpartition("/")[0])
            try:
                await self._client.create(path, encode_offset(offset), session=session)
                return
            except NodeExistsError:
                continue

    async def _create(self, path: str, data: bytes) -> bool:
        """Create an ephemeral znode and its parents; ``True`` also if an earlier attempt whose answer was lost did."""
        session = self._client.session
        while True:
            try:
                await self._client.create(path, data, ephemeral=True, session=session)
                return True
            except NoNodeError:
                await ensure(self._client, path.rpartition("/")[0])
            except NodeExistsError:
                entry = await read(self._client, path)
                if entry is not None:
                    return entry[1].ephemeral_owner == session

    async def _release(self, path: str) -> None:
        session = self._client.session
        entry = await read(self._client, path)
        if entry is not None and entry[1].ephemeral_owner == session:
            try:
                await self._client.delete(path, session=session)
            except NoNodeError:
                pass

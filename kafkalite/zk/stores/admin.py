"""What operators and the old tools ask for in ``/admin``.

Answers to: ``kafka.zk.KafkaZkClient`` (``getTopicDeletions``, ``getPartitionReassignment``,
``getPreferredReplicaElection``). Reactor shell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import gather
from kafkalite.common.types import TopicPartition
from kafkalite.zk.stores.paths import ensure
from kafkalite.zk.zk_client import NodeExistsError, NoNodeError, Watch, ZkClient
from kafkalite.zk.znodes import admin


class AdminStore:
    """``/admin/*``: requests appear, the controller obeys and removes them.

    Removals by the controller take its ``session`` so that a later session cannot make them.
    """

    def __init__(self, client: ZkClient) -> None:
        self._client = client

    async def delete_topics(self, watch: Watch | None = None) -> list[str]:
        """Topics that are to be deleted, sorted."""
        try:
            return sorted(await self._client.get_children(admin.DELETE_TOPICS, watch))
        except NoNodeError:
            await ensure(self._client, admin.DELETE_TOPICS)
            return sorted(await self._client.get_children(admin.DELETE_TOPICS, watch))

    async def create_delete_topic(self, topic: str) -> None:
        """Ask for the deletion of ``topic``. Asking twice is one wish."""
        try:
            await self._client.create(admin.delete_topic_path(topic))
        except NodeExistsError:
            return
        except NoNodeError:
            await ensure(self._client, admin.delete_topic_path(topic))

    async def remove_delete_topics(self, topics: Iterable[str], session: int | None = None) -> None:
        """Forget these wishes (topics that do not exist, or whose deletion is not enabled)."""
        await gather(self._remove(admin.delete_topic_path(topic), session) for topic in topics)

    async def reassign_partitions(self, watch: Watch | None = None) -> dict[TopicPartition, tuple[int, ...]]:
        """Reassignments wanted by znode; none where there is none. ``watch`` sees the next creation or change.

        Raises ``MalformedZnodeError``.
        """
        data = await self._read(admin.REASSIGN_PARTITIONS, watch)
        return {} if data is None else admin.decode_reassignment(data)

    async def create_reassign_partitions(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        """Ask for reassignments. Raises ``ApiError(REASSIGNMENT_IN_PROGRESS)`` while others are asked for."""
        await ensure(self._client, admin.REASSIGN_PARTITIONS.rpartition("/")[0])
        try:
            await self._client.create(admin.REASSIGN_PARTITIONS, admin.encode_reassignment(targets))
        except NodeExistsError:
            raise ApiError(
                ErrorCode.REASSIGNMENT_IN_PROGRESS, f"{admin.REASSIGN_PARTITIONS} exists: wait for it to finish"
            ) from None

    async def set_reassign_partitions(
        self, targets: Mapping[TopicPartition, tuple[int, ...]], session: int | None = None
    ) -> None:
        """What is still to be done; nothing left removes the znode."""
        if not targets:
            await self._remove(admin.REASSIGN_PARTITIONS, session)
            return
        await self._client.set(admin.REASSIGN_PARTITIONS, admin.encode_reassignment(targets), session=session)

    async def preferred_replica_election(self, watch: Watch | None = None) -> list[TopicPartition] | None:
        """Partitions whose preferred replica shall lead, or ``None`` where nobody asks.

        Raises ``MalformedZnodeError``.
        """
        data = await self._read(admin.PREFERRED_REPLICA_ELECTION, watch)
        return None if data is None else admin.decode_preferred_election(data)

    async def remove_preferred_replica_election(self, session: int | None = None) -> None:
        """The election is done."""
        await self._remove(admin.PREFERRED_REPLICA_ELECTION, session)

    async def _remove(self, path: str, session: int | None) -> None:
        try:
            await self._client.delete(path, session=session)
        except NoNodeError:
            return

    async def _read(self, path: str, watch: Watch | None) -> bytes | None:
        while True:
            try:
                return (await self._client.get(path, watch))[0]
            except NoNodeError:
                if watch is None or await self._client.exists(path, watch) is None:
                    return None

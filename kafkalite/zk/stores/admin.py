"""What operators and the ZooKeeper-based tools request in ``/admin``.

Answers to: ``kafka.zk.KafkaZkClient`` (``getTopicDeletions``, ``getPartitionReassignment``,
``getPreferredReplicaElection``). Reactor shell.
"""

from __future__ import annotations

from kafkalite.common.types import TopicPartition
from kafkalite.zk.stores.paths import children_of_ensured, ensure, read_or_watch
from kafkalite.zk.zk_client import NodeExistsError, NoNodeError, Watch, ZkClient
from kafkalite.zk.znodes import admin


class AdminStore:
    """``/admin/*``: operators and tools create requests, the controller carries them out and removes them."""

    def __init__(self, client: ZkClient) -> None:
        self._client = client

    async def delete_topics(self, watch: Watch | None = None) -> list[str]:
        """Topics that are to be deleted, sorted."""
        return sorted(await children_of_ensured(self._client, admin.DELETE_TOPICS, watch))

    async def create_delete_topic(self, topic: str) -> None:
        """Request the deletion of ``topic``; a second request changes nothing."""
        try:
            await self._client.create(admin.delete_topic_path(topic))
        except NodeExistsError:
            return
        except NoNodeError:
            await ensure(self._client, admin.delete_topic_path(topic))

    async def reassign_partitions(self, watch: Watch | None = None) -> dict[TopicPartition, tuple[int, ...]]:
        """Reassignments that the znode requests, none without it; ``watch`` sees its next creation or change.

        Raises ``MalformedZnodeError``.
        """
        found = await read_or_watch(self._client, admin.REASSIGN_PARTITIONS, watch)
        return {} if found is None else admin.decode_reassignment(found[0])

    async def preferred_replica_election(self, watch: Watch | None = None) -> list[TopicPartition] | None:
        """Partitions whose preferred replica shall lead, or ``None`` without a request.

        Raises ``MalformedZnodeError``.
        """
        found = await read_or_watch(self._client, admin.PREFERRED_REPLICA_ELECTION, watch)
        return None if found is None else admin.decode_preferred_election(found[0])

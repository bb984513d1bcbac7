"""What only the controller writes, and what brokers, operators and the ZooKeeper-based tools request of it.

Answers to: ``kafka.zk.KafkaZkClient`` (``updateLeaderAndIsr``, ``createTopicPartitionStatesRaw``,
``deleteTopicZNode``, ``getTopicDeletions``, ``getPartitionReassignment``, ``getPreferredReplicaElection``,
``getAllIsrChangeNotifications``, ``propagateLogDirEvent``) and ``GroupCoordinator.handleDeletedPartitions``. Reactor
shell.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.tasks import gather, gather_in_parts
from kafkalite.common.types import TopicPartition
from kafkalite.zk.stores.claims import Claim, write_claimed, write_each_claimed
from kafkalite.zk.stores.paths import children, children_of_ensured, ensure, read, read_or_watch
from kafkalite.zk.zk_client import (
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    Op,
    SetData,
    Watch,
    ZkClient,
    ZkError,
    ZnodeStat,
)
from kafkalite.zk.znodes import admin, config, consumers, offsets, topics
from kafkalite.zk.znodes.codec import MalformedZnodeError, encode_name
from kafkalite.zk.znodes.topics import TopicAssignment

log = logging.getLogger(__name__)
T = TypeVar("T")


class ControllerStore:
    """Partition states and the deletion of topics, under the controller's claim.

    Every method raises ``ClaimLostError``; ``ConnectionLostError`` or ``SessionExpiredError`` (then re-read: the
    outcome is unknown).
    """

    def __init__(self, client: ZkClient) -> None:
        self._client = client

    async def create_states(
        self, claim: Claim, states: Iterable[LeaderAndIsr]
    ) -> dict[TopicPartition, LeaderAndIsr | ZkError]:
        """Create state znodes with the containers that they need; the values carry their znode version (0)."""
        states = list(states)
        names = sorted({state.topic for state in states})
        listed = await gather(children(self._client, topics.partitions_path(name)) for name in names)
        known = {name: set(found) for name, found in zip(names, listed, strict=True)}
        groups: list[list[Op]] = [[Create(topics.partitions_path(name))] for name in names if not known[name]]
        skip = len(groups)
        for state in states:
            group: list[Op] = [Create(topics.state_path(state.topic_partition), topics.encode_state(state))]
            if str(state.partition) not in known[state.topic]:
                group.insert(0, Create(topics.partition_path(state.topic_partition)))
            groups.append(group)
        results = (await write_claimed(self._client, claim, groups))[skip:]
        return {
            state.topic_partition: result if isinstance(result, ZkError) else state.with_(zk_version=0)
            for state, result in zip(states, results, strict=True)
        }

    async def update_states(
        self, claim: Claim, states: Iterable[LeaderAndIsr]
    ) -> dict[TopicPartition, LeaderAndIsr | ZkError]:
        """Write states against their ``zk_version``; the values carry the new one and the mzxid.

        ``BadVersionError`` in a partition's place: its leader changed the ISR meanwhile; re-read and plan again.
        """
        states = list(states)
        results = await write_claimed(self._client, claim, [[op] for op in ops_update_states(states)])
        written: dict[TopicPartition, LeaderAndIsr | ZkError] = {}
        for state, result in zip(states, results, strict=True):
            if isinstance(result, ZkError):
                written[state.topic_partition] = result
            else:
                stat = result[0]
                assert isinstance(stat, ZnodeStat)
                written[state.topic_partition] = state.with_(zk_version=stat.version, mzxid=stat.mzxid)
        return written

    async def delete_topic(self, claim: Claim, topic: str) -> None:
        """Remove the znodes of ``topic``: the offsets of groups, then the states, then, in one transaction, assignment,
        overrides and the request to delete it, so that no broker ever reads the topic without the request.

        Call it only after every replica has deleted its log. After a failure it can be called again.
        """
        ops = await ops_forget_topic(self._client, topic)
        indexes = await children(self._client, topics.partitions_path(topic))
        for tp in (TopicPartition(topic, int(index)) for index in indexes):
            ops += [Delete(topics.state_path(tp)), Delete(topics.partition_path(tp))]
        await write_each_claimed(self._client, claim, ops)
        last = [topics.partitions_path(topic), topics.topic_path(topic)]
        last += [config.config_path(config.TOPICS, topic), admin.delete_topic_path(topic)]
        there = await gather(self._client.exists(path) for path in last)
        [outcome] = await write_claimed(
            self._client, claim, [[Delete(path) for path, stat in zip(last, there, strict=True) if stat is not None]]
        )
        if isinstance(outcome, ZkError):
            raise outcome


def ops_update_states(states: Iterable[LeaderAndIsr]) -> list[Op]:
    """Conditional writes of states, against their ``zk_version``."""
    return [
        SetData(topics.state_path(state.topic_partition), topics.encode_state(state), state.zk_version)
        for state in states
    ]


def ops_set_assignment(topic: str, assignment: TopicAssignment, version: int = -1) -> list[Op]:
    """Write of a topic's assignment, against ``version`` (-1: any)."""
    return [SetData(topics.topic_path(topic), topics.encode_topic(assignment), version)]


_AT_ONCE = 200
_KINDS = ("owners", "offsets", "commits")


async def ops_forget_topic(client: ZkClient, topic: str) -> list[Op]:
    """The operations that remove what every group keeps of ``topic``, children first.

    A new topic of the same name must not be read from an old offset.
    """
    # Names are used as they are, never decoded: ZooKeeper consumers write names that we would encode otherwise.
    groups = [f"{consumers.CONSUMERS}/{name}" for name in await children(client, consumers.CONSUMERS)]
    kept = await gather_in_parts(partial(_ops_kept, client, topic), groups, _AT_ONCE)
    staged = await gather_in_parts(partial(_ops_staged, client, topic), groups, _AT_ONCE)
    return [op for ops in (*kept, *staged) for op in ops]


async def _ops_kept(client: ZkClient, topic: str, group: str) -> list[Op]:
    above = [f"{group}/{kind}/{encode_name(topic)}" for kind in _KINDS]
    found = await gather(client.exists(path) for path in above)
    kept = [path for path, stat in zip(above, found, strict=True) if stat is not None]
    ops: list[Op] = []
    for parent, names in zip(kept, await gather(children(client, path) for path in kept), strict=True):
        ops += [Delete(f"{parent}/{name}") for name in names]
        ops.append(Delete(parent))
    return ops


async def _ops_staged(client: ZkClient, topic: str, group: str) -> list[Op]:
    """The same for offsets that transactions have staged, against the versions that were read."""
    ops: list[Op] = []
    for name in await children(client, f"{group}/staged"):
        path = f"{group}/staged/{name}"
        found = await read(client, path)
        if found is None:
            continue
        try:
            staged = offsets.decode_staged(path, found[0])
        except MalformedZnodeError:
            continue  # Its readers log that it is malformed.
        others = {tp: value for tp, value in staged.offsets.items() if tp.topic != topic}
        if not others:
            ops.append(Delete(path, found[1].version))
        elif len(others) < len(staged.offsets):
            ops.append(SetData(path, offsets.encode_staged(replace(staged, offsets=others)), found[1].version))
    return ops


class AdminStore:
    """``/admin/*``: operators and tools create requests, the controller carries them out and removes them."""

    def __init__(self, client: ZkClient) -> None:
        self._client = client

    async def delete_topics(self, watch: Watch | None = None) -> list[str]:
        """Topics that are to be deleted, sorted."""
        return sorted(await children_of_ensured(self._client, admin.DELETE_TOPICS, watch))

    async def is_being_deleted(self, topic: str) -> bool:
        """Whether the deletion of ``topic`` is requested or complete.

        The request is read first, because it goes in one transaction with the topic.
        """
        if await self._client.exists(admin.delete_topic_path(topic)) is not None:
            return True
        return await self._client.exists(topics.topic_path(topic)) is None

    async def create_delete_topic(self, topic: str) -> None:
        """Request the deletion of ``topic``; a second request changes nothing."""
        try:
            await self._client.create(admin.delete_topic_path(topic))
        except NodeExistsError:
            return
        except NoNodeError:
            await ensure(self._client, admin.delete_topic_path(topic))

    async def reassign_partitions(self, watch: Watch | None = None) -> dict[TopicPartition, tuple[int, ...]]:
        """The requested reassignments, none if the znode does not exist; ``watch`` sees its next creation or change.

        Raises ``MalformedZnodeError``.
        """
        found = await read_or_watch(self._client, admin.REASSIGN_PARTITIONS, watch)
        return {} if found is None else admin.decode_reassignment(found[0])

    async def preferred_replica_election(self, watch: Watch | None = None) -> list[TopicPartition] | None:
        """Partitions whose preferred replica shall lead, or ``None`` if the znode does not exist.

        Raises ``MalformedZnodeError``.
        """
        found = await read_or_watch(self._client, admin.PREFERRED_REPLICA_ELECTION, watch)
        return None if found is None else admin.decode_preferred_election(found[0])


class NotificationStore:
    """Sequential znodes that the controller reads and removes."""

    def __init__(self, client: ZkClient) -> None:
        self._client = client

    async def isr_changes(self, watch: Watch | None = None) -> tuple[list[str], list[TopicPartition]]:
        """Names of the notifications, and the partitions in them (each once); ``watch`` sees the next one."""
        names, found = await self._read(admin.ISR_CHANGES, admin.decode_isr_change, watch)
        return names, list(dict.fromkeys(tp for partitions in found for tp in partitions))

    async def log_dir_events(self, watch: Watch | None = None) -> tuple[list[str], list[int]]:
        """Names of the events, and the brokers that lost a log directory (each once)."""
        names, found = await self._read(admin.LOG_DIR_EVENTS, admin.decode_log_dir_event, watch)
        return names, list(dict.fromkeys(found))

    async def create_log_dir_event(self, broker_id: int) -> None:
        """Tell the controller that a log directory of ``broker_id`` failed."""
        data = admin.encode_log_dir_event(broker_id)
        await self._client.create(admin.LOG_DIR_EVENT_PREFIX, data, sequence=True)

    async def _read(self, path: str, decode: Callable[[bytes], T], watch: Watch | None) -> tuple[list[str], list[T]]:
        names = sorted(await children_of_ensured(self._client, path, watch))
        values = []
        for entry in await gather(read(self._client, f"{path}/{name}") for name in names):
            if entry is None:
                continue
            try:
                values.append(decode(entry[0]))
            except MalformedZnodeError as error:
                log.warning("ignored: %s", error)
        return names, values

"""Topics: names, assignments and partition states, and the ISR changes by leaders with their notifications.

Answers to: ``kafka.zk.KafkaZkClient`` (``getReplicaAssignmentAndTopicIdForTopics``, ``getTopicPartitionStates``),
``AdminZkClient.createTopicWithAssignment``, ``kafka.server.ZkAlterPartitionManager`` and
``kafka.utils.ReplicationUtils``. Reactor shell.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Mapping

from kafkalite.cluster.model import LeaderAndIsr, PartitionAssignment, is_valid_topic, topic_fault
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import gather
from kafkalite.common.types import ZERO_UUID, TopicPartition
from kafkalite.zk.stores.paths import catch_up, children_of_ensured, ensure, read, read_or_watch
from kafkalite.zk.zk_client import (
    BadVersionError,
    Create,
    MultiError,
    NodeExistsError,
    NoNodeError,
    Op,
    SetData,
    Watch,
    ZkClient,
)
from kafkalite.zk.znodes import admin, topics
from kafkalite.zk.znodes import config as config_znodes
from kafkalite.zk.znodes.codec import MalformedZnodeError
from kafkalite.zk.znodes.topics import UNASSIGNED, TopicAssignment

log = logging.getLogger(__name__)
_ATTEMPTS = 5


class TopicStore:
    """``/brokers/topics``. Any broker or tool creates topics; every broker reads them."""

    def __init__(self, client: ZkClient) -> None:
        self._client = client
        self._refused: set[str] = set()

    async def names(self, watch: Watch | None = None) -> list[str]:
        """All topics, sorted; ``watch`` sees the next creation or deletion.

        A name that Kafka does not allow is left out: a znode written by hand has it, and no folder could be made of it.
        """
        names = await children_of_ensured(self._client, topics.TOPICS, watch)
        wrong = {name for name in names if not is_valid_topic(name)}
        for name in sorted(wrong - self._refused):
            log.error("topic %r is ignored: %s; delete the znode %s", name, topic_fault(name), topics.topic_path(name))
        self._refused = wrong
        return sorted(name for name in names if name not in wrong)

    async def catch_up(self) -> None:
        """Return when reads of this session see all writes that any session made before the call."""
        await catch_up(self._client, topics.TOPICS)

    async def assignment(self, topic: str, watch: Watch | None = None) -> tuple[TopicAssignment, int] | None:
        """Assignment and znode version, or ``None`` where there is no such topic (``watch`` is then not set).

        Raises :class:`MalformedZnodeError`.
        """
        found = await read(self._client, topics.topic_path(topic), watch)
        return None if found is None else (topics.decode_topic(topic, found[0]), found[1].version)

    async def assignments(
        self, names: Iterable[str], watch: Watch | None = None
    ) -> dict[str, tuple[TopicAssignment, int]]:
        """Assignments and znode versions of those topics that exist, pipelined; malformed ones are left out."""
        names = list(names)
        found = await gather(self._assignment_or_none(name, watch) for name in names)
        return {name: entry for name, entry in zip(names, found, strict=True) if entry is not None}

    async def create(self, topic: str, assignment: TopicAssignment, config: Mapping[str, str]) -> None:
        """Create ``topic`` and its configuration at once; the controller does the rest.

        Raises ``ApiError(TOPIC_ALREADY_EXISTS)``, also while the topic is being deleted.
        """
        path = topics.topic_path(topic)
        config_path = config_znodes.config_path(config_znodes.TOPICS, topic)
        config_data = config_znodes.encode_config(config)
        create = Create(path, topics.encode_topic(assignment))
        write: Op = Create(config_path, config_data)
        for _ in range(_ATTEMPTS):
            try:
                await self._client.multi([create, write])
                return
            except MultiError as error:
                cause = error.cause
                if isinstance(cause, NodeExistsError) and error.index == 0:
                    raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' already exists.") from None
                if isinstance(cause, NodeExistsError):
                    # The old tools write the overrides first, and a crash may leave them behind.
                    write = SetData(config_path, config_data)
                elif isinstance(cause, NoNodeError) and error.index == 1 and isinstance(write, SetData):
                    write = Create(config_path, config_data)
                elif isinstance(cause, NoNodeError):
                    await ensure(self._client, topics.TOPICS)
                    await ensure(self._client, config_path.rpartition("/")[0])
                else:
                    raise
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"Topic '{topic}': its znodes keep changing; try again.")

    async def set_assignment(self, topic: str, assignment: TopicAssignment, version: int = -1) -> int:
        """Write an assignment where the znode still has ``version`` (-1: any); returns the new version.

        For adding partitions. Raises ``NoNodeError``, ``BadVersionError``.
        """
        stat = await self._client.set(topics.topic_path(topic), topics.encode_topic(assignment), version)
        return stat.version

    async def state(
        self,
        tp: TopicPartition,
        topic_id: uuid.UUID | None = None,
        assignment: PartitionAssignment = UNASSIGNED,
        watch: Watch | None = None,
    ) -> LeaderAndIsr | None:
        """The state of a partition, or ``None`` before the controller has made one; ``watch`` then sees its creation.

        ``topic_id`` and ``assignment`` are handed through into the value. Raises :class:`MalformedZnodeError`.
        """
        found = await read_or_watch(self._client, topics.state_path(tp), watch)
        return None if found is None else topics.decode_state(tp, *found, topic_id, assignment)

    async def states(
        self,
        assignments: Mapping[str, TopicAssignment],
        partitions: Iterable[TopicPartition] | None = None,
        watch: Watch | None = None,
    ) -> dict[TopicPartition, LeaderAndIsr]:
        """States of all partitions of ``assignments``, or of those in ``partitions``, pipelined.

        Partitions without a state, or with a malformed one, are left out. Each value carries topic id and assignment.
        """
        wanted = list(
            partitions
            if partitions is not None
            else (TopicPartition(name, index) for name, found in assignments.items() for index in found.partitions)
        )
        found = await gather(self._state_or_none(tp, assignments.get(tp.topic), watch) for tp in wanted)
        return {tp: state for tp, state in zip(wanted, found, strict=True) if state is not None}

    async def _assignment_or_none(self, topic: str, watch: Watch | None) -> tuple[TopicAssignment, int] | None:
        try:
            return await self.assignment(topic, watch)
        except MalformedZnodeError as error:
            log.warning("ignored: %s", error)
            return None

    async def _state_or_none(
        self, tp: TopicPartition, topic: TopicAssignment | None, watch: Watch | None
    ) -> LeaderAndIsr | None:
        topic_id = topic.topic_id if topic else None
        assignment = topic.partitions.get(tp.partition, UNASSIGNED) if topic else UNASSIGNED
        try:
            return await self.state(tp, topic_id, assignment, watch)
        except MalformedZnodeError as error:
            log.warning("ignored: %s", error)
            return None


MAX_NOTIFIED = 3000
"""Partitions in one notification: far below ``jute.maxbuffer`` with names of any length."""


class IsrStore:
    """Writes the changes of the ISR that leaders, not the controller, decide."""

    def __init__(self, client: ZkClient) -> None:
        self._client = client

    async def update(self, state: LeaderAndIsr, session: int | None = None) -> LeaderAndIsr:
        """Write ``state`` where the znode still has ``state.zk_version``; returns it with the new version and mzxid.

        Where the znode already says what was to be written (the answer to an earlier attempt was lost), that counts
        as success. Raises ``BadVersionError`` (another broker wrote it, or the topic was recreated: re-read),
        ``NoNodeError``, ``SessionExpiredError``, ``ConnectionLostError`` (outcome unknown: call again, or re-read).
        """
        path = topics.state_path(state.topic_partition)
        session = self._client.session if session is None else session
        # Versions of a recreated topic start at 0 again and prove nothing, so compare its id first.
        if state.topic_id != ZERO_UUID and await self._was_recreated(state):
            raise BadVersionError(path, "the topic was deleted or recreated:")
        try:
            stat = await self._client.set(path, topics.encode_state(state), state.zk_version, session=session)
        except BadVersionError:
            found = await self.read(state)
            if found is None or found != state.with_(zk_version=state.zk_version + 1, mzxid=found.mzxid):
                raise
            return found
        return state.with_(zk_version=stat.version, mzxid=stat.mzxid)

    async def read(self, state: LeaderAndIsr) -> LeaderAndIsr | None:
        """The znode's present state, with the topic id and assignment of ``state``; ``None`` if the znode is gone."""
        tp = state.topic_partition
        found = await read(self._client, topics.state_path(tp))
        return None if found is None else topics.decode_state(tp, *found, state.topic_id, state.assignment)

    async def catch_up(self) -> None:
        """Return when every write that this session sent before took effect or never will. Raises ``ZkError``."""
        await catch_up(self._client, topics.TOPICS)

    async def notify(self, partitions: Iterable[TopicPartition], session: int | None = None) -> None:
        """Notify the controller of partitions whose ISR changed."""
        listed = list(partitions)
        for start in range(0, len(listed), MAX_NOTIFIED):
            data = admin.encode_isr_change(listed[start : start + MAX_NOTIFIED])
            await self._client.create(admin.ISR_CHANGE_PREFIX, data, sequence=True, session=session)

    async def _was_recreated(self, state: LeaderAndIsr) -> bool:
        found = await read(self._client, topics.topic_path(state.topic))
        if found is None:
            return True
        current = topics.decode_topic(state.topic, found[0]).topic_id
        return current is not None and current != state.topic_id

"""ISR changes by leaders: conditional writes of the state znode, and their notifications to the controller.

Answers to: ``kafka.server.ZkAlterPartitionManager`` and ``kafka.utils.ReplicationUtils``. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.tasks import gather
from kafkalite.common.types import ZERO_UUID, TopicPartition
from kafkalite.zk.stores.paths import read
from kafkalite.zk.zk_client import BadVersionError, NoNodeError, ZkClient, ZkError
from kafkalite.zk.znodes import notifications, topics

MAX_NOTIFIED = 3000
"""Partitions in one notification: far below ``jute.maxbuffer`` with names of any length."""


class IsrStore:
    """The one thing that a leader, not the controller, decides."""

    def __init__(self, client: ZkClient) -> None:
        self._client = client

    async def update(self, state: LeaderAndIsr, session: int | None = None) -> LeaderAndIsr:
        """Write ``state`` where the znode still has ``state.zk_version``; returns it with the new version and mzxid.

        Where the znode already says what was to be written (the answer to an earlier attempt was lost), that counts
        as success. Raises ``BadVersionError`` (another broker wrote it, or the topic was recreated: re-read),
        ``NoNodeError``, ``SessionExpiredError``, ``ConnectionLostError`` (outcome unknown: call again, or re-read).
        """
        result = (await self.update_all([state], session))[state.topic_partition]
        if isinstance(result, ZkError):
            raise result
        return result

    async def update_all(
        self, states: Iterable[LeaderAndIsr], session: int | None = None
    ) -> dict[TopicPartition, LeaderAndIsr | ZkError]:
        """As :meth:`update`, for many partitions side by side; an error stands in a partition's place."""
        states = list(states)
        session = self._client.session if session is None else session
        # versions of a recreated topic start at 0 again, so that they alone prove nothing: compare its id first
        names = sorted({state.topic for state in states if state.topic_id != ZERO_UUID})
        found = await gather(self._current_id_differs(name, states) for name in names)
        recreated = {name for name, differs in zip(names, found, strict=True) if differs}
        results = await gather(self._write(state, session, state.topic in recreated) for state in states)
        return {state.topic_partition: result for state, result in zip(states, results, strict=True)}

    async def read(self, state: LeaderAndIsr) -> LeaderAndIsr | None:
        """What the znode says now, with the topic id and assignment of ``state``; ``None`` where it is gone."""
        tp = state.topic_partition
        found = await read(self._client, topics.state_path(tp))
        return None if found is None else topics.decode_state(tp, *found, state.topic_id, state.assignment)

    async def notify(self, partitions: Iterable[TopicPartition], session: int | None = None) -> None:
        """Tell the controller whose ISR changed."""
        listed = list(partitions)
        for start in range(0, len(listed), MAX_NOTIFIED):
            data = notifications.encode_isr_change(listed[start : start + MAX_NOTIFIED])
            await self._client.create(notifications.ISR_CHANGE_PREFIX, data, sequence=True, session=session)

    async def _current_id_differs(self, topic: str, states: list[LeaderAndIsr]) -> bool:
        found = await read(self._client, topics.topic_path(topic))
        if found is None:
            return True
        current = topics.decode_topic(topic, found[0]).topic_id
        known = next(state.topic_id for state in states if state.topic == topic)
        return current is not None and current != known

    async def _write(self, state: LeaderAndIsr, session: int, recreated: bool) -> LeaderAndIsr | ZkError:
        path = topics.state_path(state.topic_partition)
        if recreated:
            return BadVersionError(path, "the topic was deleted or recreated:")
        try:
            stat = await self._client.set(path, topics.encode_state(state), state.zk_version, session=session)
        except BadVersionError as error:
            return await self._written_before(state, error)
        except ZkError as error:
            return error
        return state.with_(zk_version=stat.version, mzxid=stat.mzxid)

    async def _written_before(self, state: LeaderAndIsr, error: BadVersionError) -> LeaderAndIsr | ZkError:
        tp = state.topic_partition
        try:
            data, stat = await self._client.get(topics.state_path(tp))
        except NoNodeError:
            return error
        except ZkError as lost:
            return lost
        found = topics.decode_state(tp, data, stat, state.topic_id, state.assignment)
        ours = state.with_(zk_version=state.zk_version + 1, mzxid=stat.mzxid)
        return ours if found == ours else error

"""The controller's claim, and writes that only its holder can make.

Answers to: ``kafka.zk.KafkaZkClient`` (``registerControllerAndIncrementControllerEpoch``, ``updateLeaderAndIsr``,
``createTopicPartitionStatesRaw``, ``deleteTopicZNode``). Reactor shell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.clock import Clock
from kafkalite.common.tasks import gather
from kafkalite.common.types import TopicPartition
from kafkalite.zk.stores.consumer_purge import ops_forget_topic
from kafkalite.zk.stores.fenced_write import OpResult, WriteFence, commit_groups
from kafkalite.zk.stores.paths import children, read
from kafkalite.zk.zk_client import (
    BadVersionError,
    Check,
    Create,
    Delete,
    MultiError,
    NodeExistsError,
    NoNodeError,
    Op,
    SetData,
    Watch,
    ZkClient,
    ZkError,
    ZnodeStat,
)
from kafkalite.zk.znodes import admin, config, controller, topics
from kafkalite.zk.znodes.topics import TopicAssignment


class ControllerMovedError(ZkError):
    """Somebody else is controller: ``/controller_epoch`` was written since the claim. Resign."""


@dataclass(frozen=True, slots=True)
class ControllerClaim:
    """Proof of having become controller: every write checks ``epoch_version`` of ``/controller_epoch``."""

    epoch: int
    epoch_version: int
    session: int


class ControllerStore:
    """``/controller``, ``/controller_epoch``, and whatever is written under their protection."""

    def __init__(self, client: ZkClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def current(self, watch: Watch | None = None) -> int | None:
        """Id of the controller or ``None``; ``watch`` sees the next change either way."""
        while True:
            try:
                data, _ = await self._client.get(controller.CONTROLLER, watch)
                return controller.decode_controller(data)
            except NoNodeError:
                if watch is None or await self._client.exists(controller.CONTROLLER, watch) is None:
                    return None

    async def claim(self, broker_id: int) -> ControllerClaim | None:
        """Try to become controller: create ``/controller`` and raise ``/controller_epoch`` in one transaction.

        ``None`` where somebody else is. Read what the cluster looks like only after this, in the same session.
        """
        session = self._client.session
        epoch, version = await self._epoch()
        path = controller.CONTROLLER
        try:
            results = await self._client.multi(
                [
                    Create(path, controller.encode_controller(broker_id, self._clock.time_ms()), ephemeral=True),
                    SetData(controller.CONTROLLER_EPOCH, controller.encode_epoch(epoch + 1), version),
                ],
                session=session,
            )
        except MultiError:
            # somebody was faster, or an earlier attempt of ours succeeded and its answer was lost
            return await self._own_claim(broker_id, session)
        stat = results[1]
        assert isinstance(stat, ZnodeStat)
        return ControllerClaim(epoch + 1, stat.version, session)

    async def renew(self, claim: ControllerClaim) -> ControllerClaim:
        """Go on with a claim after a lost connection: from now on, nothing that was sent before it can take effect.

        Reads after it see all that took effect. Raises :class:`ControllerMovedError`, ``ConnectionLostError`` (then
        the claim may be renewed without anybody knowing: claim again), ``SessionExpiredError``.
        """
        path = controller.CONTROLLER_EPOCH
        data = controller.encode_epoch(claim.epoch)
        try:
            stat = await self._client.set(path, data, claim.epoch_version, session=claim.session)
        except BadVersionError:
            raise ControllerMovedError(path, f"controller epoch {claim.epoch} is over") from None
        return ControllerClaim(claim.epoch, stat.version, claim.session)

    async def resign(self, claim: ControllerClaim) -> None:
        """Give the claim up; nothing happens where it is lost already."""
        ops: list[Op] = [Check(controller.CONTROLLER_EPOCH, claim.epoch_version), Delete(controller.CONTROLLER)]
        try:
            await self._client.multi(ops, session=claim.session)
        except MultiError:
            return

    async def commit(self, claim: ControllerClaim, ops: Iterable[Op]) -> list[OpResult]:
        """Write ``ops`` in order, each atomic by itself, in bounded pipelined transactions.

        Raises :class:`ControllerMovedError`; the first error of an operation once all have been tried;
        ``ConnectionLostError`` or ``SessionExpiredError`` (then re-read: the outcome is unknown).
        """
        results = await self.commit_groups(claim, [[op] for op in ops])
        for result in results:
            if isinstance(result, ZkError):
                raise result
        return [result[0] for result in results if not isinstance(result, ZkError)]

    async def commit_groups(
        self, claim: ControllerClaim, groups: Sequence[Sequence[Op]]
    ) -> list[list[OpResult] | ZkError]:
        """As :meth:`commit`, each group atomic as a whole; a refused group is an error in its place."""
        fence = WriteFence(Check(controller.CONTROLLER_EPOCH, claim.epoch_version), claim.session)
        lost = ControllerMovedError(controller.CONTROLLER_EPOCH, f"controller epoch {claim.epoch} is over")
        return await commit_groups(self._client, fence, groups, lost)

    async def create_states(
        self, claim: ControllerClaim, states: Iterable[LeaderAndIsr]
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
        results = (await self.commit_groups(claim, groups))[skip:]
        return {
            state.topic_partition: result if isinstance(result, ZkError) else state.with_(zk_version=0)
            for state, result in zip(states, results, strict=True)
        }

    async def update_states(
        self, claim: ControllerClaim, states: Iterable[LeaderAndIsr]
    ) -> dict[TopicPartition, LeaderAndIsr | ZkError]:
        """Write states against their ``zk_version``; the values carry the new one and the mzxid.

        ``BadVersionError`` in a partition's place: its leader changed the ISR meanwhile, re-read and decide anew.
        """
        states = list(states)
        results = await self.commit_groups(claim, [[op] for op in ops_update_states(states)])
        written: dict[TopicPartition, LeaderAndIsr | ZkError] = {}
        for state, result in zip(states, results, strict=True):
            if isinstance(result, ZkError):
                written[state.topic_partition] = result
            else:
                stat = result[0]
                assert isinstance(stat, ZnodeStat)
                written[state.topic_partition] = state.with_(zk_version=stat.version, mzxid=stat.mzxid)
        return written

    async def delete_topic(self, claim: ControllerClaim, topic: str) -> None:
        """Remove everything of ``topic``: offsets that groups keep of it, states, and last, all at once, assignment,
        overrides and the wish to delete it, so that nobody ever sees the topic without the wish.

        Call it only after every replica has acknowledged the deletion of its log. Where it fails midway it can be
        called again.
        """
        ops = await ops_forget_topic(self._client, topic)
        indexes = await children(self._client, topics.partitions_path(topic))
        for tp in (TopicPartition(topic, int(index)) for index in indexes):
            ops += [Delete(topics.state_path(tp)), Delete(topics.partition_path(tp))]
        for result in await self.commit_groups(claim, [[op] for op in ops]):
            if isinstance(result, ZkError) and not isinstance(result, NoNodeError):
                raise result
        last = [topics.partitions_path(topic), topics.topic_path(topic)]
        last += [config.config_path(config.TOPICS, topic), admin.delete_topic_path(topic)]
        there = await gather(self._client.exists(path) for path in last)
        [outcome] = await self.commit_groups(
            claim, [[Delete(path) for path, stat in zip(last, there, strict=True) if stat is not None]]
        )
        if isinstance(outcome, ZkError):
            raise outcome

    async def _epoch(self) -> tuple[int, int]:
        """Epoch and znode version, both 0 where there never was a controller."""
        while True:
            found = await read(self._client, controller.CONTROLLER_EPOCH)
            if found is not None:
                return controller.decode_epoch(found[0]), found[1].version
            initial = controller.encode_epoch(controller.INITIAL_EPOCH)
            try:
                await self._client.create(controller.CONTROLLER_EPOCH, initial)
            except NodeExistsError:
                continue

    async def _own_claim(self, broker_id: int, session: int) -> ControllerClaim | None:
        found = await read(self._client, controller.CONTROLLER)
        if found is None or found[1].ephemeral_owner != session or controller.decode_controller(found[0]) != broker_id:
            return None
        epoch, version = await self._epoch()
        return ControllerClaim(epoch, version, session)


def ops_update_states(states: Iterable[LeaderAndIsr]) -> list[Op]:
    """Conditional writes of states, against their ``zk_version``."""
    return [
        SetData(topics.state_path(state.topic_partition), topics.encode_state(state), state.zk_version)
        for state in states
    ]


def ops_set_assignment(topic: str, assignment: TopicAssignment, version: int = -1) -> list[Op]:
    """Write of a topic's assignment, against ``version`` (-1: any)."""
    return [SetData(topics.topic_path(topic), topics.encode_topic(assignment), version)]

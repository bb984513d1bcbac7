"""Writes that only the controller makes.

Answers to: ``kafka.zk.KafkaZkClient`` (``updateLeaderAndIsr``, ``createTopicPartitionStatesRaw``,
``deleteTopicZNode``). Reactor shell.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.tasks import gather
from kafkalite.common.types import TopicPartition
from kafkalite.zk.stores.claims import Claim, write_claimed
from kafkalite.zk.stores.consumer_purge import ops_forget_topic
from kafkalite.zk.stores.paths import children
from kafkalite.zk.zk_client import Create, Delete, NoNodeError, Op, SetData, ZkClient, ZkError, ZnodeStat
from kafkalite.zk.znodes import admin, config, topics
from kafkalite.zk.znodes.topics import TopicAssignment


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

        ``BadVersionError`` in a partition's place: its leader changed the ISR meanwhile, re-read and decide anew.
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
        """Remove everything of ``topic``: offsets that groups keep of it, states, and last, all at once, assignment,
        overrides and the request to delete it, so that no broker ever reads the topic without the request.

        Call it only after every replica has acknowledged the deletion of its log. Where it fails midway it can be
        called again.
        """
        ops = await ops_forget_topic(self._client, topic)
        indexes = await children(self._client, topics.partitions_path(topic))
        for tp in (TopicPartition(topic, int(index)) for index in indexes):
            ops += [Delete(topics.state_path(tp)), Delete(topics.partition_path(tp))]
        for result in await write_claimed(self._client, claim, [[op] for op in ops]):
            if isinstance(result, ZkError) and not isinstance(result, NoNodeError):
                raise result
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

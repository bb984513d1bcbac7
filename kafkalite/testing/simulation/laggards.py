"""A leader must remove a lagging follower from the ISR, because otherwise its partition accepts no more records.

Answers to: nothing in Kafka. Pure: it reads the brokers' state and changes nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.types import TopicPartition
from kafkalite.replication.partition import Partition, Role
from kafkalite.testing.ensemble.server import ServerRole
from kafkalite.testing.simulation.cluster import BrokerStatus, SimBroker, SimCluster
from kafkalite.testing.simulation.world import LifeState
from kafkalite.zk.zk_client import SessionState

_GRACE = 1.0
"""Virtual seconds for the write of the ISR, in addition to one and a half times ``replica.lag.time.max.ms``."""


class _Follower(NamedTuple):
    """A follower under one leader. The topic's id belongs to it, because a topic may be deleted and made again."""

    topic_partition: TopicPartition
    topic_id: uuid.UUID
    broker: int
    leader: int
    leader_epoch: int


class _Mark(NamedTuple):
    """At ``since`` the follower did not have all records below ``end``."""

    since: float
    end: int
    life: object


class Laggards:
    """Measures how long each member of an ISR lags while its leader can write to ZooKeeper.

    ``max_lag``: ``replica.lag.time.max.ms`` in seconds. ``is_cut_off``: whether a fault affects a broker's connection
    to ZooKeeper. ``tell`` is called with each violation.
    """

    def __init__(
        self,
        cluster: SimCluster,
        max_lag: float,
        is_cut_off: Callable[[int], bool],
        tell: Callable[[str], object],
    ) -> None:
        self._cluster = cluster
        self._limit = 1.5 * max_lag + _GRACE
        self._is_cut_off = is_cut_off
        self._tell = tell
        self._behind: dict[_Follower, _Mark] = {}

    def look(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> None:
        """Check ``states``, the current states in ZooKeeper."""
        found: dict[_Follower, _Mark] = {}
        if zookeeper_is_well(self._cluster):
            able = {
                broker
                for broker, machine in self._cluster.brokers.items()
                if reaches_zookeeper(machine) and not self._is_cut_off(broker)
            }
            for tp, state in states.items():
                leader = self._cluster.brokers[state.leader].last_partition(tp) if state.leader in able else None
                if leader is not None and leader.role is Role.LEADER and leader.leader_epoch == state.leader_epoch:
                    self._look_at(tp, state, leader, found)
        self._behind = found

    def _look_at(
        self,
        tp: TopicPartition,
        state: LeaderAndIsr,
        leader: Partition,
        found: dict[_Follower, _Mark],
    ) -> None:
        now, end = self._cluster.world.now, leader.log.log_end_offset
        life = self._cluster.brokers[state.leader].life
        for broker in state.isr:
            follower = leader.followers.get(broker)
            if follower is None:
                continue
            key = _Follower(tp, state.topic_id, broker, state.leader, state.leader_epoch)
            mark = self._behind.get(key)
            if mark is None or mark.life is not life or follower.log_end_offset >= mark.end:
                mark = _Mark(now, end, life)
            found[key] = mark
            if now - mark.since > self._limit:
                self._tell(
                    f"{tp}: {broker} of the ISR {list(state.isr)} has not fetched up to {mark.end} from the leader "
                    f"{state.leader} for {self._limit:g} s"
                )


def zookeeper_is_well(cluster: SimCluster) -> bool:
    """Whether all ZooKeeper servers serve and have applied the same transactions."""
    servers = cluster.zookeeper.servers
    return all(server.role in (ServerRole.FOLLOWING, ServerRole.LEADING) and not server.lag for server in servers)


def reaches_zookeeper(machine: SimBroker) -> bool:
    """Whether the broker serves, its process runs, and it is connected to ZooKeeper."""
    return (
        machine.status is BrokerStatus.SERVING
        and machine.life is not None
        and machine.life.state is LifeState.RUNNING
        and machine.zk is not None
        and machine.zk.state is SessionState.CONNECTED
    )

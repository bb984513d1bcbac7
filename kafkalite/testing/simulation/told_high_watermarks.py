"""A follower that has all records of an idle partition, and gets answers of its leader, learns the high watermark.

Answers to: nothing in Kafka (KIP-227 lets a leader leave out what it has told before). Deterministic.

It is checked throughout, because later records or another leader epoch bring a missing high watermark to the follower
before the end of a history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple
from unittest.mock import patch
from weakref import WeakKeyDictionary

from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.types import TopicPartition
from kafkalite.replication.follower_session import FollowerSession
from kafkalite.replication.partition import Partition, Role
from kafkalite.replication.replica_fetcher import ReplicaFetcher
from kafkalite.testing.simulation.cluster import SimCluster

_ANSWERS = 5
"""Number of answers within which the follower must learn it: one may have been in flight, the follower may have dropped
one, and interrupted polls count."""
_SECONDS = 1.5
"""Virtual seconds, longer than a follower's backoff after an error and its poll together."""


class _Quiet(NamedTuple):
    """The values of a partition that do not change while it is idle."""

    leader_epoch: int
    end: int
    high_watermark: int
    session: FollowerSession


class _Mark(NamedTuple):
    """Time since which a follower's high watermark is lower, and the number of answers in its session by then."""

    quiet: _Quiet
    since: float
    answers: int


class ToldHighWatermarks:
    """Counts the answers to followers; :meth:`look` compares them with the followers' high watermarks.

    ``tell`` is called with each violation.
    """

    def __init__(self, cluster: SimCluster, tell: Callable[[str], object]) -> None:
        self._cluster = cluster
        self._tell = tell
        self._sessions: dict[tuple[TopicPartition, int], FollowerSession] = {}
        self._answers: WeakKeyDictionary[FollowerSession, int] = WeakKeyDictionary()
        self._marks: dict[tuple[TopicPartition, int], _Mark] = {}

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Inside the context answers are counted."""
        add, answered = ReplicaFetcher.add, FollowerSession.answered

        def noted(fetcher: ReplicaFetcher, partition: Partition) -> None:
            self._sessions[partition.topic_partition, partition.broker_id] = fetcher.session
            add(fetcher, partition)

        def counted(session: FollowerSession, session_id: int) -> None:
            self._answers[session] = self._answers.get(session, 0) + 1
            answered(session, session_id)

        with patch.object(ReplicaFetcher, "add", noted), patch.object(FollowerSession, "answered", counted):
            yield

    def look(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> None:
        """Check ``states``, the current states in ZooKeeper."""
        marks: dict[tuple[TopicPartition, int], _Mark] = {}
        for tp, state in states.items():
            leader = self._partition(state.leader, tp)
            if leader is None or leader.role is not Role.LEADER:
                continue
            for broker in leader.followers:
                follower, session = self._partition(broker, tp), self._sessions.get((tp, broker))
                if follower is not None and session is not None and _knows_less(follower, leader):
                    self._compare(tp, broker, follower, leader, session, marks)
        self._marks = marks

    def _partition(self, broker: int, tp: TopicPartition) -> Partition | None:
        machine = self._cluster.brokers.get(broker)
        return machine.last_partition(tp) if machine is not None and machine.is_alive else None

    def _compare(
        self,
        tp: TopicPartition,
        broker: int,
        follower: Partition,
        leader: Partition,
        session: FollowerSession,
        marks: dict[tuple[TopicPartition, int], _Mark],
    ) -> None:
        now, answers = self._cluster.world.now, self._answers.get(session, 0)
        quiet = _Quiet(leader.leader_epoch, leader.log.log_end_offset, leader.log.high_watermark, session)
        mark = self._marks.get((tp, broker))
        if mark is None or mark.quiet != quiet:
            mark = _Mark(quiet, now, answers)
        marks[tp, broker] = mark
        if answers - mark.answers >= _ANSWERS and now - mark.since >= _SECONDS:
            self._tell(
                f"{tp}: the leader {leader.broker_id} has the high watermark {quiet.high_watermark} and did not tell "
                f"{broker}, which has all of the log and {follower.log.high_watermark}"
            )


def _knows_less(follower: Partition, leader: Partition) -> bool:
    return (
        follower.role is Role.FOLLOWER
        and follower.leader_epoch == leader.leader_epoch
        and follower.state.topic_id == leader.state.topic_id
        and follower.log.log_end_offset == leader.log.log_end_offset
        and follower.log.high_watermark < leader.log.high_watermark
    )

"""Moves between log directories: clients do not notice a move; refused moves, ends of a move, the rate."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from kafkalite.cluster.control import EPOCH_DURING_DELETE, StopReplicaPartitionState
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import deferred
from kafkalite.common.types import TopicPartition
from kafkalite.log.file_system import FileSystem
from kafkalite.replication.alter_log_dirs import PIECE_BYTES
from kafkalite.replication.replication_quotas import UNLIMITED
from kafkalite.replication.results import ReplicaDescription

from .simulation import TOPIC_ID, TP, SimCluster

OTHER = TopicPartition("t", 1)
NONE = ErrorCode.NONE
LARGE = "x" * 100_000
COUNT = 30


@pytest.fixture
def cluster(tmp_path: Path) -> SimCluster:
    """Broker 1 leads, 2 follows; 3 MB."""
    made = SimCluster(tmp_path, (1, 2))
    made.create(replicas=(1, 2))
    for _ in range(COUNT):
        made[1].produce(LARGE)
        made.run(0.01)
    made.run(1)
    return made


def second(cluster: SimCluster, broker: int = 1) -> str:
    return str(cluster[broker].logs.second)


def first(cluster: SimCluster, broker: int = 1) -> str:
    return str(cluster[broker].logs.path)


def alter(cluster: SimCluster, log_dir: str, broker: int = 1, tp: TopicPartition = TP) -> ErrorCode:
    answers: list[Any] = []
    deferred(cluster[broker].manager.alter_log_dirs({tp: log_dir})).addCallback(answers.append)
    assert answers, "not answered at once"
    return ErrorCode(answers[0][tp])


def where(cluster: SimCluster, broker: int = 1, tp: TopicPartition = TP) -> str:
    """Where the replica is, as the partition and the store say."""
    log = cluster[broker].manager.partitions[tp].log
    assert log is cluster[broker].logs.logs[tp]
    return str(log.log_dir)


def slowly(cluster: SimCluster, broker: int = 1, rate: int = PIECE_BYTES) -> None:
    """About a piece a second: a move takes twelve seconds."""
    cluster[broker].manager.quotas.alter_log_dirs.update_rate(rate)


@pytest.mark.parametrize("broker", [1, 2])
def test_a_replica_moves(cluster: SimCluster, broker: int) -> None:
    expected = cluster[broker].values()
    assert alter(cluster, second(cluster, broker), broker) is NONE
    assert where(cluster, broker) == first(cluster, broker)
    cluster.run(1)
    assert where(cluster, broker) == second(cluster, broker)
    assert cluster[broker].values() == expected
    assert cluster[broker].logs.logs[TP].recovery_point == COUNT, "the copy was not forced to the disk"
    assert cluster[broker].logs.future_logs.logs == {}
    answers = cluster[1].produce("after")
    cluster.run(1)
    assert [answer.error for answer in answers] == [NONE]
    assert cluster[1].values() == cluster[2].values() == [*expected, "after"]


def test_producers_and_consumers_notice_nothing(cluster: SimCluster) -> None:
    """Both replicas move while records come and go; each is acknowledged soon, and read once."""
    for broker in (1, 2):
        slowly(cluster, broker, 4 * PIECE_BYTES)
        assert alter(cluster, second(cluster, broker), broker) is NONE
    sent = []
    waiting = cluster[1].consume(COUNT, max_wait_ms=60_000)
    for number in range(400):
        answers = cluster[1].produce(f"during {number}")
        cluster.run(0.01)
        assert [answer.error for answer in answers] == [NONE], number
        sent.append(f"during {number}")
    assert [result.error for result in waiting] == [NONE]
    assert [where(cluster, broker) for broker in (1, 2)] == [second(cluster, broker) for broker in (1, 2)]
    for broker in (1, 2):
        assert cluster[broker].values()[COUNT:] == sent
    assert sorted(cluster.read().isr) == [1, 2]


def test_a_fetch_that_waits_is_answered_from_the_new_directory(cluster: SimCluster) -> None:
    waiting = cluster[1].consume(COUNT, max_wait_ms=60_000)
    assert alter(cluster, second(cluster)) is NONE
    cluster.run(1)
    assert where(cluster) == second(cluster) and waiting == []
    cluster[1].produce("x")
    cluster.run(1)
    assert [result.error for result in waiting] == [NONE] and waiting[0].size


def test_the_rate(cluster: SimCluster) -> None:
    slowly(cluster)
    assert alter(cluster, second(cluster)) is NONE
    seconds = 0.0
    while where(cluster) != second(cluster):
        cluster.run(0.1)
        seconds += 0.1
        assert seconds < 60
    assert seconds == pytest.approx(COUNT * len(LARGE) / PIECE_BYTES, rel=0.2)


def test_a_rate_that_is_lifted_is_lifted_at_once(cluster: SimCluster) -> None:
    slowly(cluster, rate=1)
    assert alter(cluster, second(cluster)) is NONE
    cluster.run(5)
    assert where(cluster) == first(cluster)
    slowly(cluster, rate=UNLIMITED)
    cluster.run(2)
    assert where(cluster) == second(cluster)


def test_what_describe_log_dirs_shows(cluster: SimCluster) -> None:
    slowly(cluster)
    alter(cluster, second(cluster))
    cluster.run(3.5)
    (one, other) = cluster[1].manager.offset_queries.describe_log_dirs([TP])
    log, future = cluster[1].logs.logs[TP], cluster[1].logs.future_logs.logs[TP]
    lag = COUNT - future.log_end_offset
    assert one.replicas == (ReplicaDescription(TP, log.size, 0),)
    assert other.replicas == (ReplicaDescription(TP, future.size, lag, True),)
    assert 0 < lag < COUNT
    assert cluster[1].manager.offset_queries.describe_log_dirs([OTHER])[1].replicas == ()
    cluster.run(20)
    (one, other) = cluster[1].manager.offset_queries.describe_log_dirs([TP])
    assert (one.replicas, [replica.is_future for replica in other.replicas]) == ((), [False])


# What is refused


def test_errors(cluster: SimCluster) -> None:
    assert alter(cluster, "/nowhere") is ErrorCode.LOG_DIR_NOT_FOUND
    assert alter(cluster, second(cluster), tp=OTHER) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster[1].logs.offline_dirs.add(second(cluster))
    assert alter(cluster, second(cluster)) is ErrorCode.KAFKA_STORAGE_ERROR
    cluster[1].logs.offline_dirs.clear()
    cluster[1].logs.handle_failure(first(cluster))
    assert alter(cluster, second(cluster)) is ErrorCode.KAFKA_STORAGE_ERROR


def test_the_directory_of_a_replica_that_is_still_to_come(cluster: SimCluster) -> None:
    """As ReassignPartitionsCommand asks for it: before the reassignment begins."""
    cluster.create(OTHER, replicas=(2,))
    cluster[1].metadata.apply([cluster.states[OTHER]])
    assert alter(cluster, second(cluster), tp=OTHER) is ErrorCode.REPLICA_NOT_AVAILABLE
    cluster.reassign((1, 2), OTHER)
    cluster.run(1)
    assert where(cluster, tp=OTHER) == second(cluster)


def test_the_directory_where_it_is(cluster: SimCluster) -> None:
    assert alter(cluster, first(cluster)) is NONE
    cluster.run(1)
    assert where(cluster) == first(cluster) and cluster[1].logs.taken_away == []


# What ends a move


def test_asking_for_the_present_directory_cancels(cluster: SimCluster) -> None:
    slowly(cluster)
    alter(cluster, second(cluster))
    cluster.run(3)
    future = cluster[1].logs.future_logs.logs[TP]
    assert alter(cluster, first(cluster)) is NONE
    assert (cluster[1].logs.future_logs.logs, cluster[1].logs.taken_away) == ({}, [future])
    slowly(cluster, rate=UNLIMITED)
    cluster.run(5)
    assert where(cluster) == first(cluster)
    assert [answer.error for answer in cluster[1].produce("x", acks=1)] == [NONE]


def test_asking_for_the_same_directory_again_changes_nothing(cluster: SimCluster) -> None:
    slowly(cluster)
    alter(cluster, second(cluster))
    cluster.run(3)
    future = cluster[1].logs.future_logs.logs[TP]
    assert alter(cluster, second(cluster)) is NONE
    assert cluster[1].logs.future_logs.logs[TP] is future


def test_a_deletion_ends_the_move(cluster: SimCluster) -> None:
    slowly(cluster)
    alter(cluster, second(cluster))
    cluster.run(3)
    cluster.stop(1, StopReplicaPartitionState(TP, EPOCH_DURING_DELETE, True, TOPIC_ID))
    cluster.run(20)
    assert (cluster[1].logs.logs, cluster[1].logs.future_logs.logs) == ({}, {})


def test_the_directory_of_the_copy_fails(cluster: SimCluster) -> None:
    slowly(cluster)
    alter(cluster, second(cluster))
    cluster.run(3)
    cluster[1].logs.handle_failure(second(cluster))
    cluster.run(20)
    assert where(cluster) == first(cluster)
    answers = cluster[1].produce("x")
    cluster.run(1)
    assert [answer.error for answer in answers] == [NONE]


def test_an_error_that_passes_is_waited_for(cluster: SimCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another move is not held up by it."""
    cluster.create(OTHER, replicas=(1, 2))
    cluster[1].produce("other", tp=OTHER)
    cluster.run(1)
    futures = cluster[1].logs.future_logs
    create = futures.create

    def full(tp: TopicPartition, log_dir: str) -> None:
        create(tp, log_dir)
        if tp == TP:
            future = futures.logs[tp]
            broken = FileSystem()
            monkeypatch.setattr(broken, "pwrite", refuse)
            future._folder.fs = broken

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(futures, "create", full)
    assert (alter(cluster, second(cluster)), alter(cluster, second(cluster), tp=OTHER)) == (NONE, NONE)
    cluster.run(5)
    assert (where(cluster), where(cluster, tp=OTHER)) == (first(cluster), second(cluster))
    futures.logs[TP]._folder.fs = FileSystem()
    cluster.run(5)
    assert where(cluster) == second(cluster)


# Restarts and leaders


def test_a_restart_carries_on(cluster: SimCluster) -> None:
    slowly(cluster)
    alter(cluster, second(cluster))
    cluster.run(3)
    copied = cluster[1].logs.future_logs.logs[TP].log_end_offset
    assert 0 < copied < COUNT
    cluster[1].crash()
    cluster.elect(2)
    cluster.run(1)
    cluster[1].start()
    cluster.elect(2, isr=[2])
    cluster.run(3)
    assert where(cluster) == second(cluster)
    assert cluster[1].values() == cluster[2].values()


def test_a_follower_that_is_truncated_while_it_moves(cluster: SimCluster) -> None:
    """What was only in the old leader's log is in no directory afterwards."""
    slowly(cluster)
    alter(cluster, second(cluster))
    cluster.network.cut |= {(2, 1)}
    for _ in range(3):
        cluster[1].produce("lost", acks=1)
    cluster.run(20)
    assert cluster[1].values()[-1] == "lost"
    slowly(cluster)
    assert alter(cluster, first(cluster)) is NONE
    cluster.elect(2, isr=[2])
    cluster[2].produce("kept", acks=1)
    cluster.network.cut.clear()
    cluster.send(TP)
    cluster.run(30)
    assert where(cluster) == first(cluster)
    assert cluster[1].values() == cluster[2].values()
    assert cluster[1].values()[-1] == "kept"


@pytest.mark.parametrize("acks", [1, -1])
def test_no_acknowledged_record_is_lost_at_any_moment_of_a_move(tmp_path: Path, acks: int) -> None:
    """The replica moves back and forth under a producer, so the log may change between any two records."""
    cluster = SimCluster(tmp_path, (1, 2))
    cluster.create(replicas=(1, 2))
    acknowledged = []
    turns = 0
    for number in range(300):
        if not cluster[1].logs.future_logs.logs:
            target = first(cluster) if where(cluster) == second(cluster) else second(cluster)
            assert alter(cluster, target) is NONE
            turns += 1
        answers = cluster[1].produce(f"{number}", acks=acks)
        cluster.run(0.0007 * (number % 5))
        acknowledged += [f"{number}" for answer in answers if answer.error is NONE]
    cluster.run(5)
    assert turns > 20
    assert set(acknowledged) <= set(cluster[1].values())
    assert cluster[1].values() == cluster[2].values() == [str(number) for number in range(300)]

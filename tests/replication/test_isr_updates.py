"""ISRs shrink and grow, and what happens when ZooKeeper does not answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from kafkalite.cluster.control import EPOCH_DURING_DELETE, ControlResponse, StopReplicaPartitionState
from kafkalite.cluster.model import PartitionAssignment
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import deferred
from kafkalite.log.log import Log
from kafkalite.replication.isr import IsrStatus
from kafkalite.replication.results import ProduceResult
from kafkalite.testing.zookeeper import MemoryZkClient
from kafkalite.zk.zk_client import BadVersionError
from kafkalite.zk.znodes import admin, topics

from .simulation import TOPIC_ID, TP, SimCluster, batch


@pytest.fixture
def cluster(tmp_path: Path) -> SimCluster:
    made = SimCluster(tmp_path, replica_lag_time_max_ms=10_000)
    made.create(min_insync_replicas="2")
    return made


def isr(cluster: SimCluster, leader: int = 1) -> Any:
    return cluster[leader].manager.partitions[TP].isr


def _sent(cluster: SimCluster, broker: int, sequence: int) -> ErrorCode:
    """What an idempotent producer's batch with this sequence is answered."""
    records = batch("bcd"[sequence], producer_id=5, producer_epoch=0, base_sequence=sequence)
    answers: list[ProduceResult] = []
    cluster[broker].manager.append_records(60_000, -1, [(TP, records)], answers.extend)
    cluster.run(1)
    (answer,) = answers
    return answer.error


@contextmanager
def refused_flushes(full: Log) -> Iterator[None]:
    """The disk is full when batches are in the log ``full`` and are to be flushed."""
    flush = Log._flush_if_due

    def refuse(log: Log) -> None:
        if log is full:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "No space left on device")
        flush(log)

    with patch.object(Log, "_flush_if_due", refuse):
        yield


# trap: kafkalite/replication/partition.py: A full disk refuses the flush of a batch that is in the log; followers do
# not fetch the batch, and stay in the ISR without it.
def test_followers_fetch_a_batch_whose_flush_the_leader_refused(cluster: SimCluster) -> None:
    assert _sent(cluster, 1, 0) is ErrorCode.NONE
    cluster.network.cut.add((3, 1))
    with refused_flushes(cluster[1].logs.logs[TP]):
        assert _sent(cluster, 1, 1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert [cluster[n].values() for n in (1, 2)] == [["b", "c"]] * 2
    cluster.run(20)
    assert cluster.read().isr == (1, 2)
    assert _sent(cluster, 1, 1) is ErrorCode.NONE


def test_a_batch_whose_flush_the_only_replica_refused_is_committed_when_it_is_sent_again(tmp_path: Path) -> None:
    cluster = SimCluster(tmp_path)
    cluster.create(replicas=(1,))
    assert _sent(cluster, 1, 0) is ErrorCode.NONE
    with refused_flushes(cluster[1].logs.logs[TP]):
        assert _sent(cluster, 1, 1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert cluster[1].logs.logs[TP].high_watermark == 1
    assert _sent(cluster, 1, 1) is ErrorCode.NONE
    assert cluster[1].logs.logs[TP].high_watermark == 2


def lose_writes(zk: MemoryZkClient, applied: bool) -> None:
    """Writes get no answer, whether or not they take effect; then neither does anything else."""

    def before(name: str, _path: str) -> None:
        if name == "set":
            zk.black_hole(apply=applied)

    zk.before = before


def test_a_slow_follower_is_dropped_and_comes_back(cluster: SimCluster) -> None:
    cluster.network.cut.add((3, 1))
    answers = cluster[1].produce("a")
    cluster.run(4)
    assert answers == []
    cluster.run(16)
    assert cluster.read().isr == (1, 2)
    # Its time had run out before the ISR shrank.
    assert [a.error for a in answers] == [ErrorCode.REQUEST_TIMED_OUT]
    (notice,) = cluster.zookeeper.paths("/isr_change_notification/")
    assert admin.decode_isr_change(cluster.zookeeper.data(notice)) == [TP]
    answers = cluster[1].produce("b")
    cluster.run(0.1)
    assert [a.error for a in answers] == [ErrorCode.NONE]
    cluster.network.cut.clear()
    cluster.run(3)
    assert cluster.read().isr == (1, 2, 3)
    assert cluster[3].values() == ["a", "b"]


def test_an_idle_follower_is_not_slow_at_the_next_append(cluster: SimCluster) -> None:
    cluster[1].produce("a")
    cluster.run(3600)
    cluster.network.latency = 2.0
    answers = cluster[1].produce("b")
    cluster.run(4.9)
    cluster.run(5)
    assert cluster.read().isr == (1, 2, 3)
    assert len(answers) == 1


def test_min_insync_before_and_after_the_append(cluster: SimCluster) -> None:
    cluster.network.cut |= {(2, 1), (3, 1)}
    cluster.run(0.6)
    answers: list[Any] = []
    cluster[1].manager.append_records(60_000, -1, [(TP, batch("a"))], answers.extend)
    cluster.run(20)
    assert cluster.read().isr == (1,)
    assert [a.error for a in answers] == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    assert [a.error for a in cluster[1].produce("b")] == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert [a.error for a in cluster[1].produce("c", acks=1)] == [ErrorCode.NONE]
    assert cluster[1].values() == ["a", "c"]


def test_batch_behind_a_refused_first_one_is_not_taken_before_it(cluster: SimCluster) -> None:
    """The ISR widens between two batches that a producer has in flight."""
    cluster.network.cut |= {(2, 1), (3, 1)}
    cluster[1].produce("a")
    cluster.run(20)
    assert _sent(cluster, 1, 0) is ErrorCode.NOT_ENOUGH_REPLICAS
    cluster.network.cut.clear()
    cluster.run(20)
    assert _sent(cluster, 1, 1) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert _sent(cluster, 1, 0) is ErrorCode.NONE
    assert _sent(cluster, 1, 1) is ErrorCode.NONE
    assert cluster[1].values() == ["a", "b", "c"]


def test_batch_behind_one_that_a_follower_refused_is_not_taken_once_it_leads(cluster: SimCluster) -> None:
    """The client knew of the new leader before that broker did, and had two batches in flight to it."""
    assert _sent(cluster, 2, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.elect(2)
    cluster.run(1)
    assert _sent(cluster, 2, 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert _sent(cluster, 2, 0) is ErrorCode.NONE
    assert _sent(cluster, 2, 1) is ErrorCode.NONE
    assert cluster[2].values() == ["b", "c"]


def test_batch_behind_one_that_the_former_leader_refused_is_not_taken_before_it(cluster: SimCluster) -> None:
    """The client learned of the new leader between two batches. The new leader knows neither (KAFKA-14359)."""
    cluster.elect(2)
    cluster.run(1)
    assert _sent(cluster, 1, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert _sent(cluster, 2, 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert _sent(cluster, 2, 2) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    for sequence in (0, 1, 2):
        assert _sent(cluster, 2, sequence) is ErrorCode.NONE
    assert cluster[2].values() == ["b", "c", "d"]


def test_producer_that_the_new_leader_has_forgotten_goes_on_when_it_sends_again(cluster: SimCluster) -> None:
    cluster.elect(2)
    cluster.run(1)
    assert _sent(cluster, 2, 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert _sent(cluster, 2, 1) is ErrorCode.NONE
    assert _sent(cluster, 2, 2) is ErrorCode.NONE


def test_later_batch_behind_one_that_a_follower_refused_is_refused_alike(cluster: SimCluster) -> None:
    """OUT_OF_ORDER_SEQUENCE_NUMBER makes librdkafka begin an epoch: records of other partitions may come twice."""
    assert _sent(cluster, 1, 0) is ErrorCode.NONE
    cluster.run(2)
    assert _sent(cluster, 2, 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.elect(2)
    cluster.run(1)
    assert _sent(cluster, 2, 2) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert _sent(cluster, 2, 1) is ErrorCode.NONE
    assert _sent(cluster, 2, 2) is ErrorCode.NONE
    assert cluster[2].values() == ["b", "c", "d"]


# trap: kafkalite/replication/isr.py: A shrink that ZooKeeper has not acknowledged advances the high watermark.
@pytest.mark.parametrize("applied", [True, False])
def test_a_shrink_with_unknown_outcome_keeps_the_wide_isr(cluster: SimCluster, applied: bool) -> None:
    lose_writes(cluster[1].zk, applied)
    cluster.network.cut.add((3, 1))
    cluster[1].produce("a")
    cluster.run(20)
    assert isr(cluster).status is IsrStatus.PENDING_SHRINK
    assert isr(cluster).maximal == (1, 2, 3)
    assert cluster[1].logs.logs[TP].high_watermark == 0
    cluster[1].zk.before = None
    cluster[1].zk.lose_connection()
    cluster.run(30)
    # Suspended: nothing is begun, nothing is assumed, and the leader serves on.
    assert isr(cluster).maximal == (1, 2, 3)
    assert cluster[1].logs.logs[TP].high_watermark == 0
    assert cluster[1].produce("b", acks=1)[0].error == ErrorCode.NONE
    cluster[1].zk.reconnect()
    cluster.run(0.1)
    if not applied:
        # The write was lost, so ZooKeeper has the old ISR, and the leader repeats the shrink.
        assert isr(cluster).maximal == (1, 2, 3)
        cluster.run(6)
    assert cluster.read().isr == (1, 2)
    assert isr(cluster).maximal == (1, 2)
    assert cluster[1].logs.logs[TP].high_watermark == 2


# trap: kafkalite/replication/replica_manager.py: Leaders that stop while ZooKeeper is SUSPENDED would stop all
# producers: they serve on.
def test_producing_to_a_full_isr_goes_on_without_zookeeper(cluster: SimCluster) -> None:
    for broker in cluster.brokers.values():
        broker.zk.lose_connection()
    answers = cluster[1].produce("a")
    cluster.run(0.1)
    assert [a.error for a in answers] == [ErrorCode.NONE]


# trap: kafkalite/replication/isr_updates.py: Another broker wrote the partition state: a refused ISR change reads it
# again.
def test_version_conflict_re_reads(cluster: SimCluster) -> None:
    current = cluster.read()
    # Another client writes the same leader and epoch with another ISR, so the leader's next write is refused and the
    # leader reads the state again.
    other = current.with_(isr=(1, 2))
    cluster.admin.set(topics.state_path(TP), topics.encode_state(other), current.zk_version)
    cluster.network.cut.add((2, 1))
    cluster[1].produce("a")
    cluster.run(15)
    # The shrink was refused, the ISR read again, and replica 3 at once put back.
    assert (isr(cluster).committed, isr(cluster).zk_version) == ((1, 2, 3), 2)
    cluster.run(10)
    assert cluster.read().isr == isr(cluster).committed == (1, 3)


# trap: kafkalite/replication/isr_updates.py: A late ISR change for a deleted topic would be made in a new topic of the
# same name, whose znodes have the same versions: the deletion waits until no change can take effect.
@pytest.mark.parametrize("has_expired", [False, True], ids=["same session", "session expired"])
def test_a_deletion_waits_for_the_outstanding_isr_change(cluster: SimCluster, has_expired: bool) -> None:
    zk = cluster[1].zk
    lose_writes(zk, applied=False)
    cluster.network.cut.add((3, 1))
    cluster[1].produce("a")
    cluster.run(20)
    assert isr(cluster).status is IsrStatus.PENDING_SHRINK
    answers = cluster.stop(1, StopReplicaPartitionState(TP, EPOCH_DURING_DELETE, True, TOPIC_ID))
    cluster.run(1)
    assert answers == [], "ZooKeeper has not answered the change"
    zk.before = None
    zk.lose_connection()
    cluster.run(1)
    assert answers == [], "the change may still take effect"
    if has_expired:
        zk.expire_session()
    zk.reconnect()
    cluster.run(1)
    assert answers == [ControlResponse(ErrorCode.NONE, ((TP, ErrorCode.NONE),))]


# trap: kafkalite/replication/isr_updates.py: An ISR change begun while ZooKeeper is SUSPENDED may belong to a lost
# session: leaders begin none.
def test_no_isr_change_is_begun_while_suspended(cluster: SimCluster) -> None:
    cluster[1].zk.lose_connection()
    tried: list[str] = []
    cluster[1].zk.before = lambda name, _path: tried.append(name)
    cluster.network.cut.add((3, 1))
    answers = cluster[1].produce("a", acks=1)
    cluster.run(30)
    assert tried == [] and not isr(cluster).is_pending
    assert [a.error for a in answers] == [ErrorCode.NONE], "it goes on leading"
    cluster[1].zk.before = None
    cluster[1].zk.reconnect()
    cluster.run(6)
    assert cluster.read().isr == (1, 2)


def test_a_zombie_leader_cannot_change_the_isr(cluster: SimCluster) -> None:
    cluster.network.cut |= {(2, 1), (3, 1)}
    cluster.elect(2, isr=(2, 3), send=False)
    cluster.send(TP, to=(2, 3))
    cluster.run(1)
    pending = cluster[1].produce("lost")
    cluster.run(30)
    assert cluster.read().isr == (2, 3)
    # It found the newer state when its write was refused, and follows.
    assert cluster[1].manager.partitions[TP].role.value == "follower"
    assert [a.error for a in pending] != [ErrorCode.NONE]
    answers = cluster[2].produce("kept")
    cluster.network.cut.clear()
    cluster.run(5)
    assert [a.error for a in answers] == [ErrorCode.NONE]
    assert [cluster[n].values() for n in (1, 2, 3)] == [["kept"]] * 3
    assert sorted(cluster.read().isr) == [1, 2, 3]


# trap: kafkalite/replication/isr.py: A replica that is being added to the ISR may be elected already: nothing is
# committed without it.
def test_a_replica_being_added_counts_at_once(cluster: SimCluster) -> None:
    cluster.network.cut.add((3, 1))
    cluster[1].produce("a")
    cluster.run(20)
    assert cluster.read().isr == (1, 2)
    lose_writes(cluster[1].zk, True)
    cluster.network.cut.clear()
    cluster.run(3)
    assert isr(cluster).status is IsrStatus.PENDING_EXPAND
    assert isr(cluster).maximal == (1, 2, 3)
    # ZooKeeper may have added 3 already, so it may be elected: nothing is committed without it.
    cluster.network.cut.add((3, 1))
    cluster.run(1)
    cluster[1].produce("b", acks=1)
    cluster.run(1)
    assert cluster[2].values() == ["a", "b"]
    assert cluster[1].logs.logs[TP].high_watermark == 1


# trap: kafkalite/replication/isr_updates.py: The earlier life of a follower would join an ISR (KIP-903).
def test_only_the_current_life_of_a_broker_joins(cluster: SimCluster) -> None:
    """KIP-903: a fetch that carries an older broker epoch makes no member of the ISR."""
    cluster.network.cut.add((3, 1))
    cluster[1].produce("a")
    cluster.run(20)
    assert cluster.read().isr == (1, 2)
    cluster.announce(3, cluster.epoch(3) + 1000)
    cluster.network.cut.clear()
    cluster.run(5)
    assert cluster[3].values() == ["a"]
    assert cluster.read().isr == (1, 2)
    cluster.announce(3, cluster.epoch(3) - 1000)
    cluster.run(2)
    assert cluster.read().isr == (1, 2, 3)


# trap: kafkalite/replication/isr_updates.py: A removed replica joins the ISR again, because the leader is the last to
# learn the new assignment.
def test_a_replica_that_is_being_removed_does_not_join_a_whole_target(cluster: SimCluster) -> None:
    """The controller may have completed the reassignment, and the leader knows the new assignment last."""
    cluster.network.cut.update({(2, 1), (3, 1)})
    cluster[1].produce("a", acks=1)
    cluster.run(20)
    assert cluster.read().isr == (1,)
    partition = cluster[1].manager.partitions[TP]
    partition.state = partition.state.with_(assignment=PartitionAssignment((1, 2, 3), removing=(2, 3)))
    cluster.network.cut.discard((3, 1))
    cluster.run(5)
    assert cluster.read().isr == (1,), "the target is 1 alone"
    partition.state = partition.state.with_(assignment=PartitionAssignment((1, 2, 3), removing=(3,)))
    cluster.run(5)
    assert cluster.read().isr == (1, 3), "until 2 is in sync the reassignment goes on, and 3 is of use"


# trap: kafkalite/replication/partition.py: The leader reads an assignment without a replica that is in the ISR: the
# high watermark goes on without it.
def test_a_member_of_the_isr_counts_that_the_assignment_no_longer_names(cluster: SimCluster) -> None:
    cluster.network.cut.add((3, 1))
    read = cluster.states[TP].with_(assignment=PartitionAssignment((1, 2)), mzxid=1 << 60)
    deferred(cluster[1].manager.apply_states([read]))
    cluster[1].produce("a", acks=1)
    cluster.run(5)
    assert cluster.read().isr == (1, 2, 3)
    assert cluster[2].values() == ["a"]
    assert cluster[1].logs.logs[TP].high_watermark == 0, "3 may be elected if the assignment comes back"
    cluster.run(20)
    assert cluster.read().isr == (1, 2)
    assert cluster[1].logs.logs[TP].high_watermark == 1
    cluster.network.cut.clear()
    cluster.run(20)
    assert cluster.read().isr == (1, 2), "what the assignment does not name does not join"


# trap: kafkalite/replication/fetch_reader.py: A fetch from the earlier life of a follower tells the leader of records
# that the follower has lost.
def test_a_fetch_of_an_earlier_life_is_refused(cluster: SimCluster) -> None:
    """KIP-903: a fetch that was sent before its follower restarted does not show the follower's current log end."""
    cluster.run(1)
    follower = cluster[1].manager.partitions[TP].followers[2]
    epoch = follower.broker_epoch
    assert epoch == cluster.epoch(2)
    cluster.network.cut.add((2, 1))
    cluster[1].produce("a", acks=1)
    late = cluster[1].consume(1, replica_id=2, replica_epoch=epoch - 1)
    assert [r.error for r in late] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert follower.log_end_offset == 0
    assert [r.error for r in cluster[1].consume(1, replica_id=2, replica_epoch=epoch)] == [ErrorCode.NONE]
    assert follower.log_end_offset == 1


# trap: kafkalite/replication/isr_updates.py: An ISR change hides an unseen restart, because the state becomes younger
# than the restart: the change keeps the unclean start epochs.
def test_an_isr_change_keeps_what_the_state_says_of_unclean_starts(cluster: SimCluster) -> None:
    """Else the leader's write would hide that a member restarted: only the controller judges that."""
    recorded = ((1, 11), (2, 12), (3, 13))
    cluster.states[TP] = cluster.states[TP].with_(unclean_start_epochs=recorded, leader_epoch=1)
    cluster.send()
    cluster.run(1)
    cluster.network.cut.add((3, 1))
    cluster[1].produce("a")
    cluster.run(20)
    state = cluster.read()
    assert (state.isr, state.unclean_start_epochs) == ((1, 2), ((1, 11), (2, 12)))
    cluster.network.cut.clear()
    cluster.run(5)
    state = cluster.read()
    joined = (3, cluster.epoch(3))
    assert (state.isr, state.unclean_start_epochs) == ((1, 2, 3), ((1, 11), (2, 12), joined)), "the life that caught up"


# trap: kafkalite/replication/isr_updates.py: An ISR change that its session refused would be given up silently: the
# leader tries again.
def test_a_write_that_its_session_refuses_is_looked_at_again(cluster: SimCluster) -> None:
    """The fence of its ISR writes is of an older session than the broker's znode: the change is not given up."""
    cluster[1].manager.registered(cluster.epoch(1), cluster[1].zk.session - 1000, cluster.epoch(1))
    cluster.network.cut.add((3, 1))
    cluster[1].produce("a", acks=1)
    cluster.run(20)
    assert cluster.read().isr == (1, 2, 3)
    assert not isr(cluster).is_pending, "read again, it is as it was"
    cluster[1].manager.registered(cluster.epoch(1), cluster[1].zk.session, cluster.epoch(1))
    cluster.run(20)
    assert cluster.read().isr == (1, 2)


def test_a_state_that_cannot_be_read_does_not_end_the_changes(cluster: SimCluster) -> None:
    path = topics.state_path(TP)
    good = cluster.zookeeper.data(path)
    cluster.admin.set(path, b"rubbish")
    cluster.network.cut.add((3, 1))
    cluster[1].produce("a", acks=1)
    cluster.run(20)
    assert isr(cluster).is_pending, "nobody knows what the ISR is"
    cluster.admin.set(path, good)
    cluster.run(20)
    assert cluster.read().isr == (1, 2)


def test_a_server_that_lags_behind_the_controller_is_read_again(cluster: SimCluster) -> None:
    """The controller's request, with a newer leader epoch, came before the ZooKeeper server had what it says."""
    path = topics.state_path(TP)
    ahead = cluster.read().with_(leader_epoch=5, zk_version=1)
    cluster.states[TP] = ahead
    cluster.send()
    cluster.run(0.1)
    assert cluster[1].manager.partitions[TP].leader_epoch == 5
    cluster.network.cut.add((3, 1))
    cluster[1].produce("a", acks=1)
    cluster.run(20)
    assert isr(cluster).is_pending
    cluster.admin.set(path, topics.encode_state(ahead))
    cluster.run(20)
    assert cluster.read().isr == (1, 2)


# trap: kafkalite/replication/isr_updates.py: A lost ISR expansion is given up although the write is still on its way,
# and takes effect later.
def test_a_lost_expansion_does_not_take_effect_after_it_was_given_up(cluster: SimCluster) -> None:
    """It is still on its way when the leader reads. Were it taken then, replica 3 could lead without record b."""
    cluster.network.cut.add((3, 1))
    cluster[1].produce("a")
    cluster.run(20)
    before = cluster.read()
    assert before.isr == (1, 2)
    lose_writes(cluster[1].zk, applied=False)
    cluster.network.cut.clear()
    cluster.run(3)
    assert isr(cluster).status is IsrStatus.PENDING_EXPAND
    on_its_way = before.with_(isr=(1, 2, 3))
    cluster[3].crash()
    cluster[1].zk.before = None
    cluster[1].zk.lose_connection()
    cluster[1].zk.reconnect()
    cluster.run(5)
    assert isr(cluster).committed == (1, 2)
    outcome: list[Any] = []
    cluster.admin.set(topics.state_path(TP), topics.encode_state(on_its_way), before.zk_version).addBoth(outcome.append)
    cluster.run(1)
    assert isinstance(outcome[0].value, BadVersionError)
    answers = cluster[1].produce("b")
    cluster.run(1)
    assert [a.error for a in answers] == [ErrorCode.NONE]
    assert cluster.read().isr == (1, 2), "only these have record b"


def test_a_state_that_was_removed_by_hand_and_put_back_does_not_end_the_changes(cluster: SimCluster) -> None:
    path = topics.state_path(TP)
    good = cluster.zookeeper.data(path)
    cluster.admin.delete(path)
    cluster.network.cut.add((3, 1))
    cluster[1].produce("a", acks=1)
    cluster.run(20)
    assert isr(cluster).is_pending
    cluster.admin.create(path, good)
    cluster.run(20)
    assert cluster.read().isr == (1, 2)


def test_a_leader_goes_on_alone_as_soon_as_every_other_member_is_gone(cluster: SimCluster) -> None:
    """The controller leaves it to the leader, because only a leader that lives may be the last member."""
    cluster[3].crash()
    cluster.run(0.5)
    assert cluster.read().isr == (1, 2, 3), "the controller takes the first one out"
    cluster.elect(1, isr=(1, 2))
    cluster[2].crash()
    cluster.run(0.5)
    assert cluster.read().isr == (1,)


def test_a_leader_that_is_told_of_members_that_are_gone_goes_on_alone(cluster: SimCluster) -> None:
    cluster[1].crash()
    cluster[3].crash()
    cluster.run(0.5)
    cluster.elect(2, isr=(2, 1))
    cluster.run(0.5)
    assert cluster.read().isr == (2,)


def test_a_leader_that_hears_it_while_suspended_goes_on_alone_once_it_is_connected(cluster: SimCluster) -> None:
    cluster[1].zk.lose_connection()
    cluster.run(0.1)
    cluster[2].crash()
    cluster[3].crash()
    cluster.run(0.5)
    assert cluster.read().isr == (1, 2, 3)
    cluster[1].zk.reconnect()
    cluster.run(0.5)
    assert cluster.read().isr == (1,)


def recovery_points_at_writes(cluster: SimCluster) -> list[int]:
    """The recovery point of broker 1 whenever it writes to ZooKeeper from now on."""
    found: list[int] = []

    def before(name: str, _path: str) -> None:
        if name == "set":
            found.append(cluster[1].logs.logs[TP].recovery_point)

    cluster[1].zk.before = before
    return found


# trap: kafkalite/replication/isr_updates.py: A leader alone in the ISR loses power, and with it acknowledged records
# that the stopped follower still has.
def test_a_leader_that_will_be_alone_syncs_what_it_has_acknowledged_first(cluster: SimCluster) -> None:
    cluster[1].produce("a", "b")
    cluster[3].crash()
    cluster.run(0.5)
    cluster.elect(1, isr=(1, 2))
    cluster[1].produce("c")
    cluster.run(0.5)
    assert cluster[1].logs.logs[TP].recovery_point == 0, "two replicas have the records"
    at_writes = recovery_points_at_writes(cluster)
    cluster[2].crash()
    cluster.run(0.5)
    assert cluster.read().isr == (1,)
    assert at_writes == [3]


def test_a_leader_syncs_nothing_for_an_isr_of_two(cluster: SimCluster) -> None:
    cluster[1].produce("a")
    cluster.network.cut.add((3, 1))
    cluster[1].produce("b")
    cluster.run(20)
    assert cluster.read().isr == (1, 2)
    assert cluster[1].logs.logs[TP].recovery_point == 0


def test_a_leader_that_may_acknowledge_alone_syncs_nothing(tmp_path: Path) -> None:
    cluster = SimCluster(tmp_path, replica_lag_time_max_ms=10_000)
    cluster.create(min_insync_replicas="1")
    cluster[1].produce("a")
    cluster[2].crash()
    cluster[3].crash()
    cluster.run(0.5)
    cluster.elect(1, isr=(1, 2))
    cluster.run(0.5)
    assert cluster.read().isr == (1,)
    assert cluster[1].logs.logs[TP].recovery_point == 0


def test_a_leader_whose_disk_is_full_stays_in_company_until_it_can_sync(cluster: SimCluster) -> None:
    cluster[1].produce("a")
    cluster.network.cut |= {(2, 1), (3, 1)}
    cluster.run(0.6)
    answers = cluster[1].produce("b")
    with patch.object(Log, "prepare_flush", side_effect=ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "No space left")):
        cluster.run(30)
        assert cluster.read().isr == (1, 2, 3)
        assert not isr(cluster).is_pending
        assert [answer.error for answer in answers] == [ErrorCode.REQUEST_TIMED_OUT]
    cluster.run(10)
    assert cluster.read().isr == (1,)
    assert cluster[1].logs.logs[TP].recovery_point == 2


# trap: kafkalite/replication/isr.py: A record counts as acknowledged by a member whose ISR ZooKeeper does not have yet.
def test_nothing_is_acknowledged_with_a_member_that_is_still_being_added(cluster: SimCluster) -> None:
    """If the write were lost, the leader would be the only member of the ISR, and its machine may lose power."""
    cluster.network.cut |= {(2, 1), (3, 1)}
    cluster[1].produce("a", acks=1)
    cluster.run(20)
    assert cluster.read().isr == (1,)
    cluster.network.cut = {(3, 1)}
    lose_writes(cluster[1].zk, applied=False)
    cluster.run(3)
    assert (isr(cluster).status, isr(cluster).maximal) == (IsrStatus.PENDING_EXPAND, (1, 2))
    assert [answer.error for answer in cluster[1].produce("b")] == [ErrorCode.NOT_ENOUGH_REPLICAS]


def test_leader_that_withdraws_its_registration_changes_no_isr_afterwards(cluster: SimCluster) -> None:
    cluster[3].crash()
    cluster.elect(1, isr=(1, 2))
    cluster[2].crash()
    at_the_end: list[tuple[int, ...]] = []
    deferred(cluster[1].manager.withdraw()).addCallback(lambda _: at_the_end.append(cluster.read().isr))
    assert at_the_end == [], "the ISR is being written"
    cluster.run(0.5)
    assert at_the_end == [(1,)]
    assert [answer.error for answer in cluster[1].produce("a")] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_broker_that_withdrew_its_registration_is_given_no_leadership(cluster: SimCluster) -> None:
    deferred(cluster[2].manager.withdraw())
    cluster[1].crash()
    cluster[3].crash()
    cluster.elect(2, isr=(1, 2))
    cluster.run(10)
    assert cluster.read().isr == (1, 2)
    assert [answer.error for answer in cluster[2].produce("a")] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_leader_that_is_not_registered_removes_no_replica_from_the_isr(cluster: SimCluster) -> None:
    """Its metadata of the other brokers may be older than ZooKeeper's."""
    cluster[1].metadata.update_brokers({})
    cluster[1].manager.brokers_changed()
    cluster.run(0.5)
    assert cluster.read().isr == (1, 2, 3)

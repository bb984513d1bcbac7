"""Which decisions a broker takes over, and which come too late."""

from __future__ import annotations

import logging
import uuid
from pathlib import Path
from typing import Any

import pytest

from kafkalite.cluster.control import ControlResponse, LeaderAndIsrRequest, StopReplicaPartitionState
from kafkalite.cluster.model import LeaderAndIsr, PartitionAssignment
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import Future, deferred
from kafkalite.common.types import TopicPartition
from kafkalite.replication.partition import Role
from kafkalite.zk.zk_client import ConnectionLostError, SessionState

from .simulation import TOPIC_ID, TP, SimCluster

OTHER_ID = uuid.UUID(int=7)


@pytest.fixture
def cluster(tmp_path: Path) -> SimCluster:
    made = SimCluster(tmp_path)
    made.create()
    made.elect(1)
    made[1].produce("a")
    made.run(0.1)
    return made


def request(cluster: SimCluster, state: LeaderAndIsr, **changes: Any) -> ControlResponse:
    values: dict[str, Any] = {"controller_epoch": 1, "broker_epoch": cluster.epoch(1), **changes}
    answers: list[ControlResponse] = []
    message = LeaderAndIsrRequest(0, values["controller_epoch"], values["broker_epoch"], (state,), ())
    deferred(cluster[1].become_leader_or_follower(message)).addCallback(answers.append)
    cluster.run(0.01)
    return answers[0]


def role(cluster: SimCluster, broker: int = 1) -> tuple[Role, int]:
    partition = cluster[broker].manager.partitions[TP]
    return partition.role, partition.leader_epoch


# trap: kafkalite/replication/partition_table.py: A request of an older controller, or one for another life of the
# broker, arrives late.
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"controller_epoch": 0}, ErrorCode.STALE_CONTROLLER_EPOCH),
        ({"broker_epoch": 1}, ErrorCode.STALE_BROKER_EPOCH),
    ],
)
def test_stale_requests(cluster: SimCluster, change: dict[str, int], error: ErrorCode) -> None:
    newer = cluster.states[TP].with_(leader=2, leader_epoch=9)
    assert request(cluster, newer, **change).error == error
    assert role(cluster) == (Role.LEADER, 1)


def test_an_older_leader_epoch_is_fenced(cluster: SimCluster) -> None:
    older = cluster.states[TP].with_(leader=2, leader_epoch=0)
    assert request(cluster, older).partitions == ((TP, ErrorCode.FENCED_LEADER_EPOCH),)
    assert role(cluster) == (Role.LEADER, 1)


def test_the_same_state_again_changes_nothing(cluster: SimCluster) -> None:
    partition = cluster[1].manager.partitions[TP]
    followers = dict(partition.followers)
    assert request(cluster, cluster.states[TP]).partitions == ((TP, ErrorCode.NONE),)
    assert partition.followers == followers
    assert [f.log_end_offset for f in partition.followers.values()] == [1, 1]


# trap: kafkalite/replication/role_applier.py: A state written before the restart still names the broker as leader: the
# broker leads only if the state's mzxid exceeds the czxid of its own znode.
@pytest.mark.parametrize(("newer", "leads"), [(True, True), (False, False)])
def test_leadership_from_zookeeper_only_if_written_after_registration(
    cluster: SimCluster, newer: bool, leads: bool
) -> None:
    cluster.elect(2)
    state = cluster.states[TP].with_(
        leader=1, leader_epoch=5, mzxid=cluster.epoch(1) + (1 if newer else -1), zk_version=9
    )
    deferred(cluster[1].manager.apply_states([state]))
    cluster.run(0.01)
    assert (role(cluster)[0] is Role.LEADER) is leads


@pytest.mark.parametrize(("earlier_life", "leads"), [(False, True), (True, False)])
def test_no_leadership_from_zookeeper_for_a_life_before_an_unclean_start(
    cluster: SimCluster, earlier_life: bool, leads: bool
) -> None:
    """The write of a controller that did not know of the restart took effect after this broker registered again."""
    cluster.elect(2)
    elected = (1, cluster.epoch(1) - (1 if earlier_life else 0))
    state = cluster.states[TP].with_(
        leader=1, leader_epoch=5, mzxid=cluster.epoch(1) + 1, zk_version=9, unclean_start_epochs=(elected, (2, 12))
    )
    deferred(cluster[1].manager.apply_states([state]))
    cluster.run(0.01)
    assert (role(cluster)[0] is Role.LEADER) is leads
    assert request(cluster, state.with_(leader_epoch=6)).partitions == ((TP, ErrorCode.NONE),)
    assert role(cluster) == (Role.LEADER, 6), "a controller that knows this life of the broker may elect it"


def test_a_broker_follows_by_a_state_from_zookeeper_of_any_age(cluster: SimCluster) -> None:
    state = cluster.states[TP].with_(leader=2, leader_epoch=5, mzxid=1)
    deferred(cluster[1].manager.apply_states([state]))
    cluster.run(0.01)
    assert role(cluster) == (Role.FOLLOWER, 5)


def test_zookeeper_alone_is_enough(cluster: SimCluster) -> None:
    """Without any request of the controller the brokers converge by the states that they read."""
    cluster.elect(2, send=False)
    for broker in cluster.brokers.values():
        deferred(broker.manager.apply_states([cluster.read()]))
    answers = cluster[2].produce("b")
    cluster.run(0.1)
    assert [a.error for a in answers] == [ErrorCode.NONE]
    assert [cluster[n].values() for n in (1, 2, 3)] == [["a", "b"]] * 3


# trap: kafkalite/replication/replica_stopper.py: After a new session another broker may lead: no partition is led until
# its state has been read again.
def test_the_end_of_a_session_ends_leading_until_the_states_are_read_again(cluster: SimCluster) -> None:
    old_epoch = cluster.epoch(1)
    cluster[1].manager.on_zk_state(SessionState.EXPIRED)
    cluster[1].manager.on_zk_state(SessionState.CONNECTED)
    assert [a.error for a in cluster[1].produce("b", acks=1)] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    # A request for the life that ended arrives late.
    assert request(cluster, cluster.states[TP]).error == ErrorCode.STALE_BROKER_EPOCH
    # So does a read from before.
    deferred(cluster[1].manager.apply_states([cluster.read()]))
    cluster.run(0.01)
    assert role(cluster)[0] is Role.NONE
    cluster.announce(1, old_epoch + 100)
    cluster[1].manager.registered(old_epoch + 100, cluster[1].zk.session, old_epoch)
    deferred(cluster[1].manager.apply_states([cluster.read()]))
    cluster.run(0.01)
    assert role(cluster)[0] is Role.NONE
    # The controller confirms the very same state to the new life.
    assert request(cluster, cluster.states[TP]).partitions == ((TP, ErrorCode.NONE),)
    answers = cluster[1].produce("c")
    cluster.run(1)
    assert [a.error for a in answers] == [ErrorCode.NONE]


# trap: kafkalite/replication/partition_table.py: A recreated topic starts with low versions and epochs, so
# replicas compare the topic id.
def test_a_recreated_topic_begins_empty(cluster: SimCluster) -> None:
    """Its epochs start below the old ones, and the topic id distinguishes the two topics."""
    recreated = cluster.states[TP].with_(topic_id=OTHER_ID, leader_epoch=0, zk_version=0)
    assert request(cluster, recreated).partitions == ((TP, ErrorCode.NONE),)
    assert cluster[1].logs.deleted == [TP]
    assert cluster[1].values() == []
    assert cluster[1].logs.logs[TP].topic_id == OTHER_ID
    assert role(cluster) == (Role.LEADER, 0)
    # What is still said of the old topic is ignored, from either side.
    late = cluster.states[TP].with_(leader_epoch=50)
    assert request(cluster, late).partitions == ((TP, ErrorCode.INCONSISTENT_TOPIC_ID),)
    deferred(cluster[1].manager.apply_states([late.with_(mzxid=1 << 60)]))
    cluster.run(0.01)
    assert role(cluster) == (Role.LEADER, 0)


def test_a_log_of_a_deleted_topic_found_on_disk_goes(cluster: SimCluster) -> None:
    cluster[1].crash()
    cluster[1].start()
    recreated = cluster.states[TP].with_(topic_id=OTHER_ID, leader_epoch=0, zk_version=0)
    assert request(cluster, recreated).partitions == ((TP, ErrorCode.NONE),)
    assert cluster[1].values() == []


@pytest.mark.parametrize(
    ("stop", "outcome", "deleted"),
    [
        (StopReplicaPartitionState(TP, 1, False, TOPIC_ID), ErrorCode.NONE, False),
        (StopReplicaPartitionState(TP, 1, True, TOPIC_ID), ErrorCode.NONE, True),
        (StopReplicaPartitionState(TP, -2, True, TOPIC_ID), ErrorCode.NONE, True),
        (StopReplicaPartitionState(TP, 0, True, TOPIC_ID), ErrorCode.FENCED_LEADER_EPOCH, False),
        (StopReplicaPartitionState(TP, -2, True, OTHER_ID), ErrorCode.NONE, False),
    ],
)
def test_stop_replica(cluster: SimCluster, stop: StopReplicaPartitionState, outcome: ErrorCode, deleted: bool) -> None:
    pending = cluster[1].manager.partitions[TP]
    answers = cluster.stop(1, stop)
    assert answers[0].partitions == ((TP, outcome),)
    assert (cluster[1].logs.deleted == [TP]) is deleted
    assert (TP in cluster[1].manager.partitions) is not deleted
    stopped = outcome == ErrorCode.NONE and stop.topic_id == TOPIC_ID
    assert (pending.role is Role.LEADER) is not stopped


def test_a_log_that_a_failed_disk_does_not_delete_is_no_surprise(
    cluster: SimCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The controller learns why the deletion waits (seed 60155)."""

    def refused(_: TopicPartition) -> Future[None]:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "/data could not be synced")

    monkeypatch.setattr(cluster[1].logs, "delete", refused)
    answers = cluster.stop(1, StopReplicaPartitionState(TP, -2, True, TOPIC_ID))
    assert answers[0].partitions == ((TP, ErrorCode.KAFKA_STORAGE_ERROR),)
    (record,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert (record.levelno, record.exc_info) == (logging.WARNING, None)
    assert record.getMessage() == "t-0: stopping it failed: KAFKA_STORAGE_ERROR: /data could not be synced"


@pytest.mark.parametrize("hosted", [True, False])
def test_a_deletion_without_a_topic_id_is_of_the_topic_that_the_broker_has(cluster: SimCluster, hosted: bool) -> None:
    """As Kafka's controller asks; a state that was read before the topic's znodes are gone comes afterwards."""
    if not hosted:
        cluster[1].manager.replicas.drop(TP)
    cluster.stop(1, StopReplicaPartitionState(TP, -2, True))
    assert cluster[1].logs.deleted == [TP]
    state = cluster.states[TP].with_(leader=2, leader_epoch=2, mzxid=1 << 60)
    deferred(cluster[1].manager.apply_states([state]))
    cluster.run(0.01)
    assert TP not in cluster[1].manager.partitions


def test_a_replica_on_its_way_out_does_not_come_back(cluster: SimCluster) -> None:
    """Its log is deleted; then its broker reads a state while the assignment still says that it is to be removed."""
    cluster.stop(1, StopReplicaPartitionState(TP, 1, True, TOPIC_ID))
    leaving = PartitionAssignment((1, 2, 3), removing=(1,))
    state = cluster.states[TP].with_(leader=2, leader_epoch=2, isr=(2, 3), assignment=leaving, mzxid=1 << 60)
    deferred(cluster[1].manager.apply_states([state]))
    cluster.run(0.01)
    assert TP not in cluster[1].manager.partitions
    # The controller may still request the replica, because the broker restarted in the middle of the reassignment.
    assert request(cluster, state).partitions == ((TP, ErrorCode.NONE),)
    assert TP in cluster[1].manager.partitions


# trap: kafkalite/replication/role_applier.py: The controller's request for a replica arrives after the broker has read
# that the replica was removed: it follows for ever.
@pytest.mark.parametrize(
    ("known", "epoch", "hosted"),
    [((2, 3), 3, False), ((2, 3), 1, True), ((1, 2, 3), 3, True)],
    ids=["removed since", "removed before", "not removed"],
)
def test_a_late_request_does_not_bring_a_removed_replica_back(
    cluster: SimCluster, known: tuple[int, ...], epoch: int, hosted: bool
) -> None:
    cluster.stop(1, StopReplicaPartitionState(TP, 1, True, TOPIC_ID))
    state = cluster.states[TP].with_(leader=2, leader_epoch=2, isr=(2, 3))
    cluster[1].metadata.apply([state.with_(leader_epoch=epoch, assignment=PartitionAssignment(known))])
    answer = request(cluster, state)
    assert answer.partitions == ((TP, ErrorCode.NONE if hosted else ErrorCode.FENCED_LEADER_EPOCH),)
    assert (TP in cluster[1].manager.partitions) is hosted


# trap: kafkalite/replication/role_applier.py: A broker reads the state that completes a reassignment, and the topic's
# znode as it was before: the leader lets the removed replica join the ISR again.
@pytest.mark.parametrize(
    "older", [PartitionAssignment((1, 2, 3)), PartitionAssignment((1, 2, 3), removing=(3,))], ids=["before", "during"]
)
def test_an_older_assignment_does_not_bring_a_removed_replica_back(
    cluster: SimCluster, older: PartitionAssignment
) -> None:
    completed = cluster.states[TP].with_(leader_epoch=2, isr=(1, 2), assignment=PartitionAssignment((1, 2)))
    assert request(cluster, completed).partitions == ((TP, ErrorCode.NONE),)
    deferred(cluster[1].manager.apply_states([completed.with_(assignment=older, mzxid=1 << 60)]))
    cluster.run(0.01)
    partition = cluster[1].manager.partitions[TP]
    assert (list(partition.followers), partition.state.assignment) == ([2], PartitionAssignment((1, 2)))


def test_an_assignment_that_adds_a_replica_is_obeyed_before_the_controllers_request(cluster: SimCluster) -> None:
    state = cluster.states[TP]
    reduced = state.with_(leader_epoch=2, isr=(1, 2), assignment=PartitionAssignment((1, 2)))
    request(cluster, reduced)
    growing = reduced.with_(assignment=PartitionAssignment((1, 2, 3), adding=(3,)), mzxid=1 << 60)
    deferred(cluster[1].manager.apply_states([growing]))
    cluster.run(0.01)
    assert list(cluster[1].manager.partitions[TP].followers) == [2, 3]


@pytest.mark.parametrize(
    ("deletes", "assignment", "creates"),
    [
        (True, PartitionAssignment((1, 2, 3)), False),
        (True, PartitionAssignment((1, 2, 3), adding=(1,)), True),
        (False, PartitionAssignment((1, 2, 3)), True),
    ],
    ids=["deletion", "deletion waits for a reassignment", "no deletion"],
)
def test_no_log_is_created_for_a_topic_that_is_being_deleted(
    cluster: SimCluster, deletes: bool, assignment: PartitionAssignment, creates: bool
) -> None:
    """The broker deleted its log and restarted, and another replica has yet to delete its own."""
    cluster.stop(1, StopReplicaPartitionState(TP, -2, True, TOPIC_ID))
    cluster[1].crash()
    cluster[1].start()
    cluster[1].being_deleted.update(["t"] if deletes else [])
    state = cluster.states[TP].with_(leader=2, leader_epoch=2, assignment=assignment, mzxid=1 << 60)
    deferred(cluster[1].manager.apply_states([state]))
    cluster.run(0.01)
    assert (TP in cluster[1].manager.partitions) is creates
    assert (TP in cluster[1].logs.logs) is creates
    assert request(cluster, state).partitions == ((TP, ErrorCode.NONE),), "the controller knows whether it is deleted"
    assert TP in cluster[1].manager.partitions


def test_a_log_that_exists_is_served_while_its_topic_waits_to_be_deleted(cluster: SimCluster) -> None:
    cluster[1].crash()
    cluster[1].start()
    cluster[1].being_deleted.add("t")
    state = cluster.states[TP].with_(leader=2, leader_epoch=2, mzxid=1 << 60)
    deferred(cluster[1].manager.apply_states([state]))
    cluster.run(0.01)
    assert role(cluster) == (Role.FOLLOWER, 2)


def test_no_log_is_created_while_the_request_to_delete_its_topic_cannot_be_read(cluster: SimCluster) -> None:
    cluster[1].unreadable_requests.add("dark")
    dark = TopicPartition("dark", 0)
    state = cluster.states[TP].with_(topic=dark.topic, topic_id=OTHER_ID, mzxid=1 << 60)
    failures: list[Any] = []
    deferred(cluster[1].manager.apply_states([state])).addErrback(lambda failure: failures.append(failure.type))
    assert failures == [ConnectionLostError]
    assert dark not in cluster[1].logs.logs
    cluster[1].unreadable_requests.clear()
    deferred(cluster[1].manager.apply_states([state]))
    assert dark in cluster[1].logs.logs


def test_an_unreadable_configuration_holds_up_its_topic_alone(cluster: SimCluster) -> None:
    cluster[1].unreadable.add("dark")
    here, there = TopicPartition("light", 0), TopicPartition("dark", 0)
    states = tuple(cluster.states[TP].with_(topic=tp.topic, topic_id=OTHER_ID, mzxid=1 << 60) for tp in (there, here))
    answers: list[ControlResponse] = []
    message = LeaderAndIsrRequest(0, 1, cluster.epoch(1), states, ())
    deferred(cluster[1].become_leader_or_follower(message)).addCallback(answers.append)
    assert dict(answers[0].partitions) == {here: ErrorCode.NONE, there: ErrorCode.UNKNOWN_SERVER_ERROR}
    # The metadata watcher, which read the states from ZooKeeper, gets the failure and applies the states again.
    failures: list[Any] = []
    deferred(cluster[1].manager.apply_states(states)).addErrback(lambda failure: failures.append(failure.type))
    assert failures == [ConnectionLostError]
    cluster[1].unreadable.clear()
    deferred(cluster[1].manager.apply_states(states))
    assert {here, there} <= cluster[1].manager.partitions.keys()


def test_topics_that_are_gone_are_not_served_and_keep_their_logs(cluster: SimCluster) -> None:
    deferred(cluster[1].manager.topics_gone({"t": OTHER_ID}))
    assert TP in cluster[1].manager.partitions
    deferred(cluster[1].manager.topics_gone({"t": TOPIC_ID}))
    assert TP not in cluster[1].manager.partitions
    assert cluster[1].logs.deleted == []


def test_a_failed_directory_takes_its_partitions_offline(cluster: SimCluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.network.cut |= {(2, 1), (3, 1)}
    waiting = cluster[1].produce("b")
    cluster[1].logs.handle_failure(str(cluster[1].logs.path))
    assert caplog.messages == [f"partitions offline after the failure of a log directory: {TP}"]
    assert cluster[1].log_dir_events == [cluster.clock.monotonic()]
    assert [a.error for a in waiting] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert [a.error for a in cluster[1].produce("c")] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert [r.error for r in cluster[1].consume()] == [ErrorCode.KAFKA_STORAGE_ERROR]
    newer = cluster.states[TP].with_(leader_epoch=9)
    assert request(cluster, newer).partitions == ((TP, ErrorCode.KAFKA_STORAGE_ERROR),)


# trap: kafkalite/replication/replica_stopper.py: A topic is deleted while a log directory is offline, and the broker
# answers that it has no log; the topic's log is there when the directory is back.
@pytest.mark.parametrize(("topic_id", "error"), [(TOPIC_ID, ErrorCode.KAFKA_STORAGE_ERROR), (OTHER_ID, ErrorCode.NONE)])
def test_a_log_in_an_offline_directory_is_not_deleted(
    cluster: SimCluster, topic_id: uuid.UUID, error: ErrorCode
) -> None:
    """The broker has no partition: it started while the topic was being deleted, and then its directory failed."""
    cluster[1].manager.replicas.drop(TP)
    cluster[1].logs.offline_logs[TP] = cluster[1].logs.logs.pop(TP).topic_id
    [answer] = cluster.stop(1, StopReplicaPartitionState(TP, -2, True, topic_id))
    assert answer.partitions == ((TP, error),)
    assert cluster[1].logs.deleted == []


def test_replicas_that_a_full_directory_refused_are_asked_for_until_it_has_room(
    cluster: SimCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    new = cluster.states[TP].with_(topic="new", topic_id=OTHER_ID, leader=2)

    def refuse(*_: Any) -> None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "No space left on device")

    def ask(broker_id: int) -> None:
        assert broker_id == 1
        asked.append(cluster.clock.monotonic() - start)
        deferred(cluster[1].manager.become_leader_or_follower(LeaderAndIsrRequest(0, 1, cluster.epoch(1), (new,), ())))

    cluster.on_log_dir_event = ask
    start = cluster.clock.monotonic()
    with monkeypatch.context() as full:
        full.setattr(cluster[1].logs, "get_or_create", refuse)
        assert request(cluster, new).partitions == ((new.topic_partition, ErrorCode.KAFKA_STORAGE_ERROR),)
        cluster.run(8)
    assert asked == pytest.approx([1, 3, 7], abs=0.1), "later and later"
    assert new.topic_partition not in cluster[1].manager.partitions
    cluster.run(8)
    assert len(asked) == 4
    assert cluster[1].manager.partitions[new.topic_partition].role is Role.FOLLOWER
    cluster.run(60)
    assert len(asked) == 4, "nothing is refused any more"


def test_replicas_of_a_directory_that_failed_are_not_asked_for(cluster: SimCluster) -> None:
    cluster[1].logs.handle_failure(str(cluster[1].logs.path))
    assert len(cluster[1].log_dir_events) == 1, "for the failure"
    newer = cluster.states[TP].with_(leader_epoch=9)
    assert request(cluster, newer).partitions == ((TP, ErrorCode.KAFKA_STORAGE_ERROR),)
    cluster.run(120)
    assert len(cluster[1].log_dir_events) == 1, "only a restart brings them back"


def test_shutdown_stops_fetching_and_checkpoints(cluster: SimCluster) -> None:
    cluster.run(6)
    before = cluster[2].logs.checkpoints
    deferred(cluster[2].manager.shutdown())
    count = len(cluster.network.requests)
    cluster.network.requests.clear()
    cluster.run(5)
    assert count
    assert not [r for r in cluster.network.requests if r[0] == 2]
    cluster.run(60)
    assert cluster[2].logs.checkpoints == before + 1 > 1


def test_many_partitions_are_taken_over_in_pieces(cluster: SimCluster) -> None:
    """The reactor serves others meanwhile, and what is ready serves already."""
    states = tuple(cluster.states[TP].with_(topic="many", partition=n, topic_id=OTHER_ID) for n in range(120))
    answers: list[ControlResponse] = []
    message = LeaderAndIsrRequest(0, 1, cluster.epoch(1), states, ())
    deferred(cluster[1].become_leader_or_follower(message)).addCallback(answers.append)
    hosted = [tp for tp in cluster[1].manager.partitions if tp.topic == "many"]
    assert (len(hosted), answers) == (50, [])
    cluster.run(0.01)
    assert {error for _, error in answers[0].partitions} == {ErrorCode.NONE}
    assert len(cluster[1].manager.partitions) == 121

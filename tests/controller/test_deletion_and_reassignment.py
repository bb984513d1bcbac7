"""Topics that go and replicas that move, as transcripts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from textwrap import dedent

import pytest

from kafkalite.cluster.control import ControlRequest, ControlResponse, LeaderAndIsrRequest, StopReplicaRequest
from kafkalite.cluster.model import PartitionAssignment
from kafkalite.common.errors import ErrorCode
from kafkalite.controller.active_controller import ControllerConfig
from kafkalite.controller.partition_reassignments import reassign_to
from kafkalite.zk.stores.fenced_write import bundles
from tests.support import run

from .fixtures import ControllerFixture, tp


def text(expected: str) -> str:
    return dedent(expected).strip()


def exists(fixture: ControllerFixture, topic: str) -> bool:
    return any(topic in path.split("/") for path in fixture.zk.paths())


# Deletion


def test_a_topic_is_deleted() -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(1)
    fixture.topic("t", {0: [1, 2]}, {"retention.ms": "1"})
    fixture.take()
    fixture.mute.update((1, 2))
    run(fixture.admin.create_delete_topic("t"))
    assert fixture.take() == text("""
        1 <- metadata (1,2) t-0: -2/-1 [none]
        2 <- metadata (1,2) t-0: -2/-1 [none]
    """)
    fixture.release()
    assert fixture.take() == text("""
        1 <- stop t-0 at -2 and delete
        2 <- stop t-0 at -2 and delete
    """)
    assert not exists(fixture, "t")


# trap: kafkalite/controller/topic_deletion.py: A topic recreated too soon meets replicas of the deleted one: the paths
# go only after every replica has acknowledged.
def test_the_paths_stay_until_every_replica_has_acknowledged() -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(1)
    fixture.topic("t", {0: [1, 2]})
    fixture.refuse.add(2)
    run(fixture.admin.create_delete_topic("t"))
    assert exists(fixture, "t")
    fixture.refuse.clear()
    fixture.clock.advance(1)
    assert not exists(fixture, "t")


def test_deletion_waits_for_a_broker_that_is_down() -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(1)
    old = fixture.topic("t", {0: [1, 2]})
    fixture.kill(2)
    run(fixture.admin.create_delete_topic("t"))
    assert exists(fixture, "t")
    fixture.take()
    fixture.start(2)
    assert "2 <- stop t-0 at -2 and delete" in fixture.take()
    assert not exists(fixture, "t")
    new = fixture.topic("t", {0: [1, 2]})
    assert new != old
    assert fixture.state("t-0") == "leader 1 epoch 0 isr 1,2 by 1"


def test_deletion_meets_a_failing_broker_and_goes_on_after_its_return() -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(1)
    fixture.topic("t", {0: [1, 2]})
    fixture.refuse.add(2)
    run(fixture.admin.create_delete_topic("t"))
    fixture.kill(2)
    fixture.refuse.clear()
    assert exists(fixture, "t")
    fixture.start(2)
    assert not exists(fixture, "t")


def test_a_replica_that_could_not_be_deleted_is_tried_again_after_a_restart() -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(1)
    fixture.topic("t", {0: [1, 2]})

    def fail(broker_id: int, request: ControlRequest) -> ControlResponse:
        if broker_id == 2 and isinstance(request, StopReplicaRequest):
            return ControlResponse(ErrorCode.NONE, ((tp("t-0"), ErrorCode.KAFKA_STORAGE_ERROR),))
        return ControlResponse(ErrorCode.NONE)

    fixture.answer = fail
    run(fixture.admin.create_delete_topic("t"))
    assert exists(fixture, "t")
    fixture.answer = lambda _, __: ControlResponse(ErrorCode.NONE)
    fixture.bounce(2)
    assert not exists(fixture, "t")


def test_broker_that_restarts_while_its_topic_is_being_deleted_is_told_again() -> None:
    """It finds the topic in ZooKeeper still, and makes the log that it had deleted."""
    fixture = ControllerFixture().start(1, 2, 3)
    fixture.control(3)
    fixture.topic("t", {0: [1, 2]})
    fixture.kill(2)
    run(fixture.admin.create_delete_topic("t"))
    assert "1 <- stop t-0 at -2 and delete" in fixture.take()
    fixture.kill(1)
    fixture.start(1)
    assert "1 <- stop t-0 at -2 and delete" in fixture.take()
    assert exists(fixture, "t"), "broker 2 has its log still"
    fixture.refuse.add(1)
    fixture.bounce(1)
    fixture.start(2)
    assert exists(fixture, "t"), "broker 1 has not answered since it restarted"
    fixture.refuse.clear()
    fixture.clock.advance(1)
    assert not exists(fixture, "t")


def refuse_the_log(broker_id: int, request: ControlRequest) -> ControlResponse:
    """The answers where the disk of broker 2 has no room for a new log."""
    if broker_id == 2 and isinstance(request, LeaderAndIsrRequest):
        errors = tuple((state.topic_partition, ErrorCode.KAFKA_STORAGE_ERROR) for state in request.states)
        return ControlResponse(ErrorCode.NONE, errors)
    return ControlResponse(ErrorCode.NONE)


def test_deletion_goes_on_when_the_broker_asks_again_for_a_log_that_its_disk_refused() -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(1)
    fixture.answer = refuse_the_log
    fixture.topic("t", {0: [1, 2]})
    run(fixture.admin.create_delete_topic("t"))
    assert exists(fixture, "t")
    fixture.take()
    run(fixture.notifications.create_log_dir_event(2))
    assert "2 <- stop t-0 at -2 and delete" in fixture.take()
    assert not exists(fixture, "t")


def test_deletion_goes_on_when_the_broker_answers_that_its_disk_has_taken_the_log() -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(1)
    fixture.answer = refuse_the_log
    fixture.topic("t", {0: [1, 2]})
    fixture.answer = lambda _, __: ControlResponse(ErrorCode.NONE)
    fixture.mute.add(2)
    run(fixture.notifications.create_log_dir_event(2))
    run(fixture.admin.create_delete_topic("t"))
    fixture.take()
    fixture.release()
    assert fixture.take() == text("""
        1 <- metadata (1,2) t-0: -2/-1 [none]
        2 <- metadata (1,2) t-0: -2/-1 [none]
        2 <- stop t-0 at -2 and delete
    """)
    assert not exists(fixture, "t")


def test_deletion_waits_for_a_broker_whose_log_directory_failed() -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(1)
    fixture.topic("t", {0: [1, 2]})
    fixture.answer = lambda broker_id, _: ControlResponse(
        ErrorCode.NONE, ((tp("t-0"), ErrorCode.KAFKA_STORAGE_ERROR),) if broker_id == 2 else ()
    )
    run(fixture.notifications.create_log_dir_event(2))
    run(fixture.admin.create_delete_topic("t"))
    run(fixture.notifications.create_log_dir_event(2))
    assert exists(fixture, "t")
    fixture.answer = lambda _, __: ControlResponse(ErrorCode.NONE)
    fixture.bounce(2)
    assert not exists(fixture, "t")


def test_requests_for_what_does_not_exist_are_removed() -> None:
    fixture = ControllerFixture().start(1)
    fixture.control(1)
    run(fixture.admin.create_delete_topic("nothing"))
    assert fixture.zk.paths("/admin/delete_topics/") == []


def test_deletion_can_be_disabled() -> None:
    fixture = ControllerFixture(ControllerConfig(delete_topic=False, auto_leader_rebalance=False)).start(1)
    fixture.control(1)
    fixture.topic("t", {0: [1]})
    run(fixture.admin.create_delete_topic("t"))
    assert fixture.zk.paths("/admin/delete_topics/") == []
    assert fixture.state("t-0") == "leader 1 epoch 0 isr 1 by 1"


def test_a_failover_goes_on_with_a_deletion() -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(1)
    fixture.control(2)
    fixture.topic("t", {0: [1, 2]})
    fixture.refuse.add(2)
    run(fixture.admin.create_delete_topic("t"))
    fixture.controller_clients[1].close()
    fixture.refuse.clear()
    fixture.clock.advance(1)
    assert not exists(fixture, "t")


# Reassignment


@pytest.mark.parametrize(
    ("current", "target", "expected"),
    [
        (PartitionAssignment((1, 2, 3)), (4, 5, 6), PartitionAssignment((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))),
        (PartitionAssignment((1, 2, 3)), (1, 2, 4), PartitionAssignment((1, 2, 4, 3), (4,), (3,))),
        (PartitionAssignment((1, 2)), (2, 1), PartitionAssignment((2, 1))),
        (
            PartitionAssignment((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3)),
            (1, 2, 7),
            PartitionAssignment((1, 2, 7, 3), (7,), (3,)),
        ),
        (PartitionAssignment((4, 1), (4,), (1,)), (1,), PartitionAssignment((1,))),
    ],
)
def test_reassign_to(current: PartitionAssignment, target: tuple[int, ...], expected: PartitionAssignment) -> None:
    assert reassign_to(current, target) == expected


def test_a_reassignment_step_by_step() -> None:
    fixture = ControllerFixture().start(1, 2, 3)
    controller = fixture.control(1)
    fixture.topic("t", {0: [1, 2]})
    fixture.take()
    answers = run(controller.alter_reassignments({tp("t-0"): [3, 2]}))
    assert answers == {tp("t-0"): (ErrorCode.NONE, "")}
    assert fixture.assignment("t-0") == "3,2,1 adding 3 removing 1"
    assert list(controller.list_reassignments(None)) == [tp("t-0")]
    assert fixture.take() == text("""
        1 <- lead/follow (1,2,3) t-0: 1/1 [1,2]
        1 <- metadata (1,2,3) t-0: 1/1 [1,2]
        2 <- lead/follow (1,2,3) t-0: 1/1 [1,2]
        2 <- metadata (1,2,3) t-0: 1/1 [1,2]
        3 <- lead/follow (1,2,3) t-0: 1/1 [1,2]
        3 <- metadata (1,2,3) t-0: 1/1 [1,2]
    """)
    fixture.leader_writes("t-0", [1, 2, 3], notify=False)
    assert fixture.take() == text("""
        1 <- metadata (1,2,3) t-0: 3/2 [2,3]
        1 <- stop t-0 at 2 and delete
        2 <- lead/follow (1,2,3) t-0: 3/2 [2,3]
        2 <- metadata (1,2,3) t-0: 3/2 [2,3]
        3 <- lead/follow (1,2,3) t-0: 3/2 [2,3]
        3 <- metadata (1,2,3) t-0: 3/2 [2,3]
    """)
    assert fixture.assignment("t-0") == "3,2"
    assert controller.list_reassignments(None) == {}


def test_a_reassignment_waits_if_a_target_replica_leaves_the_isr_before_the_completion_is_written() -> None:
    fixture = ControllerFixture().start(1, 2, 3)
    controller = fixture.control(1)
    fixture.topic("t", {0: [1, 2, 3]})
    client = fixture.controller_clients[1]

    def shrink_before_the_state_is_written(name: str, _: str) -> None:
        if name == "multi" and "removing" in fixture.assignment("t-0"):
            client.before = None
            fixture.leader_writes("t-0", [1, 3], notify=False)

    client.before = shrink_before_the_state_is_written
    fixture.take()
    assert run(controller.alter_reassignments({tp("t-0"): [1, 2]})) == {tp("t-0"): (ErrorCode.NONE, "")}
    assert fixture.assignment("t-0") == "1,2,3 removing 3"
    assert fixture.state("t-0") == "leader 1 epoch 1 isr 1,3 by 1"
    assert fixture.take() == text("""
        1 <- lead/follow (1,2,3) t-0: 1/1 [1,3]
        1 <- metadata (1,2,3) t-0: 1/1 [1,3]
        2 <- lead/follow (1,2,3) t-0: 1/1 [1,3]
        2 <- metadata (1,2,3) t-0: 1/1 [1,3]
        3 <- lead/follow (1,2,3) t-0: 1/1 [1,3]
        3 <- metadata (1,2,3) t-0: 1/1 [1,3]
    """)
    fixture.leader_writes("t-0", [1, 3, 2], notify=False)
    assert fixture.assignment("t-0") == "1,2"
    assert fixture.state("t-0") == "leader 1 epoch 2 isr 1,2 by 1"
    assert "3 <- stop t-0 at 2 and delete" in fixture.take()


def test_an_order_of_replicas_does_not_wait_for_their_isr() -> None:
    fixture = ControllerFixture().start(1, 2)
    controller = fixture.control(1)
    fixture.topic("t", {0: [1, 2]})
    fixture.leader_writes("t-0", [1])
    assert run(controller.alter_reassignments({tp("t-0"): [2, 1]})) == {tp("t-0"): (ErrorCode.NONE, "")}
    assert fixture.assignment("t-0") == "2,1"
    assert fixture.state("t-0") == "leader 1 epoch 1 isr 1 by 1"
    assert controller.list_reassignments(None) == {}


def test_a_reassignment_by_znode() -> None:
    fixture = ControllerFixture().start(1, 2, 3)
    fixture.control(1)
    fixture.topic("t", {0: [1, 2]})
    fixture.request_reassignments({tp("t-0"): (3,), tp("t-9"): (1,), tp("x-0"): (1,)})
    assert fixture.zk.data("/admin/reassign_partitions") == (
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3]}]}'
    )
    fixture.leader_writes("t-0", [1, 2, 3])
    assert fixture.assignment("t-0") == "3"
    assert fixture.state("t-0") == "leader 3 epoch 2 isr 3 by 1"
    assert "/admin/reassign_partitions" not in fixture.zk.tree.nodes


def test_a_reassignment_by_znode_is_overridden_by_the_api() -> None:
    fixture = ControllerFixture().start(1, 2, 3)
    controller = fixture.control(1)
    fixture.topic("t", {0: [1]})
    fixture.request_reassignments({tp("t-0"): (3,)})
    run(controller.alter_reassignments({tp("t-0"): [2]}))
    assert fixture.assignment("t-0") == "2,1 adding 2 removing 1"
    assert "/admin/reassign_partitions" not in fixture.zk.tree.nodes


def test_a_reassignment_is_cancelled() -> None:
    fixture = ControllerFixture().start(1, 2, 3)
    controller = fixture.control(1)
    fixture.topic("t", {0: [1, 2]})
    run(controller.alter_reassignments({tp("t-0"): [3]}))
    fixture.take()
    assert run(controller.alter_reassignments({tp("t-0"): None})) == {tp("t-0"): (ErrorCode.NONE, "")}
    assert fixture.assignment("t-0") == "1,2"
    assert fixture.state("t-0") == "leader 1 epoch 2 isr 1,2 by 1"
    assert "3 <- stop t-0 at 2 and delete" in fixture.take()
    assert controller.list_reassignments(None) == {}


def test_a_cancellation_that_would_lose_the_data_is_refused() -> None:
    fixture = ControllerFixture().start(1, 3)
    controller = fixture.control(1)
    fixture.topic("t", {0: [1]})
    run(controller.alter_reassignments({tp("t-0"): [3]}))
    client = fixture.client
    state = fixture.read("t-0")
    assert state is not None
    # The target leads alone, but the controller has not completed the move yet.
    from kafkalite.zk.znodes import topics

    controller._processor.active._watches.clear()  # type: ignore[union-attr]
    fixture.controller_clients[1]._data_watches.clear()
    run(client.set(topics.state_path(tp("t-0")), topics.encode_state(state.with_(leader=3, isr=(3,)))))
    (code, message) = run(controller.alter_reassignments({tp("t-0"): None}))[tp("t-0")]
    assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "[3]" in message


def test_a_cancellation_takes_no_replica_out_of_the_isr_that_would_leave_one_member_alone() -> None:
    """The machine of that member may have lost power, although its session has not ended yet."""
    fixture = ControllerFixture().start(1, 2, 3, 4)
    controller = fixture.control(1)
    fixture.topic("t", {0: [1, 2, 3]})
    run(controller.alter_reassignments({tp("t-0"): [4, 1, 2]}))
    fixture.leader_writes("t-0", (1, 4))
    (code, message) = run(controller.alter_reassignments({tp("t-0"): None}))[tp("t-0")]
    assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "Without the replicas [4]" in message
    assert fixture.assignment("t-0") == "4,1,2,3 adding 4 removing 3"
    fixture.leader_writes("t-0", (1, 4, 3))
    assert run(controller.alter_reassignments({tp("t-0"): None})) == {tp("t-0"): (ErrorCode.NONE, "")}
    assert fixture.assignment("t-0") == "1,2,3"
    assert fixture.state("t-0").endswith("isr 1,3 by 1")


@pytest.mark.parametrize("target", [None, [2, 1, 3]], ids=["cancelled", "changed"])
def test_a_reassignment_goes_on_if_the_isr_shrinks_while_it_is_cancelled_or_changed(target: list[int] | None) -> None:
    """The leader changes the ISR after the controller has read it: the replica that was to go keeps its log."""
    fixture = ControllerFixture().start(1, 2, 3, 4)
    controller = fixture.control(1)
    fixture.topic("t", {0: [1, 2, 3]})
    run(controller.alter_reassignments({tp("t-0"): [4, 1, 2]}))
    fixture.leader_writes("t-0", (1, 3, 4))
    client = fixture.controller_clients[1]

    def shrink_before_the_state_is_written(name: str, _: str) -> None:
        if name == "multi" and "4" not in fixture.assignment("t-0"):
            client.before = None
            fixture.leader_writes("t-0", (1, 4), notify=False)

    client.before = shrink_before_the_state_is_written
    fixture.take()
    (code, message) = run(controller.alter_reassignments({tp("t-0"): target}))[tp("t-0")]
    assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "Without the replicas [4]" in message
    assert fixture.assignment("t-0") == "4,1,2,3 adding 4 removing 3"
    assert fixture.state("t-0").endswith("isr 1,4 by 1")
    requests = fixture.take()
    assert "stop t-0" not in requests
    for replica in (1, 2, 3, 4):
        assert f"{replica} <- lead/follow (1,2,3,4) t-0: 1/2 [1,4]" in requests, "all learn under a new leader epoch"
    fixture.leader_writes("t-0", (1, 4, 2))
    assert fixture.assignment("t-0") == "4,1,2"


@pytest.mark.parametrize(
    ("name", "target", "code"),
    [
        ("t-0", [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t-0", [1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t-0", [-1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t-0", [9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t-1", [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t-0", None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("t-1", None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_wrong_reassignments_are_refused(name: str, target: list[int] | None, code: ErrorCode) -> None:
    fixture = ControllerFixture().start(1, 2)
    controller = fixture.control(1)
    fixture.topic("t", {0: [1, 2]})
    assert run(controller.alter_reassignments({tp(name): target}))[tp(name)][0] is code
    assert fixture.assignment("t-0") == "1,2"


def test_deletion_waits_for_a_reassignment() -> None:
    fixture = ControllerFixture().start(1, 2)
    controller = fixture.control(1)
    fixture.topic("t", {0: [1]})
    run(controller.alter_reassignments({tp("t-0"): [2]}))
    run(fixture.admin.create_delete_topic("t"))
    assert exists(fixture, "t")
    fixture.leader_writes("t-0", [1, 2])
    assert not exists(fixture, "t")


# Elections that are asked for


def moved(fixture: ControllerFixture) -> None:
    """Broker 2 leads what broker 1 should."""
    fixture.kill(1)
    fixture.start(1)
    for name in ("t-0", "t-1"):
        fixture.leader_writes(name, [2, 1])


def test_preferred_election_by_api() -> None:
    fixture = ControllerFixture().start(1, 2)
    controller = fixture.control(2)
    fixture.topic("t", {0: [1, 2], 1: [1, 2], 2: [2, 1]})
    moved(fixture)
    fixture.leader_writes("t-1", [2])
    answers = run(controller.elect_leaders("preferred", [tp("t-0"), tp("t-1"), tp("t-2"), tp("x-0")]))
    assert {str(key): code.name for key, (code, _) in answers.items()} == {
        "t-0": "NONE",
        "t-1": "PREFERRED_LEADER_NOT_AVAILABLE",
        "t-2": "ELECTION_NOT_NEEDED",
        "x-0": "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert fixture.state("t-0") == "leader 1 epoch 3 isr 2,1 by 1"
    assert list(run(controller.elect_leaders("preferred", None))) == [tp("t-1")]


def test_unclean_election_by_api() -> None:
    fixture = ControllerFixture().start(1, 2, 3)
    controller = fixture.control(3)
    fixture.topic("t", {0: [1, 2]})
    fixture.leader_writes("t-0", [1])
    fixture.kill(1)
    assert fixture.state("t-0") == "leader -1 epoch 1 isr 1 by 1"
    assert run(controller.elect_leaders("unclean", [tp("t-0")])) == {tp("t-0"): (ErrorCode.NONE, "")}
    assert fixture.state("t-0") == "leader 2 epoch 2 isr 2 by 1"


def test_preferred_election_by_znode() -> None:
    fixture = ControllerFixture().start(1, 2)
    fixture.control(2)
    fixture.topic("t", {0: [1, 2], 1: [1, 2]})
    for _ in range(2):
        moved(fixture)
        run(
            fixture.client.create(
                "/admin/preferred_replica_election",
                b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"nothing","partition":0}]}',
            )
        )
        state = fixture.read("t-0")
        assert state is not None and state.leader == 1
        assert "/admin/preferred_replica_election" not in fixture.zk.tree.nodes


@pytest.mark.parametrize(("percentage", "leader"), [(10, 1), (100, 2)])
def test_auto_rebalance(percentage: int, leader: int) -> None:
    fixture = ControllerFixture(ControllerConfig(leader_imbalance_per_broker_percentage=percentage)).start(1, 2)
    fixture.control(2)
    fixture.topic("t", {0: [1, 2], 1: [1, 2]})
    fixture.clock.advance(6)
    moved(fixture)
    state = fixture.read("t-0")
    assert state is not None and state.leader == 2
    fixture.clock.advance(301)
    state = fixture.read("t-0")
    assert state is not None and state.leader == leader


# Every interrupted transition


def prepare() -> ControllerFixture:
    fixture = ControllerFixture().start(1, 2, 3)
    fixture.control(1)
    fixture.control(2)
    fixture.topic("t", {0: [3, 1], 1: [1, 3], 2: [2, 3]})
    fixture.topic("gone", {0: [1, 2], 1: [3, 1]})
    return fixture


def kill_broker(fixture: ControllerFixture) -> None:
    fixture.kill(3)


def delete_topic(fixture: ControllerFixture) -> None:
    run(fixture.admin.create_delete_topic("gone"))


def move_replicas(fixture: ControllerFixture) -> None:
    fixture.request_reassignments({tp("t-0"): (2, 1), tp("t-1"): (2,)})


def finish_move(fixture: ControllerFixture) -> None:
    move_replicas(fixture)
    for name in ("t-0", "t-1"):
        state = fixture.read(name)
        assert state is not None
        isr = dict.fromkeys((*state.isr, 2))
        if state.leader != 2:
            fixture.leader_writes(name, list(isr))


def new_topic(fixture: ControllerFixture) -> None:
    fixture.topic("new", {0: [1, 2], 1: [2, 3]})


def picture(fixture: ControllerFixture) -> dict[str, str]:
    """What ZooKeeper says, without the counters that a second attempt may raise."""
    found = {}
    for path in fixture.zk.paths("/brokers/topics/"):
        parts = path.split("/")
        if path.endswith("/state"):
            state = fixture.read(f"{parts[3]}-{parts[5]}")
            assert state is not None
            found[path] = f"leader {state.leader} isr {sorted(state.isr)}"
        elif len(parts) == 4:
            found[path] = str(fixture.zk.data(path).partition(b'"topic_id"')[0])
            found[path] += str(fixture.zk.data(path).partition(b'"adding_replicas"')[2])
    found["admin znodes"] = ",".join(path for path in fixture.zk.paths("/admin/") if path.count("/") > 2)
    return found


@pytest.mark.parametrize("scenario", [kill_broker, delete_topic, move_replicas, finish_move, new_topic])
def test_the_next_controller_finishes_an_interrupted_operation(
    scenario: Callable[[ControllerFixture], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # One operation in each multi, so that a crash may come between any two operations.
    monkeypatch.setattr("kafkalite.zk.stores.fenced_write.bundles", partial(bundles, max_ops=1))
    undisturbed = prepare()
    scenario(undisturbed)
    expected = picture(undisturbed)
    crashes = 0
    for survived in range(60):
        fixture = prepare()
        client = fixture.controller_clients[1]
        left = [survived]

        def before(name: str, _: str) -> None:
            """The controller makes ``survived`` more writes, then its process dies."""
            if name in ("multi", "set", "create", "delete"):
                left[0] -= 1  # noqa: B023
                if left[0] < 0 and client.state.value == "connected":  # noqa: B023
                    client.lose_connection()  # noqa: B023

        client.before = before
        try:
            scenario(fixture)
        finally:
            client.before = None
        if left[0] >= 0:
            break
        crashes += 1
        fixture.zk.expire(client.session)
        fixture.clock.advance(5)
        assert fixture.controllers[2].is_active
        if scenario is finish_move:
            # The leader goes on telling who is in sync.
            for name in ("t-0", "t-1"):
                state = fixture.read(name)
                assert state is not None
                if set(state.isr) != {2, 1} and set(state.isr) != {2}:
                    fixture.leader_writes(name, list(dict.fromkeys((*state.isr, 2))))
        assert picture(fixture) == expected, f"after {survived} writes"
    assert crashes > 0
    assert left[0] >= 0, "more writes than were tried"

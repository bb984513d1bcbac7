"""Topics that go and replicas that move, as transcripts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from textwrap import dedent

import pytest

from kafkalite.cluster.control import ControlRequest, ControlResponse, LeaderAndIsrRequest, StopReplicaRequest
from kafkalite.cluster.model import PartitionAssignment
from kafkalite.common.errors import ErrorCode
from kafkalite.controller.controller_config import ControllerConfig
from kafkalite.controller.partition_reassignments import reassign_to
from kafkalite.zk.stores.batches import bundles

from .harness import House, run, tp


def text(expected: str) -> str:
    return dedent(expected).strip()


def exists(house: House, topic: str) -> bool:
    return any(topic in path.split("/") for path in house.zk.paths())


# Deletion


def test_a_topic_is_deleted() -> None:
    house = House().start(1, 2)
    house.control(1)
    house.topic("t", {0: [1, 2]}, {"retention.ms": "1"})
    house.take()
    house.mute.update((1, 2))
    run(house.admin.create_delete_topic("t"))
    assert house.take() == text("""
        1 <- metadata (1,2) t-0: -2/-1 [none]
        2 <- metadata (1,2) t-0: -2/-1 [none]
    """)
    house.release()
    assert house.take() == text("""
        1 <- stop t-0 at -2 and delete
        2 <- stop t-0 at -2 and delete
    """)
    assert not exists(house, "t")


# trap: kafkalite/controller/topic_deletion.py: A topic recreated too soon meets replicas of the deleted one: the paths
# go only after every replica has acknowledged.
def test_the_paths_stay_until_every_replica_has_acknowledged() -> None:
    house = House().start(1, 2)
    house.control(1)
    house.topic("t", {0: [1, 2]})
    house.refuse.add(2)
    run(house.admin.create_delete_topic("t"))
    assert exists(house, "t")
    house.refuse.clear()
    house.clock.advance(1)
    assert not exists(house, "t")


def test_deletion_waits_for_a_broker_that_is_down() -> None:
    house = House().start(1, 2)
    house.control(1)
    old = house.topic("t", {0: [1, 2]})
    house.kill(2)
    run(house.admin.create_delete_topic("t"))
    assert exists(house, "t")
    house.take()
    house.start(2)
    assert "2 <- stop t-0 at -2 and delete" in house.take()
    assert not exists(house, "t")
    new = house.topic("t", {0: [1, 2]})
    assert new != old
    assert house.state("t-0") == "leader 1 epoch 0 isr 1,2 by 1"


def test_deletion_meets_a_failing_broker_and_goes_on_after_its_return() -> None:
    house = House().start(1, 2)
    house.control(1)
    house.topic("t", {0: [1, 2]})
    house.refuse.add(2)
    run(house.admin.create_delete_topic("t"))
    house.kill(2)
    house.refuse.clear()
    assert exists(house, "t")
    house.start(2)
    assert not exists(house, "t")


def test_a_replica_that_could_not_be_deleted_is_tried_again_after_a_restart() -> None:
    house = House().start(1, 2)
    house.control(1)
    house.topic("t", {0: [1, 2]})

    def fail(broker_id: int, request: ControlRequest) -> ControlResponse:
        if broker_id == 2 and isinstance(request, StopReplicaRequest):
            return ControlResponse(ErrorCode.NONE, ((tp("t-0"), ErrorCode.KAFKA_STORAGE_ERROR),))
        return ControlResponse(ErrorCode.NONE)

    house.answer = fail
    run(house.admin.create_delete_topic("t"))
    assert exists(house, "t")
    house.answer = lambda _, __: ControlResponse(ErrorCode.NONE)
    house.bounce(2)
    assert not exists(house, "t")


def test_broker_that_restarts_while_its_topic_is_being_deleted_is_told_again() -> None:
    """It finds the topic in ZooKeeper still, and makes the log that it had deleted."""
    house = House().start(1, 2, 3)
    house.control(3)
    house.topic("t", {0: [1, 2]})
    house.kill(2)
    run(house.admin.create_delete_topic("t"))
    assert "1 <- stop t-0 at -2 and delete" in house.take()
    house.kill(1)
    house.start(1)
    assert "1 <- stop t-0 at -2 and delete" in house.take()
    assert exists(house, "t"), "broker 2 has its log still"
    house.refuse.add(1)
    house.bounce(1)
    house.start(2)
    assert exists(house, "t"), "broker 1 has not answered since it restarted"
    house.refuse.clear()
    house.clock.advance(1)
    assert not exists(house, "t")


def refuse_the_log(broker_id: int, request: ControlRequest) -> ControlResponse:
    """The answers where the disk of broker 2 has no room for a new log."""
    if broker_id == 2 and isinstance(request, LeaderAndIsrRequest):
        errors = tuple((state.topic_partition, ErrorCode.KAFKA_STORAGE_ERROR) for state in request.states)
        return ControlResponse(ErrorCode.NONE, errors)
    return ControlResponse(ErrorCode.NONE)


def test_deletion_goes_on_when_the_broker_asks_again_for_a_log_that_its_disk_refused() -> None:
    house = House().start(1, 2)
    house.control(1)
    house.answer = refuse_the_log
    house.topic("t", {0: [1, 2]})
    run(house.admin.create_delete_topic("t"))
    assert exists(house, "t")
    house.take()
    run(house.notifications.create_log_dir_event(2))
    assert "2 <- stop t-0 at -2 and delete" in house.take()
    assert not exists(house, "t")


def test_deletion_goes_on_when_the_broker_answers_that_its_disk_has_taken_the_log() -> None:
    house = House().start(1, 2)
    house.control(1)
    house.answer = refuse_the_log
    house.topic("t", {0: [1, 2]})
    house.answer = lambda _, __: ControlResponse(ErrorCode.NONE)
    house.mute.add(2)
    run(house.notifications.create_log_dir_event(2))
    run(house.admin.create_delete_topic("t"))
    house.take()
    house.release()
    assert house.take() == text("""
        1 <- metadata (1,2) t-0: -2/-1 [none]
        2 <- metadata (1,2) t-0: -2/-1 [none]
        2 <- stop t-0 at -2 and delete
    """)
    assert not exists(house, "t")


def test_deletion_waits_for_a_broker_whose_log_directory_failed() -> None:
    house = House().start(1, 2)
    house.control(1)
    house.topic("t", {0: [1, 2]})
    house.answer = lambda broker_id, _: ControlResponse(
        ErrorCode.NONE, ((tp("t-0"), ErrorCode.KAFKA_STORAGE_ERROR),) if broker_id == 2 else ()
    )
    run(house.notifications.create_log_dir_event(2))
    run(house.admin.create_delete_topic("t"))
    run(house.notifications.create_log_dir_event(2))
    assert exists(house, "t")
    house.answer = lambda _, __: ControlResponse(ErrorCode.NONE)
    house.bounce(2)
    assert not exists(house, "t")


def test_wishes_for_nothing_are_removed() -> None:
    house = House().start(1)
    house.control(1)
    run(house.admin.create_delete_topic("nothing"))
    assert house.zk.paths("/admin/delete_topics/") == []


def test_deletion_can_be_disabled() -> None:
    house = House(ControllerConfig(delete_topic=False, auto_leader_rebalance=False)).start(1)
    house.control(1)
    house.topic("t", {0: [1]})
    run(house.admin.create_delete_topic("t"))
    assert house.zk.paths("/admin/delete_topics/") == []
    assert house.state("t-0") == "leader 1 epoch 0 isr 1 by 1"


def test_a_failover_goes_on_with_a_deletion() -> None:
    house = House().start(1, 2)
    house.control(1)
    house.control(2)
    house.topic("t", {0: [1, 2]})
    house.refuse.add(2)
    run(house.admin.create_delete_topic("t"))
    house.controller_clients[1].close()
    house.refuse.clear()
    house.clock.advance(1)
    assert not exists(house, "t")


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
    house = House().start(1, 2, 3)
    controller = house.control(1)
    house.topic("t", {0: [1, 2]})
    house.take()
    answers = run(controller.alter_reassignments({tp("t-0"): [3, 2]}))
    assert answers == {tp("t-0"): (ErrorCode.NONE, "")}
    assert house.assignment("t-0") == "3,2,1 adding 3 removing 1"
    assert list(controller.list_reassignments(None)) == [tp("t-0")]
    assert house.take() == text("""
        1 <- lead/follow (1,2,3) t-0: 1/1 [1,2]
        1 <- metadata (1,2,3) t-0: 1/1 [1,2]
        2 <- lead/follow (1,2,3) t-0: 1/1 [1,2]
        2 <- metadata (1,2,3) t-0: 1/1 [1,2]
        3 <- lead/follow (1,2,3) t-0: 1/1 [1,2]
        3 <- metadata (1,2,3) t-0: 1/1 [1,2]
    """)
    house.leader_writes("t-0", [1, 2, 3], notify=False)
    assert house.take() == text("""
        1 <- metadata (1,2,3) t-0: 3/2 [2,3]
        1 <- stop t-0 at 2 and delete
        2 <- lead/follow (1,2,3) t-0: 3/2 [2,3]
        2 <- metadata (1,2,3) t-0: 3/2 [2,3]
        3 <- lead/follow (1,2,3) t-0: 3/2 [2,3]
        3 <- metadata (1,2,3) t-0: 3/2 [2,3]
    """)
    assert house.assignment("t-0") == "3,2"
    assert controller.list_reassignments(None) == {}


def test_a_reassignment_by_znode() -> None:
    house = House().start(1, 2, 3)
    house.control(1)
    house.topic("t", {0: [1, 2]})
    house.request_reassignments({tp("t-0"): (3,), tp("t-9"): (1,), tp("x-0"): (1,)})
    assert house.zk.data("/admin/reassign_partitions") == (
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3]}]}'
    )
    house.leader_writes("t-0", [1, 2, 3])
    assert house.assignment("t-0") == "3"
    assert house.state("t-0") == "leader 3 epoch 2 isr 3 by 1"
    assert "/admin/reassign_partitions" not in house.zk.tree.nodes


def test_a_reassignment_by_znode_is_overridden_by_the_api() -> None:
    house = House().start(1, 2, 3)
    controller = house.control(1)
    house.topic("t", {0: [1]})
    house.request_reassignments({tp("t-0"): (3,)})
    run(controller.alter_reassignments({tp("t-0"): [2]}))
    assert house.assignment("t-0") == "2,1 adding 2 removing 1"
    assert "/admin/reassign_partitions" not in house.zk.tree.nodes


def test_a_reassignment_is_cancelled() -> None:
    house = House().start(1, 2, 3)
    controller = house.control(1)
    house.topic("t", {0: [1, 2]})
    run(controller.alter_reassignments({tp("t-0"): [3]}))
    house.take()
    assert run(controller.alter_reassignments({tp("t-0"): None})) == {tp("t-0"): (ErrorCode.NONE, "")}
    assert house.assignment("t-0") == "1,2"
    assert house.state("t-0") == "leader 1 epoch 2 isr 1,2 by 1"
    assert "3 <- stop t-0 at 2 and delete" in house.take()
    assert controller.list_reassignments(None) == {}


def test_a_cancellation_that_would_lose_the_data_is_refused() -> None:
    house = House().start(1, 3)
    controller = house.control(1)
    house.topic("t", {0: [1]})
    run(controller.alter_reassignments({tp("t-0"): [3]}))
    client = house.client
    state = house.read("t-0")
    assert state is not None
    # The target leads alone, but the controller has not completed the move yet.
    from kafkalite.zk.znodes import topics

    controller._processor.active._watches.clear()  # type: ignore[union-attr]
    house.controller_clients[1]._data_watches.clear()
    run(client.set(topics.state_path(tp("t-0")), topics.encode_state(state.with_(leader=3, isr=(3,)))))
    (code, message) = run(controller.alter_reassignments({tp("t-0"): None}))[tp("t-0")]
    assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "[3]" in message


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
    house = House().start(1, 2)
    controller = house.control(1)
    house.topic("t", {0: [1, 2]})
    assert run(controller.alter_reassignments({tp(name): target}))[tp(name)][0] is code
    assert house.assignment("t-0") == "1,2"


def test_deletion_waits_for_a_reassignment() -> None:
    house = House().start(1, 2)
    controller = house.control(1)
    house.topic("t", {0: [1]})
    run(controller.alter_reassignments({tp("t-0"): [2]}))
    run(house.admin.create_delete_topic("t"))
    assert exists(house, "t")
    house.leader_writes("t-0", [1, 2])
    assert not exists(house, "t")


# Elections that are asked for


def moved(house: House) -> None:
    """Broker 2 leads what broker 1 should."""
    house.kill(1)
    house.start(1)
    for name in ("t-0", "t-1"):
        house.leader_writes(name, [2, 1])


def test_preferred_election_by_api() -> None:
    house = House().start(1, 2)
    controller = house.control(2)
    house.topic("t", {0: [1, 2], 1: [1, 2], 2: [2, 1]})
    moved(house)
    house.leader_writes("t-1", [2])
    answers = run(controller.elect_leaders("preferred", [tp("t-0"), tp("t-1"), tp("t-2"), tp("x-0")]))
    assert {str(key): code.name for key, (code, _) in answers.items()} == {
        "t-0": "NONE",
        "t-1": "PREFERRED_LEADER_NOT_AVAILABLE",
        "t-2": "ELECTION_NOT_NEEDED",
        "x-0": "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert house.state("t-0") == "leader 1 epoch 3 isr 2,1 by 1"
    assert list(run(controller.elect_leaders("preferred", None))) == [tp("t-1")]


def test_unclean_election_by_api() -> None:
    house = House().start(1, 2, 3)
    controller = house.control(3)
    house.topic("t", {0: [1, 2]})
    house.leader_writes("t-0", [1])
    house.kill(1)
    assert house.state("t-0") == "leader -1 epoch 1 isr 1 by 1"
    assert run(controller.elect_leaders("unclean", [tp("t-0")])) == {tp("t-0"): (ErrorCode.NONE, "")}
    assert house.state("t-0") == "leader 2 epoch 2 isr 2 by 1"


def test_preferred_election_by_znode() -> None:
    house = House().start(1, 2)
    house.control(2)
    house.topic("t", {0: [1, 2], 1: [1, 2]})
    for _ in range(2):
        moved(house)
        run(
            house.client.create(
                "/admin/preferred_replica_election",
                b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"nothing","partition":0}]}',
            )
        )
        state = house.read("t-0")
        assert state is not None and state.leader == 1
        assert "/admin/preferred_replica_election" not in house.zk.tree.nodes


@pytest.mark.parametrize(("percentage", "leader"), [(10, 1), (100, 2)])
def test_auto_rebalance(percentage: int, leader: int) -> None:
    house = House(ControllerConfig(leader_imbalance_per_broker_percentage=percentage)).start(1, 2)
    house.control(2)
    house.topic("t", {0: [1, 2], 1: [1, 2]})
    house.clock.advance(6)
    moved(house)
    state = house.read("t-0")
    assert state is not None and state.leader == 2
    house.clock.advance(301)
    state = house.read("t-0")
    assert state is not None and state.leader == leader


# Every interrupted transition


def prepare() -> House:
    house = House().start(1, 2, 3)
    house.control(1)
    house.control(2)
    house.topic("t", {0: [3, 1], 1: [1, 3], 2: [2, 3]})
    house.topic("gone", {0: [1, 2], 1: [3, 1]})
    return house


def kill_broker(house: House) -> None:
    house.kill(3)


def delete_topic(house: House) -> None:
    run(house.admin.create_delete_topic("gone"))


def move_replicas(house: House) -> None:
    house.request_reassignments({tp("t-0"): (2, 1), tp("t-1"): (2,)})


def finish_move(house: House) -> None:
    move_replicas(house)
    for name in ("t-0", "t-1"):
        state = house.read(name)
        assert state is not None
        isr = dict.fromkeys((*state.isr, 2))
        if state.leader != 2:
            house.leader_writes(name, list(isr))


def new_topic(house: House) -> None:
    house.topic("new", {0: [1, 2], 1: [2, 3]})


def picture(house: House) -> dict[str, str]:
    """What ZooKeeper says, without the counters that a second attempt may raise."""
    found = {}
    for path in house.zk.paths("/brokers/topics/"):
        parts = path.split("/")
        if path.endswith("/state"):
            state = house.read(f"{parts[3]}-{parts[5]}")
            assert state is not None
            found[path] = f"leader {state.leader} isr {sorted(state.isr)}"
        elif len(parts) == 4:
            found[path] = str(house.zk.data(path).partition(b'"topic_id"')[0])
            found[path] += str(house.zk.data(path).partition(b'"adding_replicas"')[2])
    found["wishes"] = ",".join(path for path in house.zk.paths("/admin/") if path.count("/") > 2)
    return found


@pytest.mark.parametrize("scenario", [kill_broker, delete_topic, move_replicas, finish_move, new_topic])
def test_whatever_is_interrupted_is_brought_to_its_end_by_the_next_controller(
    scenario: Callable[[House], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # One operation a transaction, so that a crash may come between any two.
    monkeypatch.setattr("kafkalite.zk.stores.fenced_write.bundles", partial(bundles, max_ops=1))
    undisturbed = prepare()
    scenario(undisturbed)
    expected = picture(undisturbed)
    crashes = 0
    for survived in range(60):
        house = prepare()
        client = house.controller_clients[1]
        left = [survived]

        def before(name: str, _: str) -> None:
            """The controller makes so many more writes, then its process is no more."""
            if name in ("multi", "set", "create", "delete"):
                left[0] -= 1  # noqa: B023
                if left[0] < 0 and client.state.value == "connected":  # noqa: B023
                    client.lose_connection()  # noqa: B023

        client.before = before
        try:
            scenario(house)
        finally:
            client.before = None
        if left[0] >= 0:
            break
        crashes += 1
        house.zk.expire(client.session)
        house.clock.advance(5)
        assert house.controllers[2].is_active
        if scenario is finish_move:
            # The leader goes on telling who is in sync.
            for name in ("t-0", "t-1"):
                state = house.read(name)
                assert state is not None
                if set(state.isr) != {2, 1} and set(state.isr) != {2}:
                    house.leader_writes(name, list(dict.fromkeys((*state.isr, 2))))
        assert picture(house) == expected, f"after {survived} writes"
    assert crashes > 0
    assert left[0] >= 0, "more writes than were tried"

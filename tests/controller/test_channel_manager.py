"""What one event says, in as few requests as can be, and that it arrives."""

from __future__ import annotations

import uuid

from kafkalite.cluster.control import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from kafkalite.cluster.model import Broker, LeaderAndIsr, PartitionAssignment
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future
from kafkalite.common.types import TopicPartition
from kafkalite.controller.channel_manager import (
    ControllerChannelManager,
    leader_and_isr_answer,
    stop_replica_answer,
)
from kafkalite.controller.controller_context import ControllerContext
from kafkalite.controller.replica_leader_elections import imbalanced
from kafkalite.controller.request_batch import ControllerBrokerRequestBatch
from kafkalite.testing.clock import ManualClock
from kafkalite.zk.znodes.topics import TopicAssignment

TP = TopicPartition("t", 0)
ID = uuid.UUID(int=7)
ONE, TWO = Broker(1, (), epoch=11), Broker(2, (), epoch=12)


def context() -> ControllerContext:
    found = ControllerContext(brokers={1: ONE, 2: TWO})
    found.put_topic("t", TopicAssignment(ID, {0: PartitionAssignment((1, 2))}), 0)
    found.set_state(LeaderAndIsr("t", 0, leader=1, leader_epoch=0, isr=(1, 2), zk_version=0))
    return found


def test_many_changes_are_one_request_of_a_kind() -> None:
    known = context()
    batch = ControllerBrokerRequestBatch(known, 1, 5)
    for epoch in range(3):
        batch.add_partition(known.states[TP].with_(leader_epoch=epoch))
    requests = batch.take()
    assert [(broker.id, type(request)) for broker, request in requests] == [
        (1, LeaderAndIsrRequest),
        (1, UpdateMetadataRequest),
        (2, LeaderAndIsrRequest),
        (2, UpdateMetadataRequest),
    ]
    for broker, request in requests:
        assert isinstance(request, (LeaderAndIsrRequest, UpdateMetadataRequest))
        assert (request.controller_id, request.controller_epoch, request.broker_epoch) == (1, 5, broker.epoch)
        assert [state.leader_epoch for state in request.states] == [2]
        assert request.states[0].topic_id == ID
    assert batch.take() == []


def test_the_last_word_counts() -> None:
    known = context()
    batch = ControllerBrokerRequestBatch(known, 1, 5)
    batch.add_leader_and_isr(1, known.states[TP])
    batch.add_stop_replica(1, TP, 3, delete=True)
    batch.add_stop_replica(2, TP, 3, delete=True)
    batch.add_leader_and_isr(2, known.states[TP])
    batch.add_stop_replica(9, TP, 3, delete=True)
    (first, stop), (second, order) = batch.take()
    assert isinstance(stop, StopReplicaRequest) and isinstance(order, LeaderAndIsrRequest)
    assert (first.id, second.id) == (1, 2)
    assert stop.partitions[0].topic_id == ID


def test_answers() -> None:
    state = context().states[TP]
    request = LeaderAndIsrRequest(1, 5, 12, (state,), ())
    broken = ControlResponse(ErrorCode.NONE, ((TP, ErrorCode.KAFKA_STORAGE_ERROR),))
    well = ControlResponse(ErrorCode.NONE)
    news = leader_and_isr_answer(TWO, request, broken, {})
    assert news is not None and (news.offline, news.online) == ((TP,), ())
    assert leader_and_isr_answer(TWO, request, broken, {2: {TP}}) is None
    back = leader_and_isr_answer(TWO, request, well, {2: {TP}})
    assert back is not None and (back.offline, back.online) == ((), (TP,))
    assert leader_and_isr_answer(TWO, request, well, {}) is None
    known = context()
    batch = ControllerBrokerRequestBatch(known, 1, 5)
    batch.add_stop_replica(2, TP, -2, delete=True)
    ((_, stop),) = batch.take()
    assert isinstance(stop, StopReplicaRequest)
    for code, deleted in ((ErrorCode.NONE, True), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)):
        answer = stop_replica_answer(TWO, stop, ControlResponse(ErrorCode.NONE, ((TP, code),)))
        assert answer is not None and bool(answer.deleted) is deleted
    failed = stop_replica_answer(TWO, stop, ControlResponse(ErrorCode.UNKNOWN_SERVER_ERROR))
    assert failed is not None and failed.failed == (TP,)
    assert stop_replica_answer(TWO, stop, ControlResponse(ErrorCode.STALE_BROKER_EPOCH)) is None


def test_imbalance() -> None:
    known = context()
    assert imbalanced(known, 10) == []
    known.set_state(known.states[TP].with_(leader=2))
    assert imbalanced(known, 10) == [TP]
    assert imbalanced(known, 100) == []
    known.set_state(known.states[TP].with_(isr=(2,)))
    assert imbalanced(known, 10) == []


class Wire:
    """A channel whose answers the test gives."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, ControlRequest, Future[ControlResponse]]] = []

    def send(self, broker: Broker, request: ControlRequest) -> Future[ControlResponse]:
        future: Future[ControlResponse] = Future()
        self.asked.append((broker.id, request, future))
        return future


def test_one_at_a_time_in_order_and_again_until_answered() -> None:
    wire, clock, heard = Wire(), ManualClock(), list[int]()
    channels = ControllerChannelManager(wire, clock, 0.1, lambda broker, _, __: heard.append(broker.id))
    channels.add_broker(ONE)
    channels.add_broker(TWO)
    first, second = (LeaderAndIsrRequest(1, epoch, 11, (), ()) for epoch in (5, 6))
    for request in (first, second):
        channels.send(ONE, request)
    channels.send(TWO, first)
    assert [(broker_id, request) for broker_id, request, _ in wire.asked] == [(1, first), (2, first)]
    clock.advance(0.25)
    channels.send(ONE, second)
    wire.asked[0][2].errback(OSError("gone"))
    clock.advance(0.25)
    assert wire.asked[2][:2] == (1, first)
    wire.asked[2][2].callback(ControlResponse(ErrorCode.NONE))
    assert wire.asked[3][:2] == (1, second)
    assert heard == [1]
    # The second request waited since it was sent first, and is one with its repetition.
    assert {broker_id: list(times.latest) for broker_id, times in channels.queue_times.items()} == {
        1: [0, 0.5],
        2: [0],
    }


def test_another_incarnation_gets_nothing_of_the_old_ones() -> None:
    wire, clock, heard = Wire(), ManualClock(), list[int]()
    channels = ControllerChannelManager(wire, clock, 0.1, lambda broker, _, __: heard.append(broker.epoch))
    channels.add_broker(ONE)
    request = LeaderAndIsrRequest(1, 5, 11, (), ())
    channels.send(ONE, request)
    channels.send(ONE, request)
    again = Broker(1, (), epoch=99)
    channels.add_broker(again)
    channels.send(ONE, request)
    wire.asked[0][2].callback(ControlResponse(ErrorCode.NONE))
    clock.advance(1)
    assert (len(wire.asked), heard) == (1, [])
    channels.send(again, request)
    channels.close()
    wire.asked[1][2].callback(ControlResponse(ErrorCode.NONE))
    channels.send(again, request)
    assert (len(wire.asked), heard) == (2, [])


# trap: kafkalite/controller/channel_manager.py: The controller's watch is faster than the answer to the broker that
# registers, so the broker refuses the first request: the controller sends it again.
def test_a_broker_that_does_not_know_its_registration_yet_is_told_again() -> None:
    """The controller's watch was faster than the broker's registration; no later event repeats a dropped request."""
    wire, clock, heard = Wire(), ManualClock(), list[ErrorCode]()
    channels = ControllerChannelManager(wire, clock, 0.1, lambda _, __, response: heard.append(response.error))
    channels.add_broker(ONE)
    request = LeaderAndIsrRequest(1, 5, 11, (), ())
    channels.send(ONE, request)
    wire.asked[0][2].callback(ControlResponse(ErrorCode.STALE_BROKER_EPOCH))
    clock.advance(0.1)
    assert [asked for _, asked, _ in wire.asked] == [request, request]
    wire.asked[1][2].callback(ControlResponse(ErrorCode.NONE))
    assert heard == [ErrorCode.NONE]
    channels.send(ONE, request)
    wire.asked[2][2].callback(ControlResponse(ErrorCode.STALE_BROKER_EPOCH))
    channels.remove_broker(1)
    clock.advance(1)
    assert len(wire.asked) == 3, "another life of the broker"

"""The controller's requests are fenced by its epoch and by this broker's own."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import pytest

from kafkalite.broker.control_plane import ControlPlane
from kafkalite.broker.controlled_shutdown import hand_over_leaderships
from kafkalite.cluster.control import (
    ControlledShutdownRequest,
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from kafkalite.cluster.metadata import LEADER_DURING_DELETE, MetadataCache
from kafkalite.cluster.model import Broker, Endpoint, LeaderAndIsr
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future, deferred
from kafkalite.common.types import TopicPartition
from kafkalite.network.request import ConnectionInfo
from kafkalite.replication.broker_epoch import BrokerEpoch
from kafkalite.testing.clock import ManualClock
from tests.support import Started

OURS = 77
STATE = LeaderAndIsr("t", 0, uuid.UUID(int=7), leader=1, leader_epoch=0, isr=(1,), controller_epoch=3, zk_version=0)
OK = ControlResponse(ErrorCode.NONE)


class Recorder:
    """Stands for the replica manager and for the controller: notes what reaches it."""

    def __init__(self) -> None:
        self.seen: list[ControlRequest] = []
        self.broker_changes = 0

    async def become_leader_or_follower(self, request: LeaderAndIsrRequest) -> ControlResponse:
        self.seen.append(request)
        return OK

    async def stop_replicas(self, request: StopReplicaRequest) -> ControlResponse:
        self.seen.append(request)
        return OK

    def brokers_changed(self) -> None:
        self.broker_changes += 1

    async def controlled_shutdown(self, request: ControlledShutdownRequest) -> ControlResponse:
        self.seen.append(request)
        return OK


class Plane:
    def __init__(self, recorder: Recorder | None = None) -> None:
        self.recorder = cast(Any, recorder or Recorder())
        self.metadata = MetadataCache()
        self.metadata.on_brokers.append(self.recorder.brokers_changed)
        self.news: list[Iterable[str]] = []
        epoch = BrokerEpoch()
        epoch.registered(OURS, session=1, unclean_start=OURS)
        nothing = lambda: None  # noqa: E731
        self.plane = ControlPlane(
            self.metadata, self.recorder, self.recorder, self.news.append, epoch, lambda: 0.0, nothing, "PLAINTEXT"
        )

    def handle(self, request: ControlRequest) -> ErrorCode:
        answers: list[ControlResponse] = []
        deferred(self.plane.handle(request)).addCallback(answers.append)
        return answers[0].error


def requests(controller_epoch: int, broker_epoch: int) -> list[ControlRequest]:
    return [
        LeaderAndIsrRequest(9, controller_epoch, broker_epoch, (STATE,), ()),
        UpdateMetadataRequest(9, controller_epoch, broker_epoch, (STATE,), (Broker(1, ()),)),
        StopReplicaRequest(9, controller_epoch, broker_epoch, ()),
    ]


@pytest.mark.parametrize("index", range(3))
def test_a_current_request_is_carried_out(index: int) -> None:
    plane = Plane()
    assert plane.handle(requests(3, OURS)[index]) is ErrorCode.NONE
    if index == 1:
        assert plane.metadata.state(TopicPartition("t", 0)) == STATE
        assert sorted(plane.metadata.brokers) == [1]
        assert plane.recorder.broker_changes == 1
        assert plane.news == [["t"]]
    else:
        assert len(plane.recorder.seen) == 1


@pytest.mark.parametrize("index", range(3))
def test_an_older_controller_is_refused(index: int) -> None:
    plane = Plane()
    plane.handle(StopReplicaRequest(9, 4, OURS, ()))
    plane.recorder.seen.clear()
    assert plane.handle(requests(3, OURS)[index]) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert plane.recorder.seen == []
    assert plane.metadata.topics == {}


@pytest.mark.parametrize("broker_epoch", [OURS - 1, OURS + 1, -1])
@pytest.mark.parametrize("index", range(3))
def test_a_request_for_another_incarnation_is_refused(index: int, broker_epoch: int) -> None:
    plane = Plane()
    assert plane.handle(requests(3, broker_epoch)[index]) is ErrorCode.STALE_BROKER_EPOCH
    assert plane.recorder.seen == []
    assert plane.metadata.topics == {}


def test_a_refused_request_does_not_raise_the_controller_epoch() -> None:
    plane = Plane()
    plane.handle(StopReplicaRequest(9, 8, OURS - 1, ()))
    assert plane.handle(StopReplicaRequest(9, 3, OURS, ())) is ErrorCode.NONE


def test_deleted_topics_leave_the_metadata() -> None:
    plane = Plane()
    plane.handle(requests(3, OURS)[1])
    plane.handle(UpdateMetadataRequest(9, 3, OURS, (STATE.with_(leader=LEADER_DURING_DELETE),), ()))
    assert plane.metadata.topics == {}
    assert plane.news[-1] == ["t"]


class Channel:
    """Answers with the given responses, in order; an exception among them is raised."""

    def __init__(self, *answers: ControlResponse | Exception) -> None:
        self.answers = list(answers)

    async def send(self, _broker: Broker, _request: ControlRequest) -> ControlResponse:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


BUSY = ControlResponse(ErrorCode.NONE, ((TopicPartition("t", 0), ErrorCode.NONE),))


@pytest.mark.parametrize(
    ("answers", "handed_over"),
    [
        ((OK,), True),
        ((BUSY, OK), True),
        ((OSError("gone"), ControlResponse(ErrorCode.NOT_CONTROLLER), OK), True),
        ((BUSY, BUSY, BUSY), False),
    ],
)
def test_controlled_shutdown_asks_again_until_nothing_is_led(
    answers: tuple[ControlResponse | Exception, ...], handed_over: bool
) -> None:
    metadata, clock, channel = MetadataCache(), ManualClock(), Channel(*answers)
    metadata.update_brokers({2: Broker(2, ())})
    metadata.set_controller(2)
    outcome: list[bool] = []
    work = hand_over_leaderships(lambda: ControlledShutdownRequest(1, OURS), metadata, channel, clock, 2, 5.0)
    deferred(work).addCallback(outcome.append)
    clock.advance(11.0)
    assert outcome == [handed_over]
    assert channel.answers == []


# Order

HELD = LeaderAndIsrRequest(9, 3, OURS, (STATE,), ())


class SlowRecorder(Recorder):
    """Carries LeaderAndIsr out when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.busy: list[Future[ControlResponse]] = []

    def become_leader_or_follower(self, request: LeaderAndIsrRequest) -> Any:
        self.seen.append(request)
        self.busy.append(Future())
        return self.busy[-1]


def test_requests_of_one_connection_are_carried_out_one_after_the_other() -> None:
    plane = Plane(SlowRecorder())
    one, two = ConnectionInfo(1, "peer", "L"), ConnectionInfo(2, "peer", "L")
    news = UpdateMetadataRequest(9, 3, OURS, (STATE,), ())
    first = Started(plane.plane.carry_out(HELD, one))
    second = Started(plane.plane.carry_out(news, one))
    assert (first.done, second.done, plane.news) == (False, False, [])
    assert Started(plane.plane.carry_out(ControlledShutdownRequest(1, 2), two)).result == OK
    plane.recorder.busy[0].callback(OK)
    assert (first.result, second.result, plane.news) == (OK, OK, [["t"]])
    assert (one.is_of_controller, two.is_of_controller) == (True, False)


def test_only_requests_that_pass_the_fences_show_that_a_connection_is_the_controllers() -> None:
    plane = Plane()
    for controller_epoch, broker_epoch, is_right in ((3, OURS - 1, False), (3, OURS, True), (2, OURS, False)):
        connection = ConnectionInfo(1 + controller_epoch + broker_epoch, "peer", "L")
        work = Started(plane.plane.carry_out(StopReplicaRequest(9, controller_epoch, broker_epoch, ()), connection))
        assert work.done
        assert connection.is_of_controller is is_right


def test_a_request_that_fails_does_not_hold_up_the_next() -> None:
    plane = Plane(SlowRecorder())
    one = ConnectionInfo(1, "peer", "L")
    first, second = (Started(plane.plane.carry_out(HELD, one)) for _ in range(2))
    plane.recorder.busy[0].errback(RuntimeError("broken"))
    with pytest.raises(RuntimeError, match="broken"):
        _ = first.result
    plane.recorder.busy[1].callback(OK)
    assert second.result == OK


def test_requests_that_wait_are_dropped_with_their_connection() -> None:
    plane = Plane(SlowRecorder())
    one = ConnectionInfo(1, "peer", "L")
    for _ in range(2):
        Started(plane.plane.carry_out(HELD, one))
    assert one.waiting is not None
    for call in one.waiting.values():
        call()
    plane.recorder.busy[0].callback(OK)
    assert len(plane.recorder.seen) == 1


# Brokers of other kinds


def test_a_controller_that_names_no_broker_epochs_takes_none_away() -> None:
    plane = Plane()
    known = Broker(2, (Endpoint("L", "PLAINTEXT", "h", 1),), None, 55, 44)
    plane.metadata.update_brokers({2: known})
    moved = Broker(2, (Endpoint("L", "PLAINTEXT", "h", 2),))
    plane.handle(UpdateMetadataRequest(9, 3, OURS, (), (moved, Broker(3, ()))))
    assert plane.metadata.brokers == {2: replace(known, endpoints=moved.endpoints), 3: Broker(3, ())}


def test_a_request_that_the_controller_sent_earlier_takes_no_broker_away() -> None:
    plane = Plane()
    live = {broker_id: Broker(broker_id, (), epoch=broker_id) for broker_id in (1, 2, 3)}
    plane.metadata.update_brokers(live, 4)
    plane.handle(UpdateMetadataRequest(9, 3, OURS, (STATE,), (live[1], live[2]), 3))
    assert plane.metadata.brokers == live
    assert plane.metadata.state(STATE.topic_partition) == STATE, "the states of the request count"
    plane.handle(UpdateMetadataRequest(9, 3, OURS, (), (live[1], live[3]), 5))
    assert sorted(plane.metadata.brokers) == [1, 3]


def test_a_broker_with_the_control_plane_of_before_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    plane = Plane()
    plane.metadata.on_brokers.append(plane.plane.brokers_changed)
    old = Broker(2, (Endpoint("CONTROLPLANE", "PLAINTEXT", "h", 1),), None, 5)
    plane.metadata.update_brokers({1: Broker(1, ()), 2: old})
    plane.metadata.update_brokers({2: old})
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "broker 2 runs an earlier kafkalite" in caplog.text
    plane.metadata.update_brokers({2: replace(old, epoch=6)})
    assert len(caplog.records) == 2

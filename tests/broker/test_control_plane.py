"""The controller's requests are fenced by its epoch and by this broker's own."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
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
from kafkalite.cluster.model import Broker, LeaderAndIsr
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import deferred
from kafkalite.common.types import TopicPartition
from kafkalite.replication.broker_epoch import BrokerEpoch
from kafkalite.testing.clock import ManualClock

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
    def __init__(self) -> None:
        self.recorder = Recorder()
        self.metadata = MetadataCache()
        self.metadata.on_brokers.append(self.recorder.brokers_changed)
        self.news: list[Iterable[str]] = []
        recorder = cast(Any, self.recorder)
        epoch = BrokerEpoch()
        epoch.registered(OURS, session=1, unclean_start=OURS)
        self.plane = ControlPlane(self.metadata, recorder, recorder, self.news.append, epoch, lambda: 0.0)

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

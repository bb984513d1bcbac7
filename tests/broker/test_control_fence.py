"""What the controller's requests are answered, by their epochs and by what this broker's registration is then.

A request goes through the control plane and the replica manager, as in a broker.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

import pytest

from kafkalite.broker.control_plane import ControlPlane
from kafkalite.cluster.control import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from kafkalite.cluster.metadata import MetadataCache
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future, deferred
from kafkalite.replication.broker_epoch import BrokerEpoch
from kafkalite.replication.replica_manager import ReplicaManager
from kafkalite.replication.replication_config import ReplicationConfig
from kafkalite.testing.clock import ManualClock
from kafkalite.zk.zk_client import SessionState

OURS: Final = 77
NEXT: Final = 90
CONTROLLER: Final = 5

OK: Final = ErrorCode.NONE
STALE_BROKER: Final = ErrorCode.STALE_BROKER_EPOCH
STALE_CONTROLLER: Final = ErrorCode.STALE_CONTROLLER_EPOCH


class Answers(NamedTuple):
    """The answers to a LeaderAndIsrRequest, a StopReplicaRequest and an UpdateMetadataRequest; the first two go to the
    replicas, the third to the metadata.
    """

    leader_and_isr: ErrorCode
    stop_replica: ErrorCode
    update_metadata: ErrorCode


def both(replicas: ErrorCode, metadata: ErrorCode) -> Answers:
    return Answers(replicas, replicas, metadata)


class FencedBroker:
    """A control plane before a replica manager without replicas."""

    def __init__(self) -> None:
        clock, metadata = ManualClock(), MetadataCache()
        logs = SimpleNamespace(
            handle_failure=None,
            offline_dirs=(),
            logs={},
            get=lambda _tp: None,
            future_logs=SimpleNamespace(logs={}),
            flush_to_end=None,
        )
        nothing, epoch = cast("Any", None), BrokerEpoch()
        self.manager = ReplicaManager(
            ReplicationConfig(1),
            cast("Any", logs),
            metadata,
            nothing,
            nothing,
            nothing,
            nothing,
            epoch,
            clock,
            lambda: None,
        )
        self.plane = ControlPlane(
            metadata, self.manager, nothing, lambda _: None, epoch, clock.monotonic, self._carry_out, "PLAINTEXT"
        )
        self.carried_out = 0

    def _carry_out(self) -> None:
        self.carried_out += 1

    def register(self, epoch: int) -> None:
        self.manager.registered(epoch, session=epoch, unclean_start=epoch)

    def end_session(self) -> None:
        self.manager.on_zk_state(SessionState.EXPIRED)

    def withdraw(self) -> None:
        deferred(self.manager.withdraw())

    def ask(self, request: ControlRequest) -> list[ErrorCode]:
        """The list will hold the answer's error."""
        errors: list[ErrorCode] = []
        answered: Callable[[ControlResponse], None] = lambda response: errors.append(response.error)  # noqa: E731
        deferred(self.plane.handle(request)).addCallback(answered)
        return errors


def requests(controller_epoch: int, broker_epoch: int) -> list[ControlRequest]:
    return [
        LeaderAndIsrRequest(9, controller_epoch, broker_epoch, (), ()),
        StopReplicaRequest(9, controller_epoch, broker_epoch, ()),
        UpdateMetadataRequest(9, controller_epoch, broker_epoch, (), ()),
    ]


def answers(steps: str, controller_epoch: int, broker_epoch: int) -> tuple[Answers, int]:
    """Each kind of request to a broker of its own; with how many of the three the control plane carried out."""
    found, carried_out = [], 0
    for index in range(3):
        broker = FencedBroker()
        for step in steps.split():
            if step == "registered":
                broker.register(OURS)
                # From here on the newest controller is known to the plane and to the replicas.
                assert broker.ask(requests(CONTROLLER, OURS)[1]) == [OK]
            elif step == "anew":
                broker.register(NEXT)
            elif step == "expired":
                broker.end_session()
            else:
                broker.withdraw()
        broker.carried_out = 0
        found += broker.ask(requests(controller_epoch, broker_epoch)[index])
        carried_out += broker.carried_out
    return Answers(*found), carried_out


@pytest.mark.parametrize(
    ("steps", "controller_epoch", "broker_epoch", "expected", "carried_out"),
    [
        ("", CONTROLLER, -1, both(STALE_BROKER, OK), 3),
        ("", CONTROLLER, OURS, both(STALE_BROKER, STALE_BROKER), 0),
        ("registered", CONTROLLER, OURS, both(OK, OK), 3),
        ("registered", CONTROLLER + 1, OURS, both(OK, OK), 3),
        ("registered", CONTROLLER - 1, OURS, both(STALE_CONTROLLER, STALE_CONTROLLER), 0),
        ("registered", CONTROLLER, OURS - 1, both(STALE_BROKER, STALE_BROKER), 0),
        ("registered", CONTROLLER, OURS + 1, both(STALE_BROKER, STALE_BROKER), 0),
        ("registered", CONTROLLER, -1, both(STALE_BROKER, STALE_BROKER), 0),
        ("registered", CONTROLLER - 1, OURS - 1, both(STALE_CONTROLLER, STALE_CONTROLLER), 0),
        ("registered", CONTROLLER - 1, OURS + 1, both(STALE_CONTROLLER, STALE_CONTROLLER), 0),
        ("registered", CONTROLLER + 1, OURS - 1, both(STALE_BROKER, STALE_BROKER), 0),
        # The session is over: what is decided about replicas was meant for the life that ended; metadata are true.
        ("registered expired", CONTROLLER, OURS, both(STALE_BROKER, OK), 3),
        ("registered expired", CONTROLLER + 1, OURS, both(STALE_BROKER, OK), 3),
        ("registered expired", CONTROLLER - 1, OURS, both(STALE_CONTROLLER, STALE_CONTROLLER), 0),
        ("registered expired", CONTROLLER, OURS + 1, both(STALE_BROKER, STALE_BROKER), 0),
        ("registered withdrawn", CONTROLLER, OURS, both(STALE_BROKER, OK), 3),
        ("registered expired anew", CONTROLLER, NEXT, both(OK, OK), 3),
        ("registered expired anew", CONTROLLER, OURS, both(STALE_BROKER, STALE_BROKER), 0),
        ("registered expired anew", CONTROLLER - 1, NEXT, both(STALE_CONTROLLER, STALE_CONTROLLER), 0),
        ("registered anew", CONTROLLER, OURS, both(STALE_BROKER, STALE_BROKER), 0),
        ("registered anew", CONTROLLER, NEXT, both(OK, OK), 3),
    ],
)
def test_a_request_is_carried_out_or_refused_by_its_epochs(
    steps: str, controller_epoch: int, broker_epoch: int, expected: Answers, carried_out: int
) -> None:
    assert answers(steps, controller_epoch, broker_epoch) == (expected, carried_out)


@pytest.mark.parametrize(
    ("refused", "then", "expected"),
    [
        pytest.param((CONTROLLER + 3, OURS - 1), CONTROLLER, OK, id="for another life of the broker"),
        pytest.param((CONTROLLER + 3, OURS), CONTROLLER, STALE_CONTROLLER, id="once taken, it counts"),
    ],
)
@pytest.mark.parametrize("kind", range(3))
def test_which_requests_raise_the_controller_epoch(
    refused: tuple[int, int], then: int, expected: ErrorCode, kind: int
) -> None:
    broker = FencedBroker()
    broker.register(OURS)
    broker.ask(requests(*refused)[kind])
    for request in requests(then, OURS):
        assert broker.ask(request) == [expected]


def test_a_refusal_of_the_replicas_raises_the_controller_epoch() -> None:
    broker = FencedBroker()
    broker.register(OURS)
    broker.end_session()
    assert broker.ask(requests(CONTROLLER + 1, OURS)[0]) == [STALE_BROKER]
    assert broker.ask(requests(CONTROLLER, OURS)[2]) == [STALE_CONTROLLER]


class WaitingStop(NamedTuple):
    """What happens while the replicas still carry out another request, and the answer to one that came meanwhile."""

    happens: Callable[[FencedBroker], object]
    answer: ErrorCode


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(WaitingStop(lambda _: None, OK), id="nothing"),
        pytest.param(WaitingStop(FencedBroker.end_session, STALE_BROKER), id="the session ends"),
        pytest.param(WaitingStop(FencedBroker.withdraw, STALE_BROKER), id="the broker withdraws"),
        pytest.param(WaitingStop(lambda broker: broker.register(NEXT), STALE_BROKER), id="it is registered anew"),
        pytest.param(
            WaitingStop(lambda broker: broker.ask(requests(CONTROLLER + 1, OURS)[0]), OK), id="a newer controller's"
        ),
        pytest.param(
            WaitingStop(lambda broker: broker.ask(requests(CONTROLLER + 1, OURS)[2]), OK), id="a newer one's metadata"
        ),
    ],
)
@pytest.mark.parametrize("kind", range(2))
def test_a_request_that_waits_for_its_turn(case: WaitingStop, kind: int) -> None:
    broker = FencedBroker()
    broker.register(OURS)
    busy: Future[None] = Future()

    async def work() -> None:
        await busy

    broker.manager._in_lane(work)
    errors = broker.ask(requests(CONTROLLER, OURS)[kind])
    assert errors == []
    case.happens(broker)
    busy.callback(None)
    assert errors == [case.answer]

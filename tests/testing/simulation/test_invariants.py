"""Each invariant of the znodes sees the change that breaks it, and passes the change that does not."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pytest

from kafkalite.cluster.model import Broker, Endpoint, LeaderAndIsr, PartitionAssignment
from kafkalite.testing.simulation.invariants import Kind, ZnodeChange, ZnodeInvariants
from kafkalite.zk.znodes import cluster, topics, transactions
from kafkalite.zk.znodes.brokers import encode_broker
from kafkalite.zk.znodes.groups import Generation, encode_generation
from kafkalite.zk.znodes.topics import TopicAssignment

STATE = "/brokers/topics/t/partitions/0/state"
TOPIC_ID = uuid.UUID(int=7)
SESSION = 0x100000000000001


def topic(topic_id: uuid.UUID = TOPIC_ID, replicas: tuple[int, ...] = (1, 2, 3)) -> ZnodeChange:
    assignment = TopicAssignment(topic_id, {0: PartitionAssignment(replicas)})
    return ZnodeChange(Kind.CHANGED, "/brokers/topics/t", topics.encode_topic(assignment))


def reassigned(replicas: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]) -> ZnodeChange:
    assignment = TopicAssignment(TOPIC_ID, {0: PartitionAssignment(replicas, adding, removing)})
    return ZnodeChange(Kind.CHANGED, "/brokers/topics/t", topics.encode_topic(assignment))


def state(leader: int, epoch: int, isr: tuple[int, ...], controller_epoch: int = 1) -> ZnodeChange:
    data = topics.encode_state(
        LeaderAndIsr("t", 0, TOPIC_ID, leader, epoch, isr, controller_epoch, 0, 0, PartitionAssignment((1, 2, 3)))
    )
    return ZnodeChange(Kind.CHANGED, STATE, data)


def number(path: str, value: int) -> ZnodeChange:
    return ZnodeChange(Kind.CHANGED, path, str(value).encode())


def generation(value: int) -> ZnodeChange:
    return ZnodeChange(Kind.CHANGED, "/consumers/g/generation", encode_generation(Generation(value)))


def block(start: int) -> ZnodeChange:
    data = cluster.encode_block(cluster.ProducerIdBlock(1, start, start + 999))
    return ZnodeChange(Kind.CHANGED, cluster.LATEST_BLOCK, data)


def transaction(producer_id: int, epoch: int) -> ZnodeChange:
    metadata = transactions.TransactionMetadata("x", producer_id, epoch)
    return ZnodeChange(Kind.CHANGED, transactions.id_path(3, "x"), transactions.encode_transaction(metadata))


def created(path: str) -> ZnodeChange:
    return ZnodeChange(Kind.CREATED, path)


def gone(path: str) -> ZnodeChange:
    return ZnodeChange(Kind.DELETED, path)


def registered(unclean_start_epoch: int) -> ZnodeChange:
    broker = Broker(2, (Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9092),), unclean_start_epoch=unclean_start_epoch)
    return ZnodeChange(Kind.CREATED, "/brokers/ids/2", encode_broker(broker, 0))


Case = tuple[Sequence[Sequence[ZnodeChange]], str]
BROKEN: dict[str, Case] = {
    "an ISR beyond the replicas": ([[topic()], [state(1, 0, (1, 4))]], "not within the replicas"),
    "an ISR with a dropped replica under a raised leader epoch": (
        [
            [topic()],
            [reassigned((4, 1, 2, 3), (4,), (2, 3))],
            [state(1, 1, (1, 2, 3))],
            [reassigned((1, 2, 3), (), (2, 3))],
            [state(1, 1, (1, 2, 3, 4))],
            [state(1, 2, (1, 2, 3, 4))],
        ],
        "the ISR [1, 2, 3, 4] is not within the replicas [1, 2, 3]",
    ),
    "a leader outside of the ISR": ([[topic()], [state(1, 0, (2, 3))]], "is not in the ISR"),
    "a reassignment whose target was never in sync": (
        [
            [topic()],
            [reassigned((4, 2, 3, 1), (4,), (1,))],
            [state(2, 1, (1, 2, 3))],
            [topic(replicas=(4, 2, 3))],
        ],
        "the reassignment to [4, 2, 3] completed, never were all of them in sync",
    ),
    "an empty ISR": ([[topic()], [state(-1, 0, ())]], "the ISR is empty"),
    "a broker twice in the ISR": ([[topic()], [state(1, 0, (1, 2, 2))]], "names a broker twice"),
    "a leader epoch that goes back": ([[state(1, 5, (1,))], [state(1, 4, (1,))]], "leader epoch went from 5 to 4"),
    "a controller epoch that goes back": (
        [[state(1, 5, (1,), 3)], [state(1, 6, (1,), 2)]],
        "controller epoch went from 3 to 2",
    ),
    "two leaders in one epoch": ([[state(1, 5, (1, 2))], [state(2, 5, (1, 2))]], "both lead in leader epoch 5"),
    "a topic id that changes": ([[topic()], [topic(uuid.UUID(int=8))]], "topic id changed"),
    "a claim of the controller under the epoch before": (
        [[number("/controller_epoch", 2)], [created("/controller"), number("/controller_epoch", 2)]],
        "2 to 2",
    ),
    "a controller epoch that went back": (
        [[number("/controller_epoch", 2)], [number("/controller_epoch", 1)]],
        "2 to 1",
    ),
    "a claim of the controller without an epoch": ([[created("/controller")]], "does not raise /controller_epoch"),
    "a claim of a group without an epoch": (
        [[created("/consumers/g/coordinator")]],
        "does not raise /consumers/g/coordinator_epoch",
    ),
    "a generation that goes back": ([[generation(3)], [generation(2)]], "generation went from 3 to 2"),
    "a block of producer ids given away twice": ([[block(0)], [block(1000)], [block(1500)]], "begins below 2000"),
    "a producer epoch that goes back": ([[transaction(9, 2)], [transaction(9, 1)]], "went from 2 to 1"),
    "a state that is no JSON": ([[ZnodeChange(Kind.CHANGED, STATE, b"{")]], "not JSON"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_forbidden_changes_are_reported(name: str) -> None:
    committed, expected = BROKEN[name]
    invariants = ZnodeInvariants()
    *before, last = [invariants.committed(zxid, SESSION, changes) for zxid, changes in enumerate(committed, 1)]
    assert not any(before)
    assert any(expected in line for line in last), last


FINE: dict[str, Sequence[Sequence[ZnodeChange]]] = {
    "an election": [[topic()], [state(1, 0, (1, 2, 3))], [state(2, 1, (2, 3))], [state(-1, 2, (2,))]],
    "a shrunk ISR": [[topic()], [state(1, 0, (1, 2, 3))], [state(1, 0, (1,))], [state(1, 0, (1, 2))]],
    "a reassignment": [
        [topic()],
        [reassigned((4, 2, 3, 1), (4,), (1,))],
        [state(2, 1, (1, 2, 3, 4))],
        [state(2, 2, (2, 3, 4))],
        [state(2, 2, (2, 3))],
        [topic(replicas=(4, 2, 3))],
    ],
    "a reassignment that is cancelled": [
        [topic()],
        [reassigned((4, 2, 3, 1), (4,), (1,))],
        [state(2, 1, (1, 2, 3))],
        [reassigned((1, 2, 3, 4), (), (4,))],
        [state(2, 2, (1, 2, 3))],
        [topic()],
    ],
    "a replica that joins the ISR as the assignment drops it": [
        [topic()],
        [reassigned((4, 1, 2, 3), (4,), (2, 3))],
        [state(1, 1, (1, 2, 3))],
        [reassigned((1, 2, 3), (), (2, 3))],
        [state(1, 1, (1, 2, 3, 4))],
        [state(1, 2, (1, 2, 3))],
    ],
    "a claim that is renewed": [
        [created("/controller"), number("/controller_epoch", 1)],
        [number("/controller_epoch", 1)],
    ],
    "a claim with its epoch": [[created("/controller"), number("/controller_epoch", 1)]],
    "a transactional id that was given no producer yet": [[created(transactions.id_path(3, "x"))]],
    "a group that is deleted and comes back": [[generation(3)], [gone("/consumers/g/generation")], [generation(1)]],
    "a topic that is deleted and comes back": [
        [topic()],
        [state(1, 4, (1,))],
        [gone(STATE), gone("/brokers/topics/t")],
        [topic(uuid.UUID(int=8))],
        [state(2, 0, (2, 3))],
    ],
    "a producer id that is exchanged": [[transaction(9, 32000)], [transaction(10, 0)]],
}


@pytest.mark.parametrize("name", FINE)
def test_allowed_changes_are_not_reported(name: str) -> None:
    invariants = ZnodeInvariants()
    for zxid, changes in enumerate(FINE[name]):
        assert invariants.committed(zxid, SESSION, changes) == []


@pytest.mark.parametrize(("known", "is_told"), [(-1, False), (77, True)])
def test_a_broker_whose_machine_lost_power_registers_as_started_uncleanly(known: int, is_told: bool) -> None:
    shortened = {2: SESSION}
    invariants = ZnodeInvariants(shortened)
    told = "zxid 0x1: broker 2 lost power and registered with its unclean start epoch of before, 77"
    assert invariants.committed(1, SESSION + 1, [registered(known)]) == ([told] if is_told else [])
    assert not shortened
    assert invariants.committed(2, SESSION + 2, [registered(known)]) == [], (
        "the epoch of the start after the loss stays"
    )


def test_a_registration_sent_before_a_power_loss_is_not_that_of_the_next_start() -> None:
    shortened = {2: SESSION}
    invariants = ZnodeInvariants(shortened)
    assert invariants.committed(1, SESSION, [registered(77)]) == []
    assert invariants.committed(2, SESSION, [gone("/brokers/ids/2")]) == []
    assert invariants.committed(3, SESSION + 1, [registered(77)]), "the next start registers in a session of its own"
    assert not shortened

"""Each rule about who writes what sees the write that breaks it, and passes the write of the holder of the office."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pytest

from kafkalite.cluster.model import LeaderAndIsr, PartitionAssignment
from kafkalite.testing.simulation.invariants import Kind, ZnodeChange
from kafkalite.testing.simulation.writers import Writers
from kafkalite.zk.znodes import topics

STATE = "/brokers/topics/t/partitions/0/state"
FIRST, SECOND, THIRD = 0x11, 0x12, 0x13
"""Sessions: of the controller, of broker 1, of another broker."""


def created(path: str, data: bytes = b"") -> ZnodeChange:
    return ZnodeChange(Kind.CREATED, path, data)


def changed(path: str, data: bytes = b"") -> ZnodeChange:
    return ZnodeChange(Kind.CHANGED, path, data)


def gone(path: str) -> ZnodeChange:
    return ZnodeChange(Kind.DELETED, path)


def state(
    epoch: int,
    isr: tuple[int, ...],
    *,
    leader: int = 1,
    controller_epoch: int = 7,
    starts: tuple[int, ...] = (1, 2, 3),
    kind: Kind = Kind.CHANGED,
) -> ZnodeChange:
    known = LeaderAndIsr(
        "t",
        0,
        uuid.UUID(int=7),
        leader,
        epoch,
        isr,
        controller_epoch,
        assignment=PartitionAssignment((1, 2, 3)),
        unclean_start_epochs=tuple((replica, 50 + replica) for replica in isr if replica in starts),
    )
    return ZnodeChange(kind, STATE, topics.encode_state(known))


Transactions = Sequence[tuple[int, Sequence[ZnodeChange]]]
OFFICES: Transactions = (
    (FIRST, (created("/controller"), created("/controller_epoch", b"7"))),
    (SECOND, (created("/brokers/ids/1"),)),
    (THIRD, (created("/brokers/ids/2"), created("/consumers/g/coordinator"), created("/transactions/3/coordinator"))),
    (FIRST, (state(4, (1, 2), kind=Kind.CREATED),)),
)
BROKEN: dict[str, tuple[Transactions, str]] = {
    "an election by a broker that is not the controller": (
        [(THIRD, [state(5, (1, 2))])],
        "leader epoch 5 of t-0 was begun by a session that is not the controller's",
    ),
    "an election by a former controller": (
        [
            (FIRST, [gone("/controller")]),
            (SECOND, [created("/controller"), changed("/controller_epoch", b"8")]),
            (FIRST, [state(5, (1, 2))]),
        ],
        "begun by a session that is not the controller's",
    ),
    "an election in a former controller epoch": (
        [(FIRST, [state(5, (1, 2), controller_epoch=6)])],
        "was begun in controller epoch 6 of 7",
    ),
    "an election with a member that the leader has taken out": (
        [(SECOND, [state(4, (1,))]), (FIRST, [state(5, (1, 2))])],
        "leader epoch 5 of t-0 was begun with the ISR [1, 2], the leader's was [1]",
    ),
    "an ISR that another broker writes": ([(THIRD, [state(4, (1,))])], "in another session than its leader's"),
    "an ISR that a leader writes that is not registered": (
        [(SECOND, [gone("/brokers/ids/1")]), (SECOND, [state(4, (1,))])],
        "in another session than its leader's",
    ),
    "an ISR that a leader writes under a former registration": (
        [(SECOND, [gone("/brokers/ids/1")]), (THIRD, [created("/brokers/ids/1")]), (SECOND, [state(4, (1,))])],
        "in another session than its leader's",
    ),
    "an ISR written with another controller epoch": (
        [(SECOND, [state(4, (1,), controller_epoch=8)])],
        "changed more than the ISR",
    ),
    "a member whose life is not said": (
        [(SECOND, [state(4, (1, 2, 3), starts=(1, 2))])],
        "it is not said since when [3] that joined the ISR are in sync",
    ),
    "a state that a leader deletes": ([(SECOND, [gone(STATE)])], "the state of t-0 was deleted"),
    "a topic that a leader deletes": ([(SECOND, [gone("/brokers/topics/t")])], "/brokers/topics/t was deleted"),
    "a request of an administrator that a leader removes": (
        [(SECOND, [gone("/admin/delete_topics/t")])],
        "/admin/delete_topics/t was deleted",
    ),
    "a generation without the claim": (
        [(SECOND, [changed("/consumers/g/generation")])],
        "/consumers/g/generation was changed by a session that does not coordinate /consumers/g",
    ),
    "an offset without the claim": (
        [(SECOND, [changed("/consumers/g/offsets/t/0")])],
        "does not coordinate /consumers/g",
    ),
    "an offset after the claim": (
        [
            (THIRD, [gone("/consumers/g/coordinator"), gone("/transactions/3/coordinator")]),
            (SECOND, [created("/consumers/g/coordinator"), created("/transactions/3/coordinator")]),
            (THIRD, [changed("/consumers/g/offsets/t/0")]),
        ],
        "does not coordinate /consumers/g",
    ),
    "a transaction without the claim": (
        [(SECOND, [changed("/transactions/3/ids/x")])],
        "does not coordinate /transactions/3",
    ),
    "a transaction with the claim on another part": (
        [(THIRD, [changed("/transactions/4/ids/x")])],
        "does not coordinate /transactions/4",
    ),
}


def run(transactions: Transactions) -> list[list[str]]:
    writers = Writers()
    return [writers.committed(zxid, session, changes) for zxid, (session, changes) in enumerate(transactions, 1)]


@pytest.mark.parametrize("name", BROKEN)
def test_a_write_without_the_office_is_seen(name: str) -> None:
    transactions, expected = BROKEN[name]
    *before, last = run([*OFFICES, *transactions])
    assert not any(before)
    assert any(expected in line for line in last), last


FINE: dict[str, Transactions] = {
    "an election": [(FIRST, [state(5, (1, 2))])],
    "an election by a controller whose claim was deleted, and not taken yet": [
        (0, [gone("/controller")]),
        (FIRST, [state(5, (1, 2))]),
    ],
    "an election that takes a member out": [(FIRST, [state(5, (1,))])],
    "an ISR that shrinks": [(SECOND, [state(4, (1,))])],
    "an ISR that grows": [(SECOND, [state(4, (1, 2, 3))])],
    "another controller": [
        (FIRST, [gone("/controller")]),
        (SECOND, [created("/controller"), changed("/controller_epoch", b"8")]),
        (SECOND, [state(5, (1, 2), controller_epoch=8)]),
    ],
    "a topic that is deleted": [(FIRST, [gone(STATE)]), (FIRST, [gone("/brokers/topics/t")])],
    "a generation": [(THIRD, [changed("/consumers/g/generation")])],
    "an offset": [(THIRD, [changed("/consumers/g/offsets/t/0")])],
    "an offset of a transaction": [(THIRD, [changed("/consumers/other/offsets/t/0")])],
    "an offset that is forgotten with its topic": [(FIRST, [gone("/consumers/g/offsets/t/0")])],
    "a transaction": [(THIRD, [changed("/transactions/3/ids/x")])],
    "a group that is removed": [(THIRD, [gone("/consumers/g/generation"), gone("/consumers/g/coordinator")])],
    "the container of a part that is not coordinated yet": [(SECOND, [created("/transactions/5/ids")])],
}


@pytest.mark.parametrize("name", FINE)
def test_a_write_in_office_passes(name: str) -> None:
    assert not any(run([*OFFICES, *FINE[name]]))

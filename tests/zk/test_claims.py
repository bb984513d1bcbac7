"""One coordinator at a time, and writes that only it can make."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.common.tasks import deferred
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.zookeeper import MemoryZkClient, MemoryZooKeeper
from kafkalite.zk.stores.claims import Claim, ClaimLostError, ClaimStore
from kafkalite.zk.stores.fenced_write import FencedError, FencedWrite, WriteFence, write_fenced
from kafkalite.zk.zk_client import (
    BadVersionError,
    ConnectionLostError,
    Create,
    NodeExistsError,
    SessionExpiredError,
    SetData,
    WatchEvent,
    ZkError,
)
from tests.zk.test_stores import run

BASE = "/consumers/g"


class Two:
    """Two brokers' clients and claims."""

    def __init__(self) -> None:
        self.server = MemoryZooKeeper()
        self.clock = ManualClock()
        self.clients: list[MemoryZkClient] = [self.server.client(), self.server.client()]
        self.first, self.second = (ClaimStore(client, self.clock) for client in self.clients)

    def claim(self) -> Claim:
        claim = run(self.first.claim(BASE, 1))
        assert isinstance(claim, Claim)
        return claim


@pytest.fixture
def two() -> Two:
    return Two()


def test_one_holds_until_it_gives_up(two: Two) -> None:
    events: list[WatchEvent] = []
    assert run(two.second.holder(BASE, events.append)) is None
    claim = two.claim()
    assert (claim.epoch, claim.broker_id) == (1, 1) and len(events) == 1
    assert run(two.second.holder(BASE, events.append)) == 1
    assert run(two.second.claim(BASE, 2)) is None
    assert two.claim() == claim, "our own claim is found again"
    run(two.first.release(claim))
    assert len(events) == 2 and run(two.second.holder(BASE)) is None
    later = run(two.second.claim(BASE, 2))
    assert later.epoch == 2
    run(two.first.release(claim))
    assert run(two.second.holder(BASE)) == 2, "a stale claim does not remove the new one"


def test_the_base_is_removed_meanwhile(two: Two) -> None:
    def remove(name: str, _path: str) -> None:
        if name == "multi":
            two.clients[0].before = None
            run(two.clients[1].delete(f"{BASE}/coordinator_epoch"))
            run(two.clients[1].delete(BASE))

    two.clients[0].before = remove
    assert two.claim().epoch == 1


def test_two_claims_never_have_the_same_epoch(two: Two) -> None:
    run(two.first.release(two.claim()))

    def came_and_went(name: str, _path: str) -> None:
        if name == "multi":
            two.clients[0].before = None
            run(two.second.release(run(two.second.claim(BASE, 2))))

    two.clients[0].before = came_and_went
    assert run(two.first.claim(BASE, 1)) is None
    assert two.claim().epoch == 3


def test_a_claim_is_not_made_in_another_session(two: Two) -> None:
    def expire(name: str, _path: str) -> None:
        if name == "multi":
            two.clients[0].before = None
            two.clients[0].expire_session()

    two.clients[0].before = expire
    with pytest.raises(SessionExpiredError):
        run(two.first.claim(BASE, 1))
    assert run(two.second.holder(BASE)) is None


def test_a_claim_whose_session_is_over_is_released_by_itself(two: Two) -> None:
    claim = two.claim()
    two.clients[0].expire_session()
    run(two.first.release(claim))
    assert run(two.second.claim(BASE, 2)).epoch == 2


def test_writes_of_a_zombie_are_refused(two: Two) -> None:
    claim = two.claim()
    ops = [[Create(f"{BASE}/a", b"1")], [Create(f"{BASE}/b", b"1")]]
    assert run(two.first.commit_groups(claim, ops)) == [[f"{BASE}/a"], [f"{BASE}/b"]]
    run(two.clients[1].delete(f"{BASE}/coordinator"))
    assert run(two.second.claim(BASE, 2)).epoch == 2
    with pytest.raises(ClaimLostError):
        run(two.first.commit_groups(claim, [[SetData(f"{BASE}/a", b"2")]]))
    assert two.server.data(f"{BASE}/a") == b"1"


def test_writes_of_an_earlier_session_are_never_sent(two: Two) -> None:
    claim = two.claim()
    two.clients[0].expire_session()
    with pytest.raises(SessionExpiredError):
        run(two.first.commit_groups(claim, [[Create(f"{BASE}/a")]]))
    assert f"{BASE}/a" not in two.server.paths()


def fence(claim: Claim | None, client: MemoryZkClient) -> WriteFence:
    return WriteFence(None, client.session) if claim is None else claim.fence()


# trap: kafkalite/zk/stores/fenced_write.py: Claims share a multi: one that is lost would fail the writes of the others.
def test_neighbours_in_a_transaction_do_not_spoil_each_other(two: Two) -> None:
    """Writes of three groups and of nobody: one has lost its claim, one operation is bad."""
    client = two.clients[0]
    claims = [run(two.first.claim(f"/consumers/{name}", 1)) for name in "ghi"]
    run(two.clients[1].set("/consumers/h/coordinator_epoch", b"9"))
    run(client.create("/consumers/i/exists"))
    writes = [
        FencedWrite(claims[0].fence(), [Create("/consumers/g/a"), Create("/consumers/g/b")]),
        FencedWrite(claims[1].fence(), [Create("/consumers/h/a")]),
        FencedWrite(claims[2].fence(), [Create("/consumers/i/a"), Create("/consumers/i/exists")]),
        FencedWrite(claims[2].fence(), [Create("/consumers/i/b")]),
        FencedWrite(fence(None, client), [SetData("/consumers/i/exists", b"x", 7)]),
        FencedWrite(WriteFence(None, client.session + 99), [Create("/consumers/never")]),
        FencedWrite(fence(None, client), [Create("/consumers/plain")]),
    ]
    results: list[Any] = run(write_fenced(client, writes))
    assert results[0] == ["/consumers/g/a", "/consumers/g/b"]
    assert isinstance(results[1], FencedError)
    assert isinstance(results[2], NodeExistsError) and results[3] == ["/consumers/i/b"]
    assert isinstance(results[4], BadVersionError)
    assert isinstance(results[5], SessionExpiredError) and results[6] == ["/consumers/plain"]
    for path in ("/consumers/h/a", "/consumers/i/a", "/consumers/never"):
        assert path not in two.server.paths()


def test_an_unknown_outcome_is_nobodys_success(two: Two) -> None:
    claim = two.claim()
    client = two.clients[0]
    client.black_hole(apply=True)
    failures: list[Any] = []
    deferred(write_fenced(client, [FencedWrite(claim.fence(), [Create(f"{BASE}/{n}")]) for n in "ab"])).addCallback(
        failures.extend
    )
    client.lose_connection()
    assert len(failures) == 2 and all(isinstance(failure, ConnectionLostError) for failure in failures)
    assert all(isinstance(failure, ZkError) for failure in failures)

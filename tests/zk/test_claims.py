"""One broker has a claim at a time, and only its writes are taken: the controller's claim, and a coordinator's."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.common.tasks import deferred
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.zookeeper import MemoryZkClient, MemoryZooKeeper
from kafkalite.zk.stores.claims import Claim, ClaimLostError, ClaimStore, write_claimed
from kafkalite.zk.stores.fenced_write import FencedError, FencedWrite, WriteFence, write_fenced
from kafkalite.zk.stores.paths import ensure
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
from kafkalite.zk.znodes.claims import CLUSTER, CONTROLLER_CLAIM, COORDINATOR_CLAIM, ClaimZnodes
from tests.support import run

BASE = "/consumers/g"
KINDS = {"controller": (CONTROLLER_CLAIM, CLUSTER), "coordinator": (COORDINATOR_CLAIM, BASE)}


class Two:
    """Two brokers' clients and claims of one kind."""

    def __init__(self, znodes: ClaimZnodes, base: str) -> None:
        self.base = base
        self.path, self.epoch_path = znodes.claim_path(base), znodes.epoch_path(base)
        self.server = MemoryZooKeeper()
        self.clock = ManualClock()
        self.clients: list[MemoryZkClient] = [self.server.client(), self.server.client()]
        self.first, self.second = (ClaimStore(client, self.clock, znodes) for client in self.clients)
        run(ensure(self.clients[0], "/data"))

    def claim(self) -> Claim:
        claim = run(self.first.claim(self.base, 1))
        assert isinstance(claim, Claim)
        return claim

    def claim_second(self) -> Claim | None:
        claim = run(self.second.claim(self.base, 2))
        assert claim is None or isinstance(claim, Claim)
        return claim

    def holder(self) -> int | None:
        holder = run(self.second.holder(self.base))
        assert holder is None or isinstance(holder, int)
        return holder


@pytest.fixture(params=list(KINDS.values()), ids=list(KINDS))
def two(request: pytest.FixtureRequest) -> Two:
    return Two(*request.param)


@pytest.fixture
def coordinators() -> Two:
    return Two(*KINDS["coordinator"])


def test_one_holds_until_it_gives_up(two: Two) -> None:
    events: list[WatchEvent] = []
    assert run(two.second.holder(two.base, events.append)) is None
    claim = two.claim()
    assert (claim.epoch, claim.broker_id) == (1, 1) and len(events) == 1
    assert run(two.second.holder(two.base, events.append)) == 1
    assert two.claim_second() is None
    assert two.claim() == claim, "our own claim is found again"
    run(two.first.release(claim))
    assert len(events) == 2 and two.holder() is None
    later = two.claim_second()
    assert later is not None and later.epoch == 2
    run(two.first.release(claim))
    assert two.holder() == 2, "a stale claim does not remove the new one"


def test_the_base_is_removed_meanwhile(two: Two) -> None:
    def remove(name: str, _path: str) -> None:
        if name == "multi":
            two.clients[0].before = None
            run(two.clients[1].delete(two.epoch_path))
            if two.base:
                run(two.clients[1].delete(two.base))

    two.clients[0].before = remove
    assert two.claim().epoch == 1


# trap: kafkalite/zk/stores/claims.py: Two controllers could raise the same epoch: the claim's own transaction
# raises it, checked against the value that was read.
def test_two_claims_never_have_the_same_epoch(two: Two) -> None:
    """Another broker came and went since the epoch was read: the claim, though it stands alone, is one epoch behind."""
    run(two.first.release(two.claim()))

    def came_and_went(name: str, _path: str) -> None:
        if name == "multi":
            two.clients[0].before = None
            claim = two.claim_second()
            assert claim is not None and claim.epoch == 2
            two.clients[1].expire_session()

    two.clients[0].before = came_and_went
    assert run(two.first.claim(two.base, 1)) is None
    assert two.holder() is None
    assert two.claim().epoch == 3


# trap: kafkalite/zk/stores/claims.py: A controller's claim that was queued in one session would be made in the
# next: the claim is bound to its session.
def test_a_claim_is_not_made_in_another_session(two: Two) -> None:
    """One that was begun in a session that ended would stand in the next, and the broker would not know of it."""

    def expire(name: str, _path: str) -> None:
        if name == "multi":
            two.clients[0].before = None
            two.clients[0].expire_session()

    two.clients[0].before = expire
    with pytest.raises(SessionExpiredError):
        run(two.first.claim(two.base, 1))
    assert two.holder() is None


def test_an_empty_epoch_is_none_yet(two: Two) -> None:
    run(ensure(two.clients[0], two.epoch_path))
    assert two.claim().epoch == 1
    assert two.server.data(two.epoch_path) == b"1"


def test_a_claim_whose_answer_was_lost_is_found_again(two: Two) -> None:
    two.clients[0].black_hole(apply=True)
    outcome: list[Any] = []
    deferred(two.first.claim(two.base, 1)).addErrback(lambda failure: outcome.append(failure.value))
    two.clients[0].lose_connection()
    assert isinstance(outcome[0], ConnectionLostError)
    two.clients[0].reconnect()
    first = two.claim()
    # A repeated claim, whose first answer was lost, gets the same result.
    assert two.claim() == first


def test_a_claim_of_another_session_of_ours_is_not_ours(two: Two) -> None:
    two.claim()
    assert run(two.second.claim(two.base, 1)) is None


def test_a_claim_whose_session_is_over_is_released_by_itself(two: Two) -> None:
    claim = two.claim()
    two.clients[0].expire_session()
    run(two.first.release(claim))
    later = two.claim_second()
    assert later is not None and later.epoch == 2


def test_a_renewed_claim_refuses_what_was_sent_under_the_claim_before(two: Two) -> None:
    before = two.claim()
    claim = run(two.first.renew(before))
    assert claim.epoch == before.epoch and claim.session == before.session
    assert run(write_claimed(two.clients[0], claim, [[Create("/data/a")]])) == [["/data/a"]]
    with pytest.raises(ClaimLostError):
        run(write_claimed(two.clients[0], before, [[Create("/data/b")]]))
    with pytest.raises(ClaimLostError):
        run(two.first.renew(before))


def test_writes_of_a_zombie_are_refused(two: Two) -> None:
    claim = two.claim()
    ops = [[Create("/data/a", b"1")], [Create("/data/b", b"1")]]
    assert run(write_claimed(two.clients[0], claim, ops)) == [["/data/a"], ["/data/b"]]
    run(two.first.confirm(claim))
    run(two.clients[1].delete(two.path))
    later = two.claim_second()
    assert later is not None and later.epoch == 2
    with pytest.raises(ClaimLostError):
        run(write_claimed(two.clients[0], claim, [[SetData("/data/a", b"2")]]))
    with pytest.raises(ClaimLostError):
        run(two.first.confirm(claim))
    assert two.server.data("/data/a") == b"1"


def test_writes_of_an_earlier_session_are_never_sent(two: Two) -> None:
    claim = two.claim()
    two.clients[0].expire_session()
    with pytest.raises(SessionExpiredError):
        run(write_claimed(two.clients[0], claim, [[Create("/data/a")]]))
    assert "/data/a" not in two.server.paths()


def fence(claim: Claim | None, client: MemoryZkClient) -> WriteFence:
    return WriteFence(None, client.session) if claim is None else claim.fence()


# trap: kafkalite/zk/stores/fenced_write.py: Claims share a multi: one that is lost would fail the writes of the others.
def test_neighbours_in_a_transaction_do_not_spoil_each_other(coordinators: Two) -> None:
    """Writes under three groups' claims and without a claim: one claim is lost, one operation fails."""
    client = coordinators.clients[0]
    claims = [claim for name in "ghi" if (claim := run(coordinators.first.claim(f"/consumers/{name}", 1)))]
    run(coordinators.clients[1].set("/consumers/h/coordinator_epoch", b"9"))
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
        assert path not in coordinators.server.paths()


def test_an_unknown_outcome_is_not_taken_for_success(coordinators: Two) -> None:
    claim = coordinators.claim()
    client = coordinators.clients[0]
    client.black_hole(apply=True)
    failures: list[Any] = []
    deferred(write_fenced(client, [FencedWrite(claim.fence(), [Create(f"{BASE}/{n}")]) for n in "ab"])).addCallback(
        failures.extend
    )
    client.lose_connection()
    assert len(failures) == 2 and all(isinstance(failure, ConnectionLostError) for failure in failures)
    assert all(isinstance(failure, ZkError) for failure in failures)

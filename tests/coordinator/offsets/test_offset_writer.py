"""Commits in flight: coalesced, bounded, in order, and independent of the other commits in their transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.offsets import offset_writer
from kafkalite.zk.stores.claims import Claim, ClaimLostError
from kafkalite.zk.stores.fenced_write import MAX_BYTES, MAX_OPS, op_size
from kafkalite.zk.zk_client import Create, Delete, Op
from kafkalite.zk.znodes.consumers import group_path
from kafkalite.zk.znodes.offsets import OffsetAndMetadata
from tests.coordinator.offsets.fixtures import T0, T1, U0, G, OffsetManagerFixture
from tests.support import Started

OK = ErrorCode.NONE


class Slow(OffsetManagerFixture):
    """Every answer of ZooKeeper takes 10 ms."""

    def __init__(self) -> None:
        super().__init__(0.01)
        self.multis: list[list[Op]] = []
        client = self.first.client
        original = client.multi

        def multi(ops: Sequence[Op], *, session: int | None = None) -> Any:
            self.multis.append(list(ops))
            return original(ops, session=session)

        client.multi = multi  # type: ignore[method-assign]

    def wait(self, work: Any) -> Any:
        started = work if isinstance(work, Started) else Started(work)
        for _ in range(200):
            if started.done:
                break
            self.clock.advance(0.01)
        return started.result

    def claimed(self, group: str = G) -> Claim:
        claim = self.wait(self.first.claims.claim(group_path(group), 1))
        assert isinstance(claim, Claim)
        return claim

    def commit(self, offset: int, claim: Claim | None, *tps: TopicPartition, group: str = G) -> Started:
        offsets = {tp: OffsetAndMetadata(offset) for tp in tps or (T0,)}
        return Started(self.first.offsets.commit(group, offsets, claim))

    def number(self, tp: TopicPartition = T0, group: str = G) -> int:
        return int(self.server.data(f"{group_path(group)}/offsets/{tp.topic}/{tp.partition}"))

    def crowd(self) -> list[Started]:
        """Start the maximum of batches in flight, so that later commits wait."""
        claims = [self.claimed(f"crowd{index}") for index in range(offset_writer.MAX_UNDER_WAY)]
        return [self.commit(0, claim, group=f"crowd{index}") for index, claim in enumerate(claims)]


@pytest.fixture
def fixture() -> Slow:
    return Slow()


def test_the_latest_waiting_commit_of_a_partition_wins(fixture: Slow) -> None:
    claim = fixture.claimed()
    fixture.wait(fixture.commit(1, claim))
    first, *others = [fixture.commit(offset, claim) for offset in (2, 3, 4, 5)]
    assert fixture.wait(first) == {T0: OK} and not any(other.done for other in others)
    assert fixture.number() == 2 or fixture.number() == 5
    for other in others:
        assert fixture.wait(other) == {T0: OK}
    assert fixture.number() == 5
    assert fixture.server.tree.node("/consumers/g/offsets/t/0").version == 2, "three commits, one write"


def test_a_commit_is_answered_when_all_of_it_is_durable(fixture: Slow) -> None:
    claim = fixture.claimed()
    fixture.wait(fixture.commit(1, claim, T0))
    under_way = fixture.commit(2, claim, T0)
    both = fixture.commit(3, claim, T0, T1)
    fixture.wait(under_way)
    assert not both.done
    assert fixture.wait(both) == {T0: OK, T1: OK}
    assert (fixture.number(T0), fixture.number(T1)) == (3, 3)


# trap: kafkalite/coordinator/offsets/offset_writer.py: An offset goes backward while an older write of it is retried.
def test_an_offset_never_goes_backward_while_a_write_is_tried_again(fixture: Slow) -> None:
    claim = fixture.claimed()
    fixture.wait(fixture.commit(1, claim, T0, T1))
    fixture.server.tree.multi([*_deletes("/consumers/g/offsets/t/1")], 0)
    first = fixture.commit(2, claim, T0, T1)  # refused as a whole, as the number of t-1 is gone
    second = fixture.commit(3, claim, T0)
    seen = []
    while not (first.done and second.done):
        fixture.clock.advance(0.01)
        seen.append(fixture.number())
    assert seen == sorted(seen) and fixture.number() == 3
    assert first.result == {T0: OK, T1: OK} and fixture.number(T1) == 2


def test_a_refused_commit_does_not_fail_others_in_its_transaction(fixture: Slow) -> None:
    """Five commits in one transaction: those with a lost claim or an expired session fail, the others succeed."""
    names = ["good", "lost", "plain", "gone"]
    claims: dict[str, Claim | None] = {name: fixture.claimed(name) for name in names}
    claims["plain"] = None
    for name in names:
        fixture.wait(fixture.commit(1, claims[name], group=name))
    crowd = fixture.crowd()
    fixture.server.tree.multi([*_deletes("/consumers/gone/offsets/t/0", "/consumers/gone/offsets/t")], 0)
    fixture.server.tree.multi([*_deletes("/consumers/lost/coordinator_epoch")], 0)
    before = len(fixture.multis)
    commits = {name: fixture.commit(2, claims[name], group=name) for name in names}
    assert len(fixture.multis) == before, "they gather"
    for name in ("good", "plain", "gone"):
        assert fixture.wait(commits[name]) == {T0: OK}
        assert fixture.number(group=name) == 2
    with pytest.raises(ClaimLostError):
        fixture.wait(commits["lost"])
    assert fixture.number(group="lost") == 1
    assert all(fixture.wait(each) == {T0: OK} for each in crowd)


def test_small_commits_form_one_batch_while_others_are_in_flight(fixture: Slow) -> None:
    names = [f"g{index}" for index in range(50)]
    claims = [fixture.claimed(name) for name in names]
    for name, claim in zip(names, claims, strict=True):
        fixture.wait(fixture.commit(1, claim, group=name))
    before = len(fixture.multis)
    commits = [fixture.commit(2, claim, group=name) for name, claim in zip(names, claims, strict=True)]
    for each in commits:
        assert fixture.wait(each) == {T0: OK}
    assert len(fixture.multis) - before == offset_writer.MAX_UNDER_WAY + 1


def test_transactions_are_bounded(fixture: Slow) -> None:
    fixture.partitions = {TopicPartition("t", index) for index in range(1000)}
    claim = fixture.claimed()
    fixture.wait(fixture.commit(1, claim, *fixture.partitions))
    value = OffsetAndMetadata(2, metadata="x" * 4000)
    before = len(fixture.multis)
    outcome = fixture.wait(fixture.first.offsets.commit(G, dict.fromkeys(fixture.partitions, value), claim))
    assert set(outcome.values()) == {OK}
    made = fixture.multis[before:]
    assert all(len(ops) <= MAX_OPS + 1 and sum(map(op_size, ops)) <= MAX_BYTES + 1000 for ops in made)
    assert len(made) == 13


def test_a_commit_with_interference_in_each_attempt_fails_with_a_retriable_error(fixture: Slow) -> None:
    claim = fixture.claimed()
    fixture.wait(fixture.commit(1, claim))
    path = "/consumers/g/offsets/t/0"

    def in_the_way(name: str, _path: str) -> None:
        if name == "multi":
            there = path in fixture.server.paths()
            fixture.server.tree.multi([*_deletes(path)] if there else [Create(path, b"1")], 0)

    fixture.first.client.before = in_the_way
    # Not UNKNOWN_SERVER_ERROR, because consumers do not retry it.
    assert fixture.wait(fixture.commit(2, claim)) == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    fixture.first.client.before = None
    assert fixture.wait(fixture.commit(2, claim)) == {T0: OK}


def test_a_lost_connection_leaves_the_outcome_unknown(fixture: Slow) -> None:
    claim = fixture.claimed()
    fixture.wait(fixture.commit(1, claim))
    commit, waiting = fixture.commit(2, claim), fixture.commit(3, claim)
    fixture.first.client.lose_connection()
    for each in (commit, waiting):
        assert fixture.wait(each) == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    fixture.first.client.reconnect()
    assert fixture.wait(fixture.commit(4, claim)) == {T0: OK}
    assert fixture.number() == 4


def test_old_and_new_commits_of_one_partition_do_not_cover_each_other(fixture: Slow) -> None:
    """A number without a claim must not be refused, nor let through, because of a claim that is lost."""
    claim = fixture.claimed()
    fixture.wait(fixture.commit(1, claim))
    fixture.server.tree.multi([*_deletes("/consumers/g/coordinator_epoch")], 0)
    under_way = fixture.commit(2, None)
    fenced, plain = fixture.commit(3, claim), fixture.commit(4, None)
    assert fixture.wait(under_way) == {T0: OK} and fixture.wait(plain) == {T0: OK}
    with pytest.raises(ClaimLostError):
        fixture.wait(fenced)
    assert fixture.number() == 4


def test_the_memory_of_known_paths_is_bounded(fixture: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalite.zk.stores.offset_layout.MAX_PARTITIONS", 2)
    claim = fixture.claimed()
    for offset in range(3):
        for tp in (T0, T1, U0):
            assert fixture.wait(fixture.commit(offset, claim, tp)) == {tp: OK}
    assert fixture.number(U0) == 2


def _deletes(*paths: str) -> list[Op]:
    return [Delete(path) for path in paths]

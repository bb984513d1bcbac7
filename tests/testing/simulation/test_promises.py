"""A coordinator's answer that ZooKeeper or the replicas do not back is reported at once."""

from __future__ import annotations

import pytest

from kafkalite.common.types import TopicPartition
from kafkalite.testing.history.events import (
    Committed,
    Heartbeat,
    Heartbeating,
    Initialized,
    OffsetCommitted,
    OffsetCommitting,
    OffsetFetched,
    OffsetFetching,
    OffsetStaged,
    Owned,
    RecordId,
    Sent,
)
from kafkalite.testing.simulation.invariants import Kind, ZnodeChange
from kafkalite.testing.simulation.promises import Promises, Surroundings
from kafkalite.testing.znodes import Znode
from kafkalite.zk.znodes import claims, consumers, offsets, topics
from kafkalite.zk.znodes.groups import Generation, encode_generation, generation_path
from kafkalite.zk.znodes.offsets import OffsetAndMetadata, StagedOffsets, TxnProducer
from kafkalite.zk.znodes.transactions import TransactionMetadata, TransactionState, encode_transaction, id_path

TP = TopicPartition("t", 0)
S = TransactionState


class PromisesFixture:
    """The tree, with group g and topic t; nothing is open anywhere, unless :attr:`open_on` says where."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.open_on = ""
        self.nodes = {consumers.group_path("g"): znode(b"", 1), topics.topic_path("t"): znode(b"", 1)}
        around = Surroundings(
            self.nodes, lambda _tp, _id, _epoch: self.open_on, lambda: self.now, {}, 3.0, lambda _: self.suspended_at
        )
        self.suspended_at: float | None = None
        self.promises = Promises(around, self.told.append)
        self.now = 0.0
        self.zxid = 1

    def put(self, path: str, data: bytes) -> None:
        """Write one znode."""
        self.zxid += 1
        self.nodes[path] = znode(data, self.zxid)
        above = path.rpartition("/")[0]
        self.nodes.setdefault(above, znode(b"", 1)).children[path.rpartition("/")[2]] = None
        self.promises.committed(self.zxid, [ZnodeChange(Kind.CHANGED, path, data)])

    def remove(self, path: str) -> None:
        """Delete one znode."""
        self.zxid += 1
        self.promises.committed(self.zxid, [ZnodeChange(Kind.DELETED, path, self.nodes.pop(path).data)])

    def transaction(self, state: TransactionState) -> None:
        """The transaction of producer 5 in epoch 0 comes to ``state``."""
        data = encode_transaction(
            TransactionMetadata("x", 5, 0, state=state, partitions=frozenset({TP}), groups=frozenset({"g"}))
        )
        self.put(id_path(3, "x"), data)

    def stage(self) -> None:
        """Stage offset 4."""
        producer = TxnProducer("x", 5, 0)
        path = f"{offsets.staged_path('g')}/{offsets.staged_name(producer)}"
        self.put(path, offsets.encode_staged(StagedOffsets(producer, {TP: OffsetAndMetadata(4)})))


def znode(data: bytes, mzxid: int) -> Znode:
    return Znode(data, 1, mzxid, 0)


@pytest.mark.parametrize(("stored", "told"), [(None, -1), (3, 3), (4, None), (5, None)])
def test_an_acknowledged_offset_is_in_zookeeper(stored: int | None, told: int | None) -> None:
    fixture = PromisesFixture()
    if stored is not None:
        fixture.put(consumers.offset_path("g", TP), str(stored).encode())
    fixture.promises.note(OffsetCommitted("g", "t-0", 4, 2))
    line = f"group g in t-0: the commit of offset 4 was acknowledged, ZooKeeper has had {told} at most"
    assert fixture.told == ([] if told is None else [line])


@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize(("stored", "fine"), [(1, False), (2, True), (3, True)])
def test_an_assignment_is_of_a_generation_that_zookeeper_had(stored: int, fine: bool, removed: bool) -> None:
    """A member that slept sees its assignment after its group was removed (seed 60434)."""
    fixture = PromisesFixture()
    fixture.put(generation_path("g"), encode_generation(Generation(stored)))
    if removed:
        fixture.remove(generation_path("g"))
    fixture.promises.note(Owned("g", 2, "m", ("t-0",)))
    line = f"group g: m was told its assignment in generation 2, ZooKeeper has had {stored} at most"
    assert fixture.told == ([] if fine else [line])


@pytest.mark.parametrize(("generation", "fine"), [(1, False), (2, True), (-1, True)])
def test_a_commit_in_an_ended_generation_is_reported(generation: int, fine: bool) -> None:
    """Generation -1: a commit of no member."""
    fixture = PromisesFixture()
    fixture.put(consumers.offset_path("g", TP), b"4")
    fixture.put(generation_path("g"), encode_generation(Generation(2)))
    fixture.promises.note(OffsetCommitting("g", "t-0", 4, generation))
    fixture.promises.note(OffsetCommitted("g", "t-0", 4, generation))
    line = (
        "group g in t-0: the commit of offset 4 in generation 1 was acknowledged, which had ended: ZooKeeper had "
        "generation 2"
    )
    assert fixture.told == ([] if fine else [line])


def test_a_commit_may_be_answered_after_its_generation() -> None:
    fixture = PromisesFixture()
    fixture.put(consumers.offset_path("g", TP), b"4")
    fixture.put(generation_path("g"), encode_generation(Generation(1)))
    fixture.promises.note(OffsetCommitting("g", "t-0", 4, 1))
    fixture.put(generation_path("g"), encode_generation(Generation(2)))
    fixture.promises.note(OffsetCommitted("g", "t-0", 4, 1))
    assert fixture.told == []


@pytest.mark.parametrize("decided", [True, False])
def test_a_transaction_is_committed_once_that_is_decided(decided: bool) -> None:
    fixture = PromisesFixture()
    fixture.promises.note(Initialized("p.1", "x", 5, 0))
    fixture.transaction(S.ONGOING)
    fixture.promises.note(Sent(RecordId("p.1", 1), "t-0", 1))
    if decided:
        fixture.transaction(S.PREPARE_COMMIT)
    fixture.promises.note(Committed("p.1", 1))
    fixture.promises.note(Committed("p.1", 2))  # nothing was sent in it
    line = "transaction 1 of p.1 was answered as committed, ZooKeeper has 0 decisions of producer (5, 0), not 1"
    assert fixture.told == ([] if decided else [line])


@pytest.mark.parametrize("how", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
@pytest.mark.parametrize("who", ["", "2 of the ISR [1, 2] from offset 3 on"])
def test_a_transaction_ends_once_every_partition_has_its_marker(how: TransactionState, who: str) -> None:
    fixture = PromisesFixture()
    fixture.transaction(S.ONGOING)
    fixture.transaction(how)
    fixture.open_on = who
    fixture.transaction(S.COMPLETE_COMMIT if how is S.PREPARE_COMMIT else S.COMPLETE_ABORT)
    line = f"transaction x of producer 5 ended, and in t-0 it is open on {who}"
    assert fixture.told == ([line] if who else [])


@pytest.mark.parametrize("copied", [True, False])
def test_a_transaction_ends_once_its_offsets_are_the_groups(copied: bool) -> None:
    fixture = PromisesFixture()
    fixture.put(consumers.offset_path("g", TP), b"2")
    fixture.transaction(S.ONGOING)
    fixture.stage()
    fixture.transaction(S.PREPARE_COMMIT)
    if copied:
        fixture.put(consumers.offset_path("g", TP), b"4")
    fixture.transaction(S.COMPLETE_COMMIT)
    line = "transaction x of producer 5 ended, and its offset 4 of t-0 is not that of group g"
    assert fixture.told == ([] if copied else [line])


def heartbeat(fixture: PromisesFixture, generation: int, member: str) -> None:
    """Broker 1 confirms a member of the group."""
    fixture.promises.note(Heartbeating("g", generation, "m", member))
    fixture.promises.note(Heartbeat("g", generation, "m", member, "broker-1"))


def claimed() -> PromisesFixture:
    """A group that broker 1 coordinates, in generation 2."""
    fixture = PromisesFixture()
    fixture.put(
        claims.COORDINATOR_CLAIM.claim_path(consumers.group_path("g")), claims.COORDINATOR_CLAIM.encode_claim(1, 0)
    )
    fixture.put(generation_path("g"), encode_generation(Generation(2)))
    return fixture


@pytest.mark.parametrize(("generation", "fine"), [(1, False), (2, True)])
def test_a_generation_that_is_over_is_not_confirmed(generation: int, fine: bool) -> None:
    fixture = claimed()
    heartbeat(fixture, generation, "m-1")
    line = f"group g: m (m-1) in generation {generation} was confirmed by broker-1, which had begun generation 2"
    assert fixture.told == ([] if fine else [line])


def test_of_two_with_one_instance_one_is_confirmed() -> None:
    fixture = claimed()
    heartbeat(fixture, 2, "m-1")
    heartbeat(fixture, 2, "m-2")
    assert fixture.told == []
    heartbeat(fixture, 2, "m-1")
    assert fixture.told == [
        "group g: m (m-1) in generation 2 was confirmed by broker-1, which had confirmed m-2 instead of it"
    ]


@pytest.mark.parametrize(("later", "fine"), [(3.4, True), (3.6, False)])
def test_without_its_claim_a_coordinator_gives_up(later: float, fine: bool) -> None:
    fixture = claimed()
    path = claims.COORDINATOR_CLAIM.claim_path(consumers.group_path("g"))
    del fixture.nodes[path]
    fixture.promises.committed(9, [ZnodeChange(Kind.DELETED, path)])
    fixture.now = later
    heartbeat(fixture, 2, "m-1")
    line = f"group g: m (m-1) in generation 2 was confirmed by broker-1, whose claim had ended {later} s before"
    assert fixture.told == ([] if fine else [line])


@pytest.mark.parametrize("claim_ended", [1.0, 7.0], ids=["loads the group", "has the group"])
@pytest.mark.parametrize(("later", "fine"), [(3.4, True), (3.6, False)])
def test_a_coordinator_that_knows_that_it_is_cut_off_gives_up(later: float, fine: bool, claim_ended: float) -> None:
    fixture = claimed()
    path = claims.COORDINATOR_CLAIM.claim_path(consumers.group_path("g"))
    fixture.suspended_at = 4.0
    fixture.now = claim_ended
    del fixture.nodes[path]
    fixture.promises.committed(9, [ZnodeChange(Kind.DELETED, path)])
    fixture.now = 4.0 + later
    heartbeat(fixture, 2, "m-1")
    line = f"group g: m (m-1) in generation 2 was confirmed by broker-1, without ZooKeeper for {later} s"
    assert fixture.told == ([] if fine else [line])


@pytest.mark.parametrize(
    ("state", "is_told", "fine"),
    [(S.ONGOING, True, False), (S.PREPARE_COMMIT, True, True), (S.ONGOING, False, True)],
)
def test_no_offset_is_shown_past_an_open_transaction(state: TransactionState, is_told: bool, fine: bool) -> None:
    """An offset counts as staged once its producer was told so."""
    fixture = claimed()
    fixture.transaction(S.ONGOING)
    fixture.stage()
    if is_told:
        fixture.promises.note(OffsetStaged("g", "t-0", "x"))
    fixture.promises.note(OffsetFetching("m", "g"))
    fixture.transaction(state)
    fixture.promises.note(OffsetFetched("m", "g", "t-0", 2, "broker-1"))
    line = "group g in t-0: offset 2 was shown to m, while the transaction x was open, which had staged another"
    assert fixture.told == ([] if fine else [line])

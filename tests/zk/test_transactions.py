"""Znodes and store of transactions."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

import zk_schema
from kafkalite.common.types import TopicPartition
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.zookeeper import MemoryZkClient, MemoryZooKeeper
from kafkalite.zk.stores.claims import Claim, ClaimLostError, ClaimStore
from kafkalite.zk.stores.transactions import NEW, Stored, TransactionStore
from kafkalite.zk.verify import verify
from kafkalite.zk.zk_client import BadVersionError, ConnectionLostError, NodeExistsError, SessionExpiredError
from kafkalite.zk.znodes import transactions
from kafkalite.zk.znodes.codec import MalformedZnodeError, decode_name
from kafkalite.zk.znodes.transactions import TransactionMetadata, TransactionState
from tests.support import run

EXAMPLE = TransactionMetadata(
    "orders-1",
    3000,
    4,
    3000,
    -1,
    60000,
    TransactionState.ONGOING,
    frozenset({TopicPartition("orders", 0), TopicPartition("orders", 2), TopicPartition("payments", 1)}),
    frozenset({"billing"}),
    1795261479280,
    1795261479291,
)


def kind(name: str) -> zk_schema.ZnodeSchema:
    return next(found for found in zk_schema.schemas() if found.name == name)


class TransactionStoreFixture:
    """One ZooKeeper and brokers' stores on it."""

    def __init__(self) -> None:
        self.server = MemoryZooKeeper()
        self.clock = ManualClock()

    def store(self) -> tuple[TransactionStore, ClaimStore, MemoryZkClient]:
        client = self.server.client()
        claims = ClaimStore(client, self.clock)
        return TransactionStore(client, 7), claims, client

    def claimed(self, transactional_id: str, broker_id: int = 1) -> tuple[TransactionStore, Claim, MemoryZkClient]:
        store, claims, client = self.store()
        number = run(store.partition_for(transactional_id))
        run(store.prepare(number))
        claim = run(claims.claim(transactions.partition_path(number), broker_id))
        assert isinstance(claim, Claim)
        return store, claim, client


# Znodes


def test_what_is_written_and_read_is_the_example() -> None:
    written = transactions.encode_transaction(EXAMPLE)
    assert written == kind("transactional_id").example()
    assert transactions.decode_transaction("p", written, "orders-1") == EXAMPLE
    assert transactions.encode_root(50) == kind("transactions").example()
    assert transactions.decode_root(kind("transactions").example()) == 50


@pytest.mark.parametrize("state", TransactionState)
def test_every_state_there_and_back(state: TransactionState) -> None:
    metadata = TransactionMetadata("t", 5, state=state)
    assert transactions.decode_transaction("p", transactions.encode_transaction(metadata), "t") == metadata


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"{}",
        b"[]",
        kind("transactional_id").example().replace(b"Ongoing", b"Running"),
        kind("transactional_id").example().replace(b'["billing"]', b'"billing"'),
        kind("transactional_id").example().replace(b'["billing"]', b"[1]"),
        kind("transactional_id").example().replace(b"[0,2]", b"2"),
        kind("transactional_id").example().replace(b"[0,2]", b'["x"]'),
        kind("transactional_id").example().replace(b'"producer_epoch":4,', b""),
    ],
)
def test_malformed_states_say_where(data: bytes) -> None:
    with pytest.raises(MalformedZnodeError, match="the path"):
        transactions.decode_transaction("the path", data, "t")


@pytest.mark.parametrize("data", [b"", b"{}", b'{"partitions":0}', b'{"partitions":"many"}'])
def test_malformed_root(data: bytes) -> None:
    with pytest.raises(MalformedZnodeError, match="/transactions"):
        transactions.decode_root(data)


@pytest.mark.parametrize(
    ("transactional_id", "count", "number"),
    # As `Utils.abs(id.hashCode) % count` says in Java; the last ones hash to the least integer, whose absolute is 0.
    [
        ("", 50, 0),
        ("tx", 50, 16),
        ("my-transactional-id", 50, 46),
        ("zażółć", 50, 39),
        ("𝛑", 50, 10),
        ("polygenelubricants", 50, 0),
        ("polygenelubricants", 7, 0),
    ],
)
def test_the_state_partition_is_kafkas(transactional_id: str, count: int, number: int) -> None:
    assert transactions.state_partition_for(transactional_id, count) == number


@pytest.mark.parametrize("name", ["tx", "a/b", "", "..", "%41", "ünï", "\x00", "x" * 300])
def test_names_survive_their_paths(name: str) -> None:
    path = transactions.id_path(3, name)
    assert path.startswith("/transactions/3/ids/") and path.count("/") == 4
    assert decode_name(path.rpartition("/")[2]) == name
    assert zk_schema.lookup(path) is kind("transactional_id")


# The store


def test_the_number_of_partitions_is_decided_once() -> None:
    fixture = TransactionStoreFixture()
    first, _, _ = fixture.store()
    assert run(first.count()) == 7
    client = fixture.server.client()
    second = TransactionStore(client, 50)
    assert run(second.count()) == 7


def test_written_loaded_and_a_clean_tree() -> None:
    fixture = TransactionStoreFixture()
    store, claim, _ = fixture.claimed("orders-1")
    assert run(store.existing()) and not run(store.has_ids(run(store.partition_for("orders-1"))))
    stored = run(store.write(claim, EXAMPLE, NEW))
    assert stored == Stored(EXAMPLE, 1, stored.mzxid)
    ended = EXAMPLE.with_(state=TransactionState.PREPARE_COMMIT)
    later = run(store.write(claim, ended, stored.version))
    assert later.mzxid > stored.mzxid
    assert run(store.load(run(store.partition_for("orders-1")))) == {"orders-1": later}
    assert run(store.has_ids(run(store.partition_for("orders-1"))))
    read = run(store.read("orders-1"))
    assert read is not None
    metadata, stat = read
    assert (metadata, stat.version, stat.mzxid) == (ended, later.version, later.mzxid)
    assert run(store.read("nobody")) is None
    tree = fixture.server.tree.nodes
    for path in fixture.server.paths("/transactions"):
        found = zk_schema.lookup(path)
        assert found is not None, path
        jsonschema.Draft202012Validator(found.schema).validate(found.value(tree[path].data))
    assert not [fault for fault in verify({p: (n.data, n.stat()) for p, n in tree.items()}) if "transact" in fault.path]


@pytest.mark.parametrize("name", ["a/b", "..", "%", "%41", "\x00", "ünï ©ode"])
def test_ids_of_every_kind_are_written_and_loaded(name: str) -> None:
    fixture = TransactionStoreFixture()
    store, claim, _ = fixture.claimed(name)
    metadata = TransactionMetadata(name, 5, 0, timeout_ms=1, update_ms=1)
    stored = run(store.write(claim, metadata, NEW))
    assert run(store.load(run(store.partition_for(name)))) == {name: stored}
    assert run(store.remove(claim, [stored])) == [True]


def test_one_that_cannot_be_understood_does_not_hide_the_others() -> None:
    fixture = TransactionStoreFixture()
    store, claim, client = fixture.claimed("orders-1")
    run(store.write(claim, EXAMPLE, NEW))
    number = run(store.partition_for("orders-1"))
    run(client.create(f"{transactions.ids_path(number)}/broken", b"{"))
    assert set(run(store.load(number))) == {"orders-1"}


def test_writes_are_against_what_was_read() -> None:
    fixture = TransactionStoreFixture()
    store, claim, _ = fixture.claimed("orders-1")
    run(store.write(claim, EXAMPLE, NEW))
    with pytest.raises(NodeExistsError):
        run(store.write(claim, EXAMPLE, NEW))
    with pytest.raises(BadVersionError):
        run(store.write(claim, EXAMPLE, 0))


def test_a_coordinator_that_lost_its_claim_cannot_write() -> None:
    fixture = TransactionStoreFixture()
    store, claim, client = fixture.claimed("orders-1")
    stored = run(store.write(claim, EXAMPLE, NEW))
    # A new session of the same broker claims again: the old claim's writes are of another session.
    fixture.server.expire(client.session)
    with pytest.raises((ConnectionLostError, SessionExpiredError)):
        run(store.write(claim, EXAMPLE, stored.version))
    client.reconnect()
    with pytest.raises(SessionExpiredError):
        run(store.write(claim, EXAMPLE, stored.version))
    other, newer, other_client = fixture.claimed("orders-1", 2)
    assert newer.epoch == claim.epoch + 1
    stale = Claim(claim.base, claim.broker_id, claim.epoch, claim.epoch_version, other_client.session)
    with pytest.raises(ClaimLostError):
        run(other.write(stale, EXAMPLE, stored.version))
    assert run(other.write(newer, EXAMPLE, stored.version)).metadata == EXAMPLE


def test_removal_spares_what_was_used_meanwhile() -> None:
    fixture = TransactionStoreFixture()
    store, claim, _ = fixture.claimed("orders-1")
    stored = run(store.write(claim, EXAMPLE, NEW))
    changed = run(store.write(claim, EXAMPLE, stored.version))
    assert run(store.remove(claim, [stored])) == [False]
    assert run(store.remove(claim, [changed])) == [True]
    assert run(store.read("orders-1")) is None


def test_the_current_state_is_read_again_when_it_changes_under_the_reader() -> None:
    fixture = TransactionStoreFixture()
    store, claim, client = fixture.claimed("orders-1")
    assert run(store.read_current("orders-1")) is None
    stored = run(store.write(claim, EXAMPLE, NEW))
    assert run(store.read_current("orders-1")) == EXAMPLE
    multi, ended = client.multi, EXAMPLE.with_(state=TransactionState.PREPARE_ABORT)

    def changed_first(ops: Any, *, session: int | None = None) -> Any:
        client.multi = multi  # type: ignore[method-assign]
        run(store.write(claim, ended, stored.version))
        return multi(ops, session=session)

    client.multi = changed_first  # type: ignore[method-assign]
    assert run(store.read_current("orders-1")) == ended


def test_topics_are_looked_up_in_zookeeper() -> None:
    fixture = TransactionStoreFixture()
    store, _, client = fixture.store()
    assert not run(store.topic_exists("t"))
    for path in ("/brokers", "/brokers/topics", "/brokers/topics/t"):
        run(client.create(path))
    assert run(store.topic_exists("t"))

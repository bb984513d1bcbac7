"""All brokers answer the same committed offsets, also after edits and lost connections."""

from __future__ import annotations

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.offsets.offset_manager import OffsetConfig
from kafkalite.zk.stores.claims import ClaimLostError
from kafkalite.zk.stores.paths import ensure
from kafkalite.zk.znodes.consumers import group_path
from kafkalite.zk.znodes.offsets import OffsetAndMetadata, TxnProducer
from tests.coordinator.offsets.fixtures import T0, T1, U0, G, OffsetManagerFixture
from tests.support import run

FULL = OffsetAndMetadata(7, 3, "näh", 1_600_000_000_000)


@pytest.fixture
def fixture() -> OffsetManagerFixture:
    return OffsetManagerFixture()


def test_every_broker_answers_a_committed_offset(fixture: OffsetManagerFixture) -> None:
    claim = fixture.first.claim()
    assert fixture.second.fetch(T0, T1) == {}, "and remembered as such"
    errors = run(fixture.first.offsets.commit(G, {T0: FULL, T1: OffsetAndMetadata(9)}, claim))
    assert errors == {T0: ErrorCode.NONE, T1: ErrorCode.NONE}
    now = OffsetAndMetadata(9, commit_timestamp_ms=fixture.clock.time_ms())
    for broker in (fixture.first, fixture.second):
        assert broker.fetch(T0, T1, U0) == {T0: FULL, T1: now}
        assert broker.fetch() == {T0: FULL, T1: now}
    assert fixture.server.data("/consumers/g/offsets/t/0") == b"7"


def test_a_cached_offset_is_not_read_again(fixture: OffsetManagerFixture) -> None:
    run(fixture.first.offsets.commit(G, {T0: FULL}, fixture.first.claim()))
    fixture.second.fetch()
    fixture.second.fetch(T0)
    before = fixture.second.client.requests
    for _ in range(3):
        assert fixture.second.number() == 7 and len(fixture.second.fetch()) == 1
    assert fixture.second.client.requests == before
    fixture.edit(8)
    fixture.edit(9)
    assert fixture.second.client.requests == before, "an event alone reads nothing"
    assert fixture.second.number() == 9


def test_an_edited_number_is_valid_until_the_next_commit(fixture: OffsetManagerFixture) -> None:
    claim = fixture.first.claim()
    run(fixture.first.offsets.commit(G, {T0: FULL}, claim))
    assert fixture.second.fetch(T0) == {T0: FULL}
    fixture.edit(100)
    for broker in (fixture.first, fixture.second):
        assert broker.fetch(T0) == {T0: OffsetAndMetadata(100)}, "what the commit said does not belong to it"
    run(fixture.first.offsets.commit(G, {T0: FULL}, claim))
    assert fixture.second.fetch(T0) == {T0: FULL}


def test_a_commit_without_a_claim_writes_only_the_number(fixture: OffsetManagerFixture) -> None:
    run(fixture.first.offsets.commit(G, {T0: FULL}, fixture.first.claim()))
    assert run(fixture.second.offsets.commit(G, {T0: OffsetAndMetadata(8, 1, "x")}, None)) == {T0: ErrorCode.NONE}
    assert fixture.first.fetch(T0) == {T0: OffsetAndMetadata(8)}
    assert run(fixture.second.offsets.commit("new", {T1: OffsetAndMetadata(1)}, None)) == {T1: ErrorCode.NONE}
    assert fixture.server.paths("/consumers/new") == [
        "/consumers/new",
        "/consumers/new/offsets",
        "/consumers/new/offsets/t",
        "/consumers/new/offsets/t/1",
    ]


def test_odd_names_have_paths_of_their_own(fixture: OffsetManagerFixture) -> None:
    names = ["", ".", "..", "a/b", "a", "%", "%2F", "ü \n"]
    for offset, name in enumerate(names):
        claim = run(fixture.first.claims.claim(group_path(name), 1))
        run(fixture.first.offsets.commit(name, {T0: OffsetAndMetadata(offset)}, claim))
    for offset, name in enumerate(names):
        assert fixture.second.number(group=name) == offset
    assert run(fixture.second.offsets.groups()) == sorted(names)


def test_commits_of_unknown_partitions_and_long_metadata_are_refused(fixture: OffsetManagerFixture) -> None:
    fixture.first.offsets.config = OffsetConfig(max_metadata_size=3)
    missing = TopicPartition("t", 99)
    offsets = {T0: FULL, T1: OffsetAndMetadata(1, metadata="1234"), missing: OffsetAndMetadata(1)}
    assert run(fixture.first.offsets.commit(G, offsets, fixture.first.claim())) == {
        T0: ErrorCode.NONE,
        T1: ErrorCode.OFFSET_METADATA_TOO_LARGE,
        missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert fixture.first.fetch() == {T0: FULL}
    fixture.first.offsets.config = OffsetConfig(max_metadata_size=1 << 30)
    large = {T1: OffsetAndMetadata(1, metadata="ü" * 150_000), T0: OffsetAndMetadata(1, metadata="x" * 150_001)}
    assert run(fixture.first.offsets.commit(G, large, fixture.first.claim())) == {
        T1: ErrorCode.NONE,
        T0: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    }


# trap: kafkalite/coordinator/offsets/offset_writer.py: A coordinator that was cut off commits an offset after another
# broker has claimed the group.
def test_a_zombie_cannot_commit(fixture: OffsetManagerFixture) -> None:
    zombie = fixture.first.claim()
    run(fixture.first.offsets.commit(G, {T0: FULL}, zombie))
    run(fixture.hand.delete("/consumers/g/coordinator"))
    claim = fixture.second.claim()
    with pytest.raises(ClaimLostError):
        run(fixture.first.offsets.commit(G, {T0: OffsetAndMetadata(1), U0: OffsetAndMetadata(2)}, zombie))
    assert fixture.second.fetch() == {T0: FULL}
    assert "/consumers/g/offsets/u" not in fixture.server.paths(), "not even a container"
    assert run(fixture.second.offsets.commit(G, {T0: OffsetAndMetadata(8)}, claim)) == {T0: ErrorCode.NONE}


def test_a_claim_ends_with_its_session(fixture: OffsetManagerFixture) -> None:
    claim = fixture.first.claim()
    fixture.first.client.expire_session()
    with pytest.raises(ClaimLostError):
        run(fixture.first.offsets.commit(G, {T0: FULL}, claim))
    assert fixture.second.fetch(T0) == {}


def test_an_offset_is_found_by_a_broker_that_has_not_heard_of_the_topic_yet(fixture: OffsetManagerFixture) -> None:
    new = TopicPartition("new", 0)
    fixture.edit(5, new)
    assert fixture.first.fetch(new) == {}
    run(ensure(fixture.hand, "/brokers/topics/new"))
    assert fixture.first.number(new) == 5
    assert fixture.first.fetch(new, T0).keys() == {new}


def test_groups_and_topics_that_do_not_exist_are_not_watched(fixture: OffsetManagerFixture) -> None:
    for index in range(3):
        assert fixture.first.fetch(T0, TopicPartition("none", 0), group=f"g{index}") == {}
    assert not fixture.first.client._data_watches and len(fixture.first.offsets._reads) == 0
    fixture.edit(5)
    assert fixture.first.fetch(T0, TopicPartition("none", 0)).keys() == {T0}
    assert not [path for path in fixture.first.client._data_watches if "none" in path]


def test_staging_first_does_not_create_the_transactions_znode_with_its_own_number(
    fixture: OffsetManagerFixture,
) -> None:
    fixture.first.transactions._new_count = 7
    producer = TxnProducer("tx", 5, 0)
    run(fixture.first.offsets.stage(G, fixture.first.claim(), producer, {T0: OffsetAndMetadata(1)}))
    assert run(fixture.second.transactions.count()) == 7


def test_a_lost_connection_invalidates_the_cache(fixture: OffsetManagerFixture) -> None:
    fixture.edit(5)
    assert fixture.first.number() == 5
    fixture.first.client.lose_connection()
    fixture.edit(6)
    fixture.first.client.reconnect()
    assert fixture.first.number() == 6


# trap: kafkalite/coordinator/offsets/committed_offset_reader.py: The server of a new session lags behind the server of
# the old one, and shows older offsets.
def test_an_older_offset_from_a_lagging_server_is_not_answered(fixture: OffsetManagerFixture) -> None:
    """The server of a new session may not have the last write yet."""
    fixture.edit(5)
    node = fixture.server.tree.node("/consumers/g/offsets/t/0")
    before = node.mzxid
    fixture.edit(6)
    assert fixture.first.number() == 6
    fixture.first.client.expire_session()
    now, node.data, node.mzxid = node.mzxid, b"5", before
    assert fixture.first.number() == 6
    node.data, node.mzxid = b"6", now
    fixture.edit(3)
    assert fixture.first.number() == 3


@pytest.mark.parametrize("nonsense", ["nonsense", str(1 << 63)])
def test_a_malformed_number_is_an_error_until_it_is_mended(fixture: OffsetManagerFixture, nonsense: str) -> None:
    fixture.edit(nonsense)
    assert fixture.first.fetch(T0) == {T0: ErrorCode.UNKNOWN_SERVER_ERROR}
    fixture.edit(6)
    assert fixture.first.number() == 6


def test_an_offset_that_an_administrator_removed_is_gone(fixture: OffsetManagerFixture) -> None:
    claim = fixture.first.claim()
    run(fixture.first.offsets.commit(G, {T0: FULL}, claim))
    assert fixture.second.fetch() == {T0: FULL}
    for path in ("offsets/t/0", "offsets/t", "commits/t/0"):
        run(fixture.hand.delete(f"/consumers/g/{path}"))
    assert fixture.second.fetch() == {} and fixture.second.fetch(T0) == {}
    assert run(fixture.first.offsets.commit(G, {T0: FULL}, claim)) == {T0: ErrorCode.NONE}, "paths are made anew"
    assert fixture.second.fetch() == {T0: FULL}

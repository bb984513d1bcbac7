"""All brokers answer the same committed offsets, also after edits and lost connections."""

from __future__ import annotations

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.zk.stores.claims import ClaimLostError
from kafkalite.zk.stores.paths import ensure
from kafkalite.zk.znodes.consumers import group_path
from kafkalite.zk.znodes.offsets import OffsetAndMetadata, TxnProducer
from tests.coordinator.house import run
from tests.coordinator.offsets.house import T0, T1, U0, G, House

FULL = OffsetAndMetadata(7, 3, "näh", 1_600_000_000_000)


@pytest.fixture
def house() -> House:
    return House()


def test_every_broker_answers_a_committed_offset(house: House) -> None:
    claim = house.first.claim()
    assert house.second.fetch(T0, T1) == {}, "and remembered as such"
    errors = run(house.first.offsets.commit(G, {T0: FULL, T1: OffsetAndMetadata(9)}, claim))
    assert errors == {T0: ErrorCode.NONE, T1: ErrorCode.NONE}
    now = OffsetAndMetadata(9, commit_timestamp_ms=house.clock.time_ms())
    for broker in (house.first, house.second):
        assert broker.fetch(T0, T1, U0) == {T0: FULL, T1: now}
        assert broker.fetch() == {T0: FULL, T1: now}
    assert house.server.data("/consumers/g/offsets/t/0") == b"7"


def test_a_cached_offset_is_not_read_again(house: House) -> None:
    run(house.first.offsets.commit(G, {T0: FULL}, house.first.claim()))
    house.second.fetch()
    house.second.fetch(T0)
    before = house.second.client.requests
    for _ in range(3):
        assert house.second.number() == 7 and len(house.second.fetch()) == 1
    assert house.second.client.requests == before
    house.edit(8)
    house.edit(9)
    assert house.second.client.requests == before, "an event alone reads nothing"
    assert house.second.number() == 9


def test_an_edited_number_is_valid_until_the_next_commit(house: House) -> None:
    claim = house.first.claim()
    run(house.first.offsets.commit(G, {T0: FULL}, claim))
    assert house.second.fetch(T0) == {T0: FULL}
    house.edit(100)
    for broker in (house.first, house.second):
        assert broker.fetch(T0) == {T0: OffsetAndMetadata(100)}, "what the commit said does not belong to it"
    run(house.first.offsets.commit(G, {T0: FULL}, claim))
    assert house.second.fetch(T0) == {T0: FULL}


def test_a_commit_without_a_claim_writes_only_the_number(house: House) -> None:
    run(house.first.offsets.commit(G, {T0: FULL}, house.first.claim()))
    assert run(house.second.offsets.commit(G, {T0: OffsetAndMetadata(8, 1, "x")}, None)) == {T0: ErrorCode.NONE}
    assert house.first.fetch(T0) == {T0: OffsetAndMetadata(8)}
    assert run(house.second.offsets.commit("new", {T1: OffsetAndMetadata(1)}, None)) == {T1: ErrorCode.NONE}
    assert house.server.paths("/consumers/new") == [
        "/consumers/new",
        "/consumers/new/offsets",
        "/consumers/new/offsets/t",
        "/consumers/new/offsets/t/1",
    ]


def test_odd_names_have_paths_of_their_own(house: House) -> None:
    names = ["", ".", "..", "a/b", "a", "%", "%2F", "ü \n"]
    for offset, name in enumerate(names):
        claim = run(house.first.claims.claim(group_path(name), 1))
        run(house.first.offsets.commit(name, {T0: OffsetAndMetadata(offset)}, claim))
    for offset, name in enumerate(names):
        assert house.second.number(group=name) == offset
    assert run(house.second.offsets.groups()) == sorted(names)


def test_commits_of_unknown_partitions_and_long_metadata_are_refused(house: House) -> None:
    house.config["offset.metadata.max.bytes"] = 3
    missing = TopicPartition("t", 99)
    offsets = {T0: FULL, T1: OffsetAndMetadata(1, metadata="1234"), missing: OffsetAndMetadata(1)}
    assert run(house.first.offsets.commit(G, offsets, house.first.claim())) == {
        T0: ErrorCode.NONE,
        T1: ErrorCode.OFFSET_METADATA_TOO_LARGE,
        missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert house.first.fetch() == {T0: FULL}
    house.config["offset.metadata.max.bytes"] = 1 << 30
    large = {T1: OffsetAndMetadata(1, metadata="ü" * 150_000), T0: OffsetAndMetadata(1, metadata="x" * 150_001)}
    assert run(house.first.offsets.commit(G, large, house.first.claim())) == {
        T1: ErrorCode.NONE,
        T0: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    }


# trap: kafkalite/coordinator/offsets/offset_writer.py: A coordinator that was cut off commits an offset after another
# broker has claimed the group.
def test_a_zombie_cannot_commit(house: House) -> None:
    zombie = house.first.claim()
    run(house.first.offsets.commit(G, {T0: FULL}, zombie))
    run(house.hand.delete("/consumers/g/coordinator"))
    claim = house.second.claim()
    with pytest.raises(ClaimLostError):
        run(house.first.offsets.commit(G, {T0: OffsetAndMetadata(1), U0: OffsetAndMetadata(2)}, zombie))
    assert house.second.fetch() == {T0: FULL}
    assert "/consumers/g/offsets/u" not in house.server.paths(), "not even a container"
    assert run(house.second.offsets.commit(G, {T0: OffsetAndMetadata(8)}, claim)) == {T0: ErrorCode.NONE}


def test_a_claim_ends_with_its_session(house: House) -> None:
    claim = house.first.claim()
    house.first.client.expire_session()
    with pytest.raises(ClaimLostError):
        run(house.first.offsets.commit(G, {T0: FULL}, claim))
    assert house.second.fetch(T0) == {}


def test_an_offset_is_found_by_a_broker_that_has_not_heard_of_the_topic_yet(house: House) -> None:
    new = TopicPartition("new", 0)
    house.edit(5, new)
    assert house.first.fetch(new) == {}
    run(ensure(house.hand, "/brokers/topics/new"))
    assert house.first.number(new) == 5
    assert house.first.fetch(new, T0).keys() == {new}


def test_groups_and_topics_that_do_not_exist_are_not_watched(house: House) -> None:
    for index in range(3):
        assert house.first.fetch(T0, TopicPartition("none", 0), group=f"g{index}") == {}
    assert not house.first.client._data_watches and len(house.first.offsets._reads) == 0
    house.edit(5)
    assert house.first.fetch(T0, TopicPartition("none", 0)).keys() == {T0}
    assert not [path for path in house.first.client._data_watches if "none" in path]


def test_staging_first_does_not_create_the_transactions_znode_with_its_own_number(house: House) -> None:
    house.first.transactions._new_count = 7
    producer = TxnProducer("tx", 5, 0)
    run(house.first.offsets.stage(G, house.first.claim(), producer, {T0: OffsetAndMetadata(1)}))
    assert run(house.second.transactions.count()) == 7


def test_a_lost_connection_invalidates_the_cache(house: House) -> None:
    house.edit(5)
    assert house.first.number() == 5
    house.first.client.lose_connection()
    house.edit(6)
    house.first.client.reconnect()
    assert house.first.number() == 6


# trap: kafkalite/coordinator/offsets/committed_offset_reader.py: The server of a new session lags behind the server of
# the old one, and shows older offsets.
def test_an_older_offset_from_a_lagging_server_is_not_answered(house: House) -> None:
    """The server of a new session may not have the last write yet."""
    house.edit(5)
    node = house.server.tree.node("/consumers/g/offsets/t/0")
    before = node.mzxid
    house.edit(6)
    assert house.first.number() == 6
    house.first.client.expire_session()
    now, node.data, node.mzxid = node.mzxid, b"5", before
    assert house.first.number() == 6
    node.data, node.mzxid = b"6", now
    house.edit(3)
    assert house.first.number() == 3


@pytest.mark.parametrize("nonsense", ["nonsense", str(1 << 63)])
def test_a_malformed_number_is_an_error_until_it_is_mended(house: House, nonsense: str) -> None:
    house.edit(nonsense)
    assert house.first.fetch(T0) == {T0: ErrorCode.UNKNOWN_SERVER_ERROR}
    house.edit(6)
    assert house.first.number() == 6


def test_an_offset_that_an_administrator_removed_is_gone(house: House) -> None:
    claim = house.first.claim()
    run(house.first.offsets.commit(G, {T0: FULL}, claim))
    assert house.second.fetch() == {T0: FULL}
    for path in ("offsets/t/0", "offsets/t", "commits/t/0"):
        run(house.hand.delete(f"/consumers/g/{path}"))
    assert house.second.fetch() == {} and house.second.fetch(T0) == {}
    assert run(house.first.offsets.commit(G, {T0: FULL}, claim)) == {T0: ErrorCode.NONE}, "paths are made anew"
    assert house.second.fetch() == {T0: FULL}

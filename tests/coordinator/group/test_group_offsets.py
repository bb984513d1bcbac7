"""Commits, fetches and deletions of a group's offsets."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import Future, deferred
from kafkalite.common.types import TopicPartition
from kafkalite.coordinator.group.values import OffsetCommitRequest, TxnOffsetCommitRequest
from kafkalite.coordinator.offsets.transactional_offsets import TransactionalOffsets
from kafkalite.zk.stores.groups import GroupStore
from kafkalite.zk.stores.paths import set_or_create
from kafkalite.zk.zk_client import ConnectionLostError
from kafkalite.zk.znodes.consumers import offset_path
from kafkalite.zk.znodes.offsets import OffsetAndMetadata, TxnProducer
from tests.coordinator.group.fixtures import T0, T1, U0, Broker, G, GroupCoordinatorFixture
from tests.support import Started, run

NONE = ErrorCode.NONE


def delete(broker: Broker, *partitions: Any, group: str = G) -> Any:
    return run(broker.groups.admin.delete_offsets(group, partitions))


def txn(broker: Broker, offset: int = 5, **fields: Any) -> ErrorCode:
    producer = TxnProducer("tid", 1, 0)
    request = TxnOffsetCommitRequest(fields.pop("group", G), producer, {T0: OffsetAndMetadata(offset)}, **fields)
    error = run(broker.groups.offsets.txn_commit(request))[T0]
    assert isinstance(error, ErrorCode)
    return error


def test_a_client_that_is_no_member_commits_to_an_empty_group() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    assert broker.commit(7) is NONE
    assert broker.fetch() == {T0: 7}
    fixture.stable("a")
    assert broker.commit(8) is ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.fetch() == {T0: 7}


def test_members_commit_at_their_generation() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    ids = fixture.stable("a")
    assert broker.commit(8, ids["a"], 1) is NONE
    assert broker.commit(9, ids["a"], 0) is ErrorCode.ILLEGAL_GENERATION
    assert broker.commit(9, "x", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    broker.join("b")
    assert broker.commit(9, ids["a"], 1) is NONE
    assert broker.fetch() == {T0: 9}


def test_commits_that_wait_for_the_claim_are_written_in_the_order_in_which_they_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    loaded: Future[None] = Future()
    load = GroupStore.load

    async def load_later(store: GroupStore, group: str) -> Any:
        await loaded
        return await load(store, group)

    monkeypatch.setattr(GroupStore, "load", load_later)
    commits = [
        deferred(broker.groups.offsets.commit(OffsetCommitRequest(G, {T0: OffsetAndMetadata(offset)})))
        for offset in (5, 6, 7)
    ]
    loaded.callback(None)
    assert [run(commit) for commit in commits] == [{T0: NONE}] * 3
    assert broker.fetch() == {T0: 7}


# trap: kafkalite/coordinator/group/group_offsets.py: A TxnOffsetCommit that was accepted in one generation becomes
# durable after a member of the next generation has fetched the offsets, and both read the same records.
@pytest.mark.parametrize("partitions", [None, (T0, T1)])
def test_offsets_that_a_transaction_is_about_to_commit_are_unstable(
    partitions: tuple[TopicPartition, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    assert broker.commit(7) is NONE
    durable: Future[ErrorCode] = Future()
    monkeypatch.setattr(TransactionalOffsets, "stage", lambda *_: durable)
    request = TxnOffsetCommitRequest(G, TxnProducer("tid", 1, 0), {T0: OffsetAndMetadata(8)})
    staging = Started(broker.groups.offsets.txn_commit(request))
    fetch = broker.groups.offsets.fetch
    assert run(fetch(G, partitions, require_stable=True))[T0] is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert run(fetch(G, (T1,), require_stable=True)) == {}
    assert broker.fetch() == {T0: 7}

    load = Future[None]()
    read = broker.offsets.fetch

    async def read_late(*arguments: Any, **options: Any) -> Any:
        found = await read(*arguments, **options)
        await load
        return found

    monkeypatch.setattr(broker.offsets, "fetch", read_late)
    late = Started(fetch(G, partitions, require_stable=True))
    durable.callback(NONE)
    assert staging.result == {T0: NONE}
    load.callback(None)
    assert late.result[T0] is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert run(fetch(G, partitions, require_stable=True))[T0] == run(fetch(G, partitions))[T0] != NONE


def test_each_partition_is_answered_for_itself() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    offsets = {T0: OffsetAndMetadata(1), T1: OffsetAndMetadata(2, metadata="x" * 5000)}
    answer = run(broker.groups.offsets.commit(OffsetCommitRequest(G, offsets)))
    assert answer == {T0: NONE, T1: ErrorCode.OFFSET_METADATA_TOO_LARGE}


def test_a_group_without_a_name_has_offsets_and_no_members() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred("")
    assert broker.commit(3, group="") is NONE
    assert broker.fetch("") == {T0: 3}
    assert broker.join("a", group="").result.error is ErrorCode.INVALID_GROUP_ID
    assert broker.sync("a", 1, group="").result.error is ErrorCode.INVALID_GROUP_ID
    assert broker.heartbeat("a", 1, group="") is ErrorCode.INVALID_GROUP_ID
    assert run(broker.groups.leave("", [])).error is ErrorCode.INVALID_GROUP_ID
    assert txn(broker, group="") is ErrorCode.INVALID_GROUP_ID
    with pytest.raises(ApiError, match="INVALID_GROUP_ID"):
        delete(broker, T0, group="")


def test_only_the_coordinator_answers() -> None:
    fixture = GroupCoordinatorFixture()
    assert fixture.preferred().commit(7) is NONE
    for broker in fixture.others():
        with pytest.raises(ApiError, match="NOT_COORDINATOR"):
            broker.fetch()
        with pytest.raises(ApiError, match="NOT_COORDINATOR"):
            delete(broker, T0)


def test_a_fetch_while_zookeeper_is_away_fails_with_a_retriable_error() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    assert broker.commit(7) is NONE
    broker.offsets.forget(G)
    broker.client.lose_connection()
    with pytest.raises(ApiError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        broker.fetch()


# trap: kafkalite/coordinator/group/group_metadata_manager.py: A new coordinator believes its caches: it reads the
# offsets after its claim.
def test_a_new_coordinator_reads_offsets_after_its_claim() -> None:
    """It drops the values that it cached before, because its ZooKeeper server may have lagged behind."""
    fixture = GroupCoordinatorFixture()
    first = fixture.preferred()
    assert first.commit(7) is NONE
    second = fixture.kill(first)
    run(second.offsets.fetch(G, [T0]))
    read: list[str] = []
    second.client.before = lambda name, path: read.append(path) if name == "get" else None
    assert second.fetch() == {T0: 7}
    assert offset_path(G, T0) in read


# Within transactions


def test_members_are_checked_within_transactions_too() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    ids = fixture.stable("a")
    assert txn(broker, member_id=ids["a"], generation=0) is ErrorCode.ILLEGAL_GENERATION
    assert txn(broker, member_id="x", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert txn(broker, member_id=ids["a"], generation=1, instance_id="i") is ErrorCode.UNKNOWN_MEMBER_ID
    assert txn(fixture.others()[0]) is ErrorCode.NOT_COORDINATOR
    # The next check fails, because no producer has begun this transaction.
    assert txn(broker, member_id=ids["a"], generation=1) is not NONE


@pytest.mark.parametrize("old_version", [True, False])
def test_offsets_of_a_member_are_staged(old_version: bool) -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    ids = fixture.stable("a")
    staged: list[Any] = []

    async def stage(group: str, claim: Any, producer: TxnProducer, offsets: Any) -> ErrorCode:
        staged.append((group, claim.epoch, producer.transactional_id, set(offsets)))
        return NONE

    broker.offsets.stage = stage  # type: ignore[method-assign]
    member: dict[str, Any] = {} if old_version else {"member_id": ids["a"], "generation": 1}
    assert txn(broker, **member) is NONE
    assert staged == [(G, 1, "tid", {T0})]


def test_staging_with_an_unknown_outcome_fails_with_a_retriable_error() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()

    async def stage(*_: Any) -> ErrorCode:
        raise ConnectionLostError("/x")

    broker.offsets.stage = stage  # type: ignore[assignment, method-assign]
    assert txn(broker) is ErrorCode.COORDINATOR_NOT_AVAILABLE


# Removal


def test_offsets_of_an_empty_group_can_be_removed() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    broker.commit(7)
    assert delete(broker, T0, T1) == {T0: NONE, T1: NONE}
    assert broker.fetch() == {}


def test_offsets_of_subscribed_topics_are_not_deleted() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    broker.commit(7)
    run(set_or_create(fixture.tools, offset_path(G, U0), b"5"))
    fixture.stable("a")
    assert delete(broker, T0, U0) == {T0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, U0: NONE}
    assert broker.fetch() == {T0: 7}


def test_no_offset_is_deleted_while_subscriptions_cannot_be_decoded() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    broker.commit(7)
    fixture.stable("a", protocols=(("range", b"?"),))
    assert delete(broker, T0, U0) == dict.fromkeys((T0, U0), ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)


def test_offsets_of_a_group_with_another_protocol_type_are_deleted_only_if_it_is_empty() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    broker.commit(7)
    fixture.stable("a", protocol_type="connect")
    with pytest.raises(ApiError, match="NON_EMPTY_GROUP"):
        delete(broker, T0)


def test_deleting_offsets_of_a_group_that_does_not_exist_is_an_error() -> None:
    fixture = GroupCoordinatorFixture()
    with pytest.raises(ApiError, match="GROUP_ID_NOT_FOUND"):
        delete(fixture.preferred(), T0)
    assert "/consumers/g" not in fixture.server.paths()


def test_an_empty_group_is_removed_with_its_last_offset() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    offsets = {T0: OffsetAndMetadata(1), T1: OffsetAndMetadata(2)}
    run(broker.groups.offsets.commit(OffsetCommitRequest(G, offsets)))
    assert delete(broker, T0) == {T0: NONE}
    assert [listed.group for listed in run(broker.groups.admin.list_groups())] == [G]
    assert delete(broker, T1) == {T1: NONE}
    assert run(broker.groups.admin.list_groups()) == []
    assert "/consumers/g" not in fixture.server.paths()
    assert broker.commit(7) is NONE
    assert broker.fetch() == {T0: 7}


def test_a_group_with_members_stays_without_offsets() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    run(set_or_create(fixture.tools, offset_path(G, U0), b"5"))
    ids = fixture.stable("a")
    assert delete(broker, U0) == {U0: NONE}
    assert broker.heartbeat(ids["a"], 1) is NONE
    assert [listed.state for listed in run(broker.groups.admin.list_groups())] == ["Stable"]


def test_offsets_are_deleted_although_the_group_cannot_be_removed() -> None:
    fixture = GroupCoordinatorFixture()
    broker = fixture.preferred()
    broker.commit(7)

    async def refuse(*_: Any, **__: Any) -> None:
        raise ConnectionLostError("/consumers/g")

    broker.offsets.delete_group = refuse  # type: ignore[method-assign]
    assert delete(broker, T0) == {T0: NONE}
    assert broker.fetch() == {}

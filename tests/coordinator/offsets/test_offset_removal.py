"""Deletion and expiration of offsets and groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.coordinator.offsets.offset_removal import past_retention
from kafkalite.zk.stores.claims import Claim, ClaimLostError
from kafkalite.zk.stores.offsets import StoredOffset
from kafkalite.zk.stores.paths import ensure, set_or_create
from kafkalite.zk.zk_client import NotEmptyError
from kafkalite.zk.znodes.offsets import OffsetAndMetadata
from tests.coordinator.offsets.fixtures import T0, T1, U0, G, OffsetManagerFixture
from tests.support import run

NONE = ErrorCode.NONE
DAY = 86_400_000
PLAIN = StoredOffset(OffsetAndMetadata(5), 1, 0, 1, mtime_ms=10 * DAY)
COMMITTED = replace(PLAIN, value=OffsetAndMetadata(5, commit_timestamp_ms=12 * DAY))
OF_ITS_OWN = replace(PLAIN, value=OffsetAndMetadata(5, commit_timestamp_ms=12 * DAY, expire_timestamp_ms=13 * DAY))


@pytest.fixture
def fixture() -> OffsetManagerFixture:
    return OffsetManagerFixture()


def commit(fixture: OffsetManagerFixture, *tps: Any, group: str = G) -> Claim:
    claim = fixture.first.claim(group)
    run(fixture.first.offsets.commit(group, {tp: OffsetAndMetadata(1) for tp in tps}, claim))
    return claim


def test_delete(fixture: OffsetManagerFixture) -> None:
    claim = commit(fixture, T0, T1, U0)
    fixture.edit(9, T1)
    assert len(fixture.second.fetch()) == 3
    assert run(fixture.first.offsets.delete(G, [T0, U0], claim)) == {T0: NONE, U0: NONE}
    assert list(fixture.second.fetch()) == list(fixture.first.fetch()) == [T1]
    assert run(fixture.first.offsets.delete(G, [T0, T1], claim)) == {T0: NONE, T1: NONE}
    paths = fixture.server.paths("/consumers/g/")
    assert not [path for path in paths if path.rpartition("/")[2] in ("t", "u")], "no empty topics are left"
    commit(fixture, T0)
    assert list(fixture.second.fetch()) == [T0]


def test_a_zombie_deletes_nothing(fixture: OffsetManagerFixture) -> None:
    claim = commit(fixture, T0)
    run(fixture.hand.delete("/consumers/g/coordinator"))
    fixture.second.claim()
    for work in (
        fixture.first.offsets.delete(G, [T0], claim),
        fixture.first.offsets.delete_group(G, claim),
        fixture.first.offsets.expire(G, claim, lambda _: False, fixture.clock.time_ms() + 100 * DAY),
    ):
        with pytest.raises(ClaimLostError):
            run(work)
    assert list(fixture.second.fetch()) == [T0]


@pytest.mark.parametrize(
    ("stored", "now_days", "empty_since_days", "gone"),
    [
        (PLAIN, 16.9, None, False),
        (PLAIN, 17, None, True),
        (COMMITTED, 18.9, None, False),
        (COMMITTED, 19, None, True),
        (COMMITTED, 20, 15, False),
        (COMMITTED, 22, 15, True),
        (COMMITTED, 19, 2, True),
        (OF_ITS_OWN, 12.9, None, False),
        (OF_ITS_OWN, 13, None, True),
        (OF_ITS_OWN, 13, 12.9, True),
    ],
)
def test_retention(stored: StoredOffset, now_days: float, empty_since_days: float | None, gone: bool) -> None:
    since = None if empty_since_days is None else int(empty_since_days * DAY)
    assert past_retention({T0: stored}, int(now_days * DAY), 7 * DAY, since) == ([T0] if gone else [])


def test_expiry(fixture: OffsetManagerFixture) -> None:
    claim = commit(fixture, T0, U0)
    fixture.clock.advance(6 * 86400)
    run(fixture.first.offsets.commit(G, {T1: OffsetAndMetadata(2)}, claim))
    fixture.clock.advance(86400)
    now = fixture.clock.time_ms()
    assert run(fixture.first.offsets.expire(G, claim, lambda topic: topic == "u", now)) == [T0]
    assert list(fixture.second.fetch()) == [T1, U0]
    assert run(fixture.first.offsets.expire(G, claim, lambda _: False, now, empty_since_ms=now)) == []
    assert run(fixture.first.offsets.expire(G, claim, lambda _: False, now)) == [U0]


def test_a_commit_that_comes_while_offsets_expire_stays(fixture: OffsetManagerFixture) -> None:
    claim = commit(fixture, T0)
    fixture.clock.advance(8 * 86400)

    def edit(name: str, _path: str) -> None:
        if name == "multi":
            fixture.first.client.before = None
            fixture.edit(77)

    fixture.first.client.before = edit
    assert run(fixture.first.offsets.expire(G, claim, lambda _: False, fixture.clock.time_ms())) == []
    assert fixture.second.number() == 77


def test_delete_group(fixture: OffsetManagerFixture) -> None:
    claim = commit(fixture, T0, U0)
    for path in ("owners/t", "ids", "generation/5/member"):
        run(ensure(fixture.hand, f"/consumers/g/{path}"))
    assert len(fixture.second.fetch()) == 2
    run(fixture.first.offsets.delete_group(G, claim))
    assert fixture.server.paths("/consumers") == ["/consumers"]
    assert fixture.first.fetch() == fixture.second.fetch() == {} and run(fixture.first.offsets.groups()) == []
    commit(fixture, T0)
    assert list(fixture.second.fetch()) == [T0]


@pytest.mark.parametrize("path", ["offsets/t/0", "staged/5-0"])
def test_a_group_with_offsets_is_not_deleted_without_them(fixture: OffsetManagerFixture, path: str) -> None:
    claim = fixture.first.claim()
    run(ensure(fixture.hand, f"/consumers/g/{path}"))
    run(ensure(fixture.hand, "/consumers/g/generation/5"))
    with pytest.raises(NotEmptyError):
        run(fixture.first.offsets.delete_group(G, claim, with_offsets=False))
    assert f"/consumers/g/{path}" in fixture.server.paths()
    run(fixture.hand.delete(f"/consumers/g/{path}"))
    run(fixture.first.offsets.delete_group(G, claim, with_offsets=False))
    assert fixture.server.paths("/consumers") == ["/consumers"]


def test_a_group_with_a_live_old_consumer_is_not_deleted(fixture: OffsetManagerFixture) -> None:
    claim = commit(fixture, T0)
    run(set_or_create(fixture.hand, "/consumers/g/ids/g_host-1", b"{}"))
    with pytest.raises(NotEmptyError):
        run(fixture.first.offsets.delete_group(G, claim))
    assert list(fixture.second.fetch()) == [T0]
    assert "/consumers/g/ids/g_host-1" in fixture.server.paths()

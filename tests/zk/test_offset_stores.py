"""Reading two znodes as one value, and forgetting a topic in all of its places."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.common.types import TopicPartition
from kafkalite.zk.stores.controller import ops_forget_topic
from kafkalite.zk.stores.offsets import OffsetStore
from kafkalite.zk.stores.paths import ensure, set_or_create
from kafkalite.zk.zk_client import Create, NoNodeError, Op, SetData
from kafkalite.zk.znodes import offsets
from kafkalite.zk.znodes.offsets import OffsetAndMetadata, StagedOffsets, TxnProducer
from tests.support import run
from tests.zk.test_stores import StoresFixture

TP = TopicPartition("t", 0)
NUMBER, COMMIT = "/consumers/g/offsets/t/0", "/consumers/g/commits/t/0"
VALUE = OffsetAndMetadata(7, 1, "x", 5)


@pytest.fixture
def fixture() -> StoresFixture:
    fixture = StoresFixture()
    run(ensure(fixture.client, "/consumers/g/offsets/t"))
    run(ensure(fixture.client, "/consumers/g/commits/t"))
    return fixture


def both(fixture: StoresFixture, value: OffsetAndMetadata = VALUE, create: bool = True) -> None:
    number, commit = str(value.offset).encode(), offsets.encode_commit(value)
    ops: list[Op] = [Create(NUMBER, number), Create(COMMIT, commit)]
    if not create:
        ops = [SetData(NUMBER, number), SetData(COMMIT, commit)]
    run(fixture.server.clients[0].multi(ops))


# trap: kafkalite/zk/stores/offsets.py: A plain offset that was read without the commit beside it would be kept: the
# next read must see both, or an event must follow.
@pytest.mark.parametrize("request_at", range(6))
def test_whenever_a_commit_comes_it_is_read_as_one_or_an_event_follows(fixture: StoresFixture, request_at: int) -> None:
    """A number without its commit must not be taken for what stands there."""
    reader = fixture.server.client()
    events: list[Any] = []
    at = [request_at]

    def write(_name: str, _path: str) -> None:
        at[0] -= 1
        if at[0] == -1:
            both(fixture)

    reader.before = write
    found = run(OffsetStore(reader).offset("g", TP, events.append))
    reader.before = None
    if at[0] >= 0:
        both(fixture)
    if not events:
        assert found is not None and found.value == VALUE
    found = run(OffsetStore(reader).offset("g", TP))
    assert found is not None and found.value == VALUE


@pytest.mark.parametrize("request_at", range(5))
def test_so_are_commits_that_replace_others(fixture: StoresFixture, request_at: int) -> None:
    both(fixture)
    later = OffsetAndMetadata(8, 2, "y", 6)
    reader = fixture.server.client()
    events: list[Any] = []
    at = [request_at]

    def write(_name: str, _path: str) -> None:
        at[0] -= 1
        if at[0] == -1:
            both(fixture, later, create=False)

    reader.before = write
    found = run(OffsetStore(reader).offset("g", TP, events.append))
    assert found is not None and found.value in (VALUE, later)
    assert events or found.value == (later if at[0] < 0 else VALUE)


def test_a_malformed_commit_leaves_the_number(fixture: StoresFixture) -> None:
    run(fixture.client.multi([Create(NUMBER, b"7"), Create(COMMIT, b"{")]))
    found = run(OffsetStore(fixture.client).offset("g", TP))
    assert found is not None and found.value == OffsetAndMetadata(7)


def test_a_topic_is_forgotten_in_every_group(fixture: StoresFixture) -> None:
    client = fixture.client
    both(fixture)
    names = ["g", "a%2Fb", "odd%ff", ".x"]  # names of znodes, also of those that another program wrote
    for name in names:
        for kind in ("offsets", "commits", "owners"):
            for topic in ("t", "u"):
                run(set_or_create(client, f"/consumers/{name}/{kind}/{topic}/0", b"1"))
    producer = TxnProducer("tx", 5, 0)
    other = TopicPartition("u", 0)
    for chunk, tps in enumerate([(TP, other), (TP,), (other,)]):
        path = f"/consumers/g/staged/{offsets.staged_name(producer, chunk)}"
        run(set_or_create(client, path, offsets.encode_staged(StagedOffsets(producer, dict.fromkeys(tps, VALUE)))))
    run(set_or_create(client, "/consumers/g/staged/nonsense", b"x"))
    run(client.multi(run(ops_forget_topic(client, "t"))))
    left = fixture.server.paths("/consumers/")
    assert not [path for path in left if "/t/" in path or path.endswith("/t")]
    assert len([path for path in left if path.endswith("/u/0")]) == 3 * len(names)
    kept = {path.rpartition("/")[2] for path in left if "/staged/" in path}
    assert kept == {"5-0", "5-0-2", "nonsense"}
    staged = offsets.decode_staged("", fixture.server.data("/consumers/g/staged/5-0"))
    assert staged.offsets == {other: VALUE}
    with pytest.raises(NoNodeError):
        fixture.server.data(NUMBER)

"""What was read is kept until its watch fires."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.testing.clock import ManualClock
from kafkalite.testing.zookeeper import MemoryZooKeeper
from kafkalite.zk.stores import watched_reads
from kafkalite.zk.stores.offsets import OffsetStore
from kafkalite.zk.stores.paths import ensure, read_or_watch, set_or_create
from kafkalite.zk.stores.watched_reads import WatchedReads
from kafkalite.zk.zk_client import ConnectionLostError, Watch
from tests.support import Started

PATH = "/a/b/c"


class WatchedReadsFixture:
    """One reader with a latency of 10 ms, and a hand without."""

    def __init__(self, max_cells: int = 50_000) -> None:
        self.clock = ManualClock()
        self.server = MemoryZooKeeper(self.clock, 0.01)
        self.client, self.hand = self.server.client(), self.server.client()
        self.reads = WatchedReads(self.client, self.clock, max_cells)
        self.store = OffsetStore(self.client)
        self.loads = 0

    def get(self, path: str = PATH) -> Started:
        async def load(watch: Watch) -> str | None:
            self.loads += 1
            found = await read_or_watch(self.client, path, watch)
            return None if found is None else found[0].decode()

        return Started(self.reads.get(path, load))

    def value(self, path: str = PATH) -> Any:
        started = self.get(path)
        self.clock.advance(0.05)
        return started.result

    def write(self, text: str, path: str = PATH) -> None:
        Started(ensure(self.hand, path.rpartition("/")[0]))
        self.clock.advance(0.1)
        Started(set_or_create(self.hand, path, text.encode()))
        self.clock.advance(0.1)


@pytest.fixture
def fixture() -> WatchedReadsFixture:
    fixture = WatchedReadsFixture()
    fixture.write("1")
    return fixture


def test_read_once_until_it_changes(fixture: WatchedReadsFixture) -> None:
    assert [fixture.value() for _ in range(3)] == ["1", "1", "1"] and fixture.loads == 1
    fixture.write("2")
    fixture.write("3")
    assert fixture.loads == 1 and not fixture.reads.is_valid(PATH) and fixture.reads.known(PATH) == "1"
    assert [fixture.value() for _ in range(2)] == ["3", "3"] and fixture.loads == 2
    assert fixture.reads.peek(PATH) == (True, "3") and fixture.reads.all_valid([PATH])


def test_what_does_not_exist_is_known_as_such_until_it_does(fixture: WatchedReadsFixture) -> None:
    assert fixture.value("/a/b/d") is None
    assert fixture.value("/a/b/d") is None and fixture.loads == 1
    fixture.write("x", "/a/b/d")
    assert fixture.value("/a/b/d") == "x"
    Started(fixture.hand.delete("/a/b/d"))
    fixture.clock.advance(0.1)
    assert fixture.value("/a/b/d") is None


def test_simultaneous_callers_share_a_read(fixture: WatchedReadsFixture) -> None:
    both = [fixture.get(), fixture.get()]
    fixture.clock.advance(0.01)
    assert [each.result for each in both] == ["1", "1"] and fixture.loads == 1


# trap: kafkalite/zk/stores/watched_reads.py: A read that began before an event would answer a caller that came after
# it.
def test_a_caller_does_not_join_a_read_that_began_before_an_event(fixture: WatchedReadsFixture) -> None:
    """A caller that knows of the write would otherwise get the value before it."""
    slow: list[Started] = []

    async def load(watch: Watch) -> str:
        found = await fixture.client.get(PATH, watch)
        for _ in range(3):
            await fixture.client.exists(PATH)  # the answer is complete only later
        return found[0].decode()

    slow.append(Started(fixture.reads.get(PATH, load)))
    fixture.clock.advance(0.01)
    Started(fixture.hand.set(PATH, b"2"))
    fixture.clock.advance(0.015)
    assert not slow[0].done
    later = fixture.get()
    fixture.clock.advance(0.05)
    assert (slow[0].result, later.result) == ("1", "2")
    assert fixture.value() == "2" and fixture.loads == 1, "the older answer has not replaced the newer one"


def test_what_changed_while_it_was_read_is_read_again(fixture: WatchedReadsFixture) -> None:
    async def load(watch: Watch) -> str:
        found = await fixture.client.get(PATH, watch)
        for _ in range(3):
            await fixture.client.exists(PATH)
        return found[0].decode()

    slow = Started(fixture.reads.get(PATH, load))
    fixture.clock.advance(0.01)
    Started(fixture.hand.set(PATH, b"2"))
    fixture.clock.advance(0.05)
    assert slow.result == "1" and not fixture.reads.is_valid(PATH)
    assert fixture.value() == "2"


def test_a_failed_read_fails_for_all_its_callers_and_is_not_kept(fixture: WatchedReadsFixture) -> None:
    both = [fixture.get(), fixture.get()]
    fixture.client.lose_connection()
    fixture.clock.advance(0.01)
    for each in both:
        with pytest.raises(ConnectionLostError):
            _ = each.result
    fixture.client.reconnect()
    assert fixture.value() == "1"


def test_lost_connection_invalidates_before_anything_else(fixture: WatchedReadsFixture) -> None:
    assert fixture.value() == "1"
    fixture.client.lose_connection()
    fixture.clock.advance(0.01)
    assert not fixture.reads.is_valid(PATH)


def test_forgotten_is_read_again_under_the_same_watch(fixture: WatchedReadsFixture) -> None:
    for _ in range(5):
        assert fixture.value() == "1"
        fixture.reads.forget("/a/b")
    assert len(fixture.reads) == 0 and fixture.loads == 5
    assert fixture.value() == "1"
    fixture.write("2")
    assert fixture.value() == "2", "an event of a watch that was set before still counts"


def test_memory_is_bounded_by_what_was_not_used_the_longest() -> None:
    fixture = WatchedReadsFixture(max_cells=4)
    for scope in ("/a/1", "/a/2", "/a/3"):
        for name in "xy":
            fixture.write("v", f"{scope}/{name}")
            fixture.value(f"{scope}/{name}")
        fixture.value("/a/1/x")
        fixture.clock.advance(watched_reads.BUSY)
    fixture.value("/a/1/x")
    assert len(fixture.reads) == 4
    assert (
        fixture.reads.is_valid("/a/1/x") and fixture.reads.is_valid("/a/3/y") and not fixture.reads.is_valid("/a/2/x")
    )


def test_a_value_that_no_caller_reads_is_dropped(fixture: WatchedReadsFixture) -> None:
    fixture.value()
    fixture.write("v", "/a/busy/c")
    fixture.clock.advance(watched_reads.IDLE)
    fixture.value("/a/busy/c")
    assert len(fixture.reads) == 1

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
from tests.coordinator.house import Started

PATH = "/a/b/c"


class House:
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
def house() -> House:
    house = House()
    house.write("1")
    return house


def test_read_once_until_it_changes(house: House) -> None:
    assert [house.value() for _ in range(3)] == ["1", "1", "1"] and house.loads == 1
    house.write("2")
    house.write("3")
    assert house.loads == 1 and not house.reads.is_valid(PATH) and house.reads.known(PATH) == "1"
    assert [house.value() for _ in range(2)] == ["3", "3"] and house.loads == 2
    assert house.reads.peek(PATH) == (True, "3") and house.reads.all_valid([PATH])


def test_what_does_not_exist_is_known_as_such_until_it_does(house: House) -> None:
    assert house.value("/a/b/d") is None
    assert house.value("/a/b/d") is None and house.loads == 1
    house.write("x", "/a/b/d")
    assert house.value("/a/b/d") == "x"
    Started(house.hand.delete("/a/b/d"))
    house.clock.advance(0.1)
    assert house.value("/a/b/d") is None


def test_those_who_ask_at_once_share_a_read(house: House) -> None:
    both = [house.get(), house.get()]
    house.clock.advance(0.01)
    assert [each.result for each in both] == ["1", "1"] and house.loads == 1


# trap: kafkalite/zk/stores/watched_reads.py: A read that began before an event would answer a caller that came after
# it.
def test_nobody_joins_a_read_that_an_event_has_overtaken(house: House) -> None:
    """Whoever was told of the write would get the value before it."""
    slow: list[Started] = []

    async def load(watch: Watch) -> str:
        found = await house.client.get(PATH, watch)
        for _ in range(3):
            await house.client.exists(PATH)  # the answer is complete only later
        return found[0].decode()

    slow.append(Started(house.reads.get(PATH, load)))
    house.clock.advance(0.01)
    Started(house.hand.set(PATH, b"2"))
    house.clock.advance(0.015)
    assert not slow[0].done
    later = house.get()
    house.clock.advance(0.05)
    assert (slow[0].result, later.result) == ("1", "2")
    assert house.value() == "2" and house.loads == 1, "the older answer has not replaced the newer one"


def test_what_changed_while_it_was_read_is_read_again(house: House) -> None:
    async def load(watch: Watch) -> str:
        found = await house.client.get(PATH, watch)
        for _ in range(3):
            await house.client.exists(PATH)
        return found[0].decode()

    slow = Started(house.reads.get(PATH, load))
    house.clock.advance(0.01)
    Started(house.hand.set(PATH, b"2"))
    house.clock.advance(0.05)
    assert slow.result == "1" and not house.reads.is_valid(PATH)
    assert house.value() == "2"


def test_failure_is_everybodys_and_is_not_kept(house: House) -> None:
    both = [house.get(), house.get()]
    house.client.lose_connection()
    house.clock.advance(0.01)
    for each in both:
        with pytest.raises(ConnectionLostError):
            _ = each.result
    house.client.reconnect()
    assert house.value() == "1"


def test_lost_connection_invalidates_before_anything_else(house: House) -> None:
    assert house.value() == "1"
    house.client.lose_connection()
    house.clock.advance(0.01)
    assert not house.reads.is_valid(PATH)


def test_forgotten_is_read_again_under_the_same_watch(house: House) -> None:
    for _ in range(5):
        assert house.value() == "1"
        house.reads.forget("/a/b")
    assert len(house.reads) == 0 and house.loads == 5
    assert house.value() == "1"
    house.write("2")
    assert house.value() == "2", "an event of a watch that was set before still counts"


def test_memory_is_bounded_by_what_was_not_used_the_longest() -> None:
    house = House(max_cells=4)
    for scope in ("/a/1", "/a/2", "/a/3"):
        for name in "xy":
            house.write("v", f"{scope}/{name}")
            house.value(f"{scope}/{name}")
        house.value("/a/1/x")
        house.clock.advance(watched_reads.BUSY)
    house.value("/a/1/x")
    assert len(house.reads) == 4
    assert house.reads.is_valid("/a/1/x") and house.reads.is_valid("/a/3/y") and not house.reads.is_valid("/a/2/x")


def test_what_nobody_asks_for_is_dropped(house: House) -> None:
    house.value()
    house.write("v", "/a/busy/c")
    house.clock.advance(watched_reads.IDLE)
    house.value("/a/busy/c")
    assert len(house.reads) == 1

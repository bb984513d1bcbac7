"""What pages hear: bursts as one message, and nothing of values that come out equal."""

from __future__ import annotations

import json

from kafkalite.dashboard.live_state import DELAY, LiveState
from kafkalite.dashboard.tree_mirror import MirroredZnode, Tree
from kafkalite.testing.clock import ManualClock
from kafkalite.zk.zk_client import ZnodeStat


class Page:
    """A subscriber of the values of a tree."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.state = LiveState(self.clock)
        self.tree = Tree()
        self.messages: list[dict[str, object]] = []
        self.unsubscribe = self.state.subscribe(lambda message: self.messages.append(json.loads(message)))

    def write(self, path: str, data: bytes) -> None:
        self.tree.set(path, MirroredZnode(data, ZnodeStat(1, 1, 0)))
        self.state.znode_changed(path, self.tree)

    def remove(self, path: str) -> None:
        for gone in self.tree.remove(path):
            self.state.znode_changed(gone, self.tree)

    def heard(self) -> list[set[str]]:
        self.clock.advance(DELAY)
        messages, self.messages = self.messages, []
        return [set(message) for message in messages]


def test_the_first_change_is_told_at_once_and_a_burst_behind_it_as_one_message() -> None:
    page = Page()
    page.write("/a", b"")
    page.clock.advance(0)
    assert [set(message) for message in page.messages] == [{"znode/a"}]
    page.messages.clear()
    page.write("/controller_epoch", b"1")
    page.write("/controller", b'{"version":2,"brokerid":3,"timestamp":"1"}')
    page.clock.advance(DELAY / 2)
    assert page.messages == []
    assert page.heard() == [{"cluster", "znode/controller", "znode/controller_epoch"}]
    assert json.loads(page.state.message())["cluster"]["controller"] == 3


def test_what_goes_is_told_as_gone() -> None:
    page = Page()
    page.write("/brokers/ids/1", b"?")
    page.heard()
    page.remove("/brokers/ids/1")
    page.clock.advance(DELAY)
    assert page.messages == [{"broker/1": None, "znode/brokers/ids/1": None}]
    assert json.loads(page.state.message()) == {}


def test_a_value_that_comes_out_equal_is_not_told() -> None:
    page = Page()
    page.state.put({"log/t/0": {"high_watermark": 1}})
    page.state.put({"log/t/0": {"high_watermark": 1}, "log/t/1": None})
    assert page.heard() == [{"log/t/0"}]


def test_a_page_that_is_closed_hears_nothing() -> None:
    page = Page()
    page.unsubscribe()
    page.write("/a", b"")
    assert page.heard() == []
    assert not page.state.is_watched
    page.state.subscribe(page.messages.append)  # type: ignore[arg-type]
    assert page.state.is_watched


def test_names_cannot_end_a_line_of_the_stream() -> None:
    page = Page()
    page.state.put({"topic/\n\n<script>": {"name": "\u2028\r\n"}})
    assert b"\n" not in page.state.message()
    assert b"\r" not in page.state.message()

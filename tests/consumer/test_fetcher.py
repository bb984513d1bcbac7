"""The fetcher's thread with a library that answers from a script."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import kafka
import pytest
from kafka.errors import (
    KafkaTimeoutError,
    LogTruncationError,
    OffsetOutOfRangeError,
)

from kafkalite.common.types import TopicPartition
from kafkalite.consumer import fetcher
from kafkalite.consumer.config import ConsumerConfig
from kafkalite.consumer.errors import ConsumerAuthenticationError
from kafkalite.consumer.fetcher import ConsumerFetcher
from kafkalite.consumer.security import ConsumerSecurity
from kafkalite.consumer.stream import Stream

T0 = TopicPartition("t", 0)
L0 = kafka.TopicPartition("t", 0)
SECURED = ConsumerSecurity(protocol="SASL_PLAINTEXT", login=("PLAIN", "alice", "secret"))
Turn = Callable[["Library"], dict[Any, Any]]


class Library:
    """kafka-python's consumer, as far as the fetcher uses it; each poll takes one turn of ``script``."""

    made: list[Library] = []
    script: list[Turn] = []
    played: threading.Event = threading.Event()
    sought: queue.SimpleQueue[int] = queue.SimpleQueue()
    unknown = 0

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.position = -1
        self.closed = False
        Library.made.append(self)

    def assign(self, partitions: list[Any]) -> None:
        assert partitions == [L0]

    def seek(self, partition: Any, offset: int) -> None:
        assert partition == L0
        self.position = offset
        Library.sought.put(offset)

    def beginning_offsets(self, partitions: list[Any], timeout_ms: int) -> dict[Any, int]:
        assert timeout_ms > 0
        if Library.unknown:
            Library.unknown -= 1
            raise KeyError(L0)
        return dict.fromkeys(partitions, 3)

    def end_offsets(self, partitions: list[Any], timeout_ms: int) -> dict[Any, int]:
        assert timeout_ms > 0
        return dict.fromkeys(partitions, 8)

    def poll(self, timeout_ms: int) -> dict[Any, Any]:
        if not Library.script:
            Library.played.set()
            Library.played.wait(timeout_ms / 1000)
            return {}
        return Library.script.pop(0)(self)

    def close(self) -> None:
        self.closed = True


def give(count: int = 1) -> Turn:
    """A turn that fetches from where the library stands."""

    def turn(library: Library) -> dict[Any, Any]:
        start = library.position
        library.position += count
        return {
            L0: [
                SimpleNamespace(topic="t", partition=0, offset=n, timestamp=1, key=None, value=b"v", headers=[])
                for n in range(start, start + count)
            ]
        }

    return turn


def fail(error: Exception) -> Turn:
    """A turn that raises."""

    def turn(_: Library) -> dict[Any, Any]:
        raise error

    return turn


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Library]]:
    monkeypatch.setattr(kafka, "KafkaConsumer", Library)
    Library.made, Library.script, Library.played, Library.sought = [], [], threading.Event(), queue.SimpleQueue()
    yield Library


def fetched(turns: list[Turn], start: int | None, reset: str = "smallest") -> tuple[list[int], dict[Any, int]]:
    """The offsets that arrive where the library plays ``turns``, and how far the stream says that it was read."""
    Library.script = turns
    stream = Stream(100)
    fetcher = ConsumerFetcher(stream, ConsumerConfig("zk", "g", auto_offset_reset=reset))
    fetcher.set_brokers(["h:1"])
    fetcher.fetch(*stream.begin({T0: start}))
    assert Library.played.wait(10)
    offsets = []
    while (record := stream.next(0)) is not None:
        offsets.append(record.offset)
    fetcher.close()
    assert all(made.closed for made in Library.made)
    return offsets, stream.read()


@pytest.mark.parametrize(
    ("turns", "start", "reset", "offsets", "read"),
    [
        ([give(2), give()], 5, "smallest", [5, 6, 7], 8),
        ([give()], None, "smallest", [3], 4),
        ([give()], None, "largest", [8], 9),
        ([], None, "largest", [], 8),
        ([fail(OffsetOutOfRangeError({L0: 99})), give()], 99, "smallest", [3], 4),
        ([give(), fail(LogTruncationError({L0: SimpleNamespace(offset=4)})), give()], 6, "smallest", [6, 4], 5),
        ([give(), fail(LogTruncationError({L0: None})), give()], 9, "largest", [9, 8], 9),
        ([give(2), fail(KafkaTimeoutError("busy")), give()], 5, "smallest", [5, 6, 7], 8),
        ([fail(OSError("gone")), fail(KafkaTimeoutError("busy")), give()], 5, "smallest", [5], 6),
    ],
    ids=["plain", "smallest", "largest", "nothing", "out of range", "truncated", "unknown", "fails", "fails twice"],
)
@pytest.mark.usefixtures("library")
def test_offsets(turns: list[Turn], start: int | None, reset: str, offsets: list[int], read: int) -> None:
    assert fetched(turns, start, reset) == (offsets, {T0: read})


def test_a_partition_that_its_broker_does_not_know_yet(library: type[Library]) -> None:
    """The fetcher repeats the request with a new client, which has new metadata."""
    library.unknown = 2
    assert fetched([give()], None) == ([3], {T0: 4})
    assert len(library.made) == 3


def test_the_library_is_used_without_a_group(library: type[Library]) -> None:
    fetched([], 0)
    [made] = library.made
    assert made.settings["group_id"] is None and made.settings["enable_auto_commit"] is False
    assert made.settings["bootstrap_servers"] == ["h:1"] and made.settings["auto_offset_reset"] == "none"


def test_brokers_that_are_all_gone(library: type[Library]) -> None:
    """Another client is made where none of the brokers is there that the last one was told of."""
    stream = Stream(100)
    fetcher = ConsumerFetcher(stream, ConsumerConfig("zk", "g"))
    for number, brokers in enumerate((["h:1", "h:2"], ["h:2", "h:3"], ["h:4"])):
        fetcher.set_brokers(brokers)
        fetcher.fetch(*stream.begin({T0: number}))
        assert library.sought.get(timeout=10) == number
    fetcher.close()
    assert [made.settings["bootstrap_servers"] for made in library.made] == [["h:1", "h:2"], ["h:4"]]


def test_nothing_is_fetched_without_brokers(library: type[Library]) -> None:
    stream = Stream(100)
    fetcher = ConsumerFetcher(stream, ConsumerConfig("zk", "g"))
    fetcher.fetch(*stream.begin({T0: 0}))
    fetcher.set_brokers([])
    fetcher.close()
    assert library.made == []


def test_an_unexpected_error_reaches_the_reader(library: type[Library]) -> None:
    library.script = [fail(ZeroDivisionError("a bug"))]
    stream = Stream(100)
    fetcher = ConsumerFetcher(stream, ConsumerConfig("zk", "g"))
    fetcher.set_brokers(["h:1"])
    fetcher.fetch(*stream.begin({T0: 0}))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        stream.next(10)
    fetcher.close()


def test_a_refused_login_is_final(library: type[Library], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(broker: str, *_: object) -> None:
        asked.append(broker)
        if broker == "h:1":
            raise OSError("nobody answers")
        raise ConsumerAuthenticationError("no")

    monkeypatch.setattr(fetcher, "check_login", refuse)
    stream = Stream(100)
    tried = ConsumerFetcher(stream, ConsumerConfig("zk", "g"), SECURED)
    tried.set_brokers(["h:1", "h:2", "h:3"])
    tried.fetch(*stream.begin({T0: 0}))
    with pytest.raises(ConsumerAuthenticationError, match="no"):
        stream.next(10)
    tried.close()
    assert (asked, library.made) == (["h:1", "h:2"], [])


def test_the_library_logs_in(library: type[Library], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher, "check_login", lambda *_: None)
    stream = Stream(100)
    member = ConsumerFetcher(stream, ConsumerConfig("zk", "g"), SECURED)
    member.set_brokers(["h:1"])
    member.fetch(*stream.begin({T0: 0}))
    assert library.played.wait(10)
    member.close()
    settings = library.made[0].settings
    assert {name: value for name, value in settings.items() if name.startswith(("sasl", "security", "ssl"))} == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "secret",
    }

"""Records to lines, as the console consumer's formatter prints them, and the offsets of a group after that."""

from __future__ import annotations

import argparse
import io
import json
import sys
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from kafkalite.cli import consume, consume_sources
from kafkalite.cli.consume import FORMATTER_PROPERTIES, format_record, json_line
from kafkalite.cli.consume_sources import parse_offset
from kafkalite.cli.main import UsageError

NAMES = ("timestamp", "partition", "offset", "epoch", "headers", "key")


class Message:
    """What the library hands out, as far as it is looked at."""

    def __init__(self, **values: Any) -> None:
        self.values: dict[str, Any] = {
            "topic": "t",
            "partition": 3,
            "offset": 42,
            "timestamp": (1, 1234),
            "leader_epoch": 5,
            "headers": [("a", b"1"), ("b", None)],
            "key": b"k",
            "value": b"v",
            **values,
        }

    def __getattr__(self, name: str) -> Any:
        return lambda: self.values[name]


@pytest.mark.parametrize(
    ("wanted", "record", "line"),
    [
        ((), Message(), b"v\n"),
        (NAMES, Message(), b"CreateTime:1234\tPartition:3\tOffset:42\tEpoch:5\ta:1,b:null\tk\tv\n"),
        (("timestamp",), Message(timestamp=(2, 99)), b"LogAppendTime:99\tv\n"),
        (("timestamp",), Message(timestamp=(0, -1)), b"NO_TIMESTAMP\tv\n"),
        (("headers", "key"), Message(headers=None, key=None, value=None), b"NO_HEADERS\tnull\tnull\n"),
        (("epoch",), Message(leader_epoch=None), b"Epoch:null\tv\n"),
        (("key",), Message(key=b"\xff", value=b"\x00"), b"\xff\t\x00\n"),
    ],
)
def test_lines(wanted: tuple[str, ...], record: Message, line: bytes) -> None:
    properties = FORMATTER_PROPERTIES | {f"print.{name}": "true" for name in wanted}
    assert format_record(record, properties) == line


def test_separators() -> None:
    properties = FORMATTER_PROPERTIES | {
        "print.key": "TRUE",
        "print.headers": "true",
        "key.separator": "|",
        "headers.separator": ";",
        "line.separator": ".",
        "null.literal": "-",
    }
    assert format_record(Message(), properties) == b"a:1;b:-|k|v."


def test_only_the_key() -> None:
    assert format_record(Message(), FORMATTER_PROPERTIES | {"print.key": "true", "print.value": "false"}) == b"k\n"


def test_json() -> None:
    assert json.loads(json_line(Message(value=b"\xff", key=None))) == {
        "topic": "t",
        "partition": 3,
        "offset": 42,
        "timestamp": 1234,
        "timestamp_type": "CreateTime",
        "headers": [["a", "1"], ["b", None]],
        "key": None,
        "value": "\ufffd",
    }
    old = json.loads(json_line(Message(timestamp=(0, -1), headers=None)))
    assert (old["timestamp"], old["timestamp_type"], old["headers"]) == (None, None, [])


@pytest.mark.parametrize(("text", "offset"), [("earliest", -2), ("latest", -1), ("0", 0), ("17", 17)])
def test_offsets(text: str, offset: int) -> None:
    assert parse_offset(text) == offset


@pytest.mark.parametrize("text", ["-5", "soon", "", "1.5"])
def test_offsets_that_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected a number"):
        parse_offset(text)


class FakeConsumer:
    """Has the records of one poll; remembers the stored offsets."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.records = [Message(error=None, partition=p, offset=o) for p, o in ((0, 7), (1, 3), (0, 8))]
        self.stored: list[tuple[str, int, int]] = []
        self.settings = settings

    def subscribe(self, topics: list[str]) -> None: ...

    def consume(self, count: int, timeout: float) -> list[Message]:  # noqa: ARG002
        taken, self.records = self.records[:count], self.records[count:]
        return taken

    def store_offsets(self, offsets: list[TopicPartition]) -> None:
        self.stored += [(each.topic, each.partition, each.offset) for each in offsets]

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("can_print", "stored"), [(True, [("t", 0, 9), ("t", 1, 4)]), (False, [])], ids=["printed", "not printed"]
)
def test_a_member_of_a_group_counts_records_as_read_once_they_are_printed(
    monkeypatch: pytest.MonkeyPatch, can_print: bool, stored: list[tuple[str, int, int]]
) -> None:
    consumers: list[FakeConsumer] = []

    def library_consumer(_: argparse.Namespace, settings: dict[str, str]) -> FakeConsumer:
        consumers.append(FakeConsumer(settings))
        return consumers[-1]

    def refuse() -> None:
        assert consumers[0].stored == []
        if not can_print:
            raise KeyboardInterrupt

    out = io.BytesIO()
    monkeypatch.setattr(out, "flush", refuse)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out))
    monkeypatch.setattr(consume_sources, "library_consumer", library_consumer)
    parser = argparse.ArgumentParser()
    consume.add_parser(parser.add_subparsers())
    flags = ["consume", "--bootstrap-server", "b:1", "--topic", "t", "--group", "g", "--max-messages", "3"]
    assert consume.run(parser.parse_args(flags)) == 0
    assert consumers[0].settings["enable.auto.offset.store"] == "false"
    assert consumers[0].stored == stored

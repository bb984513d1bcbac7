"""Records to lines, as the console consumer's formatter prints them."""

from __future__ import annotations

import json
from typing import Any

import pytest

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

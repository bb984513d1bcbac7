"""Lines to records, as the console producer's reader takes them."""

from __future__ import annotations

import io

import pytest

from kafkalite.cli.main import UsageError
from kafkalite.cli.produce import READER_PROPERTIES, Line, parse_line, read_lines

ALL = {"parse.key": "true", "parse.headers": "true", "parse.timestamp": "True"}


@pytest.mark.parametrize(
    ("properties", "line", "expected"),
    [
        ({}, b"a\tb", Line(None, [], None, b"a\tb")),
        ({}, b"", Line(None, [], None, b"")),
        ({"parse.key": "true"}, b"k\tv\tw", Line(None, [], b"k", b"v\tw")),
        ({"parse.key": "true", "key.separator": "::"}, b"k::", Line(None, [], b"k", b"")),
        (
            ALL,
            b"12\ta:1,b:2:3\tk\tv",
            Line(12, [("a", b"1"), ("b", b"2:3")], b"k", b"v"),
        ),
        (ALL | {"null.marker": "NIL"}, b"12\tNIL\tNIL\tNIL", Line(12, [], None, None)),
        (ALL | {"null.marker": "NIL"}, b"12\ta:NIL\tk\tv", Line(12, [("a", None)], b"k", b"v")),
        ({"parse.key": "true", "null.marker": ""}, b"k\t", Line(None, [], b"k", None)),
        (ALL | {"null.marker": ""}, b"12\ta:\t\tv", Line(12, [("a", None)], None, b"v")),
        ({"parse.headers": "true", "headers.delimiter": "|", "headers.separator": ";"}, b"a:1;b:|v",
         Line(None, [("a", b"1"), ("b", b"")], None, b"v")),
        ({"parse.key": "true", "ignore.error": "true"}, b"no key", Line(None, [], None, b"no key")),
    ],
)  # fmt: skip
def test_lines(properties: dict[str, str], line: bytes, expected: Line) -> None:
    assert parse_line(line, READER_PROPERTIES | properties) == expected


@pytest.mark.parametrize(
    ("properties", "line", "complaint"),
    [
        ({"parse.key": "true"}, b"no key", "no key delimiter found on line number 7: 'no key'"),
        ({"parse.headers": "true"}, b"a:1", "no headers delimiter"),
        ({"parse.headers": "true"}, b"a\tv", "no header key separator found in 'a' on line number 7"),
        ({"parse.timestamp": "true"}, b"12", "no timestamp delimiter"),
        ({"parse.timestamp": "true"}, b"noon\tx", "timestamp .noon. on line number 7: expected milliseconds"),
    ],
)
def test_lines_that_are_refused(properties: dict[str, str], line: bytes, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse_line(line, READER_PROPERTIES | properties, 7)


def test_line_ends() -> None:
    lines = read_lines(io.BytesIO(b"a\nb\r\n\nc"), READER_PROPERTIES)
    assert [line.value for line in lines] == [b"a", b"b", b"", b"c"]

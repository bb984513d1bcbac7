"""Headers, and the cutting of streams into frames: whole, byte by byte, with trailing data."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kafkalite.protocol.api_keys import (
    FIRST_FLEXIBLE,
    SUPPORTED,
    ApiKey,
)
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.frames import (
    FrameParser,
    RequestHeader,
    parse_request_header,
    request_header,
    response_body_offset,
    response_header,
)

SMALL = [b"", b"a", b"hello", bytes(300), b"x" * 1000]
LARGE = [b"small", b"L" * 40_000, b"M" * 100_000, b"tiny", b"", b"N" * 5_000_000, b"O" * 40_000, b"P" * 90_000, b"end"]


def stream(frames: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


@pytest.mark.parametrize("frames", [SMALL, LARGE, SMALL * 500], ids=["small", "large", "many"])
@pytest.mark.parametrize("step", [1, 2, 3, 7, 255, 257, 4096, 65_536, 10_000_000])
def test_frames_come_out_as_they_went_in(frames: list[bytes], step: int) -> None:
    if step < 255 and frames is not SMALL:
        frames = [frame[:3000] for frame in frames[:20]]
    data = stream(frames) + b"\0\0"
    parser = FrameParser(10_000_000)
    out: list[Any] = []
    for pos in range(0, len(data), step):
        out += parser.feed(data[pos : pos + step])
    assert out == frames
    assert parser.held == 2


def test_frames_share_no_memory() -> None:
    frames: list[Any] = list(FrameParser(100).feed(stream([b"aaaa", b"bbbb"])))
    first, second = frames
    first[:] = b"XXXX"
    assert second == b"bbbb"


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
def test_absurd_lengths_are_refused_before_anything_is_allocated(size: int) -> None:
    parser = FrameParser(100)
    with pytest.raises(ProtocolError, match=str(size)):
        parser.feed(struct.pack(">i", size))
    assert parser.held == 0


def test_an_announcement_costs_little() -> None:
    parser = FrameParser(2**31 - 1)
    assert parser.feed(struct.pack(">i", 1 << 30) + b"x") == []
    assert parser.held == FrameParser.FIRST_ALLOCATION


def test_who_kept_the_word_once_is_believed_more() -> None:
    parser = FrameParser(2**31 - 1)
    assert len(parser.feed(stream([b"x" * 500_000]))) == 1
    parser.feed(struct.pack(">i", 1 << 30) + b"x")
    assert parser.held == FrameParser.LATER_ALLOCATION


def test_a_trusted_peer_gets_memory_for_the_whole_frame_at_once() -> None:
    parser = FrameParser(1 << 24, trusted=True)
    parser.feed(struct.pack(">i", 1 << 23) + b"x")
    assert parser.held == 1 << 23


@pytest.mark.parametrize(
    ("api_key", "version", "request_version", "response_version"),
    [
        (ApiKey.PRODUCE, 8, 1, 0),
        (ApiKey.PRODUCE, 9, 2, 1),
        (ApiKey.API_VERSIONS, 2, 1, 0),
        (ApiKey.API_VERSIONS, 3, 2, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 0, 0, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 1, 1, 0),
        (ApiKey.SASL_HANDSHAKE, 1, 1, 0),
        (999, 7, 1, 0),
    ],
)
def test_versions_of_headers(api_key: int, version: int, request_version: int, response_version: int) -> None:
    """Request headers of version 0 have no client id; of 2, and response headers of 1, tagged fields."""
    head = struct.pack(">hhi", api_key, version, 5) + (b"", b"\xff\xff", b"\xff\xff\0")[request_version]
    header, body_at = parse_request_header(memoryview(head + b"\1body" * 9))
    assert (header, body_at) == (RequestHeader(api_key, version, 5, None), len(head))
    answer = response_header(header)
    assert answer == struct.pack(">i", 5) + b"\0" * response_version
    assert response_body_offset(api_key, version, memoryview(answer + b"\1body")) == len(answer)


@pytest.mark.parametrize("client_id", [None, "", "me", "höhö"])
@pytest.mark.parametrize("version", [0, 8, 9])
def test_request_headers_are_read_as_written(client_id: str | None, version: int) -> None:
    head = request_header(ApiKey.PRODUCE, version, 77, client_id)
    header, body = parse_request_header(memoryview(head + b"body"))
    assert header == RequestHeader(0, version, 77, client_id)
    assert body == len(head)
    for end in range(len(head)):
        with pytest.raises(ProtocolError):
            parse_request_header(memoryview(head)[:end])


def test_tagged_fields_in_a_header_are_skipped() -> None:
    head = request_header(ApiKey.PRODUCE, 9, 1, "c")[:-1] + b"\x02\x00\x03abc\x05\x01z"
    assert parse_request_header(memoryview(head + b"body"))[1] == len(head)


@pytest.mark.parametrize(
    "head",
    [
        struct.pack(">hhih", 0, 3, 1, -2),
        struct.pack(">hhih", 0, 3, 1, 2) + b"\xff\xfe",
        struct.pack(">hhih", 0, 3, 1, 32767) + b"abc",
        struct.pack(">hhih", 0, 9, 1, -1) + b"\xff" * 10,
        struct.pack(">hhih", 0, 9, 1, -1) + b"\x01\x00\x7f",
    ],
)
def test_damaged_headers_are_refused(head: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_request_header(memoryview(head))


def test_the_oldest_controlled_shutdown_has_no_client_id() -> None:
    header, body = parse_request_header(memoryview(struct.pack(">hhii", 7, 0, 5, 1)))
    assert (header.client_id, header.correlation_id, body) == (None, 5, 8)
    assert parse_request_header(memoryview(struct.pack(">hhi", 7, 0, 5)))[1] == 8


@pytest.mark.parametrize(("api_key", "version", "size"), [(0, 8, 4), (0, 9, 5), (18, 3, 4), (999, 9, 4)])
def test_response_headers(api_key: int, version: int, size: int) -> None:
    head = response_header(RequestHeader(api_key, version, 1234, None))
    assert len(head) == size
    assert head[:4] == struct.pack(">i", 1234)
    assert response_body_offset(api_key, version, memoryview(head + b"body")) == size
    with pytest.raises(ProtocolError):
        response_body_offset(api_key, version, memoryview(head)[: size - 1])


def test_the_table_is_complete() -> None:
    assert set(SUPPORTED) == set(FIRST_FLEXIBLE)
    assert SUPPORTED[ApiKey.PRODUCE] == (0, 11)
    assert SUPPORTED[ApiKey.FETCH] == (0, 17)
    assert 11 in SUPPORTED[ApiKey.PRODUCE]
    assert 12 not in SUPPORTED[ApiKey.PRODUCE]
    assert -1 not in SUPPORTED[ApiKey.PRODUCE]

"""Frames and headers: where a request begins and ends, who sent it and which answer it gets.

Answers to: ``org.apache.kafka.common.network.NetworkReceive`` and ``common.requests.{RequestHeader,ResponseHeader}``. Pure.
"""

from __future__ import annotations

import struct

from kafkalite.protocol.api_keys import _NEVER, FIRST_FLEXIBLE, ApiKey, is_flexible
from kafkalite.protocol.errors import ProtocolError

__all__ = [
    "FrameParser",
    "ProtocolError",
    "RequestHeader",
    "parse_request_header",
    "request_header",
    "response_body_offset",
    "response_header",
]

_HEADER = struct.Struct(">hhi")
_HEADER_CLIENT = struct.Struct(">hhih")
_INT32 = struct.Struct(">i")
_FLEXIBLE: dict[int, int] = {int(key): version for key, version in FIRST_FLEXIBLE.items()}


class RequestHeader:
    """The first fields of every request. ``api_key`` is a plain integer: nobody has said yet that it is known."""

    __slots__ = ("api_key", "api_version", "client_id", "correlation_id")

    def __init__(self, api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id

    def __repr__(self) -> str:
        return (
            f"RequestHeader(api_key={self.api_key}, api_version={self.api_version}, "
            f"correlation_id={self.correlation_id}, client_id={self.client_id!r})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RequestHeader) and all(
            getattr(self, name) == getattr(other, name) for name in self.__slots__
        )

    __hash__ = None  # type: ignore[assignment]


def skip_tagged_fields(frame: memoryview | bytes | bytearray, pos: int) -> int:
    """The position behind a section of tagged fields. Raises :class:`ProtocolError`."""
    count, pos = read_uvarint(frame, pos)
    for _ in range(count):
        _, pos = read_uvarint(frame, pos)
        size, pos = read_uvarint(frame, pos)
        pos += size
        if pos > len(frame):
            raise ProtocolError("a tagged field runs past the end")
    return pos


def read_uvarint(frame: memoryview | bytes | bytearray, pos: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes, and the position behind it. Raises :class:`ProtocolError`."""
    value = shift = 0
    try:
        while True:
            byte = frame[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, pos
            shift += 7
            if shift > 28:
                raise ProtocolError("a varint of more than five bytes")
    except IndexError:
        raise ProtocolError("truncated inside a varint") from None


def write_uvarint(value: int) -> bytes:
    """The reverse of :func:`read_uvarint`."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def parse_request_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """The header at the start of ``frame`` (without its length) and where the body begins.

    Raises :class:`ProtocolError` where it is cut short. An unknown key or version is not an error here.
    """
    try:
        api_key, api_version, correlation_id, size = _HEADER_CLIENT.unpack_from(frame)
    except struct.error:
        if len(frame) >= 8:
            api_key, api_version, correlation_id = _HEADER.unpack_from(frame)
            if api_key == ApiKey.CONTROLLED_SHUTDOWN and api_version == 0:
                return RequestHeader(api_key, api_version, correlation_id, None), 8
        raise ProtocolError(f"a request of {len(frame)} bytes has no header") from None
    if api_key == 7 and api_version == 0:
        return RequestHeader(api_key, api_version, correlation_id, None), 8
    client_id = None
    pos = 10
    if size > 0:
        pos = 10 + size
        if pos > len(frame):
            raise ProtocolError(f"the client id of {size} bytes runs past the end of the request")
        try:
            client_id = str(frame[10:pos], "utf-8")
        except UnicodeDecodeError:
            raise ProtocolError("the client id is not UTF-8") from None
    elif size == 0:
        client_id = ""
    elif size < -1:
        raise ProtocolError(f"the client id has the length {size}")
    if api_version >= _FLEXIBLE.get(api_key, _NEVER):
        if pos < len(frame) and frame[pos] == 0:
            pos += 1
        else:
            pos = skip_tagged_fields(frame, pos)
    return RequestHeader(api_key, api_version, correlation_id, client_id), pos


def request_header(api_key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The header of a request, without the frame's length."""
    name = b"" if client_id is None else client_id.encode()
    head = _HEADER_CLIENT.pack(api_key, version, correlation_id, -1 if client_id is None else len(name)) + name
    if is_flexible(api_key, version):
        head += b"\0"
    return head


def response_header(header: RequestHeader) -> bytes:
    """The header of the answer to ``header``, without the frame's length."""
    api_key = header.api_key
    if header.api_version >= _FLEXIBLE.get(api_key, _NEVER) and api_key != 18:
        return _INT32.pack(header.correlation_id) + b"\0"
    return _INT32.pack(header.correlation_id)


def response_body_offset(api_key: int, version: int, frame: memoryview) -> int:
    """Where the body of a response begins in its frame (without length). Raises :class:`ProtocolError`."""
    if is_flexible(api_key, version) and api_key != ApiKey.API_VERSIONS:
        return skip_tagged_fields(frame, 4)
    if len(frame) < 4:
        raise ProtocolError(f"a response of {len(frame)} bytes has no header")
    return 4


class FrameParser:
    """Cuts a stream of bytes into frames (4-byte length, then as much).

    It owns the buffers that the stream is read into, so that nothing is copied twice: ask
    :meth:`buffer` where to read, tell :meth:`received` how much came, take the frames that it returns.
    """

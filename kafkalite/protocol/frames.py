"""Frames and headers: where a request begins and ends, who sent it and which answer it gets.

Answers to: ``org.apache.kafka.common.network.NetworkReceive`` and ``common.requests.RequestHeader``. Pure.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from kafkalite.protocol.api_keys import FIRST_FLEXIBLE, NEVER, ApiKey, is_flexible
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.memory import FramePool
from kafkalite.protocol.wire import INT32, MALFORMED, skip_tags

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


@dataclass(slots=True)
class RequestHeader:
    """The first fields of every request. ``api_key`` is a plain integer, because it may be unknown here."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


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
    if api_version >= FIRST_FLEXIBLE.get(api_key, NEVER):
        if pos < len(frame) and frame[pos] == 0:
            pos += 1
        else:
            try:
                pos = skip_tags(frame, pos)
            except MALFORMED:
                raise ProtocolError("the request ends inside its header") from None
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
    if header.api_version >= FIRST_FLEXIBLE.get(api_key, NEVER) and api_key != 18:
        return INT32.pack(header.correlation_id) + b"\0"
    return INT32.pack(header.correlation_id)


def response_body_offset(api_key: int, version: int, frame: memoryview) -> int:
    """Where the body of a response begins in its frame (without length). Raises :class:`ProtocolError`."""
    if is_flexible(api_key, version) and api_key != ApiKey.API_VERSIONS:
        try:
            return skip_tags(frame, 4)
        except MALFORMED:
            raise ProtocolError("the response ends inside its header") from None
    if len(frame) < 4:
        raise ProtocolError(f"a response of {len(frame)} bytes has no header")
    return 4


class FrameParser:
    """Cuts a stream of bytes into frames (4-byte length, then as much), each in memory of its own.

    The reader of the stream asks :meth:`target` where the next bytes go and tells :meth:`received` how many
    came. Small frames are read many at a time into ``scratch``, a buffer that any number of parsers share (it
    holds nothing between the two calls), and copied once; a large frame is read straight into its own
    memory, which grows with what has come, so that a mere announcement of a large frame costs little; a
    ``trusted`` peer sends what it announces. Memory of large frames comes from ``pool``: hold what is returned,
    or views of it, for as long as it is needed.
    """

    __slots__ = ("_filled", "_first", "_large", "_memory", "_pool", "_size", "_tail", "max_size", "offence")

    LARGE = 1 << 15
    """A frame larger than this gets its own memory before it is complete."""
    FIRST_ALLOCATION = 1 << 16
    """Bytes of a large frame that are allocated before as many have come, until a first large frame is complete."""
    LATER_ALLOCATION = (1 << 20) + (1 << 16)
    """Bytes that are allocated from then on: a client's usual batch and what surrounds it."""
    PEEK = 256
    """Bytes that are read after a large frame: few, so that hardly any of the next large one is copied."""

    def __init__(self, max_size: int, pool: FramePool | None = None, trusted: bool = False) -> None:
        self.max_size = max_size
        self.offence = ""
        """What is wrong behind the frames that were returned last; nothing more can be read."""
        self._pool = pool or FramePool(0)
        self._first = max_size if trusted else self.FIRST_ALLOCATION
        self._tail: bytes | bytearray = b""
        self._memory: memoryview | None = None
        self._filled = 0
        self._size = 0
        self._large = False

    @property
    def held(self) -> int:
        """Bytes of memory held for an incomplete frame."""
        return len(self._tail) if self._memory is None else len(self._memory)

    def target(self, scratch: memoryview) -> memoryview:
        """Where to read the next bytes to; at least one byte long, to be filled from its start."""
        memory = self._memory
        if memory is not None:
            if self._filled == len(memory):
                memory = self._grow(memory)
            return memory[self._filled :]
        tail = self._tail
        if tail:
            size = len(tail)
            scratch[:size] = tail
            return scratch[size:]
        return scratch[: self.PEEK] if self._large else scratch

    def received(self, scratch: bytearray, count: int) -> list[bytearray | memoryview]:
        """``count`` bytes came into the last :meth:`target`: the frames that are complete now, without their lengths.

        ``scratch`` is the buffer under the view that :meth:`target` was given.
        Raises :class:`ProtocolError` for a negative or too large length; where good frames stand before it, they are
        returned, and ``offence`` says what follows them.
        """
        memory = self._memory
        if memory is not None:
            self._filled += count
            if self._filled < self._size:
                return []
            self._memory = None
            self._first = max(self._first, self.LATER_ALLOCATION)
            return [memory]
        pos = 0
        end = len(self._tail) + count
        max_size = self.max_size
        unpack = INT32.unpack_from
        frames: list[bytearray | memoryview] = []
        while end - pos >= 4:
            size: int = unpack(scratch, pos)[0]
            after = pos + 4 + size
            if not 0 <= size <= max_size:
                self.offence = f"a frame of {size} bytes (at most {max_size} are allowed)"
                if not frames:
                    raise ProtocolError(self.offence)
                self._tail = b""
                return frames
            if after > end:
                if size > self.LARGE:
                    self._start_large(scratch, pos + 4, end, size)
                    return frames
                break
            frames.append(scratch[pos + 4 : after])
            pos = after
        self._tail = scratch[pos:end] if pos < end else b""
        # A peek that was filled, and not by the head of a large frame, meets small frames: read much again.
        self._large = False
        return frames

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytearray | memoryview]:
        """The frames that ``data`` completes, where the bytes have been read already."""
        frames: list[bytearray | memoryview] = []
        scratch = bytearray(2 * self.LARGE)
        rest = memoryview(data)
        with memoryview(scratch) as view:
            while rest:
                target = self.target(view[:])
                count = min(len(target), len(rest))
                target[:count] = rest[:count]
                target.release()
                rest = rest[count:]
                frames += self.received(scratch, count)
                if self.offence:
                    break
        return frames

    def _start_large(self, scratch: bytearray, pos: int, end: int, size: int) -> None:
        self._tail = b""
        self._large = True
        self._filled = end - pos
        self._size = size
        capacity = min(size, max(self._first, self._filled + 1))
        self._memory = memoryview(self._pool.take(capacity))[:capacity]
        self._memory[: self._filled] = scratch[pos:end]

    def _grow(self, memory: memoryview) -> memoryview:
        grown = memoryview(bytearray(min(self._size, 2 * len(memory))))
        grown[: len(memory)] = memory
        self._memory = grown
        return grown

"""What a connection still has to write: small buffers joined, large ones gathered, file regions sent by the kernel.

Answers to: ``org.apache.kafka.common.network.NetworkSend`` and ``record.DefaultRecordsSend``. Deterministic:
it calls only the socket that it is given, and no reactor.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from enum import IntEnum

from kafkalite.common.types import Buffer, FileRegion, Part
from kafkalite.network.sockets import WritableSocket

MSG_MORE = 0x8000
"""Linux: more bytes follow at once, so the kernel need not send a small packet for these."""

JOIN = 1 << 16
"""Up to this many bytes are joined into one buffer, because one buffer is cheaper for the kernel than many."""
SMALL = 1 << 14
"""Up to this many waiting bytes, file regions are copied, because one send is cheaper than two and a ``sendfile``."""
GATHER = 512
"""Most buffers in one call to the kernel, whose limit is 1024."""
TURN = 1 << 21
"""Most bytes that one connection writes before other connections have their turn."""
WINDOW = 1 << 22
"""Most bytes of a cold region that are read ahead at a time."""


class WriteResult(IntEnum):
    """How an attempt to write ended."""

    ALL = 0
    BLOCKED = 1
    """The socket takes no more now, or other connections have their turn: write again when the socket is writable."""
    COLD = 2
    """The next part is a file region that may have to be read from the disk: see :meth:`OutputQueue.cold_region`."""


class RegionError(OSError):
    """The file of a region cannot be read, for the reason ``why``; the socket itself works."""

    def __init__(self, region: FileRegion, why: str) -> None:
        try:
            name = os.readlink(f"/proc/self/fd/{region.fd}")
        except OSError:
            name = "a segment"
        super().__init__(f"{name} cannot be read at byte {region.position}: {why}")


class OutputQueue:
    """Parts in order, none of them empty.

    ``size`` counts the bytes that are not written yet, and is 0 only where there is no part; ``memory`` counts those of
    them that are not in files.
    """

    __slots__ = ("_done", "_parts", "_regions", "memory", "size")

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._done = 0
        self._regions = 0
        self.memory = 0
        self.size = 0

    def extend(self, parts: Iterable[Part]) -> None:
        """Add ``parts``. Empty ones are left out."""
        for part in parts:
            size = len(part)
            if not size:
                continue
            self._parts.append(part)
            self.size += size
            if type(part) is FileRegion:
                self._regions += 1
            else:
                self.memory += size

    def clear(self) -> None:
        """Drop all parts."""
        self._parts.clear()
        self._done = self._regions = self.memory = self.size = 0

    def cold_region(self) -> FileRegion:
        """The region to be read ahead now, at most :data:`WINDOW` long; clear its ``cold`` when that is done."""
        region = self._parts[0]
        assert isinstance(region, FileRegion)
        if region.count - self._done <= WINDOW and self._done == 0:
            return region
        # Cut the region in two, because a long one could be evicted from the page cache before it is sent.
        position = region.position + self._done
        count = min(region.count - self._done, WINDOW)
        rest = region.count - self._done - count
        first = FileRegion(region.fd, position, count, region.owner, True)
        self._parts[0] = first
        self._done = 0
        if rest:
            self._parts.insert(1, FileRegion(region.fd, position + count, rest, region.owner, True))
            self._regions += 1
        return first

    def write(self, sock: WritableSocket) -> WriteResult:
        """Write what the socket takes. Raises ``OSError`` where the connection failed, and :class:`RegionError`."""
        if self._regions and self.size <= SMALL:
            self._copy_regions()
        budget = TURN
        parts = self._parts
        while parts:
            if budget <= 0:
                return WriteResult.BLOCKED
            try:
                if not self._regions and self.size <= JOIN:
                    sent = self._send_joined(sock)
                    if not parts:
                        return WriteResult.ALL
                elif type(parts[0]) is FileRegion:
                    if parts[0].cold:
                        return WriteResult.COLD
                    sent = self._send_file(sock, parts[0])
                else:
                    sent = self._send_gathered(sock)
            except (BlockingIOError, InterruptedError):
                return WriteResult.BLOCKED
            budget -= sent
        return WriteResult.ALL

    def _copy_regions(self) -> None:
        for index, part in enumerate(self._parts):
            if type(part) is FileRegion and not part.cold:
                done = 0 if index else self._done
                rest = FileRegion(part.fd, part.position + done, part.count - done, part.owner)
                try:
                    data = rest.read()
                except OSError:
                    return  # sendfile will meet the same error and report it
                if len(data) == rest.count:
                    self._parts[index] = data
                    self._done -= done
                    self._regions -= 1
                    self.memory += len(data)

    def _send_joined(self, sock: WritableSocket) -> int:
        """Send all parts in one call: the common case of a few small answers."""
        parts = self._parts
        data: Buffer = parts[0] if len(parts) == 1 else b"".join(parts)  # type: ignore[arg-type, assignment]
        if self._done:
            data = memoryview(data)[self._done :]
            self._done = 0
        try:
            sent = sock.send(data)
        except (BlockingIOError, InterruptedError):
            parts[:] = (data,)
            raise
        if sent == len(data):
            parts.clear()
        else:
            parts[:] = (memoryview(data)[sent:],)
        self.memory -= sent
        self.size -= sent
        return sent

    def _send_gathered(self, sock: WritableSocket) -> int:
        batch: list[Buffer] = []
        more = 0
        for part in self._parts:
            if type(part) is FileRegion:
                more = MSG_MORE
                break
            batch.append(part)
            if len(batch) == GATHER:
                break
        if self._done:
            batch[0] = memoryview(batch[0])[self._done :]
        sent = sock.send(batch[0], more) if len(batch) == 1 else sock.sendmsg(batch, (), more)
        self.memory -= sent
        self._wrote(sent)
        return sent

    def _send_file(self, sock: WritableSocket, region: FileRegion) -> int:
        left = region.count - self._done
        try:
            sent = send_file(sock, region.fd, region.position + self._done, left)
        except OSError as error:
            if error.errno == errno.EIO:
                raise RegionError(region, str(error)) from None
            raise
        if sent == 0:
            raise RegionError(region, f"it ends {left} bytes before what is to be sent of it: was it cut off by hand?")
        self._wrote(sent)
        return sent

    def _wrote(self, sent: int) -> None:
        self.size -= sent
        done = self._done + sent
        parts = self._parts
        full = 0
        while full < len(parts):
            size = len(parts[full])
            if done < size:
                break
            done -= size
            if type(parts[full]) is FileRegion:
                self._regions -= 1
            full += 1
        self._done = done
        if full:
            del parts[:full]


def send_file(sock: WritableSocket, fd: int, position: int, count: int) -> int:
    """``sendfile`` to a socket; the simulation's sockets in memory have a ``send_file`` of their own."""
    own = getattr(sock, "send_file", None)
    if own is not None:
        return int(own(fd, position, count))
    return os.sendfile(sock.fileno(), fd, position, count)


def is_resident(region: FileRegion) -> bool:
    """Whether the region seems to be in the page cache: reads one byte of every 128 KB without waiting for the disk."""
    flag = getattr(os, "RWF_NOWAIT", None)
    if flag is None:
        return False
    byte = [bytearray(1)]
    end = region.position + region.count
    try:
        for position in range(region.position, end, 1 << 17):
            os.preadv(region.fd, byte, position, flag)
        os.preadv(region.fd, byte, end - 1, flag)
    except OSError:
        return False
    return True


def read_ahead(region: FileRegion) -> None:
    """Read the region into the page cache. Blocks, therefore it runs in a thread. Raises :class:`RegionError`."""
    scratch = [bytearray(1 << 17)]
    end = region.position + region.count
    try:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(region.fd, region.position, region.count, os.POSIX_FADV_WILLNEED)
        for position in range(region.position, end, 1 << 17):
            os.preadv(region.fd, scratch, position)
    except OSError as error:
        raise RegionError(region, str(error)) from None

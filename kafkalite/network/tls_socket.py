"""TLS around a socket: the methods of a socket, whose bytes are plain to the caller and encrypted on the wire.

Answers to: ``org.apache.kafka.common.network.SslTransportLayer``. Deterministic: it calls only the socket and the
context that it is given.

OpenSSL works on two buffers in memory here, not on the socket: one system call then carries many records, no write can
fail in the middle of a record, and a handshake needs no descriptor.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from typing import Final, cast

from kafkalite.common.types import Buffer
from kafkalite.network.output_queue import MSG_MORE
from kafkalite.network.sockets import Socket

PIECE: Final = 1 << 18
"""Most bytes that are encrypted at a time: sixteen full records. The connection holds as much until they are sent."""
CHUNK: Final = 1 << 17
"""Most encrypted bytes that are read at a time."""
BEGUN: Final = 50_000
"""Bytes that OpenSSL takes for a handshake that it has begun, as measured with OpenSSL 3."""
BEGUN_WITH_CERTIFICATE: Final = 150_000
"""The same once a client has begun to reply that may send a certificate: OpenSSL reserves up to 100 KB for it."""
ESTABLISHED: Final = 21_000
"""Bytes that it takes for a connection after the handshake."""

_RECORD_HEAD: Final = 5
_HANDSHAKE: Final = 22
_LONGEST_RECORD: Final = (1 << 14) + 256

_chunk = bytearray(CHUNK)
_chunk_view = memoryview(_chunk)
_piece = bytearray(PIECE)
_piece_view = memoryview(_piece)


class HandshakeError(OSError):
    """The peers agree on no TLS, or one does not trust the other."""


class TlsSocket:
    """A :class:`kafkalite.network.sockets.Socket` that encrypts, once the handshake is complete.

    For each step of the handshake call :meth:`receive_handshake`, :meth:`compute_handshake` and :meth:`flush`.

    A buffer that was offered to :meth:`send` and its kin is taken as a whole piece of at most :data:`PIECE` bytes, once
    its last encrypted byte is sent; until then they raise ``BlockingIOError``, and the next call must offer the same
    bytes, or more after them.
    """

    def __init__(
        self, sock: Socket, context: ssl.SSLContext, *, is_server: bool, server_name: str | None = None
    ) -> None:
        self._sock = sock
        self._context = context
        self._is_server = is_server
        self._server_name = server_name
        self._first = bytearray()
        self.has_begun = False
        """Whether OpenSSL has a state of this connection."""
        self._has_replied = False
        self._unsent = memoryview(b"")
        self._offered = 0
        self._ended = False
        self._starved = True
        self.is_established = False
        """Whether the handshake is complete."""

    @property
    def family(self) -> int:
        """The address family of the socket below."""
        return self._sock.family

    @property
    def has_pending(self) -> bool:
        """Whether bytes can be read, or the end is known, although the socket below may have nothing to read."""
        return not self._starved

    @property
    def handshake_memory(self) -> int:
        """Bytes of memory that the handshake takes."""
        if not self.has_begun:
            return len(self._first)
        if self._has_replied and self._context.verify_mode != ssl.CERT_NONE:
            return BEGUN_WITH_CERTIFICATE
        return BEGUN

    @property
    def has_unsent(self) -> bool:
        """Whether encrypted bytes wait for the socket below to take them."""
        return bool(self._unsent) or (self.has_begun and self._outgoing.pending > 0)

    @property
    def peer_certificate(self) -> bytes | None:
        """The certificate of the peer in DER; ``None`` if it sent none."""
        return self._tls.getpeercert(binary_form=True)

    def fileno(self) -> int:
        return self._sock.fileno()

    def setblocking(self, flag: bool, /) -> None:
        self._sock.setblocking(flag)

    def setsockopt(self, level: int, option: int, value: int, /) -> None:
        self._sock.setsockopt(level, option, value)

    def getsockopt(self, level: int, option: int, /) -> int:
        return self._sock.getsockopt(level, option)

    # The handshake.

    def receive_handshake(self) -> bool:
        """Take the bytes of the handshake that have come; whether :meth:`compute_handshake` is the next step.

        Raises :class:`HandshakeError`, and ``OSError`` if the connection failed.
        """
        if not self.has_begun:
            return not self._is_server or self._receive_first()
        if not self._receive():
            if self._ended:
                raise HandshakeError("closed by the peer during the TLS handshake")
            return False
        self._has_replied = True
        return True

    def compute_handshake(self) -> bool:
        """Compute the next step of the handshake; whether it is complete. :meth:`flush` then sends what it gave.

        It touches no descriptor, and may run in any thread while no other method is called. Raises
        :class:`HandshakeError`.
        """
        if not self.has_begun:
            self._begin()
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise HandshakeError(reason_of(error)) from None
        self.is_established = True
        # The peer may have sent more behind its last message of the handshake.
        self._starved = False
        return True

    def _receive_first(self) -> bool:
        """Take the first record, without a state of OpenSSL, which takes 40 KB of memory; whether it is complete.

        A client that stalls before takes only what it has sent.
        """
        first = self._first
        while len(first) < _RECORD_HEAD + _record_size(first):
            try:
                count = self._sock.recv_into(_chunk_view)
            except (BlockingIOError, InterruptedError):
                return False
            if not count:
                if first:
                    raise HandshakeError("closed by the peer during the TLS handshake")
                raise ConnectionAbortedError("closed by the peer before the TLS handshake")
            first += _chunk_view[:count]
        return True

    def _begin(self) -> None:
        first = self._first
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = self._context.wrap_bio(self._incoming, self._outgoing, self._is_server, self._server_name)
        self._read = cast("Callable[[int, memoryview], int]", self._tls.read)
        self._incoming.write(first)
        self._has_replied = len(first) > _RECORD_HEAD + _record_size(first)
        self._first = bytearray()
        self.has_begun = True

    # Reading.

    def recv_into(self, target: memoryview, /) -> int:
        """Read plain bytes; 0 at the end of the stream. Raises ``BlockingIOError`` if none have come."""
        done = 0 if self._starved else self._decrypt(target, 0)
        if done or self._ended:
            return done
        count = CHUNK
        # A chunk that was not filled was the last one that had come.
        while self._starved and count == CHUNK:
            try:
                count = self._receive()
            except OSError:
                if not done:
                    raise
                break  # The connection failed behind these bytes, as the next call will find.
            if count:
                done = self._decrypt(target, done)
        if not done and not self._ended:
            raise BlockingIOError
        return done

    def _receive(self) -> int:
        """Fetch encrypted bytes from the socket; 0 if none have come, or if the stream ended."""
        try:
            count = self._sock.recv_into(_chunk_view)
        except (BlockingIOError, InterruptedError):
            return 0
        if count:
            self._incoming.write(_chunk_view[:count])
        else:
            self._ended = True
            self._starved = False
        return count

    def _decrypt(self, target: memoryview, done: int) -> int:
        """Fill ``target`` from ``done`` on with what the encrypted bytes at hand give; how far it is filled then."""
        read = self._read
        size = len(target)
        try:
            # One call gives the bytes of one record at most.
            while done < size:
                count = read(size - done, target[done:])
                if not count:
                    self._ended = True
                    break
                done += count
            self._starved = False
        except ssl.SSLWantReadError:
            self._starved = not self._ended
        except ssl.SSLZeroReturnError:
            self._ended = True
            self._starved = False
        except ssl.SSLError as error:
            if not done:
                raise ConnectionResetError(f"TLS: {reason_of(error)}") from None
            self._starved = False
        return done

    # Writing.

    def send(self, data: Buffer, flags: int = 0, /) -> int:
        return self._settle(flags) or self._offer(memoryview(data)[:PIECE], flags)

    def sendmsg(self, buffers: list[Buffer], ancillary: tuple[()] = (), flags: int = 0, /) -> int:  # noqa: ARG002
        taken = self._settle(flags)
        if taken:
            return taken
        batch: list[Buffer] = []
        size = 0
        for data in buffers:
            batch.append(memoryview(data)[: PIECE - size])
            size += len(batch[-1])
            if size == PIECE:
                break
        return self._offer(b"".join(batch), flags)

    def send_file(self, fd: int, position: int, count: int) -> int:
        """As ``sendfile``: send up to ``count`` bytes of a file; 0 if it ends at ``position``."""
        taken = self._settle(0)
        if taken:
            return taken
        size = os.preadv(fd, [_piece_view[:count]], position)
        return self._offer(_piece_view[:size], 0) if size else 0

    def _offer(self, piece: Buffer, flags: int) -> int:
        self._tls.write(piece)
        if flags & MSG_MORE and len(piece) < PIECE:
            # More follows at once: one system call will carry both.
            return len(piece)
        self._offered = len(piece)
        return self._settle(flags)

    def _settle(self, flags: int) -> int:
        """Send what is encrypted; the size of the piece that was offered, 0 if none was. Raises ``BlockingIOError``."""
        if self._offered or self._unsent:
            self.flush(flags)
            if self._unsent:
                raise BlockingIOError
        taken, self._offered = self._offered, 0
        return taken

    def flush(self, flags: int = 0) -> None:
        """Send encrypted bytes as far as the socket takes them. Raises ``OSError`` if the connection failed."""
        while self.has_unsent:
            if not self._unsent:
                self._unsent = memoryview(self._outgoing.read())
            try:
                sent = self._sock.send(self._unsent, flags)
            except (BlockingIOError, InterruptedError):
                return
            self._unsent = self._unsent[sent:]

    def close(self) -> None:
        """Say that no more comes, as far as the socket takes it at once, and close the socket."""
        if self.is_established and not self._offered and not self._unsent:
            self._say_goodbye()
        self._sock.close()

    def _say_goodbye(self) -> None:
        """Send the alert that OpenSSL has for the peer: that the stream ends, or why it does."""
        try:
            if self.is_established:
                self._tls.unwrap()
        except (OSError, ValueError):
            pass  # It would wait for the peer's own end.
        try:
            self.flush()
        except OSError:
            pass


def reason_of(error: ssl.SSLError) -> str:
    """What went wrong, in OpenSSL's words: ``certificate verify failed: …``."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    return (error.reason or str(error)).lower().replace("_", " ")


def _record_size(first: bytearray) -> int:
    """The size of the record that begins with ``first``, as far as it is known.

    Raises :class:`HandshakeError` if it is no record of a handshake.
    """
    if first and first[0] != _HANDSHAKE:
        raise HandshakeError("the first bytes are not those of a TLS handshake: does the client use TLS?")
    size = int.from_bytes(first[3:_RECORD_HEAD], "big") if len(first) >= _RECORD_HEAD else 0
    if size > _LONGEST_RECORD:
        raise HandshakeError("the first record is too long for a TLS handshake")
    return size

"""What the reactor watches for a connection over TLS: it does the handshake, and knows of bytes that wait in memory.

Answers to: ``org.apache.kafka.common.network.KafkaChannel.prepare`` and the selector's ``keysWithBufferedRead``.
Reactor shell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from twisted.python.failure import Failure

from kafkalite.network.handshakes import Handshakes, Outcome
from kafkalite.network.reactor import DelayedCall, ReactorSockets, ReadDescriptor, WriteDescriptor
from kafkalite.network.tls_socket import HandshakeError, TlsSocket

ROUNDS: Final = 8
"""How often one event reads for one connection before other connections have their turn."""


class TlsOwner(ReadDescriptor, WriteDescriptor, Protocol):
    """A connection over TLS: it reads and writes as one over a plain socket does."""

    def tls_established(self) -> None:
        """The handshake is complete; the connection may be closed now."""

    def tls_holds(self, size: int) -> None:
        """The handshake goes on, and takes ``size`` bytes of memory."""

    def tls_failed(self, why: str) -> None:
        """The handshake failed: close the connection."""


class TlsChannel:
    """Stands between the reactor and the connection that :meth:`attach` names, whose reactor it is.

    It calls the connection as the reactor would, from the end of the handshake on; and also when decrypted bytes wait
    in memory, of which the reactor knows nothing. ``handshakes`` computes the handshake.
    """

    def __init__(self, reactor: ReactorSockets, sock: TlsSocket, handshakes: Handshakes) -> None:
        self._reactor = reactor
        self._handshakes = handshakes
        self._is_shaking_hands = False
        self._sock = sock
        self._fd = sock.fileno()
        self._owner: TlsOwner | None = None
        self._reads = False
        self._writes = False
        self._resumption: DelayedCall | None = None

    def attach(self, owner: TlsOwner) -> None:
        """Serve ``owner``."""
        self._owner = owner

    def move_to(self, reactor: ReactorSockets) -> None:
        """From now on ``reactor`` watches the socket."""
        if reactor is self._reactor:
            return
        self._reactor.removeReader(self)
        self._reactor.removeWriter(self)
        self._reactor = reactor
        if self._reads:
            reactor.addReader(self)
        self._watch_writes(self._sock.has_unsent or self._writes)

    # The methods of a reactor, for the owner (IReactorFDSet, IReactorTime).

    def seconds(self) -> float:
        """See :class:`kafkalite.network.reactor.ReactorTime`."""
        return self._reactor.seconds()

    def callLater(self, delay: float, call: Callable[..., object], /, *args: object) -> DelayedCall:  # noqa: N802
        """See :class:`kafkalite.network.reactor.ReactorTime`."""
        return self._reactor.callLater(delay, call, *args)

    def addReader(self, _: ReadDescriptor, /) -> None:  # noqa: N802
        """The owner wants to read: first what waits in memory."""
        self._reads = True
        self._reactor.addReader(self)
        if self._sock.has_pending:
            self._plan_resumption()

    def removeReader(self, _: ReadDescriptor, /) -> None:  # noqa: N802
        """The owner reads no more for now, or is closed."""
        self._reads = False
        self._reactor.removeReader(self)

    def addWriter(self, _: WriteDescriptor, /) -> None:  # noqa: N802
        """The owner wants to write, or waits for the connection."""
        self._writes = True
        self._reactor.addWriter(self)

    def removeWriter(self, _: WriteDescriptor, /) -> None:  # noqa: N802
        """The owner has nothing to write."""
        self._writes = False
        self._reactor.removeWriter(self)

    # The methods that the reactor calls (IReadWriteDescriptor).

    def fileno(self) -> int:
        """The number of the descriptor, also after it was closed."""
        return self._fd

    def logPrefix(self) -> str:  # noqa: N802
        """For Twisted's own log."""
        return "kafka-tls"

    def connectionLost(self, reason: Failure) -> None:  # noqa: N802
        """The reactor saw the connection fail."""
        assert self._owner is not None
        self._owner.connectionLost(reason)

    def doRead(self) -> None:  # noqa: N802
        """Encrypted bytes have come, or the peer has closed."""
        if self._sock.is_established and not self._is_shaking_hands:
            self._read()
        else:
            self._shake_hands()

    def doWrite(self) -> None:  # noqa: N802
        """The socket is connected, or takes more bytes."""
        owner = self._owner
        assert owner is not None
        if self._is_shaking_hands or not self._sock.is_established:
            self._shake_hands()
        elif self._writes:
            owner.doWrite()
        else:
            self._flush()

    def _shake_hands(self) -> None:
        """The socket is ready: let the handshake go on, which then says for what to watch."""
        self._reactor.removeReader(self)
        self._reactor.removeWriter(self)
        if not self._is_shaking_hands:
            self._is_shaking_hands = True
            self._handshakes.run(self, is_begun=self._sock.has_begun)

    def receive(self) -> bool:
        """See :class:`kafkalite.network.handshakes.Handshake`."""
        try:
            if self._is_owned:
                self._sock.flush()
                if self._sock.receive_handshake():
                    return True
                self._wait_for_more()
        except OSError as error:
            self._fail(error)
        self._is_shaking_hands = False
        return False

    def compute(self) -> bool:
        """See :class:`kafkalite.network.handshakes.Handshake`."""
        return self._sock.compute_handshake()

    def take(self, outcome: Outcome) -> None:
        """See :class:`kafkalite.network.handshakes.Handshake`."""
        self._is_shaking_hands = False
        if not self._is_owned:
            return
        owner, sock = self._owner, self._sock
        assert owner is not None
        try:
            # Also after a failure, of which OpenSSL tells the peer.
            sock.flush()
        except OSError as error:
            outcome = outcome if isinstance(outcome, Exception) else error
        if isinstance(outcome, Exception):
            self._fail(outcome)
        elif outcome:
            if self._reads:
                self._reactor.addReader(self)
            self._watch_writes(sock.has_unsent or self._writes)
            owner.tls_established()
            self._read()
        else:
            self._wait_for_more()

    @property
    def _is_owned(self) -> bool:
        """Whether the owner has not closed."""
        return self._reads or self._writes

    def _wait_for_more(self) -> None:
        assert self._owner is not None
        self._reactor.addReader(self)
        self._watch_writes(self._sock.has_unsent)
        self._owner.tls_holds(self._sock.handshake_memory)

    def _fail(self, error: Exception) -> None:
        assert self._owner is not None
        if isinstance(error, HandshakeError):
            self._owner.tls_failed(str(error))
        else:
            self._owner.connectionLost(Failure(error))  # type: ignore[no-untyped-call]

    def _flush(self) -> None:
        assert self._owner is not None
        try:
            self._sock.flush()
        except OSError as error:
            self._owner.connectionLost(Failure(error))  # type: ignore[no-untyped-call]
        else:
            self._watch_writes(self._sock.has_unsent)

    def _watch_writes(self, wanted: bool) -> None:
        if wanted:
            self._reactor.addWriter(self)
        else:
            self._reactor.removeWriter(self)

    def _read(self) -> None:
        owner = self._owner
        assert owner is not None
        for _ in range(ROUNDS):
            if not self._reads:
                return
            owner.doRead()
            if not self._sock.has_pending:
                return
        self._plan_resumption()

    def _plan_resumption(self) -> None:
        if self._resumption is None:
            self._resumption = self._reactor.callLater(0, self._resume)

    def _resume(self) -> None:
        self._resumption = None
        self._read()

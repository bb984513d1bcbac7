"""Twisted's reactor for one simulated process: the methods that the network room calls, in virtual time. Deterministic.

Answers to: ``twisted.internet.interfaces.{IReactorCore,IReactorTime,IReactorFDSet}`` in part.

Readiness is level-triggered, as with epoll: the reactor calls the reader or writer of a ready socket repeatedly.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from twisted.python.failure import Failure

from kafkalite.network.reactor import Descriptor, ReadDescriptor, WriteDescriptor
from kafkalite.testing.simulation.wires import SimSocket, SimSockets
from kafkalite.testing.simulation.world import Life, ScheduledCall

log = logging.getLogger(__name__)

_NOTICE = 0.00005
"""Greatest time in seconds until a process handles a socket that is still ready."""


class SimReactor:
    """The reactor of ``life``."""

    def __init__(self, life: Life, sockets: SimSockets) -> None:
        self.sockets = sockets
        self._life = life
        self._rng = life.world.rng(f"reactor {life.name}")
        life.keep.append(self)

    # Time

    def seconds(self) -> float:
        """Virtual seconds."""
        return self._life.world.now

    def callLater(self, delay: float, call: Callable[..., object], *args: object) -> ScheduledCall:  # noqa: N802
        """Make the call after ``delay`` seconds."""
        return self._life.call_later(delay, call, *args)

    def callFromThread(self, call: Callable[..., object], *args: object) -> None:  # noqa: N802
        """Make the call soon."""
        self._life.call_later(0, call, *args)

    def addSystemEventTrigger(self, *_: object) -> None:  # noqa: N802
        """Does nothing, because the simulation stops the process."""

    # Descriptors

    def addReader(self, reader: ReadDescriptor) -> None:  # noqa: N802
        """Call ``reader.doRead`` whenever its socket can be read."""
        sock = self._socket(reader)
        if sock is not None and sock.reader is not reader:
            sock.reader = reader
            self._look(sock)

    def addWriter(self, writer: WriteDescriptor) -> None:  # noqa: N802
        """Call ``writer.doWrite`` whenever its socket can be written."""
        sock = self._socket(writer)
        if sock is not None and sock.writer is not writer:
            sock.writer = writer
            self._look(sock)

    def removeReader(self, reader: Descriptor) -> None:  # noqa: N802
        """Stop the calls."""
        sock = self._socket(reader)
        if sock is not None and sock.reader is reader:
            sock.reader = None

    def removeWriter(self, writer: Descriptor) -> None:  # noqa: N802
        """Stop the calls."""
        sock = self._socket(writer)
        if sock is not None and sock.writer is writer:
            sock.writer = None

    def _socket(self, descriptor: Descriptor) -> SimSocket | None:
        sock = self.sockets.network.sockets.get(descriptor.fileno())
        if sock is not None and sock.woken is None:
            sock.woken = self._woken
        return sock

    def _woken(self, sock: SimSocket) -> None:
        """The network has changed ``sock``: the process handles it at once, if it runs."""
        if not sock.has_turn and sock.is_ready:
            sock.has_turn = True
            self._life.run(self._take_turn, sock)

    def _look(self, sock: SimSocket) -> None:
        """The process watches, or has left, a socket that is ready already: it handles it soon."""
        if not sock.has_turn and sock.is_ready:
            sock.has_turn = True
            self._life.call_later(_NOTICE * self._rng.random(), self._take_turn, sock)

    def _take_turn(self, sock: SimSocket) -> None:
        sock.has_turn = False
        reader = sock.reader
        if reader is not None and sock.readable:
            self._call(reader, reader.doRead)
        writer = sock.writer
        if writer is not None and sock.writable:
            self._call(writer, writer.doWrite)
        self._look(sock)

    def _call(self, descriptor: Descriptor, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:
            log.exception("%s failed", descriptor)
            self.removeReader(descriptor)
            self.removeWriter(descriptor)
            descriptor.connectionLost(Failure(error))  # type: ignore[no-untyped-call]

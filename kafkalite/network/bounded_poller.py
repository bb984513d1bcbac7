"""Serves some sockets a few at a time, however many of them are ready.

Answers to: nothing in Kafka, where each listener has threads of its own, and authenticated clients share them with
those that are not. Reactor shell.
"""

from __future__ import annotations

import logging
import select
from collections.abc import Callable
from typing import Final, Protocol

from twisted.python.failure import Failure

from kafkalite.network.reactor import DelayedCall, Descriptor, ReactorSockets, ReadDescriptor, WriteDescriptor

log = logging.getLogger(__name__)

AT_ONCE: Final = 4
"""Sockets that are served in a turn of the reactor. One takes a tenth of a millisecond."""


class Poller(Protocol):
    """The methods of :class:`select.epoll` that are used."""

    def fileno(self) -> int: ...
    def register(self, fd: int, eventmask: int, /) -> None: ...
    def modify(self, fd: int, eventmask: int, /) -> None: ...
    def unregister(self, fd: int, /) -> None: ...
    def poll(self, timeout: float, maxevents: int, /) -> list[tuple[int, int]]: ...
    def close(self) -> None: ...


class BoundedPoller:
    """Twisted's ``IReactorFDSet`` for sockets of which the ``reactor`` serves at most ``at_once`` in each of its turns.

    The reactor itself serves all sockets that are ready before it asks again which are. Where thousands of clients
    connect or go in the same moment, the others would wait until each of these was served.

    ``poller`` is an epoll (Linux), in which the sockets that are ready take turns; the reactor watches only its
    descriptor.
    """

    def __init__(self, reactor: ReactorSockets, poller: Poller, at_once: int = AT_ONCE) -> None:
        self._reactor = reactor
        self._poller = poller
        self._at_once = at_once
        self._readers: dict[int, ReadDescriptor] = {}
        self._writers: dict[int, WriteDescriptor] = {}
        self._watched: dict[int, int] = {}
        """The events of each descriptor that the poller watches for."""
        reactor.addReader(self)

    # The methods of a reactor (IReactorFDSet, IReactorTime).

    def seconds(self) -> float:
        """See :class:`kafkalite.network.reactor.ReactorTime`."""
        return self._reactor.seconds()

    def callLater(self, delay: float, call: Callable[..., object], /, *args: object) -> DelayedCall:  # noqa: N802
        """See :class:`kafkalite.network.reactor.ReactorTime`."""
        return self._reactor.callLater(delay, call, *args)

    def addReader(self, reader: ReadDescriptor, /) -> None:  # noqa: N802
        """Call ``reader.doRead`` when its socket has bytes, has ended or has failed."""
        self._readers[reader.fileno()] = reader
        self._watch(reader.fileno())

    def addWriter(self, writer: WriteDescriptor, /) -> None:  # noqa: N802
        """Call ``writer.doWrite`` when its socket takes bytes or has failed."""
        self._writers[writer.fileno()] = writer
        self._watch(writer.fileno())

    def removeReader(self, reader: ReadDescriptor, /) -> None:  # noqa: N802
        """Undo :meth:`addReader`, if it was called."""
        self._readers.pop(reader.fileno(), None)
        self._watch(reader.fileno())

    def removeWriter(self, writer: WriteDescriptor, /) -> None:  # noqa: N802
        """Undo :meth:`addWriter`, if it was called."""
        self._writers.pop(writer.fileno(), None)
        self._watch(writer.fileno())

    def _watch(self, fd: int) -> None:
        events = (select.EPOLLIN if fd in self._readers else 0) | (select.EPOLLOUT if fd in self._writers else 0)
        before = self._watched.pop(fd, 0)
        if events:
            self._watched[fd] = events
        if events == before:
            return
        if not before:
            self._poller.register(fd, events)
        elif events:
            self._poller.modify(fd, events)
        else:
            self._poller.unregister(fd)

    # The methods that the reactor calls (IReadDescriptor).

    def fileno(self) -> int:
        """Of the poller: it can be read while a socket is ready."""
        return self._poller.fileno()

    def logPrefix(self) -> str:  # noqa: N802
        """For Twisted's own log."""
        return "kafka"

    def connectionLost(self, reason: Failure) -> None:  # noqa: N802
        """The reactor ends, and with it the connections."""
        for descriptor in list((self._readers | self._writers).values()):
            descriptor.connectionLost(reason)
        self._poller.close()

    def doRead(self) -> None:  # noqa: N802
        """Some sockets are ready."""
        for fd, events in self._poller.poll(0, self._at_once):
            # A socket that has ended or failed is ready for both: reading or writing then tells why.
            reader = self._readers.get(fd)
            if reader is not None and events & ~select.EPOLLOUT:
                self._serve(reader, reader.doRead)
            writer = self._writers.get(fd)
            if writer is not None and events & ~select.EPOLLIN:
                self._serve(writer, writer.doWrite)

    def _serve(self, descriptor: Descriptor, event: Callable[[], object]) -> None:
        try:
            event()
        except Exception:
            log.exception("an event of a connection could not be handled")
            descriptor.connectionLost(Failure())  # type: ignore[no-untyped-call]

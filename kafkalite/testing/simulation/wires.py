"""The simulated network: hosts, connections between them, and their faults. Deterministic.

Answers to: TCP sockets of Linux, as far as kafkalite uses them.

Bytes keep their order within a connection, but not among connections, because each chunk draws its own delay. A sent
chunk leaves at once and arrives after the delay of the way from host to host, unless that way is held.

- A connection to a port without a listener is refused; one to a machine without power is never answered.
- A killed process's connections end: at random the other side reads to the end, or gets a reset.
- A machine that loses power sends nothing. Its peers notice by their own timeouts, or by a reset when they send to the
  machine after its restart.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kafkalite.common.errors import StartupError
from kafkalite.common.tasks import Future
from kafkalite.common.types import Buffer
from kafkalite.network.reactor import ReadDescriptor, WriteDescriptor
from kafkalite.testing.simulation.world import Life, World

WINDOW = 1 << 18
"""Bytes that a connection accepts before the other side has read any."""
DELAY = (0.0001, 0.001)
"""Seconds from host to host, least and most."""
_CHECKSUM = struct.Struct("<I")
_FIRST_PORT = 40_000
_FIRST_FD = 1 << 20


class Way:
    """The way from one host to another: ``delay`` in seconds, least and most; while ``held``, nothing arrives."""

    __slots__ = ("delay", "held", "stuck", "window")

    def __init__(self) -> None:
        self.delay = DELAY
        self.held = False
        self.window = WINDOW
        self.stuck: list[Callable[[], None]] = []


class Host:
    """A machine on the network. ``life`` is the process that has its ports; without power it answers nothing."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.life: Life | None = None
        self.is_up = True
        self.boots = 0
        self.listening: dict[int, SimSocket] = {}
        self.bound: dict[int, SimSocket] = {}
        self.sockets: dict[SimSocket, None] = {}
        self.next_port = _FIRST_PORT


class Network:
    """All hosts and connections. Methods name hosts; for one way the pair is from ``a`` to ``b``."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.delay = DELAY
        self._rng = world.rng("network")
        self._hosts: dict[str, Host] = {}
        self._ways: dict[tuple[str, str], Way] = {}
        self._isolated: dict[str, None] = {}
        self.sockets: dict[int, SimSocket] = {}
        """All sockets, closed ones included, by number."""
        self._next_fd = _FIRST_FD

    # Faults

    def set_delay(self, a: str, b: str, delay: tuple[float, float], *, one_way: bool = False) -> None:
        """Seconds from ``a`` to ``b``, and back unless ``one_way``: least and most, drawn for each chunk."""
        for way in self._between(a, b, one_way):
            way.delay = delay

    def set_window(self, a: str, b: str, size: int, *, one_way: bool = False) -> None:
        """Bytes that a connection between ``a`` and ``b`` accepts before they are read; few stand for a slow reader."""
        for way in self._between(a, b, one_way):
            way.window = size

    def hold(self, a: str, b: str, *, one_way: bool = False) -> None:
        """Hold all bytes from ``a`` to ``b``, and back unless ``one_way``, until :meth:`release`."""
        for way in self._between(a, b, one_way):
            way.held = True
        self.world.note(f"network: held {a} {'->' if one_way else '<->'} {b}")

    def release(self, a: str, b: str, *, one_way: bool = False) -> None:
        """The held bytes from ``a`` to ``b``, and back unless ``one_way``, arrive now, in order in each connection."""
        for way in self._between(a, b, one_way):
            way.held = False
            stuck, way.stuck = way.stuck, []
            for arrive in stuck:
                arrive()
        self.world.note(f"network: released {a} {'->' if one_way else '<->'} {b}")

    def isolate(self, name: str) -> None:
        """Hold every way from and to ``name``, also those of later hosts, until :meth:`rejoin`."""
        self._isolated[name] = None
        for other in self._others(name):
            self.hold(name, other)

    def rejoin(self, name: str) -> None:
        """Undo :meth:`isolate`: every way from and to ``name`` is released."""
        self._isolated.pop(name, None)
        for other in self._others(name):
            self.release(name, other)

    def heal(self) -> None:
        """Release every way, and reset delays and windows."""
        self._isolated.clear()
        # A copy, because answers to released bytes may make new ways.
        for (a, b), way in list(self._ways.items()):
            if way.held:
                self.release(a, b, one_way=True)
            way.delay, way.window = self.delay, WINDOW

    def reset(self, a: str, b: str) -> int:
        """Both ends of every connection between ``a`` and ``b`` fail now; returns how many there were."""
        count = 0
        for sock in list(self.host(a).sockets):
            peer = sock.peer
            if peer is not None and peer.host.name == b and sock.is_established:
                sock.fail(errno.ECONNRESET)
                peer.fail(errno.ECONNRESET)
                count += 1
        self.world.note(f"network: reset {count} connections between {a} and {b}")
        return count

    def is_held(self, a: str, b: str) -> bool:
        """Whether nothing from ``a`` arrives at ``b`` now."""
        return self.way(a, b).held

    # Hosts

    def host(self, name: str) -> Host:
        """The host of that name; makes it if it does not exist."""
        found = self._hosts.get(name)
        if found is None:
            number = len(self._hosts) + 1
            found = self._hosts[name] = Host(name, f"10.0.{number >> 8}.{number & 255}")
        return found

    def boot(self, life: Life) -> Host:
        """Start a process on its machine, which then has power. The process's end ends its connections."""
        host = self.host(life.name)
        if not host.is_up:
            host.is_up = True
            host.boots += 1
        host.life = life
        life.at_death.append(lambda: self._process_died(host))
        return host

    def lose_power(self, name: str) -> None:
        """The machine stops sending, and loses the state of its connections."""
        host = self.host(name)
        host.is_up = False
        self.world.graveyard.append(list(host.sockets))
        for sock in host.sockets:
            sock.is_gone = True
        host.sockets = {}
        host.listening = {}
        host.bound = {}

    def _process_died(self, host: Host) -> None:
        self.world.graveyard.append(list(host.sockets))
        for sock in list(host.sockets):
            sock.owner_died(reset=self._rng.random() < 0.5)
        host.sockets = {}
        host.listening = {}
        host.bound = {}

    def find(self, address: str) -> Host | None:
        """The host with that name or address."""
        for host in self._hosts.values():
            if address in (host.name, host.address):
                return host
        return None

    # Ways

    def way(self, a: str, b: str) -> Way:
        """The way from ``a`` to ``b``."""
        found = self._ways.get((a, b))
        if found is None:
            found = self._ways[a, b] = Way()
            found.delay = self.delay
            found.held = a != b and (a in self._isolated or b in self._isolated)
        return found

    def _between(self, a: str, b: str, one_way: bool) -> list[Way]:
        return [self.way(a, b)] if one_way else [self.way(a, b), self.way(b, a)]

    def _others(self, name: str) -> list[str]:
        return [other for other in self._hosts if other != name]

    def travel(self, a: str, b: str, arrive: Callable[[], None]) -> None:
        """Call ``arrive`` after the delay from ``a`` to ``b``, in no order with other bytes."""
        way = self.way(a, b)
        lo, hi = way.delay
        self.world.call_later(lo + (hi - lo) * self._rng.random(), self._arrived, way, arrive)

    def _arrived(self, way: Way, arrive: Callable[[], None]) -> None:
        if way.held:
            way.stuck.append(lambda: self._arrived(way, arrive))
        else:
            arrive()

    def draw_delay(self, way: Way) -> float:
        """The delay of the next chunk in seconds."""
        lo, hi = way.delay
        return lo + (hi - lo) * self._rng.random()

    def add(self, sock: SimSocket) -> int:
        """A new number for ``sock``."""
        self._next_fd += 1
        self.sockets[self._next_fd] = sock
        return self._next_fd


class Pipe:
    """One direction of a connection: bytes arrive at ``target`` in order. ``unread`` counts the unread ones."""

    __slots__ = ("_clear_at", "_network", "_source", "_stuck", "target", "unread", "way")

    def __init__(self, network: Network, source: SimSocket, target: SimSocket) -> None:
        self._network = network
        self._source = source
        self.target = target
        self.way = network.way(source.host.name, target.host.name)
        self.unread = 0
        self._clear_at = 0.0
        self._stuck: deque[bytes | int] | None = None

    def send(self, item: bytes | int) -> None:
        """Send bytes, or the end of the direction: 0 for a normal end, an error number for a reset."""
        network = self._network
        world = network.world
        at = max(self._clear_at, world.now + network.draw_delay(self.way))
        self._clear_at = at
        world.plan(at, self._arrive, (item,), None)

    def _arrive(self, item: bytes | int) -> None:
        way = self.way
        if self._stuck is not None:
            self._stuck.append(item)
        elif way.held:
            self._stuck = deque((item,))
            way.stuck.append(self._release)
        else:
            self.target.arrived(item, self._source)

    def _release(self) -> None:
        """The way is released: the held chunks arrive as one, before later ones."""
        self._network.world.call_later(self._network.draw_delay(self.way), self._flush)

    def _flush(self) -> None:
        if self.way.held:
            self.way.stuck.append(self._release)
            return
        stuck, self._stuck = self._stuck, None
        for item in stuck or ():
            self.target.arrived(item, self._source)


class SimSocket:
    """A socket that does not block.

    ``reader`` and ``writer`` are called by its process's reactor; ``woken`` tells the reactor that it may be ready.
    """

    __slots__ = (
        "_closed",
        "_ended",
        "_error",
        "_fd",
        "_incoming",
        "_network",
        "_queue",
        "_size",
        "family",
        "has_turn",
        "host",
        "is_connecting",
        "is_established",
        "is_gone",
        "is_listening",
        "local",
        "out",
        "peer",
        "reader",
        "remote",
        "woken",
        "writer",
    )

    def __init__(self, network: Network, host: Host) -> None:
        self.family = socket.AF_INET
        self.host = host
        self.peer: SimSocket | None = None
        self.out: Pipe | None = None
        self.local = (host.address, 0)
        self.remote = ("", 0)
        self.is_connecting = False
        self.is_established = False
        self.is_listening = False
        self.is_gone = False
        self.reader: ReadDescriptor | None = None
        self.writer: WriteDescriptor | None = None
        self.has_turn = False
        self.woken: Callable[[SimSocket], None] | None = None
        self._network = network
        self._fd = network.add(self)
        self._incoming: deque[memoryview] = deque()
        self._size = 0
        self._ended = False
        self._error = 0
        self._closed = False
        self._queue: deque[SimSocket] = deque()
        host.sockets[self] = None

    # Calls of processes

    def fileno(self) -> int:
        """Its number, which is not a real descriptor's."""
        return self._fd

    def setblocking(self, flag: bool) -> None:
        """Ignored, because the socket never blocks."""

    def setsockopt(self, *_: object) -> None:
        """Ignored."""

    def getsockopt(self, level: int, option: int) -> int:
        """Only ``SO_ERROR``, which is cleared by the call."""
        if (level, option) != (socket.SOL_SOCKET, socket.SO_ERROR):
            return 0
        error, self._error = self._error, 0
        if error:
            self._ended = True
        return error

    def getsockname(self) -> tuple[str, int]:
        """Address and port of this side."""
        return self.local

    def accept(self) -> tuple[SimSocket, tuple[str, int]]:
        """The next connection."""
        if not self._queue:
            raise BlockingIOError(errno.EAGAIN, "no connection waits")
        found = self._queue.popleft()
        return found, found.remote

    def recv(self, size: int) -> bytes:
        """Up to ``size`` bytes; empty at the end."""
        target = bytearray(size)
        return bytes(target[: self.recv_into(memoryview(target))])

    def recv_into(self, target: memoryview) -> int:
        """Read into ``target``; returns the number of bytes, 0 at the end."""
        incoming = self._incoming
        if not incoming:
            if self._error:
                error, self._error = self._error, 0
                self._ended = True
                raise OSError(error, os.strerror(error))
            if self._ended or self._closed:
                return 0
            raise BlockingIOError(errno.EAGAIN, "nothing to read")
        room = len(target)
        done = 0
        while incoming and done < room:
            chunk = incoming[0]
            count = min(len(chunk), room - done)
            target[done : done + count] = chunk[:count]
            done += count
            if count == len(chunk):
                incoming.popleft()
            else:
                incoming[0] = chunk[count:]
        self._size -= done
        peer = self.peer
        if peer is not None and peer.out is not None:
            pipe = peer.out
            full = pipe.unread >= pipe.way.window
            pipe.unread -= done
            if full and pipe.unread < pipe.way.window:
                self._network.travel(self.host.name, peer.host.name, peer.wake)
        return done

    def send(self, data: bytes | bytearray | memoryview, _: int = 0) -> int:
        """Send as many bytes as the window allows; returns their number."""
        return self.sendmsg((data,))

    def sendmsg(self, buffers: Sequence[Buffer], _: object = (), __: int = 0) -> int:
        """Send as many bytes as the window allows; returns their number."""
        if self._error:
            error, self._error = self._error, 0
            self._ended = True
            raise OSError(error, os.strerror(error))
        out = self.out
        if out is None or self._closed:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        room = out.way.window - out.unread
        if room <= 0:
            raise BlockingIOError(errno.EAGAIN, "the window is full")
        data = b"".join(buffers)
        if len(data) > room:
            data = data[:room]
        out.unread += len(data)
        out.send(data)
        return len(data)

    def send_file(self, fd: int, position: int, count: int) -> int:
        """Send bytes of a file, like ``sendfile``."""
        out = self.out
        if out is not None and not self._error and count > out.way.window - out.unread > 0:
            count = out.way.window - out.unread
        data = os.pread(fd, count, position)
        return self.send(data) if data else 0

    def close(self) -> None:
        """Close the connection: by a reset if bytes are unread, otherwise by a normal end."""
        if self._closed:
            return
        self._closed = True
        self.reader = self.writer = self.woken = None
        host = self.host
        host.sockets.pop(self, None)
        port = self.local[1]
        if host.bound.get(port) is self:
            del host.bound[port]
            host.listening.pop(port, None)
            for waiting in list(self._queue):
                waiting.close()
        if self.out is not None:
            self.out.send(errno.ECONNRESET if self._size else 0)
            self.out = None
        self.is_connecting = False

    # Calls of reactors

    @property
    def readable(self) -> bool:
        """Whether a read would not block."""
        return bool(self._incoming or self._queue or self._ended or self._error)

    @property
    def writable(self) -> bool:
        """Whether a write would not block."""
        if self.is_connecting:
            return False
        out = self.out
        return out is None or bool(self._error) or out.unread < out.way.window

    @property
    def is_ready(self) -> bool:
        """Whether its reader or its writer is to be called."""
        return (self.reader is not None and self.readable) or (self.writer is not None and self.writable)

    # Calls of the network

    def wake(self) -> None:
        """Tell the reactor that the socket may have become readable or writable."""
        if self.woken is not None:
            self.woken(self)

    def arrived(self, item: bytes | int, source: SimSocket) -> None:
        """Bytes, or the end of the direction, have arrived from ``source``."""
        if self.is_gone or self._closed:
            if self.host.is_up and item.__class__ is bytes and source.out is not None and not source.is_gone:
                # No process has this connection any more, so the kernel replies with a reset.
                self._network.travel(self.host.name, source.host.name, lambda: source.fail(errno.ECONNRESET))
            return
        if isinstance(item, bytes):
            if self._ended:
                # The connection has failed meanwhile. Earlier bytes may be lost, so no later ones may follow.
                return
            self._network.world.mix(_CHECKSUM.pack(zlib.crc32(item)))
            self._incoming.append(memoryview(item))
            self._size += len(item)
        elif item:
            self.fail(item)
            return
        else:
            self._ended = True
        self.wake()

    def fail(self, error: int) -> None:
        """The connection is lost: the next call raises ``error``."""
        if self._closed or self.is_gone:
            return
        self._incoming.clear()
        self._size = 0
        self._error = error
        self._ended = True
        self.is_connecting = False
        self.is_established = False
        self.out = None
        self.wake()

    def owner_died(self, reset: bool) -> None:
        """Its process was killed: the kernel closes the connection."""
        self.reader = self.writer = self.woken = None
        self._closed = True
        if self.out is not None:
            self.out.send(errno.ECONNRESET if reset or self._size else 0)
            self.out = None
        for waiting in self._queue:
            waiting.owner_died(reset=True)

    def established(self, peer: SimSocket) -> None:
        """This side of the connection is established."""
        self.peer = peer
        self.remote = peer.local
        self.out = Pipe(self._network, self, peer)
        self.is_connecting = False
        self.is_established = True

    def knocked(self, client: SimSocket) -> SimSocket:
        """A client connects to this listening socket; returns this side's socket."""
        mine = SimSocket(self._network, self.host)
        mine.local = self.local
        mine.established(client)
        mine.remote = client.local
        self._queue.append(mine)
        self.wake()
        return mine


class SimSockets:
    """The port :class:`kafkalite.network.sockets.Sockets` of one process."""

    descriptors = 20_000
    """As many sockets and files as no history needs."""

    def __init__(self, network: Network, life: Life) -> None:
        self.network = network
        self.host = network.boot(life)

    def bind(self, host: str, port: int) -> SimSocket:
        """A bound socket. Raises :class:`StartupError` if the port is in use."""
        mine = self.host
        while not port or (port in mine.bound and port >= _FIRST_PORT):
            mine.next_port += 1
            port = mine.next_port
        if port in mine.bound:
            raise StartupError(f"cannot listen on {host}:{port}: the port is in use")
        sock = SimSocket(self.network, mine)
        sock.local = (mine.address, port)
        mine.bound[port] = sock
        return sock

    def listen(self, sock: Any, backlog: int) -> None:  # noqa: ARG002
        """Accept connections on ``sock``."""
        sock.is_listening = True
        self.host.listening[sock.local[1]] = sock

    def resolve(self, host: str) -> Future[str]:
        """The address, at once."""
        found = self.network.find(host)
        future: Future[str] = Future()
        if found is None:
            future.errback(OSError(f"unknown host {host}"))
        else:
            future.callback(found.address)
        return future

    def connect(self, address: str, port: int) -> tuple[SimSocket, int]:
        """A socket whose connection is not established yet."""
        network = self.network
        mine = self.host
        sock = SimSocket(network, mine)
        mine.next_port += 1
        sock.local = (mine.address, mine.next_port)
        sock.remote = (address, port)
        sock.is_connecting = True
        host = network.find(address)
        if host is not None:
            target = host
            network.travel(mine.name, target.name, lambda: self._knock(sock, target, port))
        return sock, errno.EINPROGRESS

    def _knock(self, sock: SimSocket, target: Host, port: int) -> None:
        if not target.is_up:
            return
        listening = target.listening.get(port)
        back = (target.name, sock.host.name)
        if listening is None:
            self.network.travel(*back, lambda: sock.fail(errno.ECONNREFUSED))
        elif sock.is_connecting:
            theirs = listening.knocked(sock)
            self.network.travel(*back, lambda: self._answered(sock, theirs))

    def _answered(self, sock: SimSocket, theirs: SimSocket) -> None:
        if sock.is_connecting:
            sock.established(theirs)
            sock.wake()
        elif theirs.out is not None:
            # The client has closed its socket meanwhile.
            self.network.travel(sock.host.name, theirs.host.name, lambda: theirs.fail(errno.ECONNRESET))

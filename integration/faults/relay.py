"""A TCP relay that can be cut: what stands between two parties fails, while both of them run."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType


class Relay:
    """Forwards connections on ``address`` to ``target`` (``host:port``), except while it is cut.

    ``delay`` says by how many seconds to delay all that a client sends whose connection began with these bytes.
    """

    def __init__(self, target: str, delay: Callable[[bytes], float] = lambda _: 0.0) -> None:
        self._delay = delay
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Relay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self._listener.close()

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        """Close every connection, and each that is made until :meth:`heal`."""
        with self._lock:
            self._is_cut = True
            cut, self._sockets = self._sockets, set()
        for each in cut:
            _shut(each)

    def heal(self) -> None:
        """Forward again."""
        with self._lock:
            self._is_cut = False

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target, 10)
            except OSError:
                _shut(client)
                continue
            with self._lock:
                is_cut = self._is_cut
                if not is_cut:
                    self._sockets |= {client, server}
            if is_cut:
                _shut(client)
                _shut(server)
                continue
            for ends in ((client, server, self._delay), (server, client, lambda _: 0.0)):
                threading.Thread(target=_forward, args=ends, daemon=True).start()


def _forward(source: socket.socket, sink: socket.socket, delay: Callable[[bytes], float]) -> None:
    seconds = -1.0
    try:
        source.settimeout(None)
        while data := source.recv(1 << 16):
            if seconds < 0:
                seconds = delay(data)
            if seconds:
                time.sleep(seconds)
            sink.sendall(data)
    except OSError:
        pass
    _shut(source)
    _shut(sink)


def _shut(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    end.close()

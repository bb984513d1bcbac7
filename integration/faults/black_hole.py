"""An address that accepts connections and never answers: a network that drops packets, without a firewall."""

from __future__ import annotations

import contextlib
import socket
import threading


class BlackHole:
    """Accepts connections on a port of 127.0.0.1, reads all bytes, never answers."""

    def __init__(self) -> None:
        self.swallowed = 0
        """Number of received bytes."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, name="black hole", daemon=True).start()

    @property
    def port(self) -> int:
        """Its port."""
        port: int = self._listener.getsockname()[1]
        return port

    def close(self) -> None:
        """Close the port and all connections."""
        for sock in (self._listener, *self._connections):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(sock)
            threading.Thread(target=self._swallow, args=(sock,), daemon=True).start()

    def _swallow(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := sock.recv(65536):
                self.swallowed += len(data)

"""TCP relays between the brokers of a local cluster and to ZooKeeper, each of which can be cut and healed.

Answers to: ``iptables -j DROP`` between machines, without root and on one machine. Shell: a thread with an event loop.

A cut relay is silent, like a network that drops packets: bytes arrive after the healing, if both ends still wait for
them, and neither end notices the end of the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import TypeVar

from kafkalite.testing.fault_targets import FaultTarget

HOST = "127.0.0.1"
CHUNK = 1 << 16

T = TypeVar("T")


class Wires:
    """All relays of a cluster. ``close`` ends them with all their connections."""

    def __init__(self) -> None:
        self._gates: dict[frozenset[FaultTarget], asyncio.Event] = {}
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wires", daemon=True)
        self._thread.start()

    def relay(self, host: str, port: int, end: FaultTarget, source: Callable[[int], FaultTarget | None]) -> int:
        """A new port that forwards its connections to ``host``:``port``, the port of ``end``.

        ``source`` finds the owner of a client's port; a connection without an owner (``None``) is never cut off.
        """

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                client: int = writer.get_extra_info("peername")[1]
                whose = await asyncio.get_running_loop().run_in_executor(None, source, client)
                await _relay(self._gate(whose, end), host, port, reader, writer)
            except (OSError, asyncio.CancelledError):
                pass  # an end has closed its connection, or the relays are closing
            finally:
                writer.transport.abort()

        server = self._call(asyncio.start_server(serve, HOST, 0))
        self._servers.append(server)
        own: int = server.sockets[0].getsockname()[1]
        return own

    def cut(self, one: FaultTarget, other: FaultTarget) -> None:
        """Stop all bytes between two ends, in both directions."""

        async def shut() -> None:
            self._gate(one, other).clear()

        self._call(shut())

    def join(self, one: FaultTarget, other: FaultTarget) -> None:
        """Undo :meth:`cut`."""

        async def open_() -> None:
            self._gate(one, other).set()

        self._call(open_())

    def heal(self) -> None:
        """Undo all cuts."""

        async def open_all() -> None:
            for gate in self._gates.values():
                gate.set()

        self._call(open_all())

    def close(self) -> None:
        """End all relays."""

        async def end() -> None:
            for server in self._servers:
                server.close()
            # Repeat until there is no relay, because a connection that was just accepted becomes one only now.
            while relays := asyncio.all_tasks() - {asyncio.current_task()}:
                # Let new tasks start, because a task that is cancelled before its start ends with an error.
                await asyncio.sleep(0)
                for relay in relays:
                    relay.cancel()
                await asyncio.wait(relays)

        self._call(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _gate(self, one: FaultTarget | None, other: FaultTarget) -> asyncio.Event:
        gate = None if one is None else self._gates.get(frozenset((one, other)))
        if gate is None:
            gate = asyncio.Event()
            gate.set()
            if one is not None:
                self._gates[frozenset((one, other))] = gate
        return gate

    def _call(self, what: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result()


async def _relay(
    gate: asyncio.Event, host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Forward both directions until either end closes. Raises ``OSError``."""
    await gate.wait()
    answers, requests = await asyncio.open_connection(host, port)
    pumps = [asyncio.ensure_future(_pump(gate, reader, requests)), asyncio.ensure_future(_pump(gate, answers, writer))]
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pump in pumps:
            pump.cancel()
        with contextlib.suppress(OSError):
            await asyncio.gather(*pumps, return_exceptions=True)
        requests.transport.abort()


async def _pump(gate: asyncio.Event, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(CHUNK):
        await gate.wait()
        target.write(data)
        await target.drain()
    # Wait, because over a cut relay neither end may notice the end of the other.
    await gate.wait()

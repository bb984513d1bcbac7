"""The wires of a local cluster: TCP relays between brokers and to ZooKeeper, each of which can be cut and healed.

Answers to: ``iptables -j DROP`` between machines, without root and on one machine. Shell: a thread with an event loop.

A cut wire is silent, as in a network that drops packets: bytes that were sent arrive after the healing, if both ends
still wait for them, and neither end learns that the other has gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kafkalite.testing.ends import End

HOST = "127.0.0.1"
CHUNK = 1 << 16

T = TypeVar("T")


class Wires:
    """All relays of a cluster. ``close`` ends them, with everything that goes through them."""

    def __init__(self) -> None:
        self._gates: dict[frozenset[End], asyncio.Event] = {}
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wires", daemon=True)
        self._thread.start()

    def relay(self, host: str, port: int, end: End, source: Callable[[int], End | None]) -> int:
        """A new port whose connections go on to ``host``:``port``, which belong to ``end``.

        ``source`` finds the owner of a client's port; a connection without an owner (``None``) is never cut off.
        """

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                client: int = writer.get_extra_info("peername")[1]
                whose = await asyncio.get_running_loop().run_in_executor(None, source, client)
                await _relay(self._gate(whose, end), host, port, reader, writer)
            except (OSError, asyncio.CancelledError):
                pass  # either end has gone, or all ends here
            finally:
                writer.transport.abort()

        server = self._call(asyncio.start_server(serve, HOST, 0))
        self._servers.append(server)
        own: int = server.sockets[0].getsockname()[1]
        return own

    def cut(self, one: End, other: End) -> None:
        """From now on nothing travels between the two, in either direction."""

        async def shut() -> None:
            self._gate(one, other).clear()

        self._call(shut())

    def heal(self) -> None:
        """Undo all cuts."""

        async def open_all() -> None:
            for gate in self._gates.values():
                gate.set()

        self._call(open_all())

    def close(self) -> None:
        """The end of all relays."""

        async def end() -> None:
            for server in self._servers:
                server.close()
            # What was accepted a moment ago becomes a relay only now: until there is none.
            while relays := asyncio.all_tasks() - {asyncio.current_task()}:
                # One that has not begun yet could not be told quietly to end.
                await asyncio.sleep(0)
                for relay in relays:
                    relay.cancel()
                await asyncio.wait(relays)

        self._call(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _gate(self, one: End | None, other: End) -> asyncio.Event:
        gate = None if one is None else self._gates.get(frozenset((one, other)))
        if gate is None:
            gate = asyncio.Event()
            gate.set()
            if one is not None:
                self._gates[frozenset((one, other))] = gate
        return gate

    def _call(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result()


async def _relay(
    gate: asyncio.Event, host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Both directions, until either end closes. Raises ``OSError``."""
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
    # Over a cut wire neither end learns that the other has gone.
    await gate.wait()

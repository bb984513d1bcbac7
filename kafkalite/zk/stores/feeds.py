"""Notifications of changes: sequential znodes, which each broker reads once and which are removed after a while.

Answers to: ``kafka.common.ZkNodeChangeNotificationListener``. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from kafkalite.common.tasks import Lane
from kafkalite.zk.stores.paths import children_of_ensured, ensure, read
from kafkalite.zk.zk_client import (
    ConnectionLostError,
    NoNodeError,
    SessionExpiredError,
    SessionState,
    WatchEvent,
    ZkClient,
    ZkError,
    ZnodeStat,
)

log = logging.getLogger(__name__)
E = TypeVar("E")

KEEP_MS = 15 * 60 * 1000
"""How long a notification stays for brokers that are away."""


class NotificationFeed:
    """Calls ``handle(data)`` for every notification that appears after :meth:`start`, oldest first.

    A notification is a sequential znode whose path begins with ``prefix`` (``/config/changes/config_change_``).

    ``handle(None)`` says that notifications may have been missed (after a new session, or :meth:`missed`); it is called
    once the client is connected. Old notifications are removed.
    """

    def __init__(
        self, client: ZkClient, prefix: str, handle: Callable[[bytes | None], None], now_ms: Callable[[], int]
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._root = prefix.rpartition("/")[0]
        self._handle = handle
        self._now_ms = now_ms
        self._last = -1
        self._lane = Lane(f"notifications of {self._root}", self._read)
        self._stopped = False
        self._connected = True
        self._missed = False

    async def start(self) -> None:
        """Skip the existing notifications, and watch for new ones."""
        await ensure(self._client, self._root)
        self._last = max((self._sequence(name) for name in await self._names()), default=-1)
        self._client.add_listener(self._on_state)

    def missed(self) -> None:
        """The connection was lost before a notification was handled: ``handle(None)`` follows on the next one."""
        self._missed = True
        if self._connected:
            self._lane.put("event")

    def stop(self) -> None:
        """Handle no further notification."""
        self._stopped = True
        self._lane.close()

    def _on_event(self, _: WatchEvent) -> None:
        if not self._stopped:
            self._lane.put("event")

    def _on_state(self, state: SessionState) -> None:
        if self._stopped:
            return
        self._connected = state is SessionState.CONNECTED
        if state is SessionState.EXPIRED:
            self._missed = True
        elif self._connected:
            self._lane.put("event")

    async def _names(self) -> list[str]:
        return await children_of_ensured(self._client, self._root, self._on_event)

    async def _read(self, _: str) -> None:
        try:
            entries = sorted((self._sequence(name), name) for name in await self._names())
            if self._missed:
                self._missed = False
                self._handle(None)
            for sequence, name in entries:
                path = f"{self._root}/{name}"
                found = await read(self._client, path) if sequence > self._last else None
                if found is not None:
                    self._last = sequence
                    self._handle(found[0])
            await self._purge([name for sequence, name in entries if sequence <= self._last])
        except ZkError as error:
            # The listener reads again when the state is CONNECTED.
            log.debug("notifications of %s: %s", self._root, error)

    async def _purge(self, names: list[str]) -> None:
        for name in names:
            path = f"{self._root}/{name}"
            stat: ZnodeStat | None = await self._client.exists(path)
            if stat is None:
                continue
            if stat.ctime_ms + KEEP_MS > self._now_ms():
                return
            try:
                await self._client.delete(path)
            except NoNodeError:
                continue

    def _sequence(self, name: str) -> int:
        digits = f"{self._root}/{name}".removeprefix(self._prefix)
        return int(digits) if digits.isdigit() else -1


class ChangeFollower(Generic[E]):
    """Reads what notifications name, one change after another; ``what`` stands in the log.

    If the connection is lost before ``read`` has read a change, the store says on the next connection that changes may
    have been missed, and ``read`` reads everything.
    """

    def __init__(self, what: str, read: Callable[[E], Awaitable[None]]) -> None:
        self._what = what
        self._read = read
        self._lane: Lane[E] = Lane(f"changes of {what}", self._handle)
        self._feeds: tuple[NotificationFeed, ...] = ()

    async def start(self, watch: Callable[[Callable[[E], None]], Awaitable[tuple[NotificationFeed, ...]]]) -> None:
        """Follow by ``watch_changes`` of a store. Raises :class:`ZkError`; call it again then."""
        if not self._feeds:
            self._feeds = await watch(self._lane.put)

    def close(self) -> None:
        """Read no further change."""
        for feed in self._feeds:
            feed.stop()
        self._lane.close()

    async def _handle(self, change: E) -> None:
        try:
            await self._read(change)
        except (ConnectionLostError, SessionExpiredError) as error:
            log.info("%s will be read again: %s", self._what, error)
            self._feeds[0].missed()

"""The live ZooKeeper consumers of a group; they and the modern members do not see each other.

Answers to: ``kafka.consumer.ZookeeperConsumerConnector``'s registrations, which Kafka's coordinator does not read.
Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kafkalite.common.tasks import spawn
from kafkalite.zk.stores.groups import GroupStore
from kafkalite.zk.zk_client import EventType, WatchEvent, ZkError
from kafkalite.zk.znodes.consumers import ids_path

log = logging.getLogger(__name__)


class OldConsumers:
    """Reads and watches ``/consumers/<group>/ids``: once, and after each change.

    ``on_present(group, ids)`` is called when a read finds old consumers.
    """

    def __init__(self, store: GroupStore, on_present: Callable[[str, list[str]], None]) -> None:
        self._store = store
        self._on_present = on_present
        self._live: dict[str, list[str]] = {}
        self._followed: dict[str, str] = {}
        """The watched groups by the path of their ``ids``."""

    async def live(self, group: str) -> list[str]:
        """The ids of the live old consumers. Raises ``ZkError``."""
        known = self._live.get(group)
        if known is not None:
            return known
        path = ids_path(group)
        # All watches share one callable, so that a group that is followed again reuses the watch that it left;
        # with a new callable each time the watches would pile up.
        self._followed[path] = group
        found = await self._store.old_members(group, self._changed)
        if path in self._followed:
            self._live[group] = found
        if found:
            self._on_present(group, found)
        return found

    def follow(self, group: str) -> None:
        """Read now, and after each change, until :meth:`forget`."""
        spawn(self.live(group), f"watching the old consumers of group {group}", self._failed)

    def forget(self, group: str) -> None:
        """Stop following ``group``, because another broker may coordinate it."""
        self._live.pop(group, None)
        self._followed.pop(ids_path(group), None)

    def resync(self) -> None:
        """Read each group again whose watch was lost with the connection."""
        for group in [group for group in self._followed.values() if group not in self._live]:
            self.follow(group)

    def _changed(self, event: WatchEvent) -> None:
        group = self._followed.get(event.path)
        if group is None:
            return
        self._live.pop(group, None)
        if event.type is not EventType.LOST:
            self.follow(group)

    def _failed(self, error: BaseException) -> None:
        # An error of ZooKeeper is not logged, because the next request or the next reconnect reads again.
        if not isinstance(error, ZkError):
            log.error("Watching old consumers failed", exc_info=error)

"""The ZooKeeper consumers of old that live in a group: modern members and they do not see each other.

Answers to: ``kafka.consumer.ZookeeperConsumerConnector``'s registrations, as real Kafka's coordinator never saw them.
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
    """Who lives in ``/consumers/<group>/ids``, watched: read once, and again after each change.

    ``on_present(group, ids)`` is called whenever a look at a group finds some.
    """

    def __init__(self, store: GroupStore, on_present: Callable[[str, list[str]], None]) -> None:
        self._store = store
        self._on_present = on_present
        self._live: dict[str, list[str]] = {}
        self._followed: dict[str, str] = {}
        """The groups that are watched, by the path of their ``ids``."""

    async def live(self, group: str) -> list[str]:
        """Ids of those that live now. Raises ``ZkError``."""
        known = self._live.get(group)
        if known is not None:
            return known
        path = ids_path(group)
        # One callable for all: a group that is forgotten and followed again finds the watch that it left behind,
        # where a new one each time would stay beside it for ever.
        self._followed[path] = group
        found = await self._store.old_members(group, self._changed)
        if path in self._followed:
            self._live[group] = found
        if found:
            self._on_present(group, found)
        return found

    def follow(self, group: str) -> None:
        """Look now, and again whenever something changes, until :meth:`forget`."""
        spawn(self.live(group), f"watching the old consumers of group {group}", self._failed)

    def forget(self, group: str) -> None:
        """The group is not ours to watch any more."""
        self._live.pop(group, None)
        self._followed.pop(ids_path(group), None)

    def resync(self) -> None:
        """The connection is back: look at every group whose watch went with it."""
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
        # Read again when somebody asks, or when the connection is back.
        if not isinstance(error, ZkError):
            log.error("Watching old consumers failed", exc_info=error)

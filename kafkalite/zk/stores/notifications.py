"""Notifications of brokers to the controller: ISR changes and failed log directories.

Answers to: ``kafka.zk.KafkaZkClient`` (``getAllIsrChangeNotifications``, ``propagateLogDirEvent``). Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from kafkalite.common.tasks import gather
from kafkalite.common.types import TopicPartition
from kafkalite.zk.stores.paths import children_of_ensured, read
from kafkalite.zk.zk_client import Watch, ZkClient
from kafkalite.zk.znodes import notifications
from kafkalite.zk.znodes.codec import MalformedZnodeError

log = logging.getLogger(__name__)
T = TypeVar("T")


class NotificationStore:
    """Sequential znodes that the controller reads and removes."""

    def __init__(self, client: ZkClient) -> None:
        self._client = client

    async def isr_changes(self, watch: Watch | None = None) -> tuple[list[str], list[TopicPartition]]:
        """Names of the notifications, and the partitions in them (each once); ``watch`` sees the next one."""
        names, found = await self._read(notifications.ISR_CHANGES, notifications.decode_isr_change, watch)
        return names, list(dict.fromkeys(tp for partitions in found for tp in partitions))

    async def log_dir_events(self, watch: Watch | None = None) -> tuple[list[str], list[int]]:
        """Names of the events, and the brokers that lost a log directory (each once)."""
        names, found = await self._read(notifications.LOG_DIR_EVENTS, notifications.decode_log_dir_event, watch)
        return names, list(dict.fromkeys(found))

    async def create_log_dir_event(self, broker_id: int, session: int | None = None) -> None:
        """Tell the controller that a log directory of ``broker_id`` failed."""
        data = notifications.encode_log_dir_event(broker_id)
        await self._client.create(notifications.LOG_DIR_EVENT_PREFIX, data, sequence=True, session=session)

    async def _read(self, path: str, decode: Callable[[bytes], T], watch: Watch | None) -> tuple[list[str], list[T]]:
        names = sorted(await children_of_ensured(self._client, path, watch))
        values = []
        for entry in await gather(read(self._client, f"{path}/{name}") for name in names):
            if entry is None:
                continue
            try:
                values.append(decode(entry[0]))
            except MalformedZnodeError as error:
                log.warning("ignored: %s", error)
        return names, values

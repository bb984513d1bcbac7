"""Users, clients and IP addresses in ``/config``: their quotas and credentials, handed to the parts that obey them.

Answers to: ``kafka.server.{UserConfigHandler,ClientIdConfigHandler,IpConfigHandler}`` on ``ZkConfigManager``.
Deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from kafkalite.common.tasks import gather
from kafkalite.zk.stores.config import ConfigStore
from kafkalite.zk.znodes.codec import MalformedZnodeError
from kafkalite.zk.znodes.config import CLIENTS, IPS, USERS

log = logging.getLogger(__name__)

KINDS: Final = (USERS, CLIENTS, IPS)
EntityListener = Callable[[str, Mapping[str, str]], object]
"""Takes the name as it stands in the path (``alice``, ``alice/clients/c1``, ``<default>``) and all its overrides."""


class ClientEntities:
    """Reads what was written and tells the listeners of its kind; an entity that is gone has no overrides.

    A malformed entity is logged and stays as it was.
    """

    def __init__(self, store: ConfigStore) -> None:
        self._store = store
        self._listeners: dict[str, list[EntityListener]] = {kind: [] for kind in KINDS}
        self._overridden: dict[str, set[str]] = {kind: set() for kind in KINDS}
        """Names of the entities that had overrides when they were read last."""

    def follow(self, kind: str, listener: EntityListener) -> None:
        """Call ``listener`` for every entity of ``kind`` from the next read on. Follow before the first read."""
        self._listeners[kind].append(listener)

    async def read_all(self) -> None:
        """Read every entity, because changes may have been missed. Raises :class:`kafkalite.zk.zk_client.ZkError`."""
        for kind in KINDS:
            names = await self._store.names(kind)
            await gather(self.read(kind, name) for name in sorted({*names, *self._overridden[kind]}))

    async def read(self, kind: str, name: str) -> None:
        """Read one entity. Raises :class:`kafkalite.zk.zk_client.ZkError`."""
        try:
            overrides = await self._store.entity(kind, name)
        except MalformedZnodeError as error:
            log.error("%s; it stays as it was", error)
            return
        overridden = self._overridden[kind]
        if not overrides and name not in overridden:
            return
        if overrides:
            overridden.add(name)
        else:
            overridden.discard(name)
        for listener in self._listeners[kind]:
            listener(name, overrides)

"""Overrides of topics, brokers, clients and users, and notifications of their changes.

Answers to: ``kafka.zk.{KafkaZkClient,AdminZkClient}`` (``changeConfigs``) and
``kafka.server.ZkConfigManager``. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from kafkalite.common.tasks import gather
from kafkalite.zk.stores.feeds import NotificationFeed
from kafkalite.zk.stores.paths import children, read, set_or_create
from kafkalite.zk.zk_client import Watch, ZkClient
from kafkalite.zk.znodes import config
from kafkalite.zk.znodes.codec import MalformedZnodeError

log = logging.getLogger(__name__)
EVERYTHING = "*"
"""Entity type for a listener that may have missed changes and must read all entities that it needs."""


class ConfigStore:
    """``/config``. An entity without overrides has an empty configuration, whether its znode exists or not."""

    def __init__(self, client: ZkClient, now_ms: Callable[[], int]) -> None:
        self._client = client
        self._now_ms = now_ms

    async def topic(self, topic: str, watch: Watch | None = None) -> dict[str, str]:
        """Overrides of a topic. Raises :class:`MalformedZnodeError`."""
        return await self.entity(config.TOPICS, topic, watch)

    async def broker(self, broker_id: int | str, watch: Watch | None = None) -> dict[str, str]:
        """Overrides of a broker, or of all (``"<default>"``). Raises :class:`MalformedZnodeError`."""
        return await self.entity(config.BROKERS, str(broker_id), watch)

    async def entity(self, entity_type: str, name: str, watch: Watch | None = None) -> dict[str, str]:
        """Overrides of any entity (``topics``, ``brokers``, ``clients``, ``users``, ``ips``)."""
        path = config.config_path(entity_type, name)
        found = await read(self._client, path, watch)
        return {} if found is None else config.decode_config(path, found[0])

    async def names(self, entity_type: str) -> list[str]:
        """Names of the entities of a type; users' clients, as ``alice/clients/c1``, follow the users."""
        names = sorted(await children(self._client, f"{config.CONFIG}/{entity_type}"))
        if entity_type != config.USERS:
            return names
        clients = [f"{name}/{config.CLIENTS}" for name in names]
        found = await gather(children(self._client, config.config_path(config.USERS, path)) for path in clients)
        return names + [f"{path}/{name}" for path, each in zip(clients, found, strict=True) for name in sorted(each)]

    async def entities(self, entity_type: str) -> dict[str, dict[str, str]]:
        """Overrides of every entity of a type, pipelined; malformed ones are left out."""
        names = await self.names(entity_type)
        paths = [config.config_path(entity_type, name) for name in names]
        found = await gather(read(self._client, path) for path in paths)
        entities = {}
        for name, path, entry in zip(names, paths, found, strict=True):
            try:
                entities[name] = config.decode_config(path, entry[0] if entry else b"")
            except MalformedZnodeError as error:
                log.warning("ignored: %s", error)
        return entities

    async def set_topic(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Replace the overrides of a topic and tell every broker."""
        await self.set_entity(config.TOPICS, topic, overrides)

    async def set_broker(self, broker_id: int | str, overrides: Mapping[str, str]) -> None:
        """Replace the overrides of a broker, or of all (``"<default>"``), and tell every broker."""
        await self.set_entity(config.BROKERS, str(broker_id), overrides)

    async def set_entity(self, entity_type: str, name: str, overrides: Mapping[str, str]) -> None:
        """Replace the overrides of any entity (a user's client is ``alice/clients/c1``) and tell every broker."""
        await set_or_create(self._client, config.config_path(entity_type, name), config.encode_config(overrides))
        await self.notify(f"{entity_type}/{name}")

    async def notify(self, entity_path: str) -> None:
        """Tell every broker that ``entity_path`` (``topics/NAME``) was written."""
        await self._client.create(config.CHANGE_PREFIX, config.encode_change(entity_path), sequence=True)

    async def watch_changes(self, on_change: Callable[[tuple[str, str]], None]) -> tuple[NotificationFeed, ...]:
        """Call ``on_change((entity_type, name))`` for every change, in order, until the result is stopped.

        ``name`` of a user's client is ``alice/clients/c1``. After a new session ``on_change(("*", ""))`` says that
        changes may have been missed. Notifications older than 15 minutes are removed.
        """

        def handle(data: bytes | None) -> None:
            if data is None:
                on_change((EVERYTHING, ""))
                return
            try:
                entity_type, _, name = config.decode_change(data).partition("/")
            except MalformedZnodeError as error:
                log.warning("ignored: %s", error)
                return
            on_change((entity_type, name))

        feed = NotificationFeed(self._client, config.CHANGE_PREFIX, handle, self._now_ms)
        await feed.start()
        return (feed,)

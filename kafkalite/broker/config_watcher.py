"""Applies overrides in ``/config`` live: those of topics to logs, those of brokers to the values in force.

Answers to: ``kafka.server.{TopicConfigHandler,BrokerConfigHandler}`` on ``ZkConfigManager``. Deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kafkalite.admin.dynamic_config import DynamicConfig
from kafkalite.common.errors import ConfigError
from kafkalite.common.tasks import Lane
from kafkalite.log.log_config import LogConfig, log_config
from kafkalite.log.log_manager import LogManager
from kafkalite.zk.stores.config import EVERYTHING, ConfigStore
from kafkalite.zk.stores.feeds import NotificationFeed
from kafkalite.zk.zk_client import ConnectionLostError, SessionExpiredError
from kafkalite.zk.znodes.codec import MalformedZnodeError
from kafkalite.zk.znodes.config import BROKERS, DEFAULT, TOPICS

log = logging.getLogger(__name__)


class ConfigWatcher:
    """Reads the configuration that a notification names and applies it. It logs a wrong value and keeps the old one.

    After a lost connection it reads everything again.

    ``on_unclean_allowed`` is called after the configuration of a topic that allows unclean elections was read again.
    """

    def __init__(self, broker_id: int, store: ConfigStore, dynamic: DynamicConfig, logs: LogManager) -> None:
        self.on_unclean_allowed: Callable[[], None] = lambda: None
        self._broker_id = broker_id
        self._store = store
        self._dynamic = dynamic
        self._logs = logs
        self._lane = Lane("configuration changes", self._handle)
        self._feed: NotificationFeed | None = None
        dynamic.on_change(self._defaults_changed)

    async def start(self) -> None:
        """Watch, then read this broker's own overrides. Those of a topic are read when its logs are made.

        Raises :class:`kafkalite.zk.zk_client.ZkError`; call it again then.
        """
        if self._feed is None:
            self._feed = await self._store.watch_changes(lambda kind, name: self._lane.put((kind, name)))
        await self._read_brokers()

    def close(self) -> None:
        """Stop watching."""
        if self._feed is not None:
            self._feed.stop()
        self._lane.close()

    async def topic_config(self, topic: str) -> LogConfig:
        """The present configuration of a topic's logs; the broker's defaults if the overrides are wrong."""
        try:
            return log_config(self._dynamic.values, await self._store.topic(topic))
        except (ConfigError, MalformedZnodeError) as error:
            log.error("configuration of topic %s: %s; the broker's defaults are used", topic, error)
            return log_config(self._dynamic.values, {})

    async def topic_configs(self) -> dict[str, LogConfig]:
        """The configurations of all topics that have overrides, without the wrong ones."""
        configs = {}
        for topic, overrides in (await self._store.entities(TOPICS)).items():
            try:
                configs[topic] = log_config(self._dynamic.values, overrides)
            except ConfigError as error:
                log.error("configuration of topic %s: %s; the broker's defaults are used", topic, error)
        return configs

    async def _handle(self, change: tuple[str, str]) -> None:
        try:
            await self._read(*change)
        except (ConnectionLostError, SessionExpiredError) as error:
            log.info("configurations will be read again: %s", error)
            if self._feed is not None:
                self._feed.missed()

    async def _read(self, kind: str, name: str) -> None:
        if kind == EVERYTHING:
            await self._read_brokers()
            for topic in sorted({tp.topic for tp in self._logs.logs}):
                await self._read_topic(topic)
        elif kind == TOPICS:
            await self._read_topic(name)
        elif kind == BROKERS and name in (DEFAULT, str(self._broker_id)):
            await self._read_brokers()

    async def _read_brokers(self) -> None:
        self._dynamic.update_default(await self._store.broker(DEFAULT))
        self._dynamic.update_broker(await self._store.broker(self._broker_id))

    async def _read_topic(self, topic: str) -> None:
        try:
            config = log_config(self._dynamic.values, await self._store.topic(topic))
        except (ConfigError, MalformedZnodeError) as error:
            log.error("configuration of topic %s: %s; it stays as it was", topic, error)
            return
        self._logs.update_topic_config(topic, config)
        log.info("configuration of topic %s read anew", topic)
        if config.unclean_leader_election_enable:
            self.on_unclean_allowed()

    def _defaults_changed(self, names: frozenset[str]) -> None:
        log.info("dynamic configuration changed: %s", ", ".join(sorted(names)))
        self._logs.update_defaults(self._dynamic.values)

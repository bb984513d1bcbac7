"""Applies overrides in ``/config`` live: those of topics to logs, those of brokers to the values in force.

Answers to: ``kafka.server.{TopicConfigHandler,BrokerConfigHandler}`` on ``ZkConfigManager``. Deterministic.
Users, clients and IP addresses: :class:`kafkalite.broker.client_entities.ClientEntities`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kafkalite.admin.dynamic_config import DynamicConfig
from kafkalite.broker.client_entities import KINDS, ClientEntities
from kafkalite.common.errors import ConfigError
from kafkalite.common.events import EventKind, EventRecorder, ignore_event
from kafkalite.log.log_config import LogConfig, log_config, log_manager_config
from kafkalite.log.log_manager import LogManager
from kafkalite.zk.stores.config import EVERYTHING, ConfigStore
from kafkalite.zk.stores.feeds import ChangeFollower
from kafkalite.zk.znodes.codec import MalformedZnodeError
from kafkalite.zk.znodes.config import BROKERS, DEFAULT, TOPICS

log = logging.getLogger(__name__)


class ConfigWatcher:
    """Reads the configuration that a notification names and applies it. It logs a wrong value and keeps the old one.

    After a lost connection it reads everything again.

    ``on_unclean_allowed`` is called after the configuration of a topic that allows unclean elections was read again.
    """

    def __init__(
        self,
        broker_id: int,
        store: ConfigStore,
        dynamic: DynamicConfig,
        logs: LogManager,
        on_unclean_allowed: Callable[[], object],
        record: EventRecorder = ignore_event,
    ) -> None:
        self._record = record
        self._on_unclean_allowed = on_unclean_allowed
        self._broker_id = broker_id
        self._store = store
        self._dynamic = dynamic
        self._logs = logs
        self._changes: ChangeFollower[tuple[str, str]] = ChangeFollower("configurations", self._changed)
        self.entities = ClientEntities(store)
        """Follow users, clients and IP addresses here, before :meth:`start`."""
        dynamic.on_change(self._defaults_changed)

    async def start(self) -> None:
        """Watch, then read this broker's own overrides and those of clients. Those of a topic come with its logs.

        Raises :class:`kafkalite.zk.zk_client.ZkError`; call it again then.
        """
        await self._changes.start(self._store.watch_changes)
        await self._encrypt_again()
        await self._read_brokers()
        await self.entities.read_all()

    def close(self) -> None:
        """Stop watching."""
        self._changes.close()

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

    async def _changed(self, change: tuple[str, str]) -> None:
        kind, name = change
        if kind == EVERYTHING:
            await self._read_brokers()
            await self.entities.read_all()
            for topic in sorted({tp.topic for tp in self._logs.logs}):
                await self._read_topic(topic)
        elif kind == TOPICS:
            await self._read_topic(name)
        elif kind == BROKERS and name in (DEFAULT, str(self._broker_id)):
            await self._read_brokers()
        elif kind in KINDS:
            await self.entities.read(kind, name)

    async def _encrypt_again(self) -> None:
        """Encrypt those of this broker's passwords in ZooKeeper by the present secret that the former one encrypted."""
        try:
            encrypted = self._dynamic.encrypted_again(await self._store.broker(self._broker_id))
        except MalformedZnodeError:
            return  # _read_brokers says so.
        if encrypted is not None:
            await self._store.set_broker(self._broker_id, encrypted)
            log.info("passwords of broker %d in ZooKeeper: encrypted by the new secret", self._broker_id)

    async def _read_brokers(self) -> None:
        try:
            self._dynamic.update_default(await self._store.broker(DEFAULT))
        except MalformedZnodeError as error:
            log.error("dynamic configuration of all brokers: %s; it stays as it was", error)
        try:
            self._dynamic.update_broker(await self._store.broker(self._broker_id))
        except MalformedZnodeError as error:
            log.error("dynamic configuration of broker %d: %s; it stays as it was", self._broker_id, error)

    async def _read_topic(self, topic: str) -> None:
        try:
            config = log_config(self._dynamic.values, await self._store.topic(topic))
        except (ConfigError, MalformedZnodeError) as error:
            log.error("configuration of topic %s: %s; it stays as it was", topic, error)
            return
        self._logs.update_topic_config(topic, config)
        log.info("configuration of topic %s was read again", topic)
        self._record(EventKind.CONFIGURATION, f"the configuration of topic {topic} was read again", topic=topic)
        if config.unclean_leader_election_enable:
            self._on_unclean_allowed()

    def _defaults_changed(self, names: frozenset[str]) -> None:
        changed = ", ".join(sorted(names))
        log.info("dynamic configuration changed: %s", changed)
        self._record(EventKind.CONFIGURATION, f"the broker's dynamic configuration changed: {changed}")
        self._logs.update_defaults(log_manager_config(self._dynamic.values))

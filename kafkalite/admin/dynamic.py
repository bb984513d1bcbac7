"""A broker's configuration as it is now: defaults, server.properties, and what ``/config/brokers`` says (KIP-226).

Answers to: ``kafka.server.{KafkaConfig,DynamicBrokerConfig}``. Deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from kafkalite.common.config import ConfigDef, ConfigType, Update
from kafkalite.common.errors import ConfigError

log = logging.getLogger(__name__)

Listener = Callable[[frozenset[str]], object]


class ConfigSource(IntEnum):
    """Where a value comes from; the numbers of DescribeConfigs answers."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


class Synonym(NamedTuple):
    """One place that gives a value to a key; the first of several wins."""

    name: str
    value: str | None
    source: ConfigSource


class DynamicConfig:
    """The values of every key of ``definition``; ``config["log.retention.ms"]`` is the value in force.

    ``static`` is the text of server.properties and overrides, already checked. Listeners hear the names
    whose values changed, after all of them have changed. A dynamic value that is wrong is refused with
    :class:`ConfigError` by :meth:`check`; where one stands in ZooKeeper nevertheless it is logged and ignored.
    """

    def __init__(self, definition: ConfigDef, static: Mapping[str, str]) -> None:
        self.definition = definition
        self.static = dict(static)
        self._default: dict[str, str] = {}
        self._broker: dict[str, str] = {}
        self._listeners: list[Listener] = []
        self.values: dict[str, Any] = {}
        """Parsed values in force. Replaced as a whole at a change, never altered."""
        self.values = self._merge()

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def on_change(self, listener: Listener) -> None:
        """Call ``listener(names)`` after a change of the values in force."""
        self._listeners.append(listener)

    def update_default(self, texts: Mapping[str, str]) -> frozenset[str]:
        """The whole of ``/config/brokers/<default>``; returns the names whose values changed."""
        self._default = self._usable(texts, per_broker=False)
        return self._changed()

    def update_broker(self, texts: Mapping[str, str]) -> frozenset[str]:
        """The whole of this broker's ``/config/brokers/<id>``; returns the names whose values changed."""
        self._broker = self._usable(texts, per_broker=True)
        return self._changed()

    def check(self, texts: Mapping[str, str], *, per_broker: bool) -> None:
        """Whether ``texts`` may be set while brokers run. Raises :class:`ConfigError` with the reason."""
        for name, text in texts.items():
            key = self.definition.keys.get(name)
            if key is None:
                continue
            if key.update is Update.READ_ONLY:
                raise ConfigError(f"Cannot update these configs dynamically: {name}; it is read-only")
            if not per_broker and key.update is Update.PER_BROKER:
                raise ConfigError(
                    f"Cannot update security configs at default cluster level: {name}; set it for one broker"
                )
            key.parse(text)

    def synonyms(self, name: str) -> list[Synonym]:
        """Every place that gives ``name`` a value, the one in force first."""
        key = self.definition.keys.get(name)
        found = [
            Synonym(name, texts[name], source)
            for texts, source in (
                (self._broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
                (self._default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
                (self.static, ConfigSource.STATIC_BROKER_CONFIG),
            )
            if name in texts
        ]
        if key is not None and key.default is not None:
            found.append(Synonym(name, key.render(key.default), ConfigSource.DEFAULT_CONFIG))
        if key is not None and key.type is ConfigType.PASSWORD:
            found = [Synonym(synonym.name, None, synonym.source) for synonym in found]
        return found

    def names(self) -> list[str]:
        """Every name that has a value: all that are defined, and unknown ones that were set."""
        extra = (name for texts in (self.static, self._default, self._broker) for name in texts)
        return list(dict.fromkeys([*self.definition.keys, *extra]))

    def _usable(self, texts: Mapping[str, str], *, per_broker: bool) -> dict[str, str]:
        usable = {}
        for name, text in texts.items():
            try:
                self.check({name: text}, per_broker=per_broker)
            except ConfigError as error:
                log.error("Ignored a dynamic configuration of brokers: %s", error)
                continue
            usable[name] = text
        return usable

    def _merge(self) -> dict[str, Any]:
        values = self.definition.defaults()
        for texts in (self.static, self._default, self._broker):
            values.update(self.definition.parse(texts))
        return values

    def _changed(self) -> frozenset[str]:
        before, self.values = self.values, self._merge()
        changed = frozenset(name for name, value in self.values.items() if before.get(name) != value)
        if changed:
            for listener in self._listeners:
                listener(changed)
        return changed

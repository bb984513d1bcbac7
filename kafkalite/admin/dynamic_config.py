"""A broker's configuration in force: defaults, server.properties, and ``/config/brokers`` (KIP-226).

Answers to: ``kafka.server.{KafkaConfig,DynamicBrokerConfig}``. Deterministic.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from kafkalite.common.config import ConfigDef, ConfigKey, ConfigType, Update
from kafkalite.common.errors import ConfigError

log = logging.getLogger(__name__)

Listener = Callable[[frozenset[str]], object]
Validator = Callable[[Mapping[str, Any], Mapping[str, Any]], None]
"""Takes the values in force and the proposed ones. Raises :class:`ConfigError` if the change is not allowed."""

_OF_A_LISTENER: Final = re.compile(r"listener\.name\.[^.]+\.(.+)")
_FOR_ALL_LISTENERS: Final = ("max.connections", "max.connection.creation.rate", "num.network.threads")
"""Keys that every broker may set for a single listener, by the listener's prefix."""


class ConfigSource(IntEnum):
    """The origin of a value; the numbers are those of DescribeConfigs answers."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


class Synonym(NamedTuple):
    """One source that gives a value to a key; the first of several applies."""

    name: str
    value: str | None
    source: ConfigSource


class DynamicConfig:
    """The values of every key of ``definition``; ``config["log.retention.ms"]`` is the value in force.

    ``static`` is the text of server.properties and overrides, already checked. Listeners are given the names
    whose values changed, after all of them have changed. :meth:`check` refuses a wrong dynamic value with
    :class:`ConfigError`; one that is in ZooKeeper nevertheless is logged and ignored.
    ``validators`` check the values together when a client asks for a change.
    """

    def __init__(self, definition: ConfigDef, static: Mapping[str, str], validators: Sequence[Validator] = ()) -> None:
        self.definition = definition
        self.static = dict(static)
        self._validators = validators
        self._default: dict[str, str] = {}
        self._broker: dict[str, str] = {}
        self._listeners: list[Listener] = []
        self.values: dict[str, Any] = {}
        """Parsed values in force. A change replaces the whole mapping and never alters it."""
        self.values = self._merge(self._default, self._broker)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def on_change(self, listener: Listener) -> None:
        """Call ``listener(names)`` after a change of the values in force."""
        self._listeners.append(listener)

    def update_default(self, texts: Mapping[str, str]) -> frozenset[str]:
        """Apply the content of ``/config/brokers/<default>``; returns the names whose values changed."""
        self._default = self._usable(texts, per_broker=False)
        return self._changed()

    def update_broker(self, texts: Mapping[str, str]) -> frozenset[str]:
        """Apply the content of this broker's ``/config/brokers/<id>``; returns the names whose values changed."""
        self._broker = self._usable(texts, per_broker=True)
        return self._changed()

    def key(self, name: str) -> ConfigKey | None:
        """The key with that name, or the one that ``name`` sets for a single listener (``listener.name.NAME.KEY``)."""
        found = self.definition.keys.get(name)
        if found is None and (base := _base_name(name)):
            # A key for one SASL mechanism of one listener: listener.name.NAME.MECHANISM.KEY.
            return self.definition.keys.get(base) or self.definition.keys.get(base.partition(".")[2])
        return found

    def check(self, texts: Mapping[str, str], *, per_broker: bool) -> None:
        """Check that ``texts`` may be set while brokers run. Raises :class:`ConfigError` with the reason."""
        for name, text in texts.items():
            key = self.key(name)
            if key is None:
                continue
            of_a_listener = key.name != name
            if not of_a_listener and key.update is Update.READ_ONLY:
                raise ConfigError(f"Cannot update these configs dynamically: {name}; it is read-only")
            if not of_a_listener and key.update is Update.PER_LISTENER:
                raise ConfigError(
                    "These security configs can be dynamically updated only per-listener using the listener prefix: "
                    f"{name}"
                )
            if key.type is ConfigType.PASSWORD:
                raise ConfigError(f"Cannot keep the password {name} in ZooKeeper; set it in server.properties")
            key.parse(text)
            for_one = _base_name(name) not in _FOR_ALL_LISTENERS if of_a_listener else key.update is Update.PER_BROKER
            if for_one and not per_broker:
                raise ConfigError(
                    f"Cannot update these configs at default cluster level, broker id must be specified: {name}"
                )

    def check_change(self, overrides: Mapping[str, str], *, per_broker: bool) -> None:
        """Check ``overrides`` as all overrides of this broker, or of the cluster. Raises :class:`ConfigError`."""
        usable = {name: text for name, text in overrides.items() if name in self.definition}
        changed = self._merge(self._default, usable) if per_broker else self._merge(usable, self._broker)
        for validate in self._validators:
            validate(self.values, changed)

    def synonyms(self, name: str) -> list[Synonym]:
        """Every source that gives ``name`` a value, the one in force first."""
        key = self.key(name)
        found = [
            Synonym(name, texts[name], source)
            for texts, source in (
                (self._broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
                (self._default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
                (self.static, ConfigSource.STATIC_BROKER_CONFIG),
            )
            if name in texts
        ]
        if key is not None and key.name == name and key.default is not None and not key.is_dynamic_only:
            found.append(Synonym(name, key.render(key.default), ConfigSource.DEFAULT_CONFIG))
        if key is not None and key.type is ConfigType.PASSWORD:
            found = [Synonym(synonym.name, None, synonym.source) for synonym in found]
        return found

    def aliases(self, name: str) -> tuple[str, ...]:
        """``name``, and the key from which a single listener's setting inherits."""
        key = self.key(name)
        return (name,) if key is None or key.name == name else (name, key.name)

    def names(self) -> list[str]:
        """Every name that has a value: all defined keys, and other names that were set."""
        defined = (key.name for key in self.definition.keys.values() if not key.is_dynamic_only)
        extra = (name for texts in (self.static, self._default, self._broker) for name in texts)
        return list(dict.fromkeys([*defined, *extra]))

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

    def _merge(self, default: Mapping[str, str], broker: Mapping[str, str]) -> dict[str, Any]:
        values = self.definition.defaults()
        for texts in (self.static, default, broker):
            values.update(self.definition.parse(texts))
        return values

    def _changed(self) -> frozenset[str]:
        before, self.values = self.values, self._merge(self._default, self._broker)
        changed = frozenset(name for name, value in self.values.items() if before.get(name) != value)
        if changed:
            for listener in self._listeners:
                listener(changed)
        return changed


def _base_name(name: str) -> str:
    """The key that ``name`` sets for a single listener; empty if ``name`` is not of that form."""
    found = _OF_A_LISTENER.fullmatch(name)
    return found[1] if found else ""

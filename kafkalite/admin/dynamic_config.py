"""A broker's configuration in force: defaults, server.properties, and ``/config/brokers`` (KIP-226).

Answers to: ``kafka.server.{KafkaConfig,DynamicBrokerConfig}``. Deterministic.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

from kafkalite.common.config import ConfigDef, ConfigKey, ConfigType, ConfigValue, Update, integer
from kafkalite.common.errors import ConfigError

log = logging.getLogger(__name__)

Listener = Callable[[frozenset[str]], object]
Validator = Callable[[Mapping[str, ConfigValue], Mapping[str, ConfigValue]], None]
"""Takes the values in force and the proposed ones. Raises :class:`ConfigError` if the change is not allowed."""

ListenerCheck = Callable[[Callable[[str], Mapping[str, ConfigValue]]], None]
"""Takes what gives the proposed values of a listener, by its name. Raises :class:`ConfigError`."""

_OF_A_LISTENER: Final = re.compile(r"listener\.name\.[^.]+\.(.+)")
_FOR_ALL_LISTENERS: Final = ("max.connections", "max.connection.creation.rate", "num.network.threads")
"""Keys that every broker may set for a single listener, by the listener's prefix."""
_NO_PLUGINS: Final = ConfigDef(())


class PasswordCodec(Protocol):
    """Encrypts and decrypts: ``kafkalite.security.password_encoder.PasswordEncoder``."""

    def encode(self, password: str) -> str:
        """The encrypted password."""

    def decode(self, text: str) -> str:
        """The inverse. Raises :class:`ValueError`."""


class ConfigSource(IntEnum):
    """The origin of a value; the numbers are those of DescribeConfigs answers."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6


class Synonym(NamedTuple):
    """One source that gives a value to a key; the first of several applies."""

    name: str
    value: str | None
    source: ConfigSource


class DynamicConfig:
    """The values of every key of ``definition``; ``config["log.retention.ms"]`` is the value in force.

    ``static`` is the text of server.properties and overrides; a wrong value in it raises :class:`ConfigError`.
    Listeners are given the names whose values changed, also ``listener.name.…``, after all of them have changed.
    :meth:`check` refuses a wrong dynamic value with :class:`ConfigError`; one that is in ZooKeeper nevertheless is
    logged and ignored. ``validators`` check the values together when a client asks for a change. ``plugins`` are keys
    that are checked like the others, but have no value here and are described like unknown keys.
    """

    def __init__(
        self,
        definition: ConfigDef,
        static: Mapping[str, str],
        validators: Sequence[Validator] = (),
        plugins: ConfigDef = _NO_PLUGINS,
    ) -> None:
        self.definition = definition
        self.static = dict(static)
        self.passwords: PasswordCodec | None = None
        """Encrypts the passwords of stores in ZooKeeper; without it, none are kept there."""
        self.old_passwords: PasswordCodec | None = None
        """Decrypts those that were encrypted before the secret of :attr:`passwords` changed."""
        self._validators = validators
        self._plugins = plugins
        self._default: dict[str, str] = {}
        self._broker: dict[str, str] = {}
        self._of_listeners: dict[str, str] = {}
        self._listeners: list[Listener] = []
        self._listener_checks: list[ListenerCheck] = []
        self._updates: list[Callable[[], object]] = []
        self.values: dict[str, ConfigValue] = {}
        """Parsed values in force. A change replaces the whole mapping and never alters it."""
        self._static_values = definition.defaults()
        for name, text in static.items():
            key = self._key_as(name)
            if key is not None:
                value = key.parse(text)
                if name in definition:
                    self._static_values[name] = value
        self.values = self._static_values

    def __getitem__(self, name: str) -> int:
        """The value in force of a key whose values are whole numbers or booleans."""
        return integer(self.values, name)

    def on_change(self, listener: Listener) -> None:
        """Call ``listener(names)`` after a change of the values in force."""
        self._listeners.append(listener)

    def on_update(self, check: ListenerCheck, updated: Callable[[], object]) -> None:
        """Have ``check`` judge changes that clients ask for, and call ``updated`` whenever the overrides were read.

        A client that sets a file's name again wants the file read again: no value changes then.
        """
        self._listener_checks.append(check)
        self._updates.append(updated)

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
        if found is None and (base := base_name(name)):
            # A key for one SASL mechanism of one listener: listener.name.NAME.MECHANISM.KEY.
            return self.definition.keys.get(base) or self.definition.keys.get(base.partition(".")[2])
        return found

    def text(self, name: str) -> str | None:
        """The text in force of any name, also one of a single listener; ``None`` if nothing sets it."""
        for texts in (self._broker, self._default, self.static):
            if name in texts:
                return texts[name]
        return None

    def listener_key(self, listener: str, name: str, mechanism: str = "") -> str:
        """The name that sets ``name`` for ``listener``, and for one of its SASL mechanisms only, if one is given."""
        parts = ("listener.name", listener.lower(), *([mechanism.lower()] if mechanism else []), name)
        return ".".join(parts)

    def listener_value(self, listener: str, name: str, mechanism: str = "") -> ConfigValue:
        """The value of a key for ``listener``, and for its ``mechanism``; without one of its own, the broker's.

        Raises :class:`ConfigError`. Answers to: ``AbstractConfig.valuesWithPrefixOverride``.
        """
        for each in (self.listener_key(listener, name, mechanism), self.listener_key(listener, name)):
            text, key = self.text(each), self._key_as(each)
            if text is not None and key is not None:
                return key.parse(text)
        return self.values[name]

    def _key_as(self, name: str) -> ConfigKey | None:
        """The key that checks a value of ``name``; its errors name ``name``, also where that is of one listener."""
        key = self.key(name) or self._plugins.keys.get(name)
        return key if key is None or key.name == name else replace(key, name=name)

    def check(self, texts: Mapping[str, str], *, per_broker: bool) -> None:
        """Check that ``texts`` may be set while brokers run. Raises :class:`ConfigError` with the reason."""
        for name, text in texts.items():
            key = self._key_as(name)
            if key is None:
                continue
            of_a_listener = base_name(name) != ""
            if not of_a_listener and key.update is Update.READ_ONLY:
                raise ConfigError(f"Cannot update these configs dynamically: {name}; it is read-only")
            if not of_a_listener and key.update is Update.PER_LISTENER:
                raise ConfigError(
                    "These security configs can be dynamically updated only per-listener using the listener prefix: "
                    f"{name}"
                )
            for_one = base_name(name) not in _FOR_ALL_LISTENERS if of_a_listener else key.update is Update.PER_BROKER
            if for_one and not per_broker:
                raise ConfigError(
                    f"Cannot update these configs at default cluster level, broker id must be specified: {name}"
                )
            key.parse(text)
            if key.type is ConfigType.PASSWORD and key.update is not Update.PER_LISTENER:
                raise ConfigError(f"Cannot keep the password {name} in ZooKeeper; set it in server.properties")
            if key.type is ConfigType.PASSWORD and self.passwords is None:
                raise ConfigError(
                    f"Cannot keep the password {name} in ZooKeeper, because no password.encoder.secret is configured; "
                    "set that, or the password, in server.properties"
                )

    def concealed(self, overrides: Mapping[str, str]) -> dict[str, str]:
        """``overrides`` as they are written into ZooKeeper: passwords are encrypted."""
        passwords = self.passwords
        if passwords is None:
            return dict(overrides)
        return {name: passwords.encode(text) if self._is_password(name) else text for name, text in overrides.items()}

    def revealed(self, texts: Mapping[str, str]) -> dict[str, str]:
        """``texts`` of ZooKeeper with passwords decrypted; those that cannot be are logged and left out."""
        passwords = self.passwords
        if passwords is None:
            return dict(texts)
        found = {}
        for name, text in texts.items():
            try:
                found[name] = passwords.decode(text) if self._is_password(name) else text
            except ValueError as error:
                log.error("Ignored the password %s in ZooKeeper: %s", name, error)
        return found

    def encrypted_again(self, texts: Mapping[str, str]) -> dict[str, str] | None:
        """``texts`` of ZooKeeper with the passwords that only the old secret decrypts encrypted by the present one.

        ``None`` if there is none. Answers to: ``DynamicBrokerConfig.maybeReEncodePasswords``, which encrypts all again.
        """
        found = dict(texts)
        if self.passwords is not None and self.old_passwords is not None:
            for name, text in texts.items():
                if self._is_password(name) and _decoded(self.passwords, text) is None:
                    password = _decoded(self.old_passwords, text)
                    if password is not None:
                        found[name] = self.passwords.encode(password)
        return None if found == texts else found

    def _is_password(self, name: str) -> bool:
        key = self.key(name)
        return key is not None and key.type is ConfigType.PASSWORD

    def check_change(self, overrides: Mapping[str, str], *, per_broker: bool) -> None:
        """Check ``overrides`` as all overrides of this broker, or of the cluster. Raises :class:`ConfigError`."""
        usable = {name: text for name, text in overrides.items() if name in self.definition}
        changed = self._merge(self._default, usable) if per_broker else self._merge(usable, self._broker)
        for validate in self._validators:
            validate(self.values, changed)
        default, broker = (self._default, overrides) if per_broker else (overrides, self._broker)
        for check in self._listener_checks:
            check(lambda listener: self._listener_values(changed, listener, default, broker))

    def of_listener(self, listener: str) -> dict[str, ConfigValue]:
        """The values in force for one listener: those with its prefix win over the others (``valuesWithPrefix``)."""
        return self._listener_values(self.values, listener, self._default, self._broker)

    def _listener_values(
        self,
        values: Mapping[str, ConfigValue],
        listener: str,
        default: Mapping[str, str],
        broker: Mapping[str, str],
    ) -> dict[str, ConfigValue]:
        found = dict(values)
        prefix = self.listener_key(listener, "")
        for name, text in {**self.static, **default, **broker}.items():
            if name.startswith(prefix):
                key = self.definition.keys.get(name.removeprefix(prefix))
                if key is not None:
                    found[key.name] = key.parse(text)
        return found

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
        for name, text in self.revealed(texts).items():
            try:
                self.check({name: text}, per_broker=per_broker)
            except ConfigError as error:
                log.error("Ignored a dynamic configuration of brokers: %s", error)
                continue
            usable[name] = text
        return usable

    def _merge(self, default: Mapping[str, str], broker: Mapping[str, str]) -> dict[str, ConfigValue]:
        return {**self._static_values, **self.definition.parse(default), **self.definition.parse(broker)}

    def _listener_texts(self) -> dict[str, str]:
        """The overrides of single listeners, which have no value in :attr:`values`."""
        return {name: text for name, text in {**self._default, **self._broker}.items() if base_name(name)}

    def _changed(self) -> frozenset[str]:
        before, self.values = self.values, self._merge(self._default, self._broker)
        texts, self._of_listeners = self._of_listeners, self._listener_texts()
        changed = frozenset(name for name, value in self.values.items() if before.get(name) != value) | {
            name for name in texts.keys() | self._of_listeners.keys() if texts.get(name) != self._of_listeners.get(name)
        }
        if changed:
            for listener in self._listeners:
                listener(changed)
        for updated in self._updates:
            updated()
        return changed


def _decoded(codec: PasswordCodec, text: str) -> str | None:
    try:
        return codec.decode(text)
    except ValueError:
        return None


def base_name(name: str) -> str:
    """The key that ``name`` sets for a single listener; empty if ``name`` is not of that form."""
    found = _OF_A_LISTENER.fullmatch(name)
    return found[1] if found else ""

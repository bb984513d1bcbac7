"""Configurations of topics and brokers, and levels of loggers, described and altered, with sources and synonyms.

Answers to: ``kafka.server.{ConfigHelper,ConfigAdminManager}`` and ``ZkAdminManager.alterConfigs``. Deterministic.

Single changes set or delete a key, append to a list or subtract from one (KIP-339).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import dropwhile
from typing import Final, NamedTuple

from kafkalite.admin.broker_loggers import check_level, check_unset, logger_levels, set_levels
from kafkalite.admin.dynamic_config import ConfigSource, DynamicConfig, Synonym
from kafkalite.admin.topic_admin import check_configs
from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import check_topic
from kafkalite.common.config import ConfigDef, ConfigKey, ConfigType, ConfigValue, Update
from kafkalite.common.errors import ApiError, ConfigError, ErrorCode
from kafkalite.log.log_config import TOPIC_CONFIGS, broker_default
from kafkalite.zk.stores.config import ConfigStore
from kafkalite.zk.znodes.codec import MalformedZnodeError
from kafkalite.zk.znodes.config import DEFAULT


class OpType(IntEnum):
    """Kafka's ``AlterConfigOp.OpType``."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class AlterOp(NamedTuple):
    """One change of one key."""

    name: str
    op: int
    value: str | None


def apply_ops(
    current: Mapping[str, str], ops: Sequence[AlterOp], keys: ConfigDef, defaults: Mapping[str, ConfigValue]
) -> dict[str, str]:
    """The overrides after ``ops`` on ``current``; a list without an override begins with its value in ``defaults``.

    Raises :class:`ApiError` INVALID_REQUEST or INVALID_CONFIG.
    """
    _check_form(ops)
    overrides = dict(current)
    for name, op, value in ops:
        if op == OpType.DELETE:
            overrides.pop(name, None)
        elif op == OpType.SET:
            overrides[name] = value or ""
        elif op in (OpType.APPEND, OpType.SUBTRACT):
            overrides[name] = _changed_list(name, op, value or "", overrides, keys, defaults)
        else:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation {op} for the config {name}")
    return overrides


def _check_form(ops: Sequence[AlterOp]) -> None:
    twice = sorted(name for name, times in Counter(op.name for op in ops).items() if times > 1)
    if twice:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Error due to duplicate config keys : {','.join(twice)}")
    nulls = [op.name for op in ops if op.value is None and op.op != OpType.DELETE]
    if nulls:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(nulls)}")


def _changed_list(
    name: str, op: int, value: str, overrides: Mapping[str, str], keys: ConfigDef, defaults: Mapping[str, ConfigValue]
) -> str:
    key = keys.keys.get(name)
    if key is None or key.type is not ConfigType.LIST:
        what = "append" if op == OpType.APPEND else "subtract"
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Config value {what} is not allowed for config key: {name}")
    text = overrides.get(name)
    default = defaults.get(name)
    now = _parts(text) if text is not None else list(default) if isinstance(default, tuple) else []
    given = _parts(value)
    if op == OpType.APPEND:
        before = frozenset(now)
        now += [part for part in given if part not in before]
    else:
        taken = frozenset(given)
        now = [part for part in now if part not in taken]
    return ",".join(now)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


class ResourceType(IntEnum):
    """Kafka's ``ConfigResource.Type``."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16


_UNITS: Final = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
)
_SYNONYMS: Final[dict[str, tuple[str, ...]]] = {
    **{name: names for names in _UNITS for name in names},
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
}
"""The keys that give one value in several units, finest first; ``DynamicBrokerConfig.brokerConfigSynonyms``."""


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One key with its value. ``synonyms`` are all sources that give it a value, the one in force first."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type: int
    synonyms: Sequence[Synonym] = ()
    documentation: str | None = None


class ConfigAdmin:
    """Reads and writes ``/config`` on behalf of clients."""

    def __init__(self, broker_id: int, store: ConfigStore, metadata: MetadataCache, config: DynamicConfig) -> None:
        self._broker_id = broker_id
        self._store = store
        self._metadata = metadata
        self._config = config

    async def describe(self, kind: int, name: str, keys: Collection[str] | None) -> list[ConfigEntry]:
        """The entries of a resource, those named in ``keys`` or all. Raises :class:`ApiError`."""
        if kind == ResourceType.TOPIC:
            self._check_known_topic(name)
            overrides = await self._overrides(name)
            return self.describe_topic(overrides, keys)
        if kind == ResourceType.BROKER:
            return self._describe_broker(self._broker_of(name), keys)
        if kind == ResourceType.BROKER_LOGGER:
            return self._describe_loggers(name, keys)
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {_kind_name(kind)}")

    def describe_topic(self, overrides: Mapping[str, str], keys: Collection[str] | None = None) -> list[ConfigEntry]:
        """The entries of a topic that has ``overrides``."""
        return [
            self._topic_entry(key, overrides) for key in TOPIC_CONFIGS.keys.values() if not keys or key.name in keys
        ]

    async def replace(
        self, kind: int, name: str, texts: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Make ``texts`` the whole of a resource's overrides (AlterConfigs). Raises :class:`ApiError`."""
        nulls = [key for key, value in texts.items() if value is None]
        if nulls:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(nulls)}")
        overrides = {key: value for key, value in texts.items() if value is not None}
        await self._write(kind, name, overrides, list(overrides), validate_only)

    async def alter(self, kind: int, name: str, ops: Sequence[AlterOp], *, validate_only: bool = False) -> None:
        """Set, delete, append and subtract single keys (IncrementalAlterConfigs). Raises :class:`ApiError`."""
        if kind == ResourceType.BROKER_LOGGER:
            self._alter_loggers(name, ops, validate_only=validate_only)
            return
        if kind == ResourceType.TOPIC:
            self._check_known_topic(name)
            current = await self._overrides(name)
            keys = TOPIC_CONFIGS
            defaults = {key: broker_default(key, self._config.values) for key in keys.keys}
        elif kind == ResourceType.BROKER:
            broker_id = self._broker_of(name)
            current = self._config.revealed(await self._store.broker(DEFAULT if broker_id is None else broker_id))
            keys, defaults = self._config.definition, self._config.values
        else:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {_kind_name(kind)}")
        overrides = apply_ops(current, ops, keys, defaults)
        await self._write(kind, name, overrides, [op.name for op in ops if op.name in overrides], validate_only)

    def _alter_loggers(self, name: str, ops: Sequence[AlterOp], *, validate_only: bool) -> None:
        _check_form(ops)
        if _number_of(name, "Node id") != self._broker_id:
            message = f"Unexpected node id. Expected {self._broker_id}, but received {name}"
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
        for logger, op, value in ops:
            if op == OpType.SET:
                check_level(logger, value or "")
            elif op == OpType.DELETE:
                check_unset(logger)
            else:
                named = f"{OpType(op).name} operation" if op in OpType._value2member_map_ else f"Operation {op}"
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"{named} is not allowed for the {_kind_name(ResourceType.BROKER_LOGGER)} resource",
                )
        if not validate_only:
            set_levels((each.name, each.value if each.op == OpType.SET else None) for each in ops)

    async def alter_client(
        self, kind: str, name: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set single overrides of a user, a client or an address; ``None`` removes one."""
        try:
            overrides: dict[str, str] = await self._store.entity(kind, name)
        except MalformedZnodeError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None
        for key, value in changes.items():
            if value is None:
                overrides.pop(key, None)
            else:
                overrides[key] = value
        if not validate_only:
            await self._store.set_entity(kind, name, overrides)

    async def _write(
        self, kind: int, name: str, overrides: Mapping[str, str], touched: Sequence[str], validate_only: bool
    ) -> None:
        if kind == ResourceType.TOPIC:
            self._check_known_topic(name)
            check_configs(overrides, self._config.values)
            if not validate_only:
                await self._store.set_topic(name, overrides)
        elif kind == ResourceType.BROKER:
            broker_id = self._broker_of(name)
            try:
                self._config.check({key: overrides[key] for key in touched}, per_broker=broker_id is not None)
                self._config.check_change(overrides, per_broker=broker_id is not None)
            except ConfigError as error:
                raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None
            if not validate_only:
                concealed = self._config.concealed(overrides)
                await self._store.set_broker(DEFAULT if broker_id is None else broker_id, concealed)
        else:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {_kind_name(kind)}")

    async def _overrides(self, topic: str) -> dict[str, str]:
        try:
            return await self._store.topic(topic)
        except MalformedZnodeError as error:
            # An error of this topic alone: the request may name others.
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None

    def _check_known_topic(self, name: str) -> None:
        check_topic(name)
        if name not in self._metadata.topics:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")

    def _broker_of(self, name: str) -> int | None:
        """This broker's id, or ``None`` for the configuration of all brokers."""
        if not name:
            return None
        if _number_of(name, "Broker id") != self._broker_id:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {self._broker_id} or empty string, but received {name}",
            )
        return self._broker_id

    def _topic_entry(self, key: ConfigKey, overrides: Mapping[str, str]) -> ConfigEntry:
        synonyms = self._broker_synonyms(key.broker_key) if key.broker_key else []
        if key.name in overrides:
            value: str | None = overrides[key.name]
            synonyms = [Synonym(key.name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG), *synonyms]
        else:
            value = key.render(broker_default(key.name, self._config.values))
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
        return ConfigEntry(key.name, value, source, False, False, key.type.value, synonyms, key.doc)

    def _broker_synonyms(self, name: str) -> list[Synonym]:
        """Every source of a broker key, in all its units, in Kafka's order: by source, the finest unit first.

        Synonyms before the first one with the key's own name are left out, as in Kafka: tools take the first
        synonym for the value in force, and it would be in another unit.
        """
        aliases = _SYNONYMS.get(name) or self._config.aliases(name)
        found = [synonym for alias in aliases for synonym in self._config.synonyms(alias)]
        found.sort(key=lambda synonym: synonym.source)
        return list(dropwhile(lambda synonym: synonym.name != name, found))

    def _describe_loggers(self, name: str, keys: Collection[str] | None) -> list[ConfigEntry]:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        if _number_of(name, "Broker id") != self._broker_id:
            message = f"Unexpected broker id, expected {self._broker_id} but received {name}"
            raise ApiError(ErrorCode.INVALID_REQUEST, message)
        return [
            ConfigEntry(logger, level, ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG, False, False, 0)
            for logger, level in logger_levels().items()
            if not keys or logger in keys
        ]

    def _describe_broker(self, broker_id: int | None, keys: Collection[str] | None) -> list[ConfigEntry]:
        entries = []
        for name in self._config.names():
            if keys and name not in keys:
                continue
            synonyms = self._broker_synonyms(name)
            if broker_id is None:
                synonyms = [s for s in synonyms if s.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG]
                if not synonyms:
                    continue
            entries.append(self._broker_entry(name, synonyms, for_all=broker_id is None))
        return entries

    def _broker_entry(self, name: str, synonyms: list[Synonym], *, for_all: bool) -> ConfigEntry:
        key = self._config.key(name)
        # The value of an unknown key may be a plug-in's secret: Kafka hides it.
        sensitive = key is None or key.type is ConfigType.PASSWORD
        value = None
        if sensitive:
            synonyms = [Synonym(synonym.name, None, synonym.source) for synonym in synonyms]
        elif for_all or name not in self._config.values:
            value = synonyms[0].value
        elif key is not None:
            value = key.render(self._config.values[name])
        is_live = key is not None and key.name == name and not key.is_dynamic_only
        return ConfigEntry(
            name,
            value,
            synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
            not is_live or key is None or key.update is Update.READ_ONLY,
            sensitive,
            0 if key is None else key.type.value,
            synonyms,
            None if key is None else key.doc,
        )


def _number_of(name: str, what: str) -> int:
    if not name.isdigit():
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{what} must be an integer, but it is: {name}")
    return int(name)


def _kind_name(kind: int) -> str:
    return ResourceType(kind).name if kind in ResourceType._value2member_map_ else str(kind)

"""The settings of a ZooKeeper consumer, under Kafka's names and with Kafka's defaults.

Answers to: ``kafka.consumer.ConsumerConfig``. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Final, cast

from kafkalite.common.config import ConfigDef, ConfigKey, ConfigType, ConfigValue
from kafkalite.common.errors import ConfigError
from kafkalite.consumer.security_keys import SECURITY_CONFIGS

SMALLEST, LARGEST = "smallest", "largest"
_RESETS = {"smallest": SMALLEST, "earliest": SMALLEST, "largest": LARGEST, "latest": LARGEST}


def _about(doc: str, *, minimum: int | None = None, choices: tuple[str, ...] = ()) -> dict[str, object]:
    """The fields of a setting's :class:`ConfigKey` apart from name, type and default."""
    return {"doc": doc, "minimum": minimum, "choices": choices}


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """Each field is one setting: ``auto_commit_enable`` is Kafka's ``auto.commit.enable``. Times are milliseconds.

    ``security`` are the properties of :data:`SECURITY_CONFIGS` under their own names. Raises :class:`ConfigError` for
    an invalid value.
    """

    zookeeper_connect: str = field(metadata=_about("Hosts of ZooKeeper, host:port[,host:port…][/chroot]; required."))
    group_id: str = field(metadata=_about("The consumer's group; required."))
    consumer_id: str = field(
        default="",
        metadata=_about("Last part of the member's name; empty: host name, time and random digits, as in Kafka."),
    )
    client_id: str = field(default="", metadata=_about("The client id that brokers see; empty: the group's name."))
    zookeeper_session_timeout_ms: int = field(
        default=6000,
        metadata=_about(
            "Session timeout, after which a silent member counts as dead and its partitions go to the other members."
        ),
    )
    zookeeper_connection_timeout_ms: int = field(
        default=6000, metadata=_about("How long the start waits for a connection to ZooKeeper.")
    )
    auto_commit_enable: bool = field(default=True, metadata=_about("Whether offsets are committed periodically."))
    auto_commit_interval_ms: int = field(
        default=60_000, metadata=_about("Time between two periodic commits.", minimum=1)
    )
    auto_offset_reset: str = field(
        default=LARGEST,
        metadata=_about(
            "Offset to begin at if there is no committed offset, or if the log no longer has it.",
            choices=tuple(_RESETS),
        ),
    )
    rebalance_max_retries: int = field(
        default=4, metadata=_about("Attempts at a rebalance before the consumer gives up.", minimum=1)
    )
    rebalance_backoff_ms: int = field(default=2000, metadata=_about("Time between two attempts at a rebalance."))
    queued_max_message_chunks: int = field(
        default=2, metadata=_about("Fetched chunks that may wait for the reader of the stream.", minimum=1)
    )
    fetch_message_max_bytes: int = field(default=1024 * 1024, metadata=_about("Bytes of one partition in one fetch."))
    fetch_min_bytes: int = field(
        default=1, metadata=_about("Bytes for which a broker waits before it answers a fetch.")
    )
    fetch_wait_max_ms: int = field(
        default=100, metadata=_about("How long a broker waits for fetch.min.bytes before it answers a fetch.")
    )
    consumer_timeout_ms: int = field(
        default=-1, metadata=_about("The iteration ends if no record comes for this long; -1: never.")
    )
    exclude_internal_topics: bool = field(
        default=True, metadata=_about("Whether a pattern of topics leaves out Kafka's internal topics.")
    )

    security: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.group_id:
            raise ConfigError("group.id: must not be empty")
        if self.auto_offset_reset not in _RESETS:
            raise ConfigError(f"auto.offset.reset: {self.auto_offset_reset!r}: expected {SMALLEST} or {LARGEST}")
        for name in SECURITY_CONFIGS.unknown(self.security):
            raise ConfigError(f"{name}: not a security setting of the ZooKeeper consumer")
        SECURITY_CONFIGS.parse(self.security)
        object.__setattr__(self, "auto_offset_reset", _RESETS[self.auto_offset_reset])
        for key in _OWN.keys.values():
            if key.minimum is not None and getattr(self, key.name.replace(".", "_")) < key.minimum:
                raise ConfigError(f"{key.name}: must be at least {key.minimum}")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> ConsumerConfig:
        """The settings of a properties file. Raises :class:`ConfigError` for an unknown name or a bad value."""
        known = {each.name.replace("_", "."): each for each in _settings(cls)}
        security = {name: text.strip() for name, text in properties.items() if name in SECURITY_CONFIGS}
        values: dict[str, object] = {"security": security}
        for name, text in properties.items():
            if name in security:
                continue
            setting = known.get(name)
            if setting is None:
                raise ConfigError(
                    f"{name}: not a setting of the ZooKeeper consumer, which has {', '.join(CONSUMER_CONFIGS.keys)}"
                )
            values[setting.name] = _parse(name, str(setting.type), text.strip())
        missing = [name for name in ("zookeeper.connect", "group.id") if name.replace(".", "_") not in values]
        if missing:
            raise ConfigError(f"{', '.join(missing)}: missing")
        return cls(**values)  # type: ignore[arg-type]


_TYPES = {"str": ConfigType.STRING, "int": ConfigType.INT, "bool": ConfigType.BOOLEAN}


def _key(setting: Field[object]) -> ConfigKey:
    default: ConfigValue = None if setting.default is MISSING else cast(ConfigValue, setting.default)
    return ConfigKey(setting.name.replace("_", "."), _TYPES[str(setting.type)], default, **setting.metadata)


def _settings(config: type[ConsumerConfig]) -> tuple[Field[object], ...]:
    """The fields for one setting each, which are all but ``security``."""
    return tuple(each for each in fields(config) if each.name != "security")


_OWN: Final = ConfigDef(_key(setting) for setting in _settings(ConsumerConfig))
CONSUMER_CONFIGS: Final = ConfigDef((*_OWN.keys.values(), *SECURITY_CONFIGS.keys.values()))
"""Every setting of :class:`ConsumerConfig`, under Kafka's name."""


def _parse(name: str, kind: str, text: str) -> object:
    if kind == "int":
        try:
            return int(text)
        except ValueError:
            raise ConfigError(f"{name}: {text!r}: expected a number") from None
    if kind == "bool":
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"{name}: {text!r}: expected true or false")
        return text.lower() == "true"
    return text

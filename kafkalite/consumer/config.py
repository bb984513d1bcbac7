"""The settings of a ZooKeeper consumer, under Kafka's names and with Kafka's defaults.

Answers to: ``kafka.consumer.ConsumerConfig``. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from kafkalite.common.errors import ConfigError

SMALLEST, LARGEST = "smallest", "largest"
_RESETS = {"smallest": SMALLEST, "earliest": SMALLEST, "largest": LARGEST, "latest": LARGEST}


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """Each field is one setting: ``auto_commit_enable`` is Kafka's ``auto.commit.enable``. Times are milliseconds.

    Raises :class:`ConfigError` for an invalid value.
    """

    zookeeper_connect: str
    """``host:port[,host:port…][/chroot]``"""
    group_id: str
    consumer_id: str = ""
    """Last part of the member's name; empty: host name, time and random digits, as in Kafka."""
    client_id: str = ""
    """The client id that brokers see; empty: the group's name."""
    zookeeper_session_timeout_ms: int = 6000
    """How long a member may be silent before it counts as dead and its partitions go to the other members."""
    zookeeper_connection_timeout_ms: int = 6000
    auto_commit_enable: bool = True
    auto_commit_interval_ms: int = 60_000
    auto_offset_reset: str = LARGEST
    """Where to begin if there is no committed offset, or if the log no longer has it: smallest or largest."""
    rebalance_max_retries: int = 4
    rebalance_backoff_ms: int = 2000
    queued_max_message_chunks: int = 2
    """Fetched chunks that may wait for the reader of the stream."""
    fetch_message_max_bytes: int = 1024 * 1024
    """Bytes of one partition in one fetch."""
    fetch_min_bytes: int = 1
    fetch_wait_max_ms: int = 100
    consumer_timeout_ms: int = -1
    """The iteration ends if no record comes for this long; -1: never."""
    exclude_internal_topics: bool = True

    def __post_init__(self) -> None:
        if not self.group_id:
            raise ConfigError("group.id: must not be empty")
        if self.auto_offset_reset not in _RESETS:
            raise ConfigError(f"auto.offset.reset: {self.auto_offset_reset!r}: expected {SMALLEST} or {LARGEST}")
        object.__setattr__(self, "auto_offset_reset", _RESETS[self.auto_offset_reset])
        for name in ("auto_commit_interval_ms", "rebalance_max_retries", "queued_max_message_chunks"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name.replace('_', '.')}: must be at least 1")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> ConsumerConfig:
        """The settings of a properties file. Raises :class:`ConfigError` for an unknown name or a bad value."""
        known = {field.name.replace("_", "."): field for field in fields(cls)}
        values: dict[str, object] = {}
        for name, text in properties.items():
            field = known.get(name)
            if field is None:
                raise ConfigError(f"{name}: not a setting of the ZooKeeper consumer; there are {', '.join(known)}")
            values[field.name] = _parse(name, str(field.type), text.strip())
        missing = [name for name in ("zookeeper.connect", "group.id") if name.replace(".", "_") not in values]
        if missing:
            raise ConfigError(f"{', '.join(missing)}: missing")
        return cls(**values)  # type: ignore[arg-type]


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

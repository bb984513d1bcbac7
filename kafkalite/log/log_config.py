"""The configuration of one log, the table of all topic configuration keys, and what the logs of a broker are told.

Answers to: ``org.apache.kafka.storage.internals.log.{LogConfig,CleanerConfig}``,
``org.apache.kafka.common.config.TopicConfig`` and the constructor arguments of ``kafka.log.LogManager``. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafkalite.common.config import ConfigDef, ConfigKey, ConfigType, ConfigValue, integer, number
from kafkalite.common.errors import ConfigError

LONG_MAX = (1 << 63) - 1
_HOUR_MS = 3_600_000


_THROTTLED = "* or a list of partition:broker pairs"


def _throttled(value: ConfigValue) -> str | None:
    if value == ("*",):
        return None
    assert isinstance(value, tuple)
    for element in value:
        parts = element.split(":")
        if len(parts) != 2 or not all(part.strip().isdigit() for part in parts):
            return _THROTTLED
    return None


def _key(
    name: str,
    kind: ConfigType,
    default: ConfigValue,
    broker_key: str,
    doc: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
    check: Callable[[ConfigValue], str | None] | None = None,
    allowed: str = "",
) -> ConfigKey:
    limits = (minimum, maximum, choices)
    return ConfigKey(name, kind, default, doc, *limits, broker_key=broker_key, check=check, allowed=allowed)


_B, _D, _I, _L, _LIST, _S = (
    ConfigType.BOOLEAN,
    ConfigType.DOUBLE,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.LIST,
    ConfigType.STRING,
)
_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

TOPIC_CONFIGS = ConfigDef(
    [
        _key("cleanup.policy", _LIST, ("delete",), "log.cleanup.policy",
             "What happens to old segments: delete, compact, or both.", choices=("compact", "delete")),
        _key("compression.gzip.level", _I, -1, "compression.gzip.level",
             "Level of gzip where the broker compresses.", minimum=-1, maximum=9),
        _key("compression.lz4.level", _I, 9, "compression.lz4.level",
             "Level of lz4 where the broker compresses.", minimum=1, maximum=17),
        _key("compression.type", _S, "producer", "compression.type",
             "Codec in which the topic is stored; producer keeps what producers chose.", choices=_CODECS),
        _key("compression.zstd.level", _I, 3, "compression.zstd.level",
             "Level of zstd where the broker compresses.", minimum=-131072, maximum=22),
        _key("delete.retention.ms", _L, 86_400_000, "log.cleaner.delete.retention.ms",
             "How long a compacted topic keeps tombstones.", minimum=0),
        _key("file.delete.delay.ms", _L, 60_000, "log.segment.delete.delay.ms",
             "How long a deleted file stays on disk.", minimum=0),
        _key("flush.messages", _L, LONG_MAX, "log.flush.interval.messages",
             "Force the log to disk after this many messages.", minimum=1),
        _key("flush.ms", _L, LONG_MAX, "log.flush.interval.ms",
             "Force the log to disk after this many milliseconds.", minimum=0),
        _key("follower.replication.throttled.replicas", _LIST, (), "",
             "Replicas that are throttled on the follower's side.", check=_throttled, allowed=_THROTTLED),
        _key("index.interval.bytes", _I, 4096, "log.index.interval.bytes",
             "Bytes of log between two index entries.", minimum=0),
        _key("leader.replication.throttled.replicas", _LIST, (), "",
             "Replicas that are throttled on the leader's side.", check=_throttled, allowed=_THROTTLED),
        _key("local.retention.bytes", _L, -2, "log.local.retention.bytes",
             "Size kept locally under tiered storage.", minimum=-2),
        _key("local.retention.ms", _L, -2, "log.local.retention.ms",
             "Age kept locally under tiered storage.", minimum=-2),
        _key("max.compaction.lag.ms", _L, LONG_MAX, "log.cleaner.max.compaction.lag.ms",
             "The longest that a record stays out of reach of compaction.", minimum=1),
        _key("max.message.bytes", _I, 1_048_588, "message.max.bytes",
             "The largest record batch that is taken.", minimum=0),
        _key("message.downconversion.enable", _B, True, "log.message.downconversion.enable",
             "Whether old consumers are served by conversion."),
        _key("message.format.version", _S, "3.0-IV1", "log.message.format.version",
             "Deprecated; version 2 record batches are always stored."),
        _key("message.timestamp.after.max.ms", _L, LONG_MAX, "log.message.timestamp.after.max.ms",
             "How far a record's timestamp may be ahead of the broker's.", minimum=0),
        _key("message.timestamp.before.max.ms", _L, LONG_MAX, "log.message.timestamp.before.max.ms",
             "How far a record's timestamp may be behind the broker's.", minimum=0),
        _key("message.timestamp.difference.max.ms", _L, LONG_MAX, "log.message.timestamp.difference.max.ms",
             "Deprecated; how far a record's timestamp may be from the broker's.", minimum=0),
        _key("message.timestamp.type", _S, "CreateTime", "log.message.timestamp.type",
             "Whose timestamps are stored.", choices=("CreateTime", "LogAppendTime")),
        _key("min.cleanable.dirty.ratio", _D, 0.5, "log.cleaner.min.cleanable.ratio",
             "How dirty a log must be to be compacted.", minimum=0, maximum=1),
        _key("min.compaction.lag.ms", _L, 0, "log.cleaner.min.compaction.lag.ms",
             "How long a record stays out of reach of compaction.", minimum=0),
        _key("min.insync.replicas", _I, 1, "min.insync.replicas",
             "Replicas that must be in sync for acks=all.", minimum=1),
        _key("preallocate", _B, False, "log.preallocate", "Whether new segments take their disk space at once."),
        _key("remote.log.copy.disable", _B, False, "", "Whether tiered data is only read any more."),
        _key("remote.log.delete.on.disable", _B, False, "", "Whether tiered data goes with tiered storage."),
        _key("remote.storage.enable", _B, False, "", "Tiered storage."),
        _key("retention.bytes", _L, -1, "log.retention.bytes", "Size that a partition may have; -1: any.", minimum=-1),
        _key("retention.ms", _L, 604_800_000, "log.retention.ms", "How long data is kept; -1: for ever.", minimum=-1),
        _key("segment.bytes", _I, 1 << 30, "log.segment.bytes", "Size of a segment file.", minimum=14),
        _key("segment.index.bytes", _I, 10_485_760, "log.index.size.max.bytes", "Size of an index file.", minimum=4),
        _key("segment.jitter.ms", _L, 0, "log.roll.jitter.ms", "Largest random share taken off segment.ms.", minimum=0),
        _key("segment.ms", _L, 604_800_000, "log.roll.ms", "Age at which a segment is rolled.", minimum=1),
        _key("unclean.leader.election.enable", _B, False, "unclean.leader.election.enable",
             "Whether a replica out of sync may lead when no other can."),
    ]
)  # fmt: skip
"""Every topic configuration of Kafka 3.9; ``broker_key`` names the broker's key that is its default."""

# Keys that a broker may give in a coarser unit, finest first, and what makes milliseconds of them.
_UNITS: dict[str, tuple[tuple[str, int], ...]] = {
    "retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", _HOUR_MS)),
    "segment.ms": (("log.roll.hours", _HOUR_MS),),
    "segment.jitter.ms": (("log.roll.jitter.hours", _HOUR_MS),),
    "flush.ms": (("log.flush.scheduler.interval.ms", 1),),
}


@dataclass(frozen=True, slots=True)
class LogConfig:
    """One topic's settings, under Kafka's names with underscores. Times in milliseconds, sizes in bytes."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_downconversion_enable: bool = True
    message_format_version: str = "3.0-IV1"
    message_timestamp_after_max_ms: int = LONG_MAX
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_difference_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False

    @property
    def compacted(self) -> bool:
        """Whether old records give way to newer ones of the same key."""
        return "compact" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """Age at which a segment is rolled: compaction cannot reach what is in the active one."""
        if self.compacted and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @property
    def deletes(self) -> bool:
        """Whether retention by age and size applies."""
        return "delete" in self.cleanup_policy


def broker_default(name: str, broker_values: Mapping[str, ConfigValue]) -> ConfigValue:
    """The value that topic key ``name`` has where the topic says nothing."""
    key = TOPIC_CONFIGS[name]
    value = broker_values.get(key.broker_key) if key.broker_key else None
    if value is None:
        for coarser, factor in _UNITS.get(name, ()):
            given = broker_values.get(coarser)
            if isinstance(given, int):
                # A negative time means "never" in every unit.
                value = given * factor if given >= 0 else -1
                break
    return key.default if value is None else value


def log_config(broker_values: Mapping[str, ConfigValue], overrides: Mapping[str, str]) -> LogConfig:
    """The settings of a topic with ``overrides`` on a broker with ``broker_values`` (parsed, by broker key).

    Unknown overrides are passed over. Raises :class:`ConfigError` for a wrong value.
    """
    values = {name: broker_default(name, broker_values) for name in TOPIC_CONFIGS.keys}
    values.update(TOPIC_CONFIGS.parse(overrides))
    shortest, longest = integer(values, "min.compaction.lag.ms"), integer(values, "max.compaction.lag.ms")
    if shortest > longest:
        raise ConfigError(
            f"Invalid value {shortest} for configuration min.compaction.lag.ms: "
            f"allowed is at most max.compaction.lag.ms ({longest})"
        )
    # The types of the keys are those of the fields (a test compares them).
    build: Callable[..., LogConfig] = LogConfig
    return build(**{name.replace(".", "_"): value for name, value in values.items()})


@dataclass(frozen=True, slots=True)
class CleanerConfig:
    """The broker's ``log.cleaner.*``. Sizes in bytes, rates in bytes a second; all workers together."""

    enable: bool
    threads: int
    dedupe_buffer_size: int
    io_buffer_load_factor: float
    io_buffer_size: int
    io_max_bytes_per_second: float
    backoff_ms: int


@dataclass(frozen=True, slots=True)
class LogManagerConfig:
    """What all logs of a broker are told of ``server.properties``. Times in milliseconds.

    The keys and their defaults stand in ``kafkalite.broker.config_keys``, and only there.
    """

    log_defaults: LogConfig
    """The settings of topics that have none of their own."""
    cleaner: CleanerConfig
    retention_check_interval_ms: int
    flush_scheduler_interval_ms: int
    flush_offset_checkpoint_interval_ms: int
    flush_start_offset_checkpoint_interval_ms: int
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int


def log_manager_config(broker_values: Mapping[str, ConfigValue]) -> LogManagerConfig:
    """The settings of all logs in ``broker_values``: parsed, by broker key, complete. Raises :class:`ConfigError`."""
    return LogManagerConfig(
        log_config(broker_values, {}),
        CleanerConfig(
            enable=bool(broker_values["log.cleaner.enable"]),
            threads=integer(broker_values, "log.cleaner.threads"),
            dedupe_buffer_size=integer(broker_values, "log.cleaner.dedupe.buffer.size"),
            io_buffer_load_factor=number(broker_values, "log.cleaner.io.buffer.load.factor"),
            io_buffer_size=integer(broker_values, "log.cleaner.io.buffer.size"),
            io_max_bytes_per_second=number(broker_values, "log.cleaner.io.max.bytes.per.second"),
            backoff_ms=integer(broker_values, "log.cleaner.backoff.ms"),
        ),
        retention_check_interval_ms=integer(broker_values, "log.retention.check.interval.ms"),
        flush_scheduler_interval_ms=integer(broker_values, "log.flush.scheduler.interval.ms"),
        flush_offset_checkpoint_interval_ms=integer(broker_values, "log.flush.offset.checkpoint.interval.ms"),
        flush_start_offset_checkpoint_interval_ms=integer(
            broker_values, "log.flush.start.offset.checkpoint.interval.ms"
        ),
        producer_id_expiration_ms=integer(broker_values, "producer.id.expiration.ms"),
        producer_id_expiration_check_interval_ms=integer(broker_values, "producer.id.expiration.check.interval.ms"),
    )

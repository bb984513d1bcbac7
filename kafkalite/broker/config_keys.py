"""Every key of ``server.properties`` that kafkalite acts on: Kafka 3.9's names, types, defaults and limits.

Answers to: ``kafka.server.KafkaConfig.configDef`` and ``org.apache.kafka.server.config.*Configs``. Pure.

``BROKER_CONFIGS`` is the table. Keys that Kafka knows and kafkalite does not act on are recognised by
:func:`is_known_elsewhere`: they are accepted (one line of the log names them), so that a configuration
written for Kafka starts a kafkalite broker; those that ask for security are refused (``unserved_security_keys.py``).
The broker warns of any other key. Cluster-wide and per-broker keys may be
changed in ``/config/brokers`` while the broker runs; all others are read at the start only.
"""

from __future__ import annotations

import re
import sys
from typing import Final, Unpack

from kafkalite.broker.authorizer_keys import AUTHORIZER_CLASS, AUTHORIZER_CONFIGS
from kafkalite.broker.coordinator_keys import GROUPS, TRANSACTIONS
from kafkalite.broker.sasl_keys import SASL_CONFIGS
from kafkalite.broker.tls_keys import PASSWORD_KEYS, TLS_KEYS
from kafkalite.broker.unserved_security_keys import UNSERVED_SECURITY_CONFIGS
from kafkalite.broker.unused_keys import UNUSED_CONFIGS
from kafkalite.broker.zookeeper_keys import ZOOKEEPER_KEYS
from kafkalite.cluster.model import SECURITY_PROTOCOLS
from kafkalite.common.config import (
    MAX_INT,
    MAX_LONG,
    ConfigDef,
    ConfigKey,
    ConfigType,
    ConfigValue,
    KeyLimits,
    KeyOptions,
    Update,
)

_BOOL, _STR, _INT, _LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG
_DOUBLE, _LIST, _CLASS, _SECRET = ConfigType.DOUBLE, ConfigType.LIST, ConfigType.CLASS, ConfigType.PASSWORD


def _key(
    name: str, kind: ConfigType, default: ConfigValue, doc: str, low: float | None = None, **more: Unpack[KeyOptions]
) -> ConfigKey:
    return ConfigKey(name, kind, default, doc, minimum=low, **more)


def _live(
    name: str, kind: ConfigType, default: ConfigValue, doc: str, low: float | None = None, **more: Unpack[KeyLimits]
) -> ConfigKey:
    return ConfigKey(name, kind, default, doc, minimum=low, update=Update.CLUSTER_WIDE, **more)


_GZIP_LEVELS = "1 to 9, or -1"


def _gzip_level(value: ConfigValue) -> str | None:
    assert isinstance(value, int)
    return None if value == -1 or 1 <= value <= 9 else _GZIP_LEVELS


_PROTOCOL_VERSIONS = "a version of Kafka up to 3.9, such as 2.8 or 3.9-IV0"


def _protocol_version(value: ConfigValue) -> str | None:
    match = re.fullmatch(r"(\d+)\.(\d+)(\.\d+)*(-IV\d+)?", str(value))
    if match is not None and (0, 8) <= (int(match[1]), int(match[2])) <= (3, 9):
        return None
    return _PROTOCOL_VERSIONS


_METRICS_LISTENERS = "http://host:port and https://host:port"


def _metrics_listener(value: ConfigValue) -> str | None:
    if value is None or re.fullmatch(r"https?://([^\s:/\[\]]+|\[[0-9a-fA-F:]+\]):\d{1,5}/?", str(value)):
        return None
    return _METRICS_LISTENERS


_IDENTITY = (
    _key("broker.id", _INT, -1, "Id of this broker; -1 takes one from ZooKeeper, above reserved.broker.max.id.", -1),
    _key("broker.id.generation.enable", _BOOL, True, "Whether an id may be taken from ZooKeeper."),
    _key("reserved.broker.max.id", _INT, 1000, "Greatest id that may be given in broker.id.", 0),
    _key("broker.rack", _STR, None, "Rack of this broker, for rack-aware assignment and for reading nearby."),
    _key(
        "inter.broker.protocol.version",
        _STR,
        "3.9-IV0",
        "The versions of control requests are those that Kafka chooses for it, at least those of 2.8.",
        check=_protocol_version,
        allowed=_PROTOCOL_VERSIONS,
    ),
)

_LISTENERS = (
    _key(
        "listeners",
        _STR,
        "PLAINTEXT://:9092",
        "Where this broker listens, NAME://host:port[,…]; port 0 takes a free one.",
        update=Update.PER_BROKER,
    ),
    _key(
        "advertised.listeners",
        _STR,
        None,
        "Where clients reach this broker; default: listeners.",
        update=Update.PER_BROKER,
    ),
    _key(
        "listener.security.protocol.map",
        _STR,
        ",".join(f"{name}:{name}" for name in ("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT")),
        "Security protocol of each listener name, NAME:PROTOCOL[,…].",
        update=Update.PER_BROKER,
    ),
    _key("inter.broker.listener.name", _STR, None, "Listener on which brokers fetch from each other."),
    _key(
        "security.inter.broker.protocol",
        _STR,
        "PLAINTEXT",
        "Security protocol of the listener between brokers, if inter.broker.listener.name does not name that listener.",
        choices=SECURITY_PROTOCOLS,
    ),
    _key(
        "control.plane.listener.name",
        _STR,
        None,
        "Listener for the controller's requests to brokers; default: the listener between brokers.",
    ),
    _key(
        "metrics.listener",
        _STR,
        None,
        "Where Prometheus finds this broker's metrics: http://host:port for all who reach it, https://host:port for "
        "those who log in, port 0 takes a free one; default: nowhere.",
        check=_metrics_listener,
        allowed=_METRICS_LISTENERS,
        is_own=True,
    ),
    _key(
        "log.format",
        _STR,
        "text",
        "The lines of the broker's log: text, or json, one object a line with time, level, logger, message, exception.",
        choices=("text", "json"),
        is_own=True,
    ),
    _key("socket.send.buffer.bytes", _INT, 102400, "SO_SNDBUF of client connections; -1 leaves it to the system.", -1),
    _key(
        "socket.receive.buffer.bytes", _INT, 102400, "SO_RCVBUF of client connections; -1 leaves it to the system.", -1
    ),
    _key("socket.request.max.bytes", _INT, 104857600, "Greatest size of a request in bytes.", 1),
    _key("socket.listen.backlog.size", _INT, 50, "Connections that may wait to be accepted.", 1),
    _live("max.connections", _INT, MAX_INT, "Greatest number of client connections; also for single listeners.", 0),
    _live(
        "max.connection.creation.rate",
        _INT,
        MAX_INT,
        "Greatest number of new connections a second; also for single listeners.",
        0,
    ),
    _live("max.connections.per.ip", _INT, MAX_INT, "Greatest number of connections of one address.", 0),
    _live(
        "max.connections.per.ip.overrides",
        _STR,
        "",
        "Greatest number of connections of single addresses, address:number[,…].",
    ),
    _key(
        "connections.max.idle.ms",
        _LONG,
        600000,
        "A client connection that is idle for so long is closed; -1: never.",
        -1,
    ),
    _key("queued.max.requests", _INT, 500, "Outstanding requests at which reading from clients pauses.", 1),
    _key(
        "queued.max.request.bytes",
        _LONG,
        -1,
        "Bytes of outstanding requests at which reading from clients pauses; -1: kafkalite chooses.",
        -1,
    ),
    _key("request.timeout.ms", _INT, 30000, "How long a broker's own requests to others may take.", 1),
    _live("background.threads", _INT, 10, "Threads for blocking work: fsync, recovery, cold reads.", 1),
    _live("num.io.threads", _INT, 8, "Accepted for compatibility; one reactor serves requests.", 1),
    _live("num.network.threads", _INT, 3, "Accepted for compatibility; one reactor serves the network.", 1),
)

_TOPICS = (
    _key("auto.create.topics.enable", _BOOL, True, "Whether asking for an unknown topic's metadata creates it."),
    _key("delete.topic.enable", _BOOL, True, "Whether topics may be deleted."),
    _key("num.partitions", _INT, 1, "Partitions of a topic that does not say how many.", 1),
    _key("default.replication.factor", _INT, 1, "Replicas of a topic that does not say how many.", 1),
    _live("min.insync.replicas", _INT, 1, "Replicas that must be in sync for acks=all to be accepted.", 1),
    _live(
        "unclean.leader.election.enable",
        _BOOL,
        False,
        "Whether a replica out of sync may lead, at the price of lost records.",
    ),
    _live("message.max.bytes", _INT, 1048588, "Greatest size of a record batch in bytes.", 0),
    _live(
        "compression.type",
        _STR,
        "producer",
        "Compression of stored batches; producer keeps what came.",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    _live(
        "compression.gzip.level",
        _INT,
        -1,
        "Level of gzip if this broker compresses.",
        check=_gzip_level,
        allowed=_GZIP_LEVELS,
    ),
    _live("compression.lz4.level", _INT, 9, "Level of lz4 if this broker compresses.", 1, maximum=17),
    _live("compression.zstd.level", _INT, 3, "Level of zstd if this broker compresses.", -131072, maximum=22),
)

_LOG = (
    _key("log.dir", _STR, "/tmp/kafka-logs", "The log directory, where log.dirs does not name several."),
    _key("log.dirs", _STR, None, "Log directories, separated by commas; default: log.dir."),
    _live("log.segment.bytes", _INT, 1 << 30, "Size at which a segment is rolled.", 14),
    _live("log.roll.ms", _LONG, None, "Age at which a segment is rolled; default: log.roll.hours.", 1),
    _key("log.roll.hours", _INT, 168, "Age in hours at which a segment is rolled, if log.roll.ms is not set.", 1),
    _live(
        "log.roll.jitter.ms",
        _LONG,
        None,
        "Largest random share taken off log.roll.ms; default: log.roll.jitter.hours.",
        0,
    ),
    _key(
        "log.roll.jitter.hours",
        _INT,
        0,
        "Largest random share in hours taken off log.roll.ms, if log.roll.jitter.ms is not set.",
        0,
    ),
    _live(
        "log.retention.ms",
        _LONG,
        None,
        "Age at which segments are deleted, -1 for never; default: log.retention.minutes.",
        -1,
    ),
    _key(
        "log.retention.minutes",
        _INT,
        None,
        "Minutes after which segments are deleted, if log.retention.ms is not set; default: log.retention.hours.",
        -1,
    ),
    _key(
        "log.retention.hours",
        _INT,
        168,
        "Hours after which segments are deleted, if log.retention.ms and log.retention.minutes are not set.",
        -1,
    ),
    _live(
        "log.retention.bytes",
        _LONG,
        -1,
        "Size of a partition above which its oldest segments are deleted; -1: any.",
        -1,
    ),
    _key("log.retention.check.interval.ms", _LONG, 300000, "How often retention is looked at.", 1),
    _live("log.cleanup.policy", _LIST, ("delete",), "What is done with old segments.", choices=("compact", "delete")),
    _live("log.index.size.max.bytes", _INT, 10485760, "Greatest size of an index file.", 4),
    _live("log.index.interval.bytes", _INT, 4096, "Bytes between two entries of the offset index.", 0),
    _live("log.flush.interval.messages", _LONG, MAX_LONG, "Records after which a partition is flushed to disk.", 1),
    _live(
        "log.flush.interval.ms", _LONG, None, "Age of unflushed records; default: log.flush.scheduler.interval.ms.", 0
    ),
    _key("log.flush.scheduler.interval.ms", _LONG, MAX_LONG, "How often the age of unflushed records is checked.", 1),
    _key("log.flush.offset.checkpoint.interval.ms", _INT, 60000, "How often recovery points are written.", 0),
    _key("log.flush.start.offset.checkpoint.interval.ms", _INT, 60000, "How often log start offsets are written.", 0),
    _live("log.segment.delete.delay.ms", _LONG, 60000, "How long a deleted file stays under its new name.", 0),
    _live("log.preallocate", _BOOL, False, "Whether a new segment's file gets its full size at once."),
    _live("num.recovery.threads.per.data.dir", _INT, 1, "Threads that load and recover each log directory.", 1),
    _live(
        "log.message.timestamp.type",
        _STR,
        "CreateTime",
        "Whose clock stamps records: the producer's or the broker's.",
        choices=("CreateTime", "LogAppendTime"),
    ),
    _live(
        "log.message.timestamp.difference.max.ms",
        _LONG,
        MAX_LONG,
        "Old form of log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms.",
        0,
    ),
    _live(
        "log.message.timestamp.before.max.ms", _LONG, MAX_LONG, "How far in the past a record's timestamp may lie.", 0
    ),
    _live(
        "log.message.timestamp.after.max.ms", _LONG, MAX_LONG, "How far in the future a record's timestamp may lie.", 0
    ),
    _live("log.message.downconversion.enable", _BOOL, True, "Whether clients before 0.11 may fetch."),
    _key("log.message.format.version", _STR, "3.0-IV1", "Accepted for compatibility; records are stored in format 2."),
    _key(
        "log.dir.failure.timeout.ms",
        _LONG,
        30000,
        "Accepted for compatibility; a failed directory is reported at once.",
        1,
    ),
    _live(
        "producer.id.expiration.ms", _INT, 86400000, "How long the sequence numbers of a silent producer are kept.", 1
    ),
    _key(
        "producer.id.expiration.check.interval.ms",
        _INT,
        600000,
        "How often producers past producer.id.expiration.ms are looked for.",
        1,
        is_own=True,
    ),
    _key("log.cleaner.enable", _BOOL, True, "Whether compacted topics are compacted."),
    _live("log.cleaner.threads", _INT, 1, "Processes that compact, begun when they are needed.", 0),
    _live(
        "log.cleaner.io.max.bytes.per.second",
        _DOUBLE,
        sys.float_info.max,
        "Greatest rate at which the processes that compact read and write, together.",
    ),
    _live(
        "log.cleaner.dedupe.buffer.size",
        _LONG,
        134217728,
        "Memory for the tables of keys of the processes that compact, 160 bytes a key.",
    ),
    _live(
        "log.cleaner.io.buffer.size",
        _INT,
        524288,
        "Buffers of the processes that compact, for reading and writing, together.",
        0,
    ),
    _live(
        "log.cleaner.io.buffer.load.factor",
        _DOUBLE,
        0.9,
        "How full a table of keys may get during compaction, as a share of its size.",
    ),
    _live("log.cleaner.backoff.ms", _LONG, 15000, "How long compaction pauses if nothing is to be compacted.", 0),
    _live(
        "log.cleaner.min.cleanable.ratio",
        _DOUBLE,
        0.5,
        "Share of uncompacted bytes from which a log is compacted.",
        0,
        maximum=1,
    ),
    _live("log.cleaner.delete.retention.ms", _LONG, 86400000, "How long tombstones are kept.", 0),
    _live("log.cleaner.min.compaction.lag.ms", _LONG, 0, "Age below which a record is not compacted.", 0),
    _live("log.cleaner.max.compaction.lag.ms", _LONG, MAX_LONG, "Age at which a record is due for compaction.", 1),
)

_REPLICATION = (
    _key("replica.lag.time.max.ms", _LONG, 30000, "A follower that has not caught up for so long leaves the ISR.", 1),
    _key("replica.socket.timeout.ms", _INT, 30000, "How long a follower's fetch may take.", 1),
    _key("replica.socket.receive.buffer.bytes", _INT, 65536, "SO_RCVBUF of followers' connections.", -1),
    _key("replica.fetch.max.bytes", _INT, 1048576, "Bytes of one partition that a follower asks for at a time.", 0),
    _key("replica.fetch.wait.max.ms", _INT, 500, "How long a leader may let a follower wait for records.", 0),
    _key("replica.fetch.backoff.ms", _INT, 1000, "How long a follower rests after a failed fetch.", 0),
    _key("replica.fetch.min.bytes", _INT, 1, "Bytes for which a leader waits, at most replica.fetch.wait.max.ms.", 0),
    _key("replica.fetch.response.max.bytes", _INT, 10485760, "Bytes that a follower asks for at a time.", 0),
    _live("num.replica.fetchers", _INT, 1, "Fetchers for each leading broker.", 1),
    _key("replica.high.watermark.checkpoint.interval.ms", _LONG, 5000, "How often high watermarks are written.", 1),
    _key(
        "replica.selector.class", _STR, None, "Which replica a consumer is sent to; RackAwareReplicaSelector or none."
    ),
    _key("fetch.max.bytes", _INT, 57671680, "Greatest size of an answer to a fetch.", 1024),
    _key("max.incremental.fetch.session.cache.slots", _INT, 1000, "Fetch sessions that are kept.", 0),
    _key(
        "fetch.purgatory.purge.interval.requests", _INT, 1000, "Accepted for compatibility; waits are removed at once."
    ),
    _key(
        "producer.purgatory.purge.interval.requests",
        _INT,
        1000,
        "Accepted for compatibility; waits are removed at once.",
    ),
    _key(
        "delete.records.purgatory.purge.interval.requests",
        _INT,
        1,
        "Accepted for compatibility; waits are removed at once.",
    ),
)

_QUOTAS = (
    _live(
        "leader.replication.throttled.rate",
        _LONG,
        MAX_LONG,
        "Bytes per second that this broker sends to throttled replicas that are not in sync.",
        0,
        is_dynamic_only=True,
    ),
    _live(
        "follower.replication.throttled.rate",
        _LONG,
        MAX_LONG,
        "Bytes per second that this broker fetches for its own throttled replicas that are not in sync.",
        0,
        is_dynamic_only=True,
    ),
    _live(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        _LONG,
        MAX_LONG,
        "Bytes per second that this broker copies between its log directories.",
        0,
        is_dynamic_only=True,
    ),
    _key("quota.window.num", _INT, 11, "Windows over which the rates of clients that have a quota are measured.", 1),
    _key("quota.window.size.seconds", _INT, 1, "Length of a window of quota.window.num.", 1),
    _key(
        "controller.quota.window.num",
        _INT,
        11,
        "Windows whose mutations a client with controller_mutation_rate may make at once.",
        1,
    ),
    _key("controller.quota.window.size.seconds", _INT, 1, "Length of a window of controller.quota.window.num.", 1),
    _key("replication.quota.window.num", _INT, 11, "Windows over which the two rates of replication are measured.", 1),
    _key("replication.quota.window.size.seconds", _INT, 1, "Length of a window of replication.quota.window.num.", 1),
    _key(
        "alter.log.dirs.replication.quota.window.num",
        _INT,
        11,
        "Windows over which the rate of copies between log directories is measured.",
        1,
    ),
    _key(
        "alter.log.dirs.replication.quota.window.size.seconds",
        _INT,
        1,
        "Length of a window of alter.log.dirs.replication.quota.window.num.",
        1,
    ),
)

_CONTROLLER = (
    _key("controller.socket.timeout.ms", _INT, 30000, "How long the controller's requests to brokers may take.", 1),
    _key("controlled.shutdown.enable", _BOOL, True, "Whether a broker hands its leaderships on before it stops."),
    _key(
        "controlled.shutdown.max.retries",
        _INT,
        3,
        "How often a broker that stops asks the controller to take its leaderships.",
        0,
    ),
    _key(
        "controlled.shutdown.retry.backoff.ms",
        _LONG,
        5000,
        "How long a broker that stops waits between two requests to the controller.",
        0,
    ),
    _key(
        "auto.leader.rebalance.enable", _BOOL, True, "Whether leadership is given back to preferred replicas by itself."
    ),
    _key(
        "leader.imbalance.per.broker.percentage",
        _INT,
        10,
        "Percentage of a broker's partitions led elsewhere from which leaderships are given back to it.",
        0,
    ),
    _key(
        "leader.imbalance.check.interval.seconds",
        _LONG,
        300,
        "How often the share of leaderships away from their preferred replicas is checked.",
        1,
    ),
    _key("create.topic.policy.class.name", _CLASS, None, "Accepted for compatibility; policies are Java classes."),
    _key("alter.config.policy.class.name", _CLASS, None, "Accepted for compatibility; policies are Java classes."),
)

BROKER_CONFIGS: Final = ConfigDef(
    (
        *_IDENTITY,
        *ZOOKEEPER_KEYS,
        *_LISTENERS,
        *TLS_KEYS,
        *PASSWORD_KEYS,
        *_TOPICS,
        *_LOG,
        *_REPLICATION,
        *_QUOTAS,
        *_CONTROLLER,
        *GROUPS,
        *TRANSACTIONS,
        *SASL_CONFIGS.keys.values(),
        AUTHORIZER_CLASS,
    )
)

KNOWN_CONFIGS: Final = ConfigDef(
    (*BROKER_CONFIGS.keys.values(), *UNSERVED_SECURITY_CONFIGS.keys.values(), *UNUSED_CONFIGS.keys.values())
)
"""All keys of Kafka 3.9, and the few that only kafkalite has."""

LIMITS_OF_LISTENERS: Final = ("max.connections", "max.connection.creation.rate")
"""Limits that may be set for a single listener, too."""

_ELSEWHERE_PREFIXES = (
    "controller.quorum.", "group.consumer.", "group.coordinator.", "group.share.", "kafka.metrics.", "listener.name.",
    "metadata.log.", "metrics.", "offsets.", "remote.log.", "rlmm.config.", "rsm.config.",
    "share.", "telemetry.", "transaction.state.log.", "unstable.", "zookeeper.metadata.",
)  # fmt: skip
_ELSEWHERE = frozenset(
    (
        "advertised.host.name", "advertised.port", "host.name",
        "log.initial.task.delay.ms", "port", "server.max.startup.time.ms",
        "unclean.leader.election.interval.ms", "zookeeper.sync.time.ms",
    )
)  # fmt: skip
"""Keys of other releases, of plug-ins, and internal ones."""


def is_known_elsewhere(name: str) -> bool:
    """Whether Kafka knows ``name`` although kafkalite has no use for it."""
    return (
        name in UNUSED_CONFIGS
        or name in UNSERVED_SECURITY_CONFIGS
        or name in AUTHORIZER_CONFIGS
        or name in _ELSEWHERE
        or name.startswith(_ELSEWHERE_PREFIXES)
    )

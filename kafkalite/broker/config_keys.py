"""Every key of ``server.properties`` that kafkalite acts on: Kafka 3.9's names, types, defaults and limits.

Answers to: ``kafka.server.KafkaConfig.configDef`` and ``org.apache.kafka.server.config.*Configs``. Pure.

``BROKER_CONFIGS`` is the table. Keys that Kafka knows and kafkalite does not act on are recognised by
:func:`is_known_elsewhere`: they are accepted (one line of the log names them), so that a configuration
written for Kafka starts a kafkalite broker. The broker warns of any other key. Cluster-wide and per-broker keys may be
changed in ``/config/brokers`` while the broker runs; all others are read at the start only.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from kafkalite.broker.coordinator_keys import GROUPS, TRANSACTIONS
from kafkalite.broker.unused_keys import UNUSED_CONFIGS
from kafkalite.common.config import ConfigDef, ConfigKey, ConfigType, Update

MAX_INT: Final = (1 << 31) - 1
MAX_LONG: Final = (1 << 63) - 1

_BOOL, _STR, _INT, _LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG
_DOUBLE, _LIST, _CLASS, _SECRET = ConfigType.DOUBLE, ConfigType.LIST, ConfigType.CLASS, ConfigType.PASSWORD
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def _key(name: str, kind: ConfigType, default: Any, doc: str, low: float | None = None, **more: Any) -> ConfigKey:
    return ConfigKey(name, kind, default, doc, minimum=low, **more)


def _live(name: str, kind: ConfigType, default: Any, doc: str, low: float | None = None, **more: Any) -> ConfigKey:
    return ConfigKey(name, kind, default, doc, minimum=low, update=Update.CLUSTER_WIDE, **more)


def _gzip_level(value: Any) -> str | None:
    return None if value == -1 or 1 <= value <= 9 else "1 to 9, or -1"


_IDENTITY = (
    _key("broker.id", _INT, -1, "Id of this broker; -1 takes one from ZooKeeper, above reserved.broker.max.id.", -1),
    _key("broker.id.generation.enable", _BOOL, True, "Whether an id may be taken from ZooKeeper."),
    _key("reserved.broker.max.id", _INT, 1000, "Greatest id that may be given in broker.id.", 0),
    _key("broker.rack", _STR, None, "Rack of this broker, for rack-aware assignment and for reading nearby."),
    _key("inter.broker.protocol.version", _STR, "3.9-IV0", "Accepted for compatibility; brokers speak 3.9's versions."),
)

_ZOOKEEPER = (
    _key("zookeeper.connect", _STR, None, "Hosts of ZooKeeper, host:port[,host:port…][/chroot]."),
    _key("zookeeper.session.timeout.ms", _INT, 18000, "How long ZooKeeper keeps the session of a silent broker.", 1),
    _key(
        "zookeeper.connection.timeout.ms",
        _INT,
        None,
        "How long a start waits for ZooKeeper; default: the session's.",
        1,
    ),
    _key(
        "zookeeper.set.acl", _BOOL, False, "Whether znodes are created so that only authenticated brokers write them."
    ),
    _key(
        "zookeeper.auth.digest", _SECRET, None, "user:password for ZooKeeper's digest scheme (where Kafka takes JAAS)."
    ),
    _key("zookeeper.max.in.flight.requests", _INT, 10, "Accepted for compatibility; requests are pipelined freely.", 1),
    _key(
        "zookeeper.session.guardian.enable",
        _BOOL,
        True,
        "Whether a helper process ends a dead broker's session at once.",
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
        "Its security protocol, where it is not named.",
        choices=_PROTOCOLS,
    ),
    _key(
        "control.plane.listener.name",
        _STR,
        None,
        "Listener between controller and brokers; CONTROLPLANE, added when absent.",
    ),
    _key("socket.send.buffer.bytes", _INT, 102400, "SO_SNDBUF of client connections; -1 leaves it to the system.", -1),
    _key(
        "socket.receive.buffer.bytes", _INT, 102400, "SO_RCVBUF of client connections; -1 leaves it to the system.", -1
    ),
    _key("socket.request.max.bytes", _INT, 104857600, "Greatest size of a request in bytes.", 1),
    _key("socket.listen.backlog.size", _INT, 50, "Connections that may wait to be accepted.", 1),
    _live("max.connections", _INT, MAX_INT, "Greatest number of client connections.", 0),
    _live("max.connections.per.ip", _INT, MAX_INT, "Greatest number of connections of one address.", 0),
    _live("max.connections.per.ip.overrides", _STR, "", "Numbers for single addresses, host:number[,…]."),
    _key(
        "connections.max.idle.ms",
        _LONG,
        600000,
        "A client connection that is idle for so long is closed; -1: never.",
        -1,
    ),
    _key("queued.max.requests", _INT, 500, "Requests under way at which reading from clients pauses.", 1),
    _key(
        "queued.max.request.bytes",
        _LONG,
        -1,
        "Bytes of requests under way at which reading pauses; -1: chosen by us.",
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
    _live("compression.gzip.level", _INT, -1, "Level where gzip is applied here.", check=_gzip_level),
    _live("compression.lz4.level", _INT, 9, "Level where lz4 is applied here.", 1, maximum=17),
    _live("compression.zstd.level", _INT, 3, "Level where zstd is applied here.", -131072, maximum=22),
)

_LOG = (
    _key("log.dir", _STR, "/tmp/kafka-logs", "The log directory, where log.dirs does not name several."),
    _key("log.dirs", _STR, None, "Log directories, separated by commas; default: log.dir."),
    _live("log.segment.bytes", _INT, 1 << 30, "Size at which a segment is rolled.", 14),
    _live("log.roll.ms", _LONG, None, "Age at which a segment is rolled; default: log.roll.hours.", 1),
    _key("log.roll.hours", _INT, 168, "The same in hours.", 1),
    _live(
        "log.roll.jitter.ms",
        _LONG,
        None,
        "Most that is taken from that age at random; default: log.roll.jitter.hours.",
        0,
    ),
    _key("log.roll.jitter.hours", _INT, 0, "The same in hours.", 0),
    _live(
        "log.retention.ms",
        _LONG,
        None,
        "Age at which segments are deleted, -1 for never; default: log.retention.minutes.",
        -1,
    ),
    _key("log.retention.minutes", _INT, None, "The same in minutes; default: log.retention.hours.", -1),
    _key("log.retention.hours", _INT, 168, "The same in hours.", -1),
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
    _key("log.flush.scheduler.interval.ms", _LONG, MAX_LONG, "How often that age is looked at.", 1),
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
    _live("log.message.timestamp.difference.max.ms", _LONG, MAX_LONG, "Old form of the next two.", 0),
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
    _key("producer.id.expiration.check.interval.ms", _INT, 600000, "How often that is looked at.", 1),
    _key("log.cleaner.enable", _BOOL, True, "Whether compacted topics are compacted."),
    _live("log.cleaner.threads", _INT, 1, "Processes that compact, begun when they are needed.", 0),
    _live(
        "log.cleaner.io.max.bytes.per.second",
        _DOUBLE,
        sys.float_info.max,
        "Their greatest rate of reading and writing, together.",
    ),
    _live("log.cleaner.dedupe.buffer.size", _LONG, 134217728, "Memory for their tables of keys, 160 bytes a key."),
    _live("log.cleaner.io.buffer.size", _INT, 524288, "Their buffers for reading and writing, together.", 0),
    _live("log.cleaner.io.buffer.load.factor", _DOUBLE, 0.9, "How full a table of keys may get."),
    _live("log.cleaner.backoff.ms", _LONG, 15000, "How long they rest when nothing is to be compacted.", 0),
    _live(
        "log.cleaner.min.cleanable.ratio",
        _DOUBLE,
        0.5,
        "Share of uncompacted bytes from which it begins.",
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
    _key("replica.fetch.min.bytes", _INT, 1, "Bytes for which a leader waits that long.", 0),
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
    _key("replication.quota.window.num", _INT, 11, "Windows over which the two rates of replication are measured.", 1),
    _key("replication.quota.window.size.seconds", _INT, 1, "Length of such a window.", 1),
    _key(
        "alter.log.dirs.replication.quota.window.num",
        _INT,
        11,
        "Windows over which the rate of copies between log directories is measured.",
        1,
    ),
    _key("alter.log.dirs.replication.quota.window.size.seconds", _INT, 1, "Length of such a window.", 1),
)

_CONTROLLER = (
    _key("controller.socket.timeout.ms", _INT, 30000, "How long the controller's requests to brokers may take.", 1),
    _key("controlled.shutdown.enable", _BOOL, True, "Whether a broker hands its leaderships on before it stops."),
    _key("controlled.shutdown.max.retries", _INT, 3, "How often it asks.", 0),
    _key("controlled.shutdown.retry.backoff.ms", _LONG, 5000, "How long it rests between.", 0),
    _key(
        "auto.leader.rebalance.enable", _BOOL, True, "Whether leadership is given back to preferred replicas by itself."
    ),
    _key(
        "leader.imbalance.per.broker.percentage",
        _INT,
        10,
        "Share of leaderships away from a broker from which that happens.",
        0,
    ),
    _key("leader.imbalance.check.interval.seconds", _LONG, 300, "How often that is looked at.", 1),
    _key("create.topic.policy.class.name", _CLASS, None, "Accepted for compatibility; policies are Java classes."),
    _key("alter.config.policy.class.name", _CLASS, None, "Accepted for compatibility; policies are Java classes."),
)

BROKER_CONFIGS: Final = ConfigDef(
    (
        *_IDENTITY,
        *_ZOOKEEPER,
        *_LISTENERS,
        *_TOPICS,
        *_LOG,
        *_REPLICATION,
        *_QUOTAS,
        *_CONTROLLER,
        *GROUPS,
        *TRANSACTIONS,
    )
)

KNOWN_CONFIGS: Final = ConfigDef((*BROKER_CONFIGS.keys.values(), *UNUSED_CONFIGS.keys.values()))
"""All keys of Kafka 3.9, and the few that only kafkalite has."""

_ELSEWHERE_PREFIXES = (
    "controller.quorum.", "group.consumer.", "group.coordinator.", "group.share.", "kafka.metrics.", "listener.name.",
    "metadata.log.", "metrics.", "offsets.", "quota.", "remote.log.", "rlmm.config.", "rsm.config.", "sasl.",
    "share.", "ssl.", "telemetry.", "transaction.state.log.", "unstable.", "zookeeper.ssl.", "zookeeper.metadata.",
)  # fmt: skip
_ELSEWHERE = frozenset(
    (
        "advertised.host.name", "advertised.port", "allow.everyone.if.no.acl.found", "host.name",
        "log.initial.task.delay.ms", "port", "server.max.startup.time.ms", "super.users",
        "unclean.leader.election.interval.ms", "zookeeper.sync.time.ms",
    )
)  # fmt: skip
"""Keys of other releases, of plug-ins, and internal ones."""


def is_known_elsewhere(name: str) -> bool:
    """Whether Kafka knows ``name`` although kafkalite has no use for it."""
    return name in UNUSED_CONFIGS or name in _ELSEWHERE or name.startswith(_ELSEWHERE_PREFIXES)

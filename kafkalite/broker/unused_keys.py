"""Keys of ``server.properties`` that Kafka 3.9 knows and kafkalite does not act on: names, types, defaults and limits.

Answers to: ``kafka.server.KafkaConfig.configDef``. Pure.

They are described and checked as in Kafka, because tools read a broker's whole configuration and write it back. A wrong
value is refused although kafkalite does not use it.
"""

from __future__ import annotations

from typing import Final, Unpack

from kafkalite.common.config import MAX_INT, MAX_LONG, ConfigDef, ConfigKey, ConfigType, ConfigValue, KeyOptions, Update

_BOOL, _STR, _INT, _SHORT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.SHORT
_LONG, _DOUBLE, _LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST
_CLASS, _SECRET = ConfigType.CLASS, ConfigType.PASSWORD
_DOC: Final = "Known to Kafka; kafkalite has no use for it."


def _key(
    name: str, kind: ConfigType, default: ConfigValue, low: float | None = None, **more: Unpack[KeyOptions]
) -> ConfigKey:
    return ConfigKey(name, kind, default, _DOC, minimum=low, **more)


UNUSED_CONFIGS: Final = ConfigDef(
    (
        _key("auto.include.jmx.reporter", _BOOL, True),
        _key("broker.heartbeat.interval.ms", _INT, 2000),
        _key("broker.session.timeout.ms", _INT, 9000),
        _key("controller.listener.names", _STR, None),
        _key("controller.quorum.append.linger.ms", _INT, 25),
        _key("controller.quorum.bootstrap.servers", _LIST, ()),
        _key("controller.quorum.election.backoff.max.ms", _INT, 1000),
        _key("controller.quorum.election.timeout.ms", _INT, 1000),
        _key("controller.quorum.fetch.timeout.ms", _INT, 2000),
        _key("controller.quorum.request.timeout.ms", _INT, 2000),
        _key("controller.quorum.retry.backoff.ms", _INT, 20),
        _key("controller.quorum.voters", _LIST, ()),
        _key("early.start.listeners", _STR, None),
        _key("eligible.leader.replicas.enable", _BOOL, False),
        _key(
            "group.consumer.assignors",
            _LIST,
            (
                "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
                "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
            ),
        ),
        _key("group.consumer.heartbeat.interval.ms", _INT, 5000, 1),
        _key("group.consumer.max.heartbeat.interval.ms", _INT, 15000, 1),
        _key("group.consumer.max.session.timeout.ms", _INT, 60000, 1),
        _key("group.consumer.max.size", _INT, MAX_INT, 1),
        _key("group.consumer.min.heartbeat.interval.ms", _INT, 5000, 1),
        _key("group.consumer.min.session.timeout.ms", _INT, 45000, 1),
        _key("group.consumer.session.timeout.ms", _INT, 45000, 1),
        _key("group.coordinator.append.linger.ms", _INT, 10, 0),
        _key(
            "group.coordinator.rebalance.protocols",
            _LIST,
            ("classic",),
            choices=("consumer", "classic", "share", "unknown"),
        ),
        _key("group.coordinator.threads", _INT, 1, 1),
        _key("group.share.delivery.count.limit", _INT, 5, 2, maximum=10),
        _key("group.share.heartbeat.interval.ms", _INT, 5000, 1),
        _key("group.share.max.groups", _SHORT, 10, 1, maximum=100),
        _key("group.share.max.heartbeat.interval.ms", _INT, 15000, 1),
        _key("group.share.max.record.lock.duration.ms", _INT, 60000, 30000, maximum=3600000),
        _key("group.share.max.session.timeout.ms", _INT, 60000, 1),
        _key("group.share.max.size", _SHORT, 200, 10, maximum=1000),
        _key("group.share.min.heartbeat.interval.ms", _INT, 5000, 1),
        _key("group.share.min.record.lock.duration.ms", _INT, 15000, 1000, maximum=30000),
        _key("group.share.min.session.timeout.ms", _INT, 45000, 1),
        _key("group.share.partition.max.record.locks", _INT, 200, 100, maximum=10000),
        _key("group.share.record.lock.duration.ms", _INT, 30000, 1000, maximum=60000),
        _key("group.share.session.timeout.ms", _INT, 45000, 1),
        _key("initial.broker.registration.timeout.ms", _INT, 60000),
        _key("kafka.metrics.polling.interval.secs", _INT, 10, 1),
        _key("kafka.metrics.reporters", _LIST, ()),
        _key("log.local.retention.bytes", _LONG, -2, -2, update=Update.CLUSTER_WIDE),
        _key("log.local.retention.ms", _LONG, -2, -2, update=Update.CLUSTER_WIDE),
        _key("max.request.partition.size.limit", _INT, 2000, 1),
        _key("metadata.log.dir", _STR, None),
        _key("metadata.log.max.record.bytes.between.snapshots", _LONG, 20971520, 1),
        _key("metadata.log.max.snapshot.interval.ms", _LONG, 3600000, 0),
        _key("metadata.log.segment.bytes", _INT, 1073741824, 12),
        _key("metadata.log.segment.ms", _LONG, 604800000),
        _key("metadata.max.idle.interval.ms", _INT, 500, 0),
        _key("metadata.max.retention.bytes", _LONG, 104857600),
        _key("metadata.max.retention.ms", _LONG, 604800000),
        _key("metric.reporters", _LIST, (), update=Update.CLUSTER_WIDE),
        _key("metrics.num.samples", _INT, 2, 1),
        _key("metrics.recording.level", _STR, "INFO"),
        _key("metrics.sample.window.ms", _LONG, 30000, 1),
        _key("node.id", _INT, -1),
        _key("num.replica.alter.log.dirs.threads", _INT, None),
        _key("offsets.commit.required.acks", _SHORT, -1),
        _key("offsets.commit.timeout.ms", _INT, 5000, 1),
        _key("offsets.load.buffer.size", _INT, 5242880, 1),
        _key("offsets.topic.compression.codec", _INT, 0),
        _key("offsets.topic.num.partitions", _INT, 50, 1),
        _key("offsets.topic.replication.factor", _SHORT, 3, 1),
        _key("offsets.topic.segment.bytes", _INT, 104857600, 1),
        _key("process.roles", _LIST, (), choices=("broker", "controller")),
        _key("remote.fetch.max.wait.ms", _INT, 500, 1, update=Update.CLUSTER_WIDE),
        _key("remote.log.index.file.cache.total.size.bytes", _LONG, 1073741824, 1, update=Update.CLUSTER_WIDE),
        _key("remote.log.manager.copier.thread.pool.size", _INT, -1),
        _key("remote.log.manager.copy.max.bytes.per.second", _LONG, MAX_LONG, 1, update=Update.CLUSTER_WIDE),
        _key("remote.log.manager.copy.quota.window.num", _INT, 11, 1),
        _key("remote.log.manager.copy.quota.window.size.seconds", _INT, 1, 1),
        _key("remote.log.manager.expiration.thread.pool.size", _INT, -1),
        _key("remote.log.manager.fetch.max.bytes.per.second", _LONG, MAX_LONG, 1, update=Update.CLUSTER_WIDE),
        _key("remote.log.manager.fetch.quota.window.num", _INT, 11, 1),
        _key("remote.log.manager.fetch.quota.window.size.seconds", _INT, 1, 1),
        _key("remote.log.manager.task.interval.ms", _LONG, 30000, 1),
        _key("remote.log.manager.thread.pool.size", _INT, 10, 1),
        _key("remote.log.metadata.custom.metadata.max.bytes", _INT, 128, 0),
        _key(
            "remote.log.metadata.manager.class.name",
            _STR,
            "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        ),
        _key("remote.log.metadata.manager.class.path", _STR, None),
        _key("remote.log.metadata.manager.impl.prefix", _STR, "rlmm.config."),
        _key("remote.log.metadata.manager.listener.name", _STR, None),
        _key("remote.log.reader.max.pending.tasks", _INT, 100, 1),
        _key("remote.log.reader.threads", _INT, 10, 1),
        _key("remote.log.storage.manager.class.name", _STR, None),
        _key("remote.log.storage.manager.class.path", _STR, None),
        _key("remote.log.storage.manager.impl.prefix", _STR, "rsm.config."),
        _key("remote.log.storage.system.enable", _BOOL, False),
        _key("socket.connection.setup.timeout.max.ms", _LONG, 30000),
        _key("socket.connection.setup.timeout.ms", _LONG, 10000),
        _key("telemetry.max.bytes", _INT, 1048576, 1),
        _key("transaction.state.log.load.buffer.size", _INT, 5242880, 1),
        _key("transaction.state.log.min.isr", _INT, 2, 1),
        _key("transaction.state.log.replication.factor", _SHORT, 3, 1),
        _key("transaction.state.log.segment.bytes", _INT, 104857600, 1),
        _key("zookeeper.metadata.migration.enable", _BOOL, False),
    )
)

"""The keys of ``server.properties`` for the coordinators of groups and transactions: Kafka 3.9's names and defaults.

Answers to: ``GroupCoordinatorConfig``, ``TransactionLogConfig`` and ``TransactionStateManagerConfig`` of Kafka. Pure.
"""

from __future__ import annotations

from typing import Final

from kafkalite.common.config import MAX_INT, ConfigKey, ConfigType, Update

GROUPS: Final = (
    ConfigKey(
        "group.min.session.timeout.ms", ConfigType.INT, 6000, "Shortest session timeout of a group's member.", minimum=1
    ),
    ConfigKey(
        "group.max.session.timeout.ms",
        ConfigType.INT,
        1800000,
        "Longest session timeout of a group's member.",
        minimum=1,
    ),
    ConfigKey(
        "group.initial.rebalance.delay.ms",
        ConfigType.INT,
        3000,
        "How long the first rebalance of an empty group waits for more members.",
        minimum=0,
    ),
    ConfigKey("group.max.size", ConfigType.INT, MAX_INT, "Most members that a group may have.", minimum=1),
    ConfigKey(
        "offset.metadata.max.bytes",
        ConfigType.INT,
        4096,
        "Longest text that a commit may carry beside its offset.",
        minimum=0,
    ),
    ConfigKey(
        "offsets.retention.minutes",
        ConfigType.INT,
        10080,
        "How long the offsets of a group without members are kept.",
        minimum=1,
    ),
    ConfigKey(
        "offsets.retention.check.interval.ms",
        ConfigType.LONG,
        600000,
        "How often offsets past their retention are looked for.",
        minimum=1,
    ),
)

TRANSACTIONS: Final = (
    ConfigKey(
        "transaction.max.timeout.ms",
        ConfigType.INT,
        900000,
        "Longest timeout that a producer may ask for its transactions.",
        minimum=1,
    ),
    ConfigKey(
        "transaction.two.phase.commit.enable",
        ConfigType.BOOLEAN,
        False,
        "Whether producers may open transactions without a timeout (KIP-939), by a timeout of 2147483647 ms.",
        is_own=True,
    ),
    ConfigKey(
        "transactional.id.expiration.ms",
        ConfigType.INT,
        604800000,
        "How long an unused transactional id is remembered.",
        minimum=1,
    ),
    ConfigKey(
        "transaction.state.log.num.partitions",
        ConfigType.INT,
        50,
        "Among how many coordinators transactional ids are divided; written to ZooKeeper once, when first needed.",
        minimum=1,
    ),
    ConfigKey(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        ConfigType.INT,
        10000,
        "How often transactions past their timeout are looked for.",
        minimum=1,
    ),
    ConfigKey(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        ConfigType.INT,
        3600000,
        "How often transactional ids past their expiration are looked for.",
        minimum=1,
    ),
    ConfigKey(
        "transaction.partition.verification.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether a leader checks, before a transaction's first batch, that the partition belongs to it (KIP-890).",
        update=Update.CLUSTER_WIDE,
    ),
)

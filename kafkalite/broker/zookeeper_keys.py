"""Keys of ZooKeeper, ``zookeeper.*``: Kafka's names, types, defaults and limits.

Answers to: ``org.apache.kafka.server.config.ZkConfigs``. Pure.
"""

from __future__ import annotations

from typing import Final

from kafkalite.common.config import ConfigKey, ConfigType
from kafkalite.security.zookeeper_security_keys import ZOOKEEPER_SECURITY_KEYS

_BOOL, _STR, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT

ZOOKEEPER_KEYS: Final = (
    ConfigKey("zookeeper.connect", _STR, None, "Hosts of ZooKeeper, host:port[,host:port…][/chroot]."),
    ConfigKey(
        "zookeeper.session.timeout.ms",
        _INT,
        18000,
        "How long ZooKeeper keeps the session of a silent broker.",
        minimum=1,
    ),
    ConfigKey(
        "zookeeper.connection.timeout.ms",
        _INT,
        None,
        "How long a start waits for ZooKeeper; default: the session's.",
        minimum=1,
    ),
    ConfigKey(
        "zookeeper.set.acl", _BOOL, False, "Whether znodes are created so that only authenticated brokers write them."
    ),
    ConfigKey(
        "zookeeper.max.in.flight.requests",
        _INT,
        10,
        "Accepted for compatibility; requests are pipelined freely.",
        minimum=1,
    ),
    ConfigKey(
        "zookeeper.session.guardian.enable",
        _BOOL,
        True,
        "Whether a helper process ends a dead broker's session at once.",
        is_own=True,
    ),
    *ZOOKEEPER_SECURITY_KEYS,
)

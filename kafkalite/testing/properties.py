"""Properties of brokers in tests that differ from Kafka's defaults, so that tests are fast. Pure.

Answers to: the overrides of ``kafka.testkit.KafkaClusterTestKit``.
"""

from __future__ import annotations

SESSION_TIMEOUT_MS = 6000
"""Time in milliseconds after which a silent broker's ZooKeeper session expires."""
DEFAULTS = {
    # No delay, because a test starts the members of its group itself.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    # Long, because ZooKeeper starts beside the brokers, and its first answer may take longer on a busy machine.
    "zookeeper.connection.timeout.ms": "60000",
}
"""Properties of ``server.properties``, which a test may override."""
ZOOKEEPER_DEFAULTS = {"forceSync": "no"}
"""Properties of ``zoo.cfg``: without syncs, because a busy disk would delay all brokers, and ZooKeeper's data need only
outlive its process, not the machine."""

"""Properties of brokers in tests that differ from Kafka's defaults, so that tests are fast. Pure.

Answers to: the overrides of ``kafka.testkit.KafkaClusterTestKit``.
"""

from __future__ import annotations

SESSION_TIMEOUT_MS = 6000
"""A broker that is silent for this long loses its ZooKeeper session."""
DEFAULTS = {
    # A test starts the members of its group itself, so there are no others to wait for.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    # ZooKeeper starts beside them, and on a busy machine its first answer may take longer than a session lasts.
    "zookeeper.connection.timeout.ms": "30000",
}
"""Properties of ``server.properties``; those of a test go before them."""
ZOOKEEPER_DEFAULTS = {"forceSync": "no"}
"""Properties of ``zoo.cfg``: what it writes must outlive the server's end, not the machine's; and a busy disk would
hold up all brokers."""

"""A cell of what an authorizer and quotas cost: the same load with and without them, in turn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from integration.bench.cell import FreshCell, Metric, fresh_topic
from integration.bench.clients import run_clients
from integration.bench.side import Maker, Side
from integration.harness.tree import Tree

GUARDS = "What 1,000 ACLs and quotas cost, with them / without"
ACLS = 1000
AUTHORIZER = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
PLENTY = "1000000000000"
"""A quota that throttles no client: what is measured is the work of measuring."""
PLAIN_CLIENT = "ANONYMOUS"


class GuardsCell(FreshCell):
    """Produce to two clusters of one broker in turn: one has no authorizer and no quotas, the other has both.

    Each figure is the median of the ratios of :attr:`pairs` pairs.
    """

    name, title, group = "guards", "produce with acks=1", GUARDS
    metrics = (
        Metric("cpu, 1 KB", "CPU a GB, 1 KB", limit=1.03),
        Metric("rate, single", "rate, 100 B, one message a request", floor=0.95),
        Metric("cpu, single", "CPU a message, 100 B, one message a request"),
    )
    rounds = 1
    pairs = 7

    def run(self, maker: Maker, directory: Path) -> dict[str, float]:
        """Start both clusters, warm them up, and measure one pair after the other."""
        bare = Side(maker, directory / "open", brokers=1)
        guarded = Side(maker, directory / "guarded", brokers=1, overrides=AUTHORIZER)
        try:
            bare.start()
            guard(guarded)
            guarded.start()
            found: dict[str, list[float]] = {metric.name: [] for metric in self.metrics}
            for pair in range(self.pairs + 1):
                # The order changes, because what runs second finds a warmer machine.
                order = (bare, guarded) if pair % 2 else (guarded, bare)
                large = {side: produce_to(side, count=600_000, size=1000) for side in order}
                single = {side: produce_to(side, count=40_000, size=100, **SINGLE) for side in order}
                if pair:
                    found["cpu, 1 KB"].append(large[guarded][1] / large[bare][1])
                    found["rate, single"].append(single[guarded][0] / single[bare][0])
                    found["cpu, single"].append(single[guarded][1] / single[bare][1])
            return {name: median(ratios) for name, ratios in found.items()}
        finally:
            bare.close()
            guarded.close()


SINGLE: Mapping[str, Any] = {"linger.ms": 0, "batch.num.messages": 1}


def guard(side: Side) -> None:
    """Write the ACLs and the quotas of a cluster whose brokers are not started: they read them at their start.

    The client is allowed everything by the last ACLs; the others are of other users, on topics and prefixes of theirs.
    """
    side.cluster.directory.mkdir(parents=True, exist_ok=True)
    side.cluster.start_zookeeper()
    with Tree(side.cluster.zookeeper) as tree:
        for resource in ("Cluster/kafka-cluster", "Topic/*", "Group/*"):
            tree.write(f"/kafka-acl/{resource}", _allow(PLAIN_CLIENT, "All"))
        for number in range(0, ACLS - 3, 2):
            tree.write(f"/kafka-acl/Topic/topic-{number}", _allow(f"user-{number}", "Write"))
            tree.write(f"/kafka-acl-extended/prefixed/Topic/team-{number}-", _allow(f"user-{number}", "Read"))
        quotas = dict.fromkeys(("producer_byte_rate", "consumer_byte_rate", "request_percentage"), PLENTY)
        tree.write(f"/config/users/{PLAIN_CLIENT}", {"version": 1, "config": quotas})


def _allow(user: str, operation: str) -> dict[str, object]:
    entry = {"principal": f"User:{user}", "permissionType": "Allow", "operation": operation, "host": "*"}
    return {"version": 1, "acls": [entry]}


def produce_to(side: Side, *, count: int, size: int, **settings: Any) -> tuple[float, float]:
    """Messages a second, and CPU seconds of the broker."""
    topic = fresh_topic("guards")
    side.create_topic(topic)
    try:
        order = {
            "bootstrap": side.bootstrap,
            "topic": topic,
            "partitions": 1,
            "count": count,
            "size": size,
            "settings": {"acks": "1", **settings},
        }
        (result,), cpu = run_clients(side, [("produce", order)])
    finally:
        side.delete_topic(topic)
    if result["lost"]:
        raise RuntimeError(f"{side.name} did not acknowledge everything")
    return count / result["seconds"], cpu


GUARD_CELLS = [GuardsCell()]

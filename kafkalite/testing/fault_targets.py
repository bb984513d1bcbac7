"""What a fault can hit, and what a relay connects: a broker or ZooKeeper. Pure.

Answers to: nothing in Kafka; the names of the verbs of faults.
"""

from __future__ import annotations

from typing import Literal

ZOOKEEPER: Literal["zookeeper"] = "zookeeper"
"""ZooKeeper's name among the brokers."""
FaultTarget = int | Literal["zookeeper"]
"""A broker, by its id, or ZooKeeper."""

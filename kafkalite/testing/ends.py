"""The targets of faults, and the ends of wires. Pure.

Answers to: nothing in Kafka; the names of the verbs of faults.
"""

from __future__ import annotations

from typing import Literal

ZOOKEEPER: Literal["zookeeper"] = "zookeeper"
"""ZooKeeper's name among the brokers."""
End = int | Literal["zookeeper"]
"""A broker, by its id, or ZooKeeper."""

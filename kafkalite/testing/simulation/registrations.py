"""A connected broker must register in ZooKeeper, because otherwise it can lead no partition.

Answers to: nothing in Kafka. Pure: it reads the brokers' state and changes nothing.

The end of a history shows a broker that gave up only if its session lasts until then.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkalite.testing.simulation.cluster import SimBroker, SimCluster
from kafkalite.testing.simulation.laggards import reaches_zookeeper, zookeeper_is_well
from kafkalite.zk.znodes.brokers import broker_path

_LIMIT = 4.0
"""Virtual seconds for a registration with some failed attempts, which are repeated after a second."""


class Registrations:
    """Measures how long each broker has been connected in one session without its znode.

    The time with a znode of an earlier session does not count, because the broker must wait for its end.
    ``is_cut_off``: whether a fault affects a broker's connection to ZooKeeper. ``tell`` gets each violation.
    """

    def __init__(self, cluster: SimCluster, is_cut_off: Callable[[int], bool], tell: Callable[[str], object]) -> None:
        self._cluster = cluster
        self._is_cut_off = is_cut_off
        self._tell = tell
        self._missing: dict[tuple[int, int], float] = {}
        """Broker and session → time since which the broker has not been registered."""

    def look(self) -> None:
        """Check all brokers."""
        missing: dict[tuple[int, int], float] = {}
        now = self._cluster.world.now
        if zookeeper_is_well(self._cluster):
            for broker, machine in self._cluster.brokers.items():
                if machine.zk is None or not self._is_missing(broker, machine):
                    continue
                key = broker, machine.zk.session
                since = missing[key] = self._missing.get(key, now)
                if now - since > _LIMIT:
                    self._tell(f"broker {broker} has been connected to ZooKeeper, and not registered, for {_LIMIT:g} s")
        self._missing = missing

    def _is_missing(self, broker: int, machine: SimBroker) -> bool:
        is_registered = broker_path(broker) in self._cluster.zookeeper.tree.nodes
        return not is_registered and reaches_zookeeper(machine) and not self._is_cut_off(broker)

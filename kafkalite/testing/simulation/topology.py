"""The current state of the cluster in ZooKeeper, read directly from the simulated tree. Pure.

Answers to: ``zookeeper-shell.sh``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkalite.cluster.model import Broker, LeaderAndIsr
from kafkalite.common.types import TopicPartition
from kafkalite.testing.simulation.cluster import SimCluster
from kafkalite.zk.znodes import brokers, claims, consumers, offsets, topics
from kafkalite.zk.znodes.codec import MalformedZnodeError
from kafkalite.zk.znodes.groups import decode_generation

_CLAIM: Final = "/coordinator"


class Topology:
    """Decodes states once for each version of the tree, because scenarios and oracles read them often."""

    def __init__(self, cluster: SimCluster) -> None:
        self._tree = cluster.zookeeper.tree
        self._zxid = -1
        self._states: dict[TopicPartition, LeaderAndIsr] = {}

    def states(self) -> dict[TopicPartition, LeaderAndIsr]:
        """Every partition that has a state, in order; a topic that is being deleted is no longer listed."""
        if self._zxid != self._tree.zxid:
            self._states = self._read()
            self._zxid = self._tree.zxid
        return self._states

    def state(self, tp: TopicPartition) -> LeaderAndIsr | None:
        """The state of one partition."""
        return self.states().get(tp)

    def controller(self) -> int | None:
        """Broker id of the controller, ``None`` without a controller."""
        node = self._tree.nodes.get(claims.CONTROLLER)
        return None if node is None else claims.decode_claim(claims.CONTROLLER, node.data)

    def brokers(self) -> list[Broker]:
        """The registered brokers, in order."""
        found = []
        for name in sorted(self._tree.nodes[brokers.IDS].children, key=int):
            node = self._tree.nodes[brokers.broker_path(int(name))]
            found.append(brokers.decode_broker(int(name), node.data, node.czxid))
        return found

    def registration(self, broker: int, session: int) -> Broker | None:
        """The registration of ``broker`` in ``session``, ``None`` if there is none."""
        node = self._tree.nodes.get(brokers.broker_path(broker))
        if node is None or node.owner != session:
            return None
        return brokers.decode_broker(broker, node.data, node.czxid)

    def coordinators(self) -> list[int]:
        """Brokers that hold the claim on a group or on transactions, in order."""
        return self._claimants(lambda _: True)

    def group_coordinators(self) -> list[int]:
        """Brokers that hold the claim on a group with members, in order."""
        return self._claimants(self._has_members)

    def _claimants(self, is_wanted: Callable[[str], bool]) -> list[int]:
        found: dict[int, None] = {}
        for path, node in sorted(self._tree.nodes.items()):
            if path.endswith(_CLAIM) and is_wanted(path.removesuffix(_CLAIM)):
                found[claims.decode_claim(path, node.data)] = None
        return sorted(found)

    def _has_members(self, base: str) -> bool:
        path = f"{base}/generation"
        node = self._tree.nodes.get(path)
        return node is not None and bool(decode_generation(path, node.data).leader)

    def staging_clients(self) -> list[str]:
        """Names of the clients with staged offsets in an open transaction, in order; a client's transactional id is
        ``name-id``."""
        found: dict[str, None] = {}
        for path, node in self._tree.nodes.items():
            if path.startswith(f"{consumers.CONSUMERS}/") and path.endswith("/staged"):
                for name in node.children:
                    chunk = f"{path}/{name}"
                    producer = offsets.decode_staged(chunk, self._tree.nodes[chunk].data).producer
                    found[producer.transactional_id.removesuffix("-id")] = None
        return sorted(found)

    def _read(self) -> dict[TopicPartition, LeaderAndIsr]:
        nodes = self._tree.nodes
        found: dict[TopicPartition, LeaderAndIsr] = {}
        root = nodes.get(topics.TOPICS)
        for name in sorted(root.children) if root is not None else ():
            try:
                assignment = topics.decode_topic(name, nodes[topics.topic_path(name)].data)
            except MalformedZnodeError:
                continue
            for number, replicas in assignment.partitions.items():
                tp = TopicPartition(name, number)
                node = nodes.get(topics.state_path(tp))
                if node is not None:
                    found[tp] = topics.decode_state(tp, node.data, node.stat(), assignment.topic_id, replicas)
        return found

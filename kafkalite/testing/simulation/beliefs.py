"""The brokers' view of the cluster, checked while ZooKeeper changes during a history.

Answers to: nothing in Kafka. Pure: it reads the brokers' state and changes nothing.

The end of a history shows only a wrong view that lasts, so the view is checked after each change. The rules:

- the metadata of a partition in one process of a broker never go back to an older state of the same topic id;
- a broker leads in one registration only: after it registered again it leads under a new leader epoch, because another
  broker may have led between the two registrations;
- a topic's znode is deleted after its logs: no replica has the folder any more. (A machine that lost power may have it,
  because the deletion of the folder may have been lost.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from kafkalite.apis.services import BrokerServices
from kafkalite.cluster.model import Broker, LeaderAndIsr
from kafkalite.common.types import TopicPartition
from kafkalite.log.partition_folder import dir_name
from kafkalite.replication.partition import Role
from kafkalite.testing.simulation.cluster import SimBroker
from kafkalite.testing.simulation.invariants import TOPIC_PATH, Kind, ZnodeChange
from kafkalite.zk.znodes import brokers, topics
from kafkalite.zk.znodes.codec import MalformedZnodeError


class _Led(NamedTuple):
    """One leader in one leader epoch."""

    tp: TopicPartition
    topic_id: UUID
    leader_epoch: int


class _Life:
    """The view of one process at the last check."""

    def __init__(self, services: BrokerServices) -> None:
        self.services = services
        self.version = -1
        self.states: dict[TopicPartition, LeaderAndIsr] = {}


class Beliefs:
    """Checks ``machines`` (brokers by id) after each committed transaction, and reports violations of the rules.

    ``registration`` returns a broker's registration in a session, ``None`` if there is none. ``power_losses``: number
    of power losses of each machine.
    """

    def __init__(
        self,
        machines: Mapping[int, SimBroker],
        registration: Callable[[int, int], Broker | None],
        power_losses: Mapping[int, int],
        tell: Callable[[str], object],
    ) -> None:
        self._machines = machines
        self._registration = registration
        self._power_losses = power_losses
        self._tell = tell
        self._lives: dict[int, _Life] = {}
        self._led: dict[_Led, tuple[int, int]] = {}
        self._assignments: dict[str, topics.TopicAssignment] = {}

    def committed(self, changes: Iterable[ZnodeChange]) -> None:
        """ZooKeeper has committed ``changes``."""
        is_about_leaders = False
        for change in changes:
            match = TOPIC_PATH.match(change.path)
            if match is not None:
                self._topic(match[1], change)
            is_about_leaders |= change.path.endswith("/state") or change.path.startswith(brokers.IDS)
        for number, machine in self._machines.items():
            services = machine.services
            if services is not None:
                self._metadata(number, services)
                if is_about_leaders and machine.zk is not None:
                    self._leaders(number, services, self._registration(number, machine.zk.session))

    def _metadata(self, number: int, services: BrokerServices) -> None:
        life = self._lives.get(number)
        if life is None or life.services is not services:
            life = self._lives[number] = _Life(services)
        metadata = services.metadata
        if metadata.version == life.version:
            return
        life.version = metadata.version
        for state in metadata.states():
            before = life.states.get(state.topic_partition)
            if before is state:
                continue
            life.states[state.topic_partition] = state
            if before is not None and before.topic_id == state.topic_id and state.order < before.order:
                self._tell(
                    f"the metadata of broker {number} went back: {state.topic_partition} from leader epoch "
                    f"{before.leader_epoch}, version {before.zk_version}, to {state.leader_epoch}, {state.zk_version}"
                )

    def _leaders(self, number: int, services: BrokerServices, registered: Broker | None) -> None:
        if registered is None:
            return
        for partition in services.replicas.replicas.partitions.values():
            if partition.role is not Role.LEADER:
                continue
            tp, epoch = partition.topic_partition, partition.leader_epoch
            leader = number, registered.epoch
            first = self._led.setdefault(_Led(tp, partition.state.topic_id, epoch), leader)
            if first != leader:
                self._tell(
                    f"{tp}: brokers {first[0]} (broker epoch {first[1]}) and {number} (broker epoch "
                    f"{registered.epoch}) both lead in leader epoch {epoch}"
                )

    def _topic(self, topic: str, change: ZnodeChange) -> None:
        if change.kind is not Kind.DELETED:
            try:
                self._assignments[topic] = topics.decode_topic(topic, change.data)
            except MalformedZnodeError:
                return  # the invariants of the znodes report it
            return
        gone = self._assignments.pop(topic, None)
        for number, assignment in () if gone is None else gone.partitions.items():
            for broker in assignment.replicas:
                machine = self._machines[broker]
                folder = machine.folder / "logs" / dir_name(TopicPartition(topic, number))
                if broker not in self._power_losses and Path(folder).exists():
                    self._tell(f"topic {topic} was deleted, and broker {broker} still has {folder.name}")

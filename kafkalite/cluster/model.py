"""The parts of a cluster as values: brokers, endpoints, partition states.

Answers to: ``kafka.cluster.{Broker,EndPoint}`` and ``kafka.api.LeaderAndIsr``. Pure.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from kafkalite.common.types import NO_LEADER, ZERO_UUID, TopicPartition

CONTROL_PLANE_LISTENER = "CONTROLPLANE"
"""Name of the listener on which brokers and controller communicate; clients never see it in answers."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Host and port of a broker's listener."""

    listener: str
    security_protocol: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Broker:
    """A live broker as its znode in ``/brokers/ids`` describes it. ``epoch`` is that znode's czxid.

    ``unclean_start_epoch`` is the epoch that the broker registered with after its last unclean start, -1 if that is
    unknown. A clean restart and a registration in a new session keep it, because the logs are whole; a changed
    value means that the logs may have been shortened (the idea of KIP-966's previous broker epoch).
    """

    id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    epoch: int = -1
    unclean_start_epoch: int = -1

    def endpoint(self, listener: str) -> Endpoint | None:
        """The endpoint of ``listener``, or ``None`` if this broker has no such listener."""
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint
        return None


@dataclass(frozen=True, slots=True)
class PartitionAssignment:
    """The replicas of a partition, preferred leader first.

    During a reassignment ``replicas`` is the union, in Kafka's order: target replicas, then the removing ones.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas once the reassignment is complete."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before the reassignment began."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """The state znode of one partition and its assignment, as read or as just written.

    ``zk_version`` is the version of ``…/partitions/N/state``; an ISR change is written on condition of it.
    ``mzxid`` is that znode's last modification, -1 if the state came in a controller's request (whose
    broker epoch then proves that it was meant for this incarnation of the broker). Two states of one topic
    id are ordered by ``(leader_epoch, zk_version)``. ``unclean_start_epochs`` are pairs of a member of the ISR and the
    ``Broker.unclean_start_epoch`` under which it was last known to be in sync; states that Kafka wrote have none.
    """

    topic: str
    partition: int
    topic_id: uuid.UUID = ZERO_UUID
    leader: int = NO_LEADER
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    controller_epoch: int = -1
    zk_version: int = -1
    mzxid: int = -1
    assignment: PartitionAssignment = PartitionAssignment(())
    unclean_start_epochs: tuple[tuple[int, int], ...] = ()

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def replicas(self) -> tuple[int, ...]:
        return self.assignment.replicas

    @property
    def order(self) -> tuple[int, int]:
        """States of one topic id with a greater order are newer."""
        return (self.leader_epoch, self.zk_version)

    def with_(self, **changes: object) -> LeaderAndIsr:
        """A copy with some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]

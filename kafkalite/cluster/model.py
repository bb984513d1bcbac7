"""The parts of a cluster as values: brokers, endpoints, partition states, topic names.

Answers to: ``kafka.cluster.{Broker,EndPoint}``, ``kafka.api.LeaderAndIsr`` and
``org.apache.kafka.common.internals.Topic``. Pure.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import NO_LEADER, ZERO_UUID, TopicPartition

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Kafka's numbers of the security protocols are the places in this tuple."""


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
    ``events`` is the address of the page with the broker's events, empty without one and in controllers' requests.
    """

    id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    epoch: int = -1
    unclean_start_epoch: int = -1
    events: str = field(default="", compare=False)

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


INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
_LEGAL = re.compile(r"[a-zA-Z0-9._\-]+")
_MAX_LENGTH: Final = 249


def topic_fault(name: str) -> str | None:
    """Why ``name`` is no valid topic name; ``None`` if it is valid."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > _MAX_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {_MAX_LENGTH}"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def check_topic(name: str) -> None:
    """Raises :class:`ApiError` INVALID_TOPIC_EXCEPTION saying what is wrong with ``name``."""
    fault = topic_fault(name)
    if fault is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}")


def is_valid_topic(name: str) -> bool:
    """Whether a topic may have that name."""
    return 0 < len(name) <= _MAX_LENGTH and name not in (".", "..") and _LEGAL.fullmatch(name) is not None


def colliding_topic(name: str, existing: Iterable[str]) -> str | None:
    """An existing topic whose metrics would have the same name as those of ``name``, because they write '.' as '_'."""
    if "." not in name and "_" not in name:
        return None
    unified = name.replace(".", "_")
    return next((other for other in existing if other != name and other.replace(".", "_") == unified), None)

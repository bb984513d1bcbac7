"""A random administrator: topics are created, grown, reassigned, configured, trimmed and deleted during a history.

Answers to: ``kafka-topics``, ``kafka-reassign-partitions``, ``kafka-configs``, … in the hands of an operator.
Deterministic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.testing.simulation.clients.admin import BROKER, TOPIC, Admin
from kafkalite.testing.simulation.clients.cluster import Patience
from kafkalite.testing.simulation.clients.host import ClientHost, Wakeup

E = ErrorCode

_TOPIC_CONFIGS: tuple[tuple[str, tuple[str | None, ...]], ...] = (
    ("segment.bytes", ("4096", "8192", "20480", None)),
    ("index.interval.bytes", ("256", "4096", None)),
    ("flush.messages", ("1", "10", None)),
    ("max.message.bytes", ("1048576", None)),
)
_BROKER_CONFIGS: tuple[tuple[str, tuple[str | None, ...]], ...] = (
    ("log.segment.bytes", ("8192", "16384", None)),
    ("background.threads", ("8", "12", "16", None)),
    ("log.cleaner.threads", ("1", "2", None)),
)

WEIGHTS: Mapping[str, float] = MappingProxyType(
    {
        "reassign": 3,
        "cancel": 1,
        "elect": 2,
        "grow": 1,
        "configure_topic": 2,
        "configure_broker": 1,
        "make": 2,
        "delete": 2,
        "trim": 2,
        "delete_group": 0.5,
    }
)
"""Weights of the actions."""

_MISSING = frozenset((E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_ID))
_TOO_FEW = frozenset((E.INVALID_REPLICATION_FACTOR, E.INVALID_REPLICA_ASSIGNMENT))
_EXPECTED: Mapping[str, frozenset[ErrorCode]] = {
    "reassign": _MISSING | _TOO_FEW,
    # Refused if none of the former replicas is in the ISR any more.
    "cancel": _MISSING | {E.NO_REASSIGNMENT_IN_PROGRESS, E.INVALID_REPLICA_ASSIGNMENT},
    "elect": _MISSING
    | {
        E.ELECTION_NOT_NEEDED,
        E.PREFERRED_LEADER_NOT_AVAILABLE,
        E.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        # For a topic that is being deleted.
        E.INVALID_TOPIC_EXCEPTION,
    },
    "grow": _MISSING | _TOO_FEW | {E.INVALID_PARTITIONS, E.REASSIGNMENT_IN_PROGRESS},
    "configure_topic": _MISSING,
    # Kafka's limits of change: a number of threads may be doubled or halved at once.
    "configure_broker": frozenset((E.INVALID_REQUEST,)),
    "make": _TOO_FEW | {E.TOPIC_ALREADY_EXISTS},
    "delete": _MISSING,
    "trim": _MISSING | {E.OFFSET_OUT_OF_RANGE},
    "delete_group": frozenset((E.NON_EMPTY_GROUP, E.GROUP_ID_NOT_FOUND)),
}
"""Errors that each action may get without a defect of a broker."""


@dataclass(frozen=True)
class AdministratorSettings:
    """Targets of the actions: ``topics`` are changed and never deleted, ``trimmed`` lose their oldest records,
    ``spare`` are created and deleted, ``groups`` (without members) are deleted."""

    name: str
    topics: tuple[str, ...] = ()
    trimmed: tuple[str, ...] = ()
    spare: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    brokers: tuple[int, ...] = (1, 2, 3)
    rate: float = 0.5
    most_partitions: int = 6
    replication: tuple[int, ...] = (2, 3)
    weights: Mapping[str, float] = field(default_factory=lambda: WEIGHTS)
    patience: Patience = field(default_factory=Patience)


class Administrator:
    """Performs an action at random intervals, until it is stopped."""

    def __init__(self, host: ClientHost, settings: AdministratorSettings) -> None:
        self.settings = settings
        self.done: dict[str, int] = {}
        """Number of successes of each action."""
        self._host = host
        self._admin = Admin(host, settings.name, patience=settings.patience)
        self._stopping = False
        self._wakeup = Wakeup(host.clock)
        self._actions: dict[str, Callable[[], Awaitable[ErrorCode | None]]] = {
            "reassign": self._reassign,
            "cancel": self._cancel,
            "elect": self._elect,
            "grow": self._grow,
            "configure_topic": self._configure_topic,
            "configure_broker": self._configure_broker,
            "make": self._make,
            "delete": self._delete,
            "trim": self._trim,
            "delete_group": self._delete_group,
        }

    def stop(self) -> None:
        """End after the current action."""
        self._stopping = True
        self._wakeup.wake()

    def kill(self) -> None:
        """End at once, like a killed process."""
        self._stopping = True
        self._admin.close()
        self._wakeup.wake()

    async def run(self) -> None:
        """Perform actions until :meth:`stop`; running reassignments continue."""
        settings, rng = self.settings, self._host.rng
        self._admin.cluster.want((*settings.topics, *settings.trimmed, *settings.spare))
        names = [name for name in self._actions if settings.weights.get(name, 0) > 0]
        weights = [settings.weights[name] for name in names]
        while not self._stopping:
            (name,) = rng.choices(names, weights)
            await self._act(name)
            # Not a sleep: a pause may last longer than the history waits for a client that it has stopped.
            await self._wakeup.wait(rng.expovariate(settings.rate))
        self._admin.close()

    async def _act(self, name: str) -> None:
        code = await self._actions[name]()
        # The request may have changed topics and leaders.
        self._admin.cluster.request_update()
        if code is E.NONE:
            self.done[name] = self.done.get(name, 0) + 1
        elif code is not None and code is not E.REQUEST_TIMED_OUT and code not in _EXPECTED[name]:
            self._host.unexpected(self.settings.name, name, code)

    def _partition(self, topics: tuple[str, ...]) -> TopicPartition | None:
        """A random partition of the existing ones of ``topics``."""
        known = [topic for topic in topics if topic in self._admin.cluster.topics]
        if not known:
            return None
        topic = self._host.rng.choice(known)
        return TopicPartition(topic, self._host.rng.randrange(self._admin.cluster.topics[topic]))

    async def _reassign(self) -> ErrorCode | None:
        partition = self._partition(self.settings.topics)
        if partition is None:
            return None
        rng, settings = self._host.rng, self.settings
        size = min(rng.choice(settings.replication), len(settings.brokers))
        return await self._admin.reassign({partition: rng.sample(settings.brokers, size)})

    async def _cancel(self) -> ErrorCode | None:
        found = await self._admin.reassignments()
        mine = [partition for partition in found or () if partition.topic in self.settings.topics]
        if not mine:
            return None
        return await self._admin.reassign({self._host.rng.choice(mine): None})

    async def _elect(self) -> ErrorCode | None:
        partition = self._partition(self.settings.topics)
        wanted = None if partition is None or self._host.rng.random() < 0.5 else [partition]
        return await self._admin.elect_leaders(wanted)

    async def _grow(self) -> ErrorCode | None:
        partition = self._partition(self.settings.topics)
        if partition is None:
            return None
        count = self._admin.cluster.topics[partition.topic] + 1
        if count > self.settings.most_partitions:
            return None
        return await self._admin.create_partitions(partition.topic, count)

    async def _configure_topic(self) -> ErrorCode | None:
        partition = self._partition(self.settings.topics)
        if partition is None:
            return None
        name, values = self._host.rng.choice(_TOPIC_CONFIGS)
        return await self._admin.alter_configs(TOPIC, partition.topic, {name: self._host.rng.choice(values)})

    async def _configure_broker(self) -> ErrorCode | None:
        rng = self._host.rng
        name, values = rng.choice(_BROKER_CONFIGS)
        target = rng.choice(["", *map(str, self.settings.brokers)])
        return await self._admin.alter_configs(BROKER, target, {name: rng.choice(values)})

    async def _make(self) -> ErrorCode | None:
        missing = [topic for topic in self.settings.spare if topic not in self._admin.cluster.topics]
        if not missing:
            return None
        rng = self._host.rng
        replication = rng.choice(self.settings.replication)
        return await self._admin.create_topic(rng.choice(missing), rng.randint(1, 3), replication)

    async def _delete(self) -> ErrorCode | None:
        known = [topic for topic in self.settings.spare if topic in self._admin.cluster.topics]
        if not known:
            return None
        return await self._admin.delete_topic(self._host.rng.choice(known), self.settings.most_partitions)

    async def _trim(self) -> ErrorCode | None:
        partition = self._partition(self.settings.trimmed)
        if partition is None:
            return None
        end = await self._admin.end_offset(partition)
        if end <= 0:
            return None
        return await self._admin.delete_records(partition, self._host.rng.randint(1, end))

    async def _delete_group(self) -> ErrorCode | None:
        if not self.settings.groups:
            return None
        return await self._admin.delete_group(self._host.rng.choice(self.settings.groups))

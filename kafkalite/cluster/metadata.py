"""A broker's view of the cluster: live brokers, leaders and ISRs of partitions, topic ids.

Answers to: ``kafka.server.metadata.ZkMetadataCache``. Pure.

Two writers feed one cache: the controller's requests and the broker's own reads of ZooKeeper. Either may bring
older news than the other, so a state replaces only an older state of the same topic id, and a list of live brokers
only an older list. A topic that is deleted and created again has a new id, and later news of the old id is ignored.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping

from kafkalite.cluster.model import Broker, LeaderAndIsr
from kafkalite.common.types import ZERO_UUID, TopicPartition

LEADER_DURING_DELETE = -2
"""Leader id by which the controller says that the topic with the state's id is being deleted."""
_REMEMBERED_DELETIONS = 10_000
_NO_PARTITIONS: dict[int, LeaderAndIsr] = {}


class MetadataCache:
    """The cluster as this broker knows it. ``controller_id`` is -1 if no controller is known.

    ``brokers`` and ``topics`` may be read freely and are changed only by the methods. ``version`` grows with every
    change, so that a caller that derives a value from the cache knows when to derive it again. ``on_brokers`` is called
    when brokers came, went or changed.
    """

    def __init__(self, now: Callable[[], float] = lambda: 0.0) -> None:
        self._now = now
        self._departed: dict[int, tuple[Broker, float]] = {}
        self.on_brokers: list[Callable[[], None]] = []
        self.brokers: dict[int, Broker] = {}
        self._brokers_version = -1
        self.controller_id = -1
        self.topics: dict[str, dict[int, LeaderAndIsr]] = {}
        self.version = 0
        self._ids: dict[str, uuid.UUID] = {}
        self._names: dict[uuid.UUID, str] = {}
        self._forgotten: set[uuid.UUID] = set()
        self._forgotten_order: deque[uuid.UUID] = deque()

    # Brokers

    def update_brokers(self, brokers: Mapping[int, Broker], version: int = -1) -> set[int]:
        """Replace the live brokers; returns the ids that came, went or changed.

        ``version`` is that of ``BrokerStore.live``: a list that is older than the known one changes nothing. A list
        without a version (-1), as a controller of Kafka sends it, always counts.
        """
        if 0 <= version < self._brokers_version:
            return set()
        self._brokers_version = max(version, self._brokers_version)
        old = self.brokers
        changed = {
            broker_id for broker_id in old.keys() | brokers.keys() if old.get(broker_id) != brokers.get(broker_id)
        }
        if changed:
            now = self._now()
            for broker_id in changed:
                if broker_id in brokers:
                    self._departed.pop(broker_id, None)
                else:
                    self._departed[broker_id] = old[broker_id], now
            self.brokers = dict(brokers)
            self.version += 1
            for listener in self.on_brokers:
                listener()
        return changed

    def departed(self, seconds: float, since: float = 0.0) -> list[Broker]:
        """Brokers that went within the last ``seconds``, not before ``since``, and have not come back."""
        if not self._departed:
            return []
        since = max(since, self._now() - seconds)
        return [broker for broker, when in self._departed.values() if when >= since]

    def set_controller(self, controller_id: int) -> bool:
        """Set the controller's id (-1: there is none); returns whether it changed."""
        if controller_id == self.controller_id:
            return False
        self.controller_id = controller_id
        self.version += 1
        return True

    def alive(self, broker_id: int) -> bool:
        """Whether that broker is registered."""
        return broker_id in self.brokers

    def broker(self, broker_id: int) -> Broker | None:
        """A live broker, or ``None``."""
        return self.brokers.get(broker_id)

    # Topics

    def apply(self, states: Iterable[LeaderAndIsr]) -> list[LeaderAndIsr]:
        """Store those of ``states`` that are newer than the known ones; returns the ones that changed anything.

        A state whose leader is :data:`LEADER_DURING_DELETE` removes its topic, if the topic still has that id.
        """
        changed = []
        for state in states:
            if self._apply_one(state):
                changed.append(state)
        if changed:
            self.version += 1
        return changed

    def _apply_one(self, state: LeaderAndIsr) -> bool:
        topic_id = state.topic_id
        if topic_id in self._forgotten:
            return False
        if state.leader == LEADER_DURING_DELETE:
            return self._end(state.topic, topic_id)
        known_id = self._ids.get(state.topic, ZERO_UUID)
        if topic_id not in (ZERO_UUID, known_id):
            if known_id != ZERO_UUID and not self._supersedes(state):
                return False
            self._adopt_id(state.topic, known_id, topic_id)
        partitions = self.topics.setdefault(state.topic, {})
        known = partitions.get(state.partition)
        if known is not None:
            if state.order < known.order:
                return False
            same_id = topic_id in (ZERO_UUID, known.topic_id)
            if state.order == known.order and state.assignment == known.assignment and same_id:
                # At most the znode's last modification changed.
                if state.mzxid > known.mzxid:
                    partitions[state.partition] = state
                return False
        partitions[state.partition] = state
        return True

    def _end(self, topic: str, topic_id: uuid.UUID) -> bool:
        """Remove the topic with this id, because it is being deleted; a newer topic of the same name stays."""
        if topic_id == ZERO_UUID:
            return False
        if self._ids.get(topic) == topic_id:
            del self._ids[topic]
            self.topics.pop(topic, None)
        self._forget(topic_id)
        return True

    def _supersedes(self, state: LeaderAndIsr) -> bool:
        """Whether ``state``, whose topic id differs from the known one, belongs to the newer topic."""
        known = next(iter(self.topics.get(state.topic, _NO_PARTITIONS).values()), None)
        if known is None:
            return True
        if state.mzxid >= 0 and known.mzxid >= 0:
            return state.mzxid > known.mzxid
        return state.controller_epoch >= known.controller_epoch

    def _adopt_id(self, topic: str, known_id: uuid.UUID, topic_id: uuid.UUID) -> None:
        if known_id != ZERO_UUID:
            # The topic was deleted and created again: nothing of the old one is valid.
            self._forget(known_id)
            self.topics.pop(topic, None)
        self._ids[topic] = topic_id
        self._names[topic_id] = topic

    def _forget(self, topic_id: uuid.UUID) -> None:
        self._names.pop(topic_id, None)
        self._forgotten.add(topic_id)
        self._forgotten_order.append(topic_id)
        if len(self._forgotten_order) > _REMEMBERED_DELETIONS:
            self._forgotten.discard(self._forgotten_order.popleft())

    def remove_topics(self, names: Iterable[str]) -> list[LeaderAndIsr]:
        """Forget deleted topics; returns their states. Late news of their ids will be ignored."""
        removed: list[LeaderAndIsr] = []
        for name in names:
            removed.extend(self.topics.pop(name, _NO_PARTITIONS).values())
            topic_id = self._ids.pop(name, ZERO_UUID)
            if topic_id != ZERO_UUID:
                self._forget(topic_id)
        if removed:
            self.version += 1
        return removed

    def state(self, topic_partition: TopicPartition) -> LeaderAndIsr | None:
        """The known state of one partition."""
        return self.topics.get(topic_partition[0], _NO_PARTITIONS).get(topic_partition[1])

    def partitions(self, topic: str) -> Mapping[int, LeaderAndIsr]:
        """The partitions of ``topic`` by number; empty if the topic is unknown."""
        return self.topics.get(topic, _NO_PARTITIONS)

    def states(self) -> Iterator[LeaderAndIsr]:
        """The states of every partition of every topic."""
        for partitions in self.topics.values():
            yield from partitions.values()

    def topic_id(self, name: str) -> uuid.UUID:
        """The id of a topic, :data:`ZERO_UUID` if it has none or is unknown."""
        return self._ids.get(name, ZERO_UUID)

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        """The topic with that id, or ``None``."""
        return self._names.get(topic_id)

    def is_forgotten(self, topic_id: uuid.UUID) -> bool:
        """Whether a topic with that id is known to have been deleted."""
        return topic_id in self._forgotten

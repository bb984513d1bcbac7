"""A reader without a group: it reads all partitions of some topics from the beginning.

Answers to: ``org.apache.kafka.clients.consumer.KafkaConsumer`` with ``assign``. Deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkalite.common.tasks import spawn
from kafkalite.common.types import TopicPartition
from kafkalite.testing.simulation.clients.cluster import ClusterClient, Patience
from kafkalite.testing.simulation.clients.fetcher import Fetcher, FetchSettings
from kafkalite.testing.simulation.clients.host import ClientHost

_LOOK = 1.0
"""Seconds between checks for more partitions."""


@dataclass(frozen=True)
class ReaderSettings:
    """Settings of a reader."""

    name: str
    topics: tuple[str, ...]
    fetch: FetchSettings = field(default_factory=FetchSettings)
    patience: Patience = field(default_factory=Patience)


class Reader:
    """Reads until it is stopped."""

    def __init__(self, host: ClientHost, settings: ReaderSettings) -> None:
        self.settings = settings
        self._host = host
        self._cluster = ClusterClient(host, settings.name, settings.patience)
        self._fetcher = Fetcher(self._cluster, settings.name, settings.fetch)
        self._cluster.changed = self._fetcher.kick
        self._stopping = False

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of each partition; -1: not known yet."""
        return {partition: position.offset for partition, position in self._fetcher.positions.items()}

    def stop(self) -> None:
        """End."""
        self._stopping = True
        self._fetcher.progressed.wake()

    def kill(self) -> None:
        """End at once, like a killed process."""
        self._stopping = True
        self._fetcher.close()
        self._cluster.close()

    async def run(self) -> None:
        """Read until :meth:`stop`."""
        self._cluster.want(self.settings.topics)
        spawn(self._fetcher.run(), f"the fetcher of {self.settings.name}")
        while not self._stopping:
            self._assign_all()
            await self._host.sleep(_LOOK)
        self._fetcher.close()
        self._cluster.close()

    async def read_to(self, ends: dict[TopicPartition, int], seconds: float) -> bool:
        """Read until each position has reached its end, ``seconds`` at most; returns whether all have. For use beside
        :meth:`run`."""
        deadline = self._host.clock.monotonic() + seconds
        while not all(self.positions.get(partition, -1) >= end for partition, end in ends.items()):
            left = deadline - self._host.clock.monotonic()
            if left <= 0 or self._stopping:
                return False
            await self._fetcher.progressed.wait(left)
        return True

    def _assign_all(self) -> None:
        """Add new partitions; a deleted partition is kept, because its name may come back."""
        known = {partition: position.offset for partition, position in self._fetcher.positions.items()}
        for topic in self.settings.topics:
            for number in range(self._cluster.topics.get(topic, 0)):
                known.setdefault(TopicPartition(topic, number), -1)
        if len(known) != len(self._fetcher.positions):
            self._fetcher.assign(known)

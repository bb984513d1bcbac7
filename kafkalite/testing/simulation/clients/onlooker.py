"""A monitor of consumer groups: it requests their committed offsets at intervals, and is a member of none.

Answers to: ``kafka.admin.ConsumerGroupCommand --describe``, and the exporters of consumer lag. Deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkalite.common.types import TopicPartition
from kafkalite.testing.simulation.clients.cluster import ClusterClient
from kafkalite.testing.simulation.clients.consumer_coordinator import ConsumerCoordinator, MembershipSettings
from kafkalite.testing.simulation.clients.host import ClientHost


@dataclass(frozen=True)
class OnlookerSettings:
    """The observed groups with their topics. ``pause``: seconds between two requests."""

    name: str
    groups: tuple[MembershipSettings, ...]
    pause: float = 0.5


class Onlooker:
    """Requests committed offsets until it is stopped."""

    def __init__(self, host: ClientHost, settings: OnlookerSettings) -> None:
        self.settings = settings
        self._host = host
        self._cluster = ClusterClient(host, settings.name)
        self._groups = [ConsumerCoordinator(self._cluster, settings.name, group) for group in settings.groups]
        self._stopping = False

    def stop(self) -> None:
        """End after the current request."""
        self._stopping = True

    def kill(self) -> None:
        """End at once, like a killed process."""
        self._stopping = True
        for group in self._groups:
            group.close()
        self._cluster.close()

    async def run(self) -> None:
        """Request the offsets until :meth:`stop`."""
        cluster, host = self._cluster, self._host
        while not self._stopping:
            for group in self._groups:
                topics = group.settings.topics
                if await cluster.known(topics, 1.0):
                    counts = [(topic, cluster.topics[topic]) for topic in topics]
                    await group.committed(TopicPartition(topic, at) for topic, count in counts for at in range(count))
            await host.sleep(self.settings.pause * (0.5 + host.rng.random()))
        self.kill()

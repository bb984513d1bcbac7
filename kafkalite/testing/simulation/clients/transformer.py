"""Consume, transform, produce, exactly once: a group member whose offsets are part of its producer's transactions.

Answers to: the pipelines of KIP-447. Deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from dataclasses import replace as changed

from kafkalite.common.tasks import spawn
from kafkalite.common.types import TopicPartition
from kafkalite.testing.history.events import Derived, Isolation, ProducerKind, Started
from kafkalite.testing.simulation.clients.cluster import ClusterClient, Patience
from kafkalite.testing.simulation.clients.consumer_coordinator import EvictedError, MembershipSettings
from kafkalite.testing.simulation.clients.fetcher import FetchSettings, Given
from kafkalite.testing.simulation.clients.host import ClientHost
from kafkalite.testing.simulation.clients.member import GroupReader
from kafkalite.testing.simulation.clients.records import record_of
from kafkalite.testing.simulation.clients.sender import SenderSettings
from kafkalite.testing.simulation.clients.transaction_manager import AbortableError, GroupMembership
from kafkalite.testing.simulation.clients.transactional_producer import TransactionalSession, survives

_ENOUGH = 200
"""Number of read and unprocessed records at which fetching pauses."""

_DWELLS = 0.25
"""Share of the transactions that stay open for a while with staged offsets."""


@dataclass(frozen=True)
class TransformerSettings:
    """Settings of a pipeline, which makes one record of ``target`` from each record of ``membership.topics``."""

    name: str
    transactional_id: str
    membership: MembershipSettings
    target: str
    batch: int = 12
    """Greatest number of records in a transaction."""
    aborted: float = 0.05
    """Share of the transactions that it aborts by itself."""
    dwell: float = 0.0
    """Greatest pause in seconds between the offsets and the end of some transactions."""
    timeout_ms: int = 10_000
    lives: int = 4
    """Greatest number of processes, each of which replaces a fenced one."""
    fetch: FetchSettings = field(default_factory=FetchSettings)
    sender: SenderSettings = field(default_factory=SenderSettings)
    patience: Patience = field(default_factory=Patience)


class _Process:
    """One process of a pipeline."""

    def __init__(self, host: ClientHost, settings: TransformerSettings, life: int) -> None:
        self.name = f"{settings.name}.{life}"
        self._host = host
        self._settings = settings
        self._cluster = ClusterClient(host, self.name, settings.patience)
        self.session = TransactionalSession(
            self._cluster, self.name, settings.transactional_id, settings.timeout_ms, settings.sender
        )
        fetch = changed(settings.fetch, isolation=Isolation.READ_COMMITTED)
        self._reader = GroupReader(self._cluster, self.name, settings.membership, fetch)
        self._reader.keep = True
        self._cluster.changed = self._kick
        self.stopping = False
        self.committed = 0

    def _kick(self) -> None:
        self.session.sender.kick()
        self._reader.fetcher.kick()

    def close(self) -> None:
        self.session.close()
        self._reader.close()
        self._cluster.close()

    async def run(self) -> None:
        """Run until it is stopped. Raises the errors of :class:`TransactionalSession`."""
        host, settings, reader = self._host, self._settings, self._reader
        self._cluster.want((*settings.membership.topics, settings.target))
        spawn(self.session.sender.run(), f"the sender of {self.name}")
        spawn(reader.fetcher.run(), f"the fetcher of {self.name}")
        try:
            host.note(Started(self.name, ProducerKind.TRANSACTIONAL))
            # Before joining, because this aborts the open transaction of its predecessor.
            await self.session.init()
            while not self.stopping:
                if await reader.turn() and reader.given:
                    await self._transact()
                reader.fetcher.paused = len(reader.given) >= _ENOUGH
                if not reader.membership.rejoin and not reader.given:
                    await reader.fetcher.progressed.wait(settings.membership.heartbeat)
            await reader.membership.leave()
        except EvictedError:
            pass
        finally:
            self.close()

    async def _transact(self) -> None:
        host, settings, reader, session = self._host, self._settings, self._reader, self.session
        if not await self._cluster.known((settings.target,), 1.0):
            return
        count = self._cluster.topics[settings.target]
        taken = reader.given[: host.rng.randint(1, settings.batch)]
        reader.given = reader.given[len(taken) :]
        offsets = self._offsets(taken)
        membership = reader.membership
        group = membership.settings.group
        # Take the generation now, because the partitions of this batch may have other owners in a later one.
        member = GroupMembership(group, membership.member_id, membership.generation, membership.settings.instance)
        session.begin()
        try:
            for partition, given in taken:
                timestamp = host.clock.time_ms()
                identity = await session.send(
                    lambda identity, at=timestamp: record_of(identity, at),  # type: ignore[misc]
                    TopicPartition(settings.target, partition.partition % count),
                )
                host.note(Derived(identity, group, str(partition), given.offset))
            session.sender.kick()
            await session.send_offsets(member, offsets)
            if settings.dwell and host.rng.random() < _DWELLS:
                await host.sleep(host.rng.uniform(0, settings.dwell))
            if host.rng.random() < settings.aborted:
                await session.abort()
                await reader.rewind()
            else:
                await session.commit()
                self.committed += 1
        except AbortableError:
            await session.abort()
            await reader.rewind()

    def _offsets(self, taken: list[tuple[TopicPartition, Given]]) -> dict[TopicPartition, tuple[int, int]]:
        """The offsets to commit: after the last taken record of each partition."""
        left = dict.fromkeys(partition for partition, _ in self._reader.given)
        offsets = {}
        for partition, given in taken:
            found = self._reader.consumed.get(partition)
            offsets[partition] = found if found is not None and partition not in left else (given.offset + 1, -1)
        return offsets


class Transformer:
    """A pipeline; if its process is fenced, another one starts (``name.1``, ``name.2``, …)."""

    def __init__(self, host: ClientHost, settings: TransformerSettings) -> None:
        self.settings = settings
        self.committed = 0
        """Transactions committed so far by processes that have ended."""
        self.fenced = 0
        """Processes that were fenced."""
        self._host = host
        self._process: _Process | None = None
        self._stopping = False

    @property
    def transactions(self) -> int:
        """Transactions committed so far."""
        return self.committed + (self._process.committed if self._process is not None else 0)

    def stop(self) -> None:
        """End after the open transaction, and leave the group."""
        self._stopping = True
        if self._process is not None:
            self._process.stopping = True

    def kill(self) -> None:
        """End at once, like a killed process."""
        self.stop()
        if self._process is not None:
            self._process.close()

    async def run(self) -> None:
        """Run until :meth:`stop`."""
        for life in range(1, self.settings.lives + 1):
            process = self._process = _Process(self._host, self.settings, life)
            process.stopping = self._stopping
            again = await survives(process.run())
            self.committed += process.committed
            self._process = None
            if not again or self._stopping:
                break
            self.fenced += 1
            await self._host.sleep(self._host.rng.uniform(0.1, 1.0))

"""A member of a consumer group: it reads its assigned partitions, and commits its positions.

Answers to: ``org.apache.kafka.clients.consumer.KafkaConsumer`` with ``subscribe``. Deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkalite.common.tasks import spawn
from kafkalite.common.types import TopicPartition
from kafkalite.testing.simulation.clients.cluster import ClusterClient, Patience
from kafkalite.testing.simulation.clients.consumer_coordinator import (
    ConsumerCoordinator,
    EvictedError,
    MembershipSettings,
)
from kafkalite.testing.simulation.clients.consumer_protocol import STICKY
from kafkalite.testing.simulation.clients.fetcher import Fetcher, FetchSettings, Given
from kafkalite.testing.simulation.clients.host import ClientHost
from kafkalite.testing.simulation.clients.positions import Position


@dataclass(frozen=True)
class MemberSettings:
    """Settings of a member."""

    name: str
    membership: MembershipSettings
    commit: float = 0.5
    """Seconds between commits."""
    commits_first: bool = False
    """Whether it commits before it checks its membership, like an application with slow processing."""
    in_flight: int = 1
    """Greatest number of outstanding commits; with one it waits for the answer before it releases partitions."""
    dawdle: float = 0.0
    """Greatest time in seconds for which it keeps reading after it knows of a rebalance; if that is longer than the
    rebalance timeout, its generation ends meanwhile (``CommitFailedException`` in Java)."""
    fetch: FetchSettings = field(default_factory=FetchSettings)
    patience: Patience = field(default_factory=Patience)


class GroupReader:
    """Membership and fetcher: the assigned partitions are read from the committed offsets.

    The eager protocol releases all partitions before it joins again, the cooperative one only reassigned ones.
    """

    def __init__(self, cluster: ClusterClient, name: str, membership: MembershipSettings, fetch: FetchSettings) -> None:
        # Restarts of a static member are one owner.
        self.membership = ConsumerCoordinator(cluster, membership.instance or name, membership)
        self.fetcher = Fetcher(cluster, name, fetch, self._take)
        self.consumed: dict[TopicPartition, tuple[int, int]] = {}
        """The next offset of each partition with read records, with the leader epoch before it."""
        self.given: list[tuple[TopicPartition, Given]] = []
        """Records that were read and not yet taken by the caller; kept if :attr:`keep` is set."""
        self.keep = False
        self._unplaced: tuple[TopicPartition, ...] = ()
        """The assigned partitions that are not read yet."""
        self._cluster = cluster
        self._host = cluster.host
        self._heard = cluster.host.clock.monotonic()
        self._cooperative = membership.protocol == STICKY

    @property
    def assigned(self) -> tuple[TopicPartition, ...]:
        """The partitions that are read now."""
        return tuple(self.fetcher.positions)

    async def turn(self) -> bool:
        """Join if necessary, otherwise send a heartbeat; returns whether it is a member with an assignment. Raises
        :class:`EvictedError`."""
        membership, now = self.membership, self._host.clock.monotonic
        if membership.lost or now() - self._heard > membership.settings.session_timeout:
            # Another member may read the partitions now.
            self._give_up(())
            membership.rejoin = True
        if not membership.rejoin:
            if await membership.heartbeat():
                self._heard = now()
            if not membership.rejoin:
                await self._place()
            return not membership.rejoin
        if not self._cooperative:
            self._give_up(())
        membership.owned = (*self.assigned, *self._unplaced)
        await self._cluster.known(membership.settings.topics, 1.0)
        assigned = await membership.join()
        if assigned is None:
            await self._host.sleep(self._cluster.patience.retry * (1 + self._host.rng.random()))
            return False
        self._heard = now()
        revoked = [partition for partition in membership.owned if partition not in assigned]
        self._give_up(assigned)
        self._unplaced = tuple(partition for partition in assigned if partition not in self.fetcher.positions)
        await self._place()
        if revoked and self._cooperative:
            membership.rejoin = True
        return True

    async def _place(self) -> None:
        """Start to read the assigned partitions at the committed offsets, if these are known now; they are not while an
        open transaction may change them, for example."""
        new = self._unplaced
        committed = await self.membership.committed(new) if new else None
        if committed is not None and self._unplaced == new:
            self._unplaced = ()
            self.fetcher.assign({**dict.fromkeys(self.assigned, -1), **committed})

    async def rewind(self) -> None:
        """Go back to the committed offsets, as soon as these are known."""
        owned = (*self.assigned, *self._unplaced)
        self._give_up(())
        self._unplaced = owned
        await self._place()

    def close(self) -> None:
        """End at once."""
        self.fetcher.close()
        self.membership.close()

    def _give_up(self, kept: tuple[TopicPartition, ...]) -> None:
        """Stop reading all partitions except ``kept``."""
        self.fetcher.assign({partition: -1 for partition in self.assigned if partition in kept})
        self._unplaced = tuple(partition for partition in self._unplaced if partition in kept)
        self.consumed = {partition: found for partition, found in self.consumed.items() if partition in kept}
        self.given = [(partition, given) for partition, given in self.given if partition in kept]

    def _take(self, partition: TopicPartition, given: list[Given], position: Position) -> None:
        if self.keep:
            self.given += [(partition, each) for each in given]
        self.consumed[partition] = position.offset, position.epoch


class Member:
    """Reads and commits until it is stopped; then it leaves the group."""

    def __init__(self, host: ClientHost, settings: MemberSettings) -> None:
        self.settings = settings
        self.commits = 0
        """Number of acknowledged commits."""
        self.evicted = False
        """Whether another process took its instance id."""
        self._host = host
        self._cluster = ClusterClient(host, settings.name, settings.patience)
        self._reader = GroupReader(self._cluster, settings.name, settings.membership, settings.fetch)
        self._cluster.changed = self._reader.fetcher.kick
        self._committed: dict[TopicPartition, tuple[int, int]] = {}
        """The last requested commit of each partition, unless it was refused."""
        self._under_way = 0
        self._stopping = False
        self._killed = False

    @property
    def assigned(self) -> tuple[TopicPartition, ...]:
        """The partitions that it reads now."""
        return self._reader.assigned

    def stop(self) -> None:
        """Commit, leave, and end."""
        self._stopping = True

    def kill(self) -> None:
        """End at once, like a killed process."""
        self._stopping = self._killed = True
        self._reader.close()
        self._cluster.close()

    async def run(self) -> None:
        """Read and commit until :meth:`stop`."""
        settings, host, reader = self.settings, self._host, self._reader
        self._cluster.want(settings.membership.topics)
        spawn(reader.fetcher.run(), f"the fetcher of {settings.name}")
        try:
            due = host.clock.monotonic() + settings.commit
            while not self._stopping:
                if reader.membership.rejoin:
                    await self._dawdle()
                    # Before releasing the partitions, because the next owner continues from the committed offsets.
                    await self._commit(waits=True)
                if settings.commits_first and host.clock.monotonic() >= due:
                    await self._commit()
                    due = host.clock.monotonic() + settings.commit
                if await reader.turn() and host.clock.monotonic() >= due:
                    await self._commit()
                    due = host.clock.monotonic() + settings.commit
                if not reader.membership.rejoin:
                    await host.sleep(settings.membership.heartbeat * (0.8 + 0.4 * host.rng.random()))
            if not self._killed and not self.evicted:
                await self._commit(waits=True)
                await reader.membership.leave()
        except EvictedError:
            self.evicted = True
        self._reader.close()
        self._cluster.close()

    async def _dawdle(self) -> None:
        """Keep reading in a generation that is about to end, until the coordinator reports its end."""
        membership, host = self._reader.membership, self._host
        end = host.clock.monotonic() + self.settings.dawdle * host.rng.random() if self.settings.dawdle else 0.0
        while not (self._stopping or membership.lost or membership.generation < 0) and host.clock.monotonic() < end:
            await host.sleep(membership.settings.heartbeat * (0.8 + 0.4 * host.rng.random()))
            # Sometimes without a request, so that the first one after the end of the generation is the commit.
            if host.rng.random() < 0.5:
                await self._commit()
            if not self._killed and not membership.lost:
                await membership.heartbeat()

    async def _commit(self, waits: bool = False) -> None:
        """Commit the positions; with ``waits`` wait for the answer. Heartbeats never wait for it."""
        membership = self._reader.membership
        due = {
            partition: found
            for partition, found in self._reader.consumed.items()
            if self._committed.get(partition) != found
        }
        if not due or self._killed or membership.generation < 0 or membership.lost:
            return
        if self.settings.in_flight == 1 and waits and not self._under_way:
            await self._commit_offsets(due)
        elif self._under_way < self.settings.in_flight:
            spawn(self._commit_meanwhile(due), f"a commit of {self.settings.name}")

    async def _commit_meanwhile(self, due: Mapping[TopicPartition, tuple[int, int]]) -> None:
        self._under_way += 1
        try:
            await self._commit_offsets(due)
        except EvictedError:
            self.evicted = self._stopping = True
        finally:
            self._under_way -= 1

    async def _commit_offsets(self, due: Mapping[TopicPartition, tuple[int, int]]) -> None:
        self._committed.update(due)
        if await self._reader.membership.commit(due):
            self.commits += 1
            return
        for partition, found in due.items():
            if self._committed.get(partition) == found:
                del self._committed[partition]

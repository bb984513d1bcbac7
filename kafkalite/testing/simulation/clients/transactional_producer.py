"""A transactional producer: transactions over several partitions, committed or aborted at random.

Answers to: ``org.apache.kafka.clients.producer.KafkaProducer`` with ``transactional.id``. Deterministic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import spawn
from kafkalite.common.types import TopicPartition
from kafkalite.record.records import Record
from kafkalite.testing.history.events import (
    Aborted,
    Begun,
    Committed,
    Committing,
    Initialized,
    OffsetCommitted,
    OffsetCommitting,
    OffsetStaged,
    ProducerKind,
    RecordId,
    Started,
)
from kafkalite.testing.simulation.clients.cluster import ClusterClient, Patience
from kafkalite.testing.simulation.clients.errors import FENCED
from kafkalite.testing.simulation.clients.host import ClientHost
from kafkalite.testing.simulation.clients.records import random_record
from kafkalite.testing.simulation.clients.sender import Sender, SenderSettings
from kafkalite.testing.simulation.clients.sequences import Sequences
from kafkalite.testing.simulation.clients.transaction_manager import (
    AbortableError,
    GroupMembership,
    ProducerFencedError,
    StoppedError,
    TransactionManager,
)


class TransactionalSession:
    """One instance of a transactional producer: its epoch, its transaction, and their events in the history.

    All methods raise the errors of :class:`TransactionManager`.
    """

    def __init__(
        self, cluster: ClusterClient, name: str, transactional_id: str, timeout_ms: int, settings: SenderSettings
    ) -> None:
        self.name = name
        self.sender = Sender(
            cluster, settings, sequences := Sequences(transactional=True), transactional_id, self._hurt
        )
        self.sender.allowed = self._may_send
        self._cluster = cluster
        self._host = cluster.host
        self._sequences = sequences
        self._transactions = TransactionManager(cluster, transactional_id, timeout_ms)
        self._transaction = 0
        self._number = 0
        self._partitions: dict[TopicPartition, None] = {}
        self._staged: list[tuple[str, TopicPartition, int]] = []
        self._begun = False
        """Whether the coordinator knows the transaction."""
        self._hurt_by: ErrorCode | None = None

    async def init(self) -> None:
        """Get an epoch, which fences other instances."""
        producer = await self._transactions.init()
        self._host.note(Initialized(self.name, self._transactions.transactional_id, *producer))
        self._sequences.begin(producer)
        self._hurt_by = None

    def begin(self) -> None:
        """Begin the next transaction."""
        self._transaction += 1
        self._partitions.clear()
        self._staged.clear()
        self._begun = False
        self._host.note(Begun(self.name, self._transaction))

    async def send(self, make: Callable[[RecordId], Record], partition: TopicPartition) -> RecordId:
        """Queue a record, whose partition becomes part of the transaction; returns its identity."""
        self._check()
        if partition not in self._partitions:
            self._begun = True
            await self._transactions.add_partitions((partition,))
            self._partitions[partition] = None
        self._number += 1
        identity = RecordId(self.name, self._number)
        self.sender.send(identity, make(identity), partition, self._transaction)
        return identity

    async def send_offsets(self, member: GroupMembership, offsets: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Commit offsets (and the leader epochs before them) with the transaction."""
        self._check()
        self._begun = True
        await self._transactions.add_offsets(member.group)
        await self._transactions.commit_offsets(member, offsets)
        self._staged += [(member.group, partition, offset) for partition, (offset, _) in offsets.items()]
        for partition in offsets:
            self._host.note(OffsetStaged(member.group, str(partition), self._transactions.transactional_id))

    async def commit(self) -> None:
        """Wait for the outstanding batches, and commit."""
        self.sender.kick()
        await self.sender.flush()
        self._check()
        if not self._begun:
            self._host.note(Committing(self.name, self._transaction))
            self._host.note(Committed(self.name, self._transaction))
            return
        self._host.note(Committing(self.name, self._transaction))
        for group, partition, offset in self._staged:
            # Recorded only now, because the offsets of an aborted transaction may never be shown.
            self._host.note(OffsetCommitting(group, str(partition), offset))
        try:
            await self._transactions.end(commit=True)
        except ProducerFencedError as error:
            if error.args[0]:
                self._host.note(Aborted(self.name, self._transaction))
            raise
        self._host.note(Committed(self.name, self._transaction))
        for group, partition, offset in self._staged:
            self._host.note(OffsetCommitted(group, str(partition), offset))
        await self._settle()

    async def abort(self) -> None:
        """Drop the unsent batches, wait for the outstanding ones, and abort."""
        self.sender.drop_queued()
        await self.sender.flush()
        if self._begun:
            await self._transactions.end(commit=False)
        self._host.note(Aborted(self.name, self._transaction))
        await self._settle()

    def close(self) -> None:
        """End at once."""
        self._transactions.close()
        self.sender.close()

    async def _settle(self) -> None:
        """Get a new epoch if a request of the old one may arrive late, or sequences have gaps."""
        self._partitions.clear()
        if self._hurt_by is not None or self._transactions.doubtful:
            await self.init()

    def _check(self) -> None:
        if self.sender.closed:
            # Killed during a flush: a commit would lack the unsent records.
            raise StoppedError
        if self._hurt_by in FENCED and self._hurt_by is not ErrorCode.INVALID_PRODUCER_EPOCH:
            raise ProducerFencedError(False)
        if self._hurt_by is not None:
            raise AbortableError(self._hurt_by.name)

    def _hurt(self, code: ErrorCode) -> None:
        """Records were given up."""
        if self._hurt_by is None:
            self._hurt_by = code

    def _may_send(self, partition: TopicPartition) -> bool:
        return partition in self._partitions


@dataclass(frozen=True)
class TransactionalSettings:
    """Settings of a transactional producer: ``rate`` transactions a second, of up to ``bunch`` records each."""

    name: str
    transactional_id: str
    topics: tuple[str, ...]
    rate: float = 2.0
    bunch: int = 8
    most: int = 1_000_000
    """Number of transactions after which it ends."""
    aborted: float = 0.2
    """Share of the transactions that it aborts by itself."""
    pause: float = 0.2
    """Greatest pause in seconds between records of a transaction."""
    timeout_ms: int = 10_000
    lives: int = 3
    """Greatest number of its instances, each of which replaces a fenced one."""
    padding: int = 0
    keys: int = 0
    """Number of keys, of which each record gets a random one; 0: records have no keys."""
    tombstones: float = 0.0
    """Share of tombstones among the records with keys."""
    sender: SenderSettings = field(default_factory=SenderSettings)
    patience: Patience = field(default_factory=Patience)


class TransactionalProducer:
    """Its instances are ``name.1``, ``name.2``, …: a fenced one ends, and the next one starts with new record
    numbers."""

    def __init__(self, host: ClientHost, settings: TransactionalSettings) -> None:
        self.settings = settings
        self.committed = 0
        """Transactions committed so far."""
        self.fenced = 0
        """Instances that were fenced."""
        self._host = host
        self._cluster = ClusterClient(host, settings.name, settings.patience)
        self._session: TransactionalSession | None = None
        self._done = 0
        self._stopping = False
        self._killed = False

    @property
    def acknowledged(self) -> int:
        """Number of acknowledged records of the current instance."""
        return self._session.sender.acknowledged if self._session is not None else 0

    def stop(self) -> None:
        """End after the open transaction."""
        self._stopping = True

    def kill(self) -> None:
        """End at once, like a killed process."""
        self._stopping = self._killed = True
        if self._session is not None:
            self._session.close()
        self._cluster.close()

    async def run(self) -> None:
        """Run transactions until :meth:`stop`."""
        self._cluster.want(self.settings.topics)
        for life in range(1, self.settings.lives + 1):
            if self._stopping or not await survives(self._live(life)):
                break
            self.fenced += 1
            await self._host.sleep(self._host.rng.uniform(0.1, 1.0))
        self._cluster.close()

    async def _live(self, life: int) -> None:
        """One instance. Raises :class:`ProducerFencedError` and :class:`StoppedError`."""
        settings = self.settings
        session = TransactionalSession(
            self._cluster, f"{settings.name}.{life}", settings.transactional_id, settings.timeout_ms, settings.sender
        )
        self._session = session
        self._cluster.changed = session.sender.kick
        spawn(session.sender.run(), f"the sender of {session.name}")
        try:
            self._host.note(Started(session.name, ProducerKind.TRANSACTIONAL))
            await session.init()
            while not self._stopping and self._done < settings.most:
                if await self._cluster.known(settings.topics, 1.0):
                    await self._transact(session)
                await self._host.sleep(self._host.rng.expovariate(settings.rate))
        finally:
            session.close()

    async def _transact(self, session: TransactionalSession) -> None:
        host, settings = self._host, self.settings
        self._done += 1
        places = [
            TopicPartition(topic, number) for topic in settings.topics for number in range(self._cluster.topics[topic])
        ]
        session.begin()
        try:
            for _ in range(host.rng.randint(1, settings.bunch)):
                timestamp = host.clock.time_ms()
                await session.send(
                    lambda identity, at=timestamp: self._record(identity, at),  # type: ignore[misc]
                    host.rng.choice(places),
                )
                session.sender.kick()
                if host.rng.random() < 0.3:
                    await host.sleep(host.rng.uniform(0, settings.pause))
            if host.rng.random() < settings.aborted:
                await session.abort()
            else:
                await session.commit()
                self.committed += 1
        except AbortableError:
            await session.abort()

    def _record(self, identity: RecordId, timestamp: int) -> Record:
        settings = self.settings
        return random_record(self._host.rng, identity, timestamp, settings.keys, settings.tombstones, settings.padding)


async def survives(life: Awaitable[None]) -> bool:
    """Await the end of an instance; returns whether it was fenced, so that another may follow."""
    try:
        await life
    except ProducerFencedError:
        return True
    except (AbortableError, StoppedError):
        pass
    return False

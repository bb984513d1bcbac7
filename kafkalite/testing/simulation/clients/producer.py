"""A producer outside of transactions: plain or idempotent, with any ``acks``.

Answers to: ``org.apache.kafka.clients.producer.KafkaProducer``. Deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import spawn
from kafkalite.common.types import TopicPartition
from kafkalite.network.client import ConnectionLost
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.record.records import Record
from kafkalite.testing.history.events import ProducerKind, RecordId, Started
from kafkalite.testing.simulation.clients.cluster import ClusterClient, Patience
from kafkalite.testing.simulation.clients.errors import RETRIABLE
from kafkalite.testing.simulation.clients.host import ClientHost
from kafkalite.testing.simulation.clients.records import random_record
from kafkalite.testing.simulation.clients.sender import Sender, SenderSettings
from kafkalite.testing.simulation.clients.sequences import ProducerId, Sequences

_NO_TIMEOUT = 0x7FFFFFFF


@dataclass(frozen=True)
class ProducerSettings:
    """Settings of a producer: ``rate`` bunches a second, each of up to ``bunch`` records, until it is stopped, or has
    sent ``most`` records."""

    name: str
    topics: tuple[str, ...]
    idempotent: bool = True
    rate: float = 4.0
    bunch: int = 8
    most: int = 1_000_000
    padding: int = 0
    keys: int = 0
    """Number of keys, of which each record gets a random one; 0: records have no keys."""
    tombstones: float = 0.0
    """Share of tombstones among the records with keys."""
    queued: int = 64
    """Number of queued batches at which it waits."""
    sender: SenderSettings = field(default_factory=SenderSettings)
    patience: Patience = field(default_factory=Patience)


class Producer:
    """Sends records to random partitions. After :meth:`stop` it waits for outstanding batches, after :meth:`kill`
    not."""

    def __init__(self, host: ClientHost, settings: ProducerSettings) -> None:
        if settings.idempotent and settings.sender.acks != -1:
            raise ValueError("an idempotent producer needs acks=all")
        self.settings = settings
        self._host = host
        self._cluster = ClusterClient(host, settings.name, settings.patience)
        self._sequences = Sequences(transactional=False) if settings.idempotent else None
        self._sender = Sender(self._cluster, settings.sender, self._sequences)
        self._cluster.changed = self._sender.kick
        self._number = 0
        self._stopping = False
        self._killed = False

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        return self._sender.acknowledged

    def stop(self) -> None:
        """Send the queued records, and end."""
        self._stopping = True

    def kill(self) -> None:
        """End at once, like a killed process."""
        self._stopping = self._killed = True
        self._sender.close()
        self._cluster.close()

    async def run(self) -> None:
        """Send until :meth:`stop`; return when all records are acknowledged or given up."""
        settings, host = self.settings, self._host
        sender = settings.sender
        kind = ProducerKind.IDEMPOTENT if settings.idempotent else ProducerKind.PLAIN
        host.note(Started(settings.name, kind, settings.idempotent or (sender.in_flight == 1 and sender.acks != 0)))
        self._cluster.want(settings.topics)
        spawn(self._sender.run(), f"the sender of {settings.name}")
        if self._sequences is not None and not await self._init(self._sequences):
            return
        while not self._stopping and self._number < settings.most:
            if self._sender.pending >= settings.queued:
                await self._sender.settled.wait(1.0)
                continue
            self._send_bunch()
            await host.sleep(host.rng.expovariate(settings.rate))
        if not self._killed:
            await self._sender.flush()
        self._sender.close()
        self._cluster.close()

    def _send_bunch(self) -> None:
        host, settings = self._host, self.settings
        places = [
            TopicPartition(topic, number)
            for topic in settings.topics
            for number in range(self._cluster.topics.get(topic, 0))
        ]
        if not places:
            self._cluster.request_update()
            return
        some = [host.rng.choice(places) for _ in range(host.rng.randint(1, 3))]
        timestamp = host.clock.time_ms()
        for _ in range(min(host.rng.randint(1, settings.bunch), settings.most - self._number)):
            self._number += 1
            identity = RecordId(settings.name, self._number)
            self._sender.send(identity, self._record(identity, timestamp), host.rng.choice(some))
        self._sender.kick()

    def _record(self, identity: RecordId, timestamp: int) -> Record:
        settings = self.settings
        return random_record(self._host.rng, identity, timestamp, settings.keys, settings.tombstones, settings.padding)

    async def _init(self, sequences: Sequences) -> bool:
        """Get a producer id; ``False`` if the producer must end without one."""
        while not self._stopping:
            try:
                answer = await self._cluster.ask_any(
                    ApiKey.INIT_PRODUCER_ID,
                    4,
                    transactional_id=None,
                    transaction_timeout_ms=_NO_TIMEOUT,
                    producer_id=-1,
                    producer_epoch=-1,
                )
            except ConnectionLost:
                pass
            else:
                code = ErrorCode(answer.error_code)
                if not code:
                    sequences.begin(ProducerId(answer.producer_id, answer.producer_epoch))
                    return True
                if code not in RETRIABLE:
                    self._host.unexpected(self.settings.name, "InitProducerId", code)
            await self._host.sleep(self.settings.patience.retry_max)
        self._sender.close()
        self._cluster.close()
        return False

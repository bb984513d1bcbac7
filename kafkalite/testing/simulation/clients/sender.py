"""Gathers records into batches and sends them to leaders, with several requests in flight and retries.

Answers to: ``org.apache.kafka.clients.producer.internals.{Sender,RecordAccumulator}``. Deterministic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import spawn
from kafkalite.common.types import Part, TopicPartition
from kafkalite.network.client import ConnectionLost
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.produce import ProducePartitionResponse, ProduceRequest, decode_produce_response, encode_produce
from kafkalite.record.records import Record, encode_batch
from kafkalite.testing.history.events import Acked, Failed, RecordId, Sent, Unknown
from kafkalite.testing.simulation.clients.cluster import ClusterClient
from kafkalite.testing.simulation.clients.errors import NOT_WRITTEN, RETRIABLE
from kafkalite.testing.simulation.clients.host import Link, Wakeup
from kafkalite.testing.simulation.clients.sequences import NO_PRODUCER_ID, NONE, ProducerBatch, Sequences

E = ErrorCode
_EXPECTED = frozenset(
    (
        E.OUT_OF_ORDER_SEQUENCE_NUMBER,
        E.DUPLICATE_SEQUENCE_NUMBER,
        E.UNKNOWN_PRODUCER_ID,
        E.INVALID_PRODUCER_EPOCH,
        E.PRODUCER_FENCED,
        E.INVALID_TXN_STATE,
        E.INVALID_PRODUCER_ID_MAPPING,
        E.TRANSACTION_ABORTABLE,
    )
)
"""Final answers other than success after which the sequence continues."""


@dataclass(frozen=True)
class SenderSettings:
    """How records are sent. Java's names; times in seconds. ``codec`` as the attributes of a batch number it."""

    acks: int = -1
    in_flight: int = 5
    linger: float = 0.005
    batch_records: int = 16
    delivery_timeout: float = 20.0
    request_timeout: float = 3.0
    codec: int = 0
    version: int = 11


class Sender:
    """Sends the records of :meth:`send`, in order for each partition, and records their outcomes.

    With ``sequences`` it is idempotent, and waits for their producer id. ``on_failure`` is called with batches that
    were given up, and the error code (REQUEST_TIMED_OUT after the delivery timeout).
    """

    def __init__(
        self,
        cluster: ClusterClient,
        settings: SenderSettings,
        sequences: Sequences | None = None,
        transactional_id: str | None = None,
        on_failure: Callable[[ErrorCode], None] = lambda _: None,
    ) -> None:
        self._cluster = cluster
        self._host = cluster.host
        self._settings = settings
        self._sequences = sequences
        self._transactional_id = transactional_id
        self._on_failure = on_failure
        self.allowed: Callable[[TopicPartition], bool] = lambda _: True
        """Whether a partition may be written to now; a transaction must contain it before."""
        self.acknowledged = 0
        """Records acknowledged so far."""
        self._queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        self._on_wire: dict[int, int] = {}
        self._expecting: dict[ProducerBatch, None] = {}
        self._muted: dict[TopicPartition, None] = {}
        self._wakeup = Wakeup(cluster.host.clock)
        self._flushing = False
        self._closed = False
        self.settled = Wakeup(cluster.host.clock)
        """Woken when an outstanding batch is done."""

    # Calls of the producer

    def send(self, identity: RecordId, record: Record, partition: TopicPartition, transaction: int = -1) -> None:
        """Queue a record, and record it as sent. Call :meth:`kick` after the last one of a bunch."""
        key = None if record.key is None else record.key.decode("utf-8", "replace")
        self._host.note(Sent(identity, str(partition), transaction, key, record.value is None))
        queue = self._queues.setdefault(partition, deque())
        batch = queue[-1] if queue else None
        if batch is None or batch.attempts or len(batch.records) >= self._settings.batch_records or batch.done:
            batch = ProducerBatch(partition, self._host.clock.monotonic(), transaction)
            queue.append(batch)
        batch.records.append((identity, record))

    def kick(self) -> None:
        """Check for work at once."""
        self._wakeup.wake()

    @property
    def pending(self) -> int:
        """Batches that are queued or in flight."""
        return sum(map(len, self._queues.values())) + len(self._expecting)

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closed

    async def flush(self, seconds: float = 1e9) -> None:
        """Return when nothing is queued or in flight any more, after ``seconds`` at the latest."""
        deadline = self._host.clock.monotonic() + seconds
        self._flushing = True
        self.kick()
        while self.pending and not self._closed and self._host.clock.monotonic() < deadline:
            await self.settled.wait(deadline - self._host.clock.monotonic())
        self._flushing = False

    def drop_queued(self) -> None:
        """Give up the unsent batches, because their transaction is aborted."""
        for queue in self._queues.values():
            for batch in list(queue):
                if batch.sequence == NONE:
                    queue.remove(batch)
                    self._note_given_up(batch, "aborted", refused=True)

    def close(self) -> None:
        """Stop sending, and record nothing more."""
        self._closed = True
        self._wakeup.wake()
        self.settled.wake()

    async def run(self) -> None:
        """Send the queued records until :meth:`close`."""
        while not self._closed:
            await self._wakeup.wait(self._turn())

    # One turn

    def _turn(self) -> float:
        """Send all sendable batches; returns the seconds until there may be more to do without any event."""
        now = self._host.clock.monotonic()
        self._expire(now)
        sequences = self._sequences
        if sequences is not None:
            if not sequences.resolve():
                self._on_failure(E.REQUEST_TIMED_OUT)
            for batch in sequences.bump():
                self._queues[batch.partition].remove(batch)
                self._give_up(batch, None, "its sequence is void")
            if sequences.producer == NO_PRODUCER_ID:
                return 1.0
        wait = 1.0
        requests: dict[int, list[ProducerBatch]] = {}
        links: dict[int, Link] = {}
        for partition, queue in self._queues.items():
            if not queue or not self.allowed(partition) or partition in self._muted:
                continue
            batch = queue[0]
            due = batch.not_before if batch.attempts else batch.created + self._settings.linger
            full = batch.attempts == 0 and (self._flushing or len(queue) > 1 or self._is_full(batch))
            if due > now and not full:
                wait = min(wait, due - now)
                continue
            if sequences is not None and not sequences.may_send(batch):
                continue
            node = self._cluster.leader(partition).node
            if node < 0 or self._on_wire.get(node, 0) >= self._settings.in_flight:
                continue
            link = links.get(node) or self._cluster.ready(node)
            if link is None:
                continue
            links[node] = link
            queue.popleft()
            if sequences is not None:
                sequences.assign(batch)
            requests.setdefault(node, []).append(batch)
        for node, batches in requests.items():
            self._post(node, links[node], batches)
        return wait

    def _is_full(self, batch: ProducerBatch) -> bool:
        return len(batch.records) >= self._settings.batch_records

    def _expire(self, now: float) -> None:
        """Give up the batches whose delivery timeout is over."""
        limit = now - self._settings.delivery_timeout
        for queue in self._queues.values():
            while queue and queue[0].created <= limit:
                self._give_up(queue.popleft(), None, "its time is over")
        for batch in [each for each in self._expecting if each.created <= limit]:
            batch.maybe_written = True
            self._give_up(batch, None, "its time is over")

    # One request

    def _post(self, node: int, link: Link, batches: list[ProducerBatch]) -> None:
        settings = self._settings
        batches.sort(key=lambda batch: batch.partition)
        for batch in batches:
            batch.attempts += 1
            batch.on_wire = True
            if batch.data is None:
                batch.data = self._encode(batch)
            self._expecting[batch] = None
            if settings.in_flight == 1 and settings.acks:
                self._muted[batch.partition] = None
        request = ProduceRequest(
            self._transactional_id,
            settings.acks,
            int(settings.request_timeout * 500),
            [(batch.partition, batch.data or memoryview(b"")) for batch in batches],
        )
        body: list[Part] = [*encode_produce(settings.version, request)]
        if settings.acks == 0:
            link.post(int(ApiKey.PRODUCE), settings.version, body)
            for batch in batches:
                self._settle(batch)
            self._wakeup.wake()
            return
        self._on_wire[node] = self._on_wire.get(node, 0) + 1
        answer = link.send(int(ApiKey.PRODUCE), settings.version, body, settings.request_timeout)
        spawn(self._receive(node, link, answer, batches), f"a produce of {self._cluster.name}")

    def _encode(self, batch: ProducerBatch) -> memoryview:
        codec = self._settings.codec
        return memoryview(
            bytearray(
                encode_batch(
                    [record for _, record in batch.records],
                    base_offset=0,
                    codec=codec,
                    producer_id=batch.producer.id,
                    producer_epoch=batch.producer.epoch,
                    base_sequence=batch.sequence,
                    is_transactional=self._transactional_id is not None,
                )
            )
        )

    async def _receive(
        self, node: int, link: Link, answer: Awaitable[memoryview], batches: list[ProducerBatch]
    ) -> None:
        found: dict[TopicPartition, ProducePartitionResponse] | None = None
        try:
            body = await answer
            answers = decode_produce_response(self._settings.version, body)
            found = {TopicPartition(each.topic, each.partition): each for each in answers}
        except ConnectionLost:
            self._cluster.request_update()
        except ProtocolError as error:
            self._host.violation(f"{self._cluster.name}: {error}")
            link.close()
        self._on_wire[node] -= 1
        if self._closed:
            return
        for batch in batches:
            batch.on_wire = False
            if batch.done:
                pass
            elif found is None:
                batch.maybe_written = True
                self._failed(batch, E.NETWORK_EXCEPTION, None)
            elif batch.partition not in found:
                self._host.violation(f"{self._cluster.name}: Produce says nothing of {batch.partition}")
                batch.maybe_written = True
                self._failed(batch, E.NETWORK_EXCEPTION, None)
            else:
                self._answered(batch, node, found[batch.partition])
            # Last, because news of a leader would send the next batch before this one is in the queue again.
            self._muted.pop(batch.partition, None)
        self._wakeup.wake()

    # Outcomes

    def _answered(self, batch: ProducerBatch, node: int, answer: ProducePartitionResponse) -> None:
        code = ErrorCode(answer.error)
        if code is E.NONE or (code is E.DUPLICATE_SEQUENCE_NUMBER and self._sequences is not None):
            self._acknowledged(batch, node, answer.base_offset if code is E.NONE else -1)
            return
        if code not in RETRIABLE and code not in _EXPECTED:
            self._host.unexpected(self._cluster.name, f"Produce to {batch.partition}", code)
        if code not in NOT_WRITTEN:
            batch.maybe_written = True
        self._cluster.hint(batch.partition, answer.current_leader)
        self._cluster.request_update()
        self._failed(batch, code, answer)

    def _acknowledged(self, batch: ProducerBatch, node: int, base_offset: int) -> None:
        count = len(batch.records)
        if self._sequences is not None:
            self._sequences.acknowledged(batch, base_offset + count - 1 if base_offset >= 0 else -1)
        self._settle(batch)
        self.acknowledged += count
        if self._settings.acks != -1:
            return  # acks=1 promises nothing, because the leader may lose the record
        # Unknown after a retry, because another leader than the acknowledging one may have written the batch.
        broker = node if batch.attempts == 1 else -1
        for index, (identity, _) in enumerate(batch.records):
            offset = base_offset + index if base_offset >= 0 else -1
            self._host.note(Acked(identity, str(batch.partition), offset, broker))

    def _failed(self, batch: ProducerBatch, code: ErrorCode, answer: ProducePartitionResponse | None) -> None:
        """An attempt failed: repeat the batch, or give it up."""
        now = self._host.clock.monotonic()
        retry: bool | None = None
        if now - batch.created >= self._settings.delivery_timeout:
            retry = False
        elif self._sequences is not None:
            retry = self._sequences.may_retry(batch, code, -1 if answer is None else answer.log_start_offset)
        if retry is None:
            retry = code in RETRIABLE
        if not retry:
            self._give_up(batch, code, code.name)
            return
        patience = self._cluster.patience
        pause = min(patience.retry * 2 ** (batch.attempts - 1), patience.retry_max)
        batch.not_before = now + pause * (0.8 + 0.4 * self._host.rng.random())
        self._expecting.pop(batch, None)
        queue = self._queues[batch.partition]
        place = 0
        if self._sequences is not None:
            while place < len(queue) and -1 < queue[place].sequence < batch.sequence:
                place += 1
        queue.insert(place, batch)

    def _give_up(self, batch: ProducerBatch, code: ErrorCode | None, why: str) -> None:
        refused = code in NOT_WRITTEN and not batch.maybe_written
        if self._sequences is not None:
            self._sequences.failed(batch, code, adjust=refused)
        self._note_given_up(batch, why, refused=refused or batch.attempts == 0)
        self._on_failure(code or E.REQUEST_TIMED_OUT)

    def _note_given_up(self, batch: ProducerBatch, why: str, *, refused: bool) -> None:
        self._settle(batch)
        for identity, _ in batch.records:
            self._host.note(Failed(identity, why) if refused else Unknown(identity, why))

    def _settle(self, batch: ProducerBatch) -> None:
        batch.done = True
        self._expecting.pop(batch, None)
        self.settled.wake()

"""Reads partitions from given positions: one fetch at a time from each broker, in a session with it.

Answers to: ``org.apache.kafka.clients.consumer.internals.{Fetcher,FetchCollector,CompletedFetch,OffsetFetcher}``.
Deterministic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import spawn
from kafkalite.common.types import ZERO_UUID, TopicPartition
from kafkalite.log.producer_state import read_marker
from kafkalite.network.client import ConnectionLost
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.fetch import FetchRequest, encode_fetch_request
from kafkalite.protocol.fetch_response import FetchPartitionResponse, FetchResponse, decode_fetch_response
from kafkalite.record.batch import BatchHeader, CorruptRecordError, check_crc, iter_headers
from kafkalite.record.records import Record, iter_records
from kafkalite.testing.history.events import Isolation, Positioned, Reached, Read, RecordId
from kafkalite.testing.simulation.clients.cluster import NO_LEADER, ClusterClient
from kafkalite.testing.simulation.clients.errors import RETRIABLE
from kafkalite.testing.simulation.clients.fetch_session_handler import FetchSessionHandler, Wanted
from kafkalite.testing.simulation.clients.host import Link, Wakeup
from kafkalite.testing.simulation.clients.positions import Position, Stage
from kafkalite.testing.simulation.clients.records import identity_of

E = ErrorCode
EARLIEST, LATEST = -2, -1
TOPIC_IDS = 13
_EPOCH_VERSION, _OFFSETS_VERSION = 4, 7


@dataclass(frozen=True)
class FetchSettings:
    """How records are read. Java's names; times in seconds."""

    isolation: Isolation = Isolation.READ_UNCOMMITTED
    version: int = 17
    max_wait: float = 0.5
    max_bytes: int = 1 << 20
    partition_bytes: int = 1 << 16
    rack: str = ""
    reset: int = EARLIEST
    replica_expiry: float = 5.0
    """How long the replica that a leader named is read from before the leader is asked again."""


class Given(NamedTuple):
    """A record as it was read; ``identity`` is ``None`` where no client of the simulation wrote it."""

    offset: int
    identity: RecordId | None
    record: Record


Deliver = Callable[[TopicPartition, list[Given], Position], None]


class Fetcher:
    """Reads the assigned partitions, and notes every record. ``deliver`` gets the records and the new position."""

    def __init__(
        self,
        cluster: ClusterClient,
        reader: str,
        settings: FetchSettings,
        deliver: Deliver | None = None,
    ) -> None:
        self.positions: dict[TopicPartition, Position] = {}
        self.paused = False
        """While set, answers are processed but no more requests are sent."""
        self.progressed = Wakeup(cluster.host.clock)
        self._cluster = cluster
        self._host = cluster.host
        self._reader = reader
        self._settings = settings
        self._deliver = deliver
        self._sessions: dict[int, FetchSessionHandler] = {}
        self._fetching: dict[int, None] = {}
        self._wakeup = Wakeup(cluster.host.clock)
        self._closed = False

    # What a caller does

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these partitions and no others; -1: from where ``reset`` says. Others keep their positions."""
        for partition in [each for each in self.positions if each not in offsets]:
            del self.positions[partition]
        for partition, offset in offsets.items():
            if partition not in self.positions:
                self.seek(partition, offset)
        self._cluster.want(dict.fromkeys(partition.topic for partition in offsets))
        self.kick()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read ``partition`` from ``offset`` on; -1: from where ``reset`` says."""
        position = self.positions[partition] = Position(partition)
        if offset >= 0:
            position.seek(offset)
            self._host.note(Positioned(self._reader, str(partition), offset))

    def kick(self) -> None:
        """Check for work at once."""
        self._wakeup.wake()

    def close(self) -> None:
        """Stop reading, and record nothing more."""
        self._closed = True
        self.positions.clear()
        self._wakeup.wake()
        self.progressed.wake()

    async def run(self) -> None:
        """Read until :meth:`close`."""
        while not self._closed:
            await self._wakeup.wait(self._turn())

    # One turn

    def _turn(self) -> float:
        """Send all possible requests; returns the seconds until there may be more without any event."""
        now = self._host.clock.monotonic()
        by_node: dict[int, list[Position]] = {}
        wait = 1.0
        for position in self.positions.values():
            leader = self._cluster.leader(position.partition)
            if leader == NO_LEADER or leader.node < 0:
                continue
            position.led_by(leader)
            if position.not_before > now:
                wait = min(wait, position.not_before - now)
            elif position.stage is not Stage.FETCH:
                if not position.busy:
                    position.busy = True
                    work = self._reset(position) if position.stage is Stage.RESET else self._validate(position)
                    spawn(work, f"a position of {self._reader}")
            elif not self.paused:
                by_node.setdefault(self._source(position, now), []).append(position)
        for node, positions in by_node.items():
            if node in self._fetching:
                continue
            link = self._cluster.ready(node)
            if link is not None:
                self._fetching[node] = None
                spawn(self._fetch(node, link, positions), f"a fetch of {self._reader}")
        return wait

    def _source(self, position: Position, now: float) -> int:
        if position.replica >= 0 and (position.replica_until <= now or position.replica not in self._cluster.nodes):
            position.replica = -1
        return position.replica if position.replica >= 0 else position.leader.node

    def _back_off(self, position: Position, seconds: float | None = None) -> None:
        pause = self._cluster.patience.retry if seconds is None else seconds
        position.not_before = self._host.clock.monotonic() + pause

    # Fetching

    async def _fetch(self, node: int, link: Link, positions: list[Position]) -> None:
        settings = self._settings
        session = self._sessions.setdefault(node, FetchSessionHandler())
        asked = {position.partition: position for position in positions}
        by_id = settings.version >= TOPIC_IDS
        ids = self._cluster.topic_ids
        wanted: dict[TopicPartition, Wanted] = {
            partition: (position.offset, position.leader, ids.get(partition.topic, ZERO_UUID))
            for partition, position in asked.items()
        }
        named, forgotten = session.build(wanted, settings.partition_bytes, by_id)
        committed = settings.isolation is Isolation.READ_COMMITTED
        request = FetchRequest(
            -1,
            -1,
            int(settings.max_wait * 1000),
            1,
            settings.max_bytes,
            int(committed),
            session.id,
            session.epoch,
            named,
            forgotten,
            settings.rack,
        )
        try:
            body = encode_fetch_request(settings.version, request)
            timeout = self._cluster.patience.request + settings.max_wait
            answer = decode_fetch_response(
                settings.version, await link.send(int(ApiKey.FETCH), settings.version, body, timeout)
            )
        except ConnectionLost:
            session.reset(keep_id=True)
            self._cluster.request_update()
            for position in positions:
                position.replica = -1
                self._back_off(position)
        except ProtocolError as error:
            self._host.violation(f"{self._reader}: {error}")
            link.close()
            session.reset(keep_id=True)
        else:
            if not self._closed:
                self._answered(node, session, answer, asked, wanted)
        self._fetching.pop(node, None)
        self._wakeup.wake()

    def _answered(
        self,
        node: int,
        session: FetchSessionHandler,
        answer: FetchResponse,
        asked: dict[TopicPartition, Position],
        wanted: dict[TopicPartition, Wanted],
    ) -> None:
        code = ErrorCode(answer.error)
        entries: dict[TopicPartition, FetchPartitionResponse] = {}
        for entry in answer.partitions:
            topic = entry.topic if entry.topic is not None else session.name_of(entry.topic_id)
            if topic is None:
                code = code or E.INCONSISTENT_TOPIC_ID
                continue
            entries[TopicPartition(topic, entry.partition)] = entry
        if code and code not in RETRIABLE and code is not E.FETCH_SESSION_TOPIC_ID_ERROR:
            self._host.unexpected(self._reader, "Fetch", code)
        if not session.answered(code, answer.session_id, list(entries)):
            if code:
                self._cluster.request_update()
            return
        moved = False
        for partition, entry in entries.items():
            position = asked.get(partition)
            # Since the request the partition may have been revoked, or its position changed.
            if (
                position is None
                or self.positions.get(partition) is not position
                or position.stage is not Stage.FETCH
                or position.offset != wanted[partition][0]
            ):
                continue
            if entry.error:
                self._refused(position, node, ErrorCode(entry.error), entry)
            else:
                moved |= self._take(position, node, entry)
        if moved:
            self.progressed.wake()

    def _refused(self, position: Position, node: int, code: ErrorCode, entry: FetchPartitionResponse) -> None:
        self._back_off(position)
        if code is E.OFFSET_OUT_OF_RANGE:
            if node != position.leader.node:
                position.replica = -1
            else:
                position.stage = Stage.RESET
            return
        position.replica = -1
        if code not in RETRIABLE:
            self._host.unexpected(self._reader, f"Fetch of {position.partition}", code)
        if code is not E.UNKNOWN_LEADER_EPOCH:
            self._cluster.hint(position.partition, entry.current_leader)
            self._cluster.request_update()

    def _take(self, position: Position, node: int, entry: FetchPartitionResponse) -> bool:
        """Deliver the records; returns whether the position moved."""
        committed = self._settings.isolation is Isolation.READ_COMMITTED
        end = entry.last_stable_offset if committed else entry.high_watermark
        position.end = end
        if entry.preferred_read_replica >= 0 and node == position.leader.node:
            position.replica = entry.preferred_read_replica
            position.replica_until = self._host.clock.monotonic() + self._settings.replica_expiry
        records = entry.records
        if not isinstance(records, memoryview) or not len(records):
            return False
        start = position.offset
        given: list[Given] = []
        try:
            self._read(position, records, entry, end, given)
        except CorruptRecordError as error:
            # The position is behind the batches before the damaged one: their records are delivered, as in Java.
            if E.CORRUPT_MESSAGE not in self._host.tolerated:
                self._host.violation(f"{self._reader}: {position.partition} from offset {start}: {error}")
            self._back_off(position, 1.0)
        if position.offset == start:
            return False
        isolation = self._settings.isolation
        name = str(position.partition)
        for offset, identity, _ in given:
            self._host.note(Read(self._reader, isolation, name, offset, identity))
        if not given or given[-1].offset + 1 < position.offset:
            self._host.note(Reached(self._reader, isolation, name, position.offset))
        if self._deliver is not None:
            self._deliver(position.partition, given, position)
        return True

    def _read(
        self, position: Position, records: memoryview, entry: FetchPartitionResponse, end: int, given: list[Given]
    ) -> None:
        """Add the records from the position on that its isolation shows to ``given``, and move the position behind the
        last batch. Raises :class:`CorruptRecordError` at a damaged batch, with the position at that batch."""
        aborted = deque(sorted(entry.aborted or (), key=lambda each: each[1]))
        hidden: dict[int, None] = {}
        committed = self._settings.isolation is Isolation.READ_COMMITTED
        for place, header in iter_headers(records, allow_partial_tail=True):
            if header.last_offset < position.offset:
                continue
            if header.last_offset >= end:
                self._host.violation(
                    f"{self._reader}: {position.partition} was given up to offset {header.last_offset}, "
                    f"but ends for {self._settings.isolation.value} at {end}"
                )
            if not check_crc(records, place, header):
                raise CorruptRecordError(f"the batch at offset {header.base_offset} has not the CRC of its bytes")
            while aborted and aborted[0][1] <= header.last_offset:
                hidden[aborted.popleft()[0]] = None
            if header.is_control:
                marker = read_marker(records, place, header)
                if marker is not None and not marker.commit:
                    hidden.pop(header.producer_id, None)
            elif not (committed and header.is_transactional and header.producer_id in hidden):
                given += self._visible(position, records, header, place)
            position.offset, position.epoch = header.next_offset, header.leader_epoch

    def _visible(self, position: Position, records: memoryview, header: BatchHeader, place: int) -> list[Given]:
        return [
            Given(record.offset, identity_of(record), record)
            for record in iter_records(records, header, place)
            if record.offset >= position.offset
        ]

    # Positions

    async def _reset(self, position: Position) -> None:
        """Ask for the offset to begin at."""
        partition, leader = position.partition, position.leader
        kind = messages.ListOffsetsRequest.ListOffsetsTopic
        asked = kind.ListOffsetsPartition(
            version=_OFFSETS_VERSION,
            partition_index=partition.partition,
            current_leader_epoch=leader.epoch,
            timestamp=self._settings.reset,
        )
        found = await self._ask_leader(
            position,
            ApiKey.LIST_OFFSETS,
            _OFFSETS_VERSION,
            replica_id=-1,
            isolation_level=int(self._settings.isolation is Isolation.READ_COMMITTED),
            topics=[kind(version=_OFFSETS_VERSION, name=partition.topic, partitions=[asked])],
        )
        if found is not None and position.stage is Stage.RESET:
            position.seek(found.offset)
            self._host.note(Positioned(self._reader, str(partition), found.offset))
        self.kick()

    async def _validate(self, position: Position) -> None:
        """Ask the new leader where the epoch of what was read last ends in its log."""
        partition, leader, epoch = position.partition, position.leader, position.epoch
        kind = messages.OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        asked = kind.OffsetForLeaderPartition(
            version=_EPOCH_VERSION,
            partition=partition.partition,
            current_leader_epoch=leader.epoch,
            leader_epoch=epoch,
        )
        found = await self._ask_leader(
            position,
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            _EPOCH_VERSION,
            replica_id=-1,
            topics=[kind(version=_EPOCH_VERSION, topic=partition.topic, partitions=[asked])],
        )
        if found is not None and position.stage is Stage.VALIDATE and position.leader == leader:
            if found.end_offset < 0 or found.leader_epoch < 0:
                # The log has no entry of that epoch or an earlier one.
                position.stage = Stage.RESET
            elif found.end_offset < position.offset:
                # It was truncated. If that was wrong, the records read are missing in the log, as the history shows.
                position.seek(found.end_offset, found.leader_epoch)
                self._host.note(Positioned(self._reader, str(partition), found.end_offset))
            else:
                position.stage = Stage.FETCH
        self.kick()

    async def _ask_leader(self, position: Position, key: ApiKey, version: int, /, **fields: object) -> Any:
        """The leader's answer about the position's partition; ``None`` if it is not usable."""
        try:
            answer = await self._cluster.ask_node(position.leader.node, key, version, **fields)
        except ConnectionLost:
            position.busy = False
            self._back_off(position)
            self._cluster.request_update()
            return None
        position.busy = False
        if self._closed or self.positions.get(position.partition) is not position:
            return None
        (topic,) = answer.topics
        (entry,) = topic.partitions
        code = ErrorCode(entry.error_code)
        if not code:
            return entry
        if code not in RETRIABLE:
            self._host.unexpected(self._reader, f"{key.name} of {position.partition}", code)
        self._back_off(position)
        self._cluster.request_update()
        return None

"""What compaction makes of one batch: the same bytes, fewer records, a mere header, or nothing.

Answers to: ``org.apache.kafka.common.record.MemoryRecords.{filterTo,RecordFilter}`` and
``org.apache.kafka.storage.internals.log.CleanedTransactionMetadata``. Pure.

A batch that loses records keeps its base offset, its last offset and its base time stamp, so that the records that stay
are the very same bytes. Tombstones and markers that only wait for ``delete.retention.ms`` get their deadline written
into the batch (KIP-534): it takes the place of the base time stamp, and the records' deltas count from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from kafkalite.log.cleaner.job import CleanerStats, LastRecord
from kafkalite.log.cleaner.offset_map import OffsetMap
from kafkalite.log.cleaner.records import Selection, largest_timestamp_delta, note_keys, select_records
from kafkalite.log.values import AbortedTxn
from kafkalite.record.batch import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
    read_any_header,
)
from kafkalite.record.compression import compress
from kafkalite.record.legacy import encode_message_set, unwrap
from kafkalite.record.records import ABORT, COMMIT, CONTROL_KEY, Record, assemble, encode_record, iter_records, payload

MAX_UNFOLDED = 128 << 20
"""Bytes to which a batch may unfold; one that goes beyond makes its partition uncleanable."""


def control_kind(header: BatchHeader, data: memoryview) -> int | None:
    """The type of the control record in ``data``; ``None`` of a batch that was emptied."""
    for record in iter_records(data, header):
        return int(CONTROL_KEY.unpack_from(record.key or b"\0\0\xff\xff")[1])
    return None


def note_batch(
    header: BatchHeader, data: memoryview, start_offset: int, offsets: OffsetMap, stats: CleanerStats
) -> None:
    """Put the keys of a data batch into ``offsets``. Raises ``CorruptRecordError``, ``ApiError``."""
    if header.magic == 2:
        body = bytes(payload(data, header, 0, MAX_UNFOLDED))
        note_keys(body, header.record_count, header.base_offset, start_offset, offsets.offsets)
        stats.index_records_read += header.record_count
        return
    for record, _ in unwrap(data, header, 0, MAX_UNFOLDED):
        if record.key is not None and record.offset >= start_offset:
            offsets.put(record.key, record.offset)
        stats.index_records_read += 1


class CleanedTransactions:
    """Follows the transactions of a log whose batches are shown to it in order.

    ``aborted``: all aborted transactions that overlap what will be shown. ``kept`` is called with those whose marker
    stays because data of theirs was still there: they have to stay in the transaction index.
    """

    def __init__(self, aborted: Iterable[AbortedTxn], kept: Callable[[AbortedTxn], object] | None = None) -> None:
        self._waiting = deque(sorted(aborted, key=lambda txn: txn.first_offset))
        self._kept = kept
        self._committed: set[int] = set()
        self._aborted: dict[int, tuple[AbortedTxn, bool]] = {}

    def on_data(self, header: BatchHeader) -> bool:
        """Whether the batch is part of an aborted transaction, and so may go."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        ongoing = self._aborted.get(header.producer_id)
        if ongoing is None:
            self._committed.add(header.producer_id)
            return False
        self._aborted[header.producer_id] = ongoing[0], True
        return True

    def on_control(self, header: BatchHeader, kind: int | None) -> bool:
        """Whether the marker may go: no data of its transaction was seen. ``kind``: ``None`` of an empty batch."""
        self._begin_up_to(header.last_offset)
        if kind is None:
            return True
        if kind == ABORT:
            txn, seen = self._aborted.pop(header.producer_id, (None, False))
            if txn is not None and seen:
                if self._kept is not None:
                    self._kept(txn)
                return False
            return True
        if kind == COMMIT:
            if header.producer_id in self._committed:
                self._committed.discard(header.producer_id)
                return False
            return True
        return False

    def _begin_up_to(self, offset: int) -> None:
        waiting = self._waiting
        while waiting and waiting[0].first_offset <= offset:
            txn = waiting.popleft()
            self._aborted.setdefault(txn.producer_id, (txn, False))


class BatchFilter:
    """Decides batch by batch, in the order of the log.

    ``last_records``: what is to stay of each known producer; times in milliseconds. ``keep_legacy_tombstones`` stands
    in for a deadline in batches of magic 0 and 1, which have none. ``end``: where the segment ends that is being
    written. The batch before it stays, if only its header, because a start takes a segment that ends earlier for one
    whose end lost power took.
    """

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        last_records: Mapping[int, LastRecord],
        now_ms: int,
        delete_retention_ms: int,
        stats: CleanerStats,
    ) -> None:
        self._offsets = offsets
        self._transactions = transactions
        self._last_records = last_records
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self._stats = stats
        self.keep_legacy_tombstones = True
        self.end = -1

    def apply(self, header: BatchHeader, data: memoryview) -> tuple[BatchHeader, bytes | memoryview] | None:
        """The batch that takes the place of ``data``; ``None`` for none.

        Raises ``CorruptRecordError``; ``ApiError`` where it unfolds to more than :data:`MAX_UNFOLDED`.
        """
        if header.magic < 2:
            return self._legacy(header, data)
        self._stats.records_read += header.record_count
        horizon = header.delete_horizon_ms
        idle_marker = False
        if header.is_control:
            idle_marker = self._transactions.on_control(header, control_kind(header, data))
            discard = idle_marker and horizon is not None and horizon <= self._now_ms
        else:
            discard = self._transactions.on_data(header)
        keep_empty = self._is_last_of_producer(header) or header.next_offset == self.end
        if discard:
            return self._emptied(header) if keep_empty else None
        if header.is_control or (header.record_count and header.base_offset > self._offsets.latest_offset):
            chosen = Selection(header.record_count, [], False)
            body = b""
        else:
            body = bytes(payload(data, header, 0, MAX_UNFOLDED))
            chosen = select_records(
                body,
                header.record_count,
                header.base_offset,
                self._offsets.latest_offset,
                self._offsets.offsets,
                horizon is None or self._now_ms < horizon,
            )
        if not chosen.kept:
            return self._emptied(header) if keep_empty else None
        self._stats.records_written += chosen.kept
        if (chosen.tombstones or idle_marker) and horizon is None:
            if header.is_control:
                body = bytes(payload(data, header))
                chosen = Selection(header.record_count, [0, len(body)], False)
            return self._with_horizon(header, body, chosen)
        if chosen.kept == header.record_count:
            return header, data
        return _reduced(header, body, chosen)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Whether the batch tells where its producer's sequences, or its epoch, have got to."""
        last = self._last_records.get(header.producer_id)
        if last is None or not header.has_producer_id:
            return False
        if last.offset >= 0:
            return header.last_offset == last.offset
        return header.is_control and header.producer_epoch == last.producer_epoch

    def _emptied(self, header: BatchHeader) -> tuple[BatchHeader, bytes]:
        kept = header.attributes & (TIMESTAMP_TYPE_MASK | TRANSACTIONAL_MASK | CONTROL_MASK)
        return _assembled(header, kept, NO_TIMESTAMP, header.max_timestamp, 0, b"")

    def _with_horizon(self, header: BatchHeader, body: bytes, chosen: Selection) -> tuple[BatchHeader, bytes]:
        horizon = self._now_ms + self._delete_retention_ms
        plain = _assembled(
            header,
            header.attributes & ~COMPRESSION_MASK,
            header.base_timestamp,
            header.max_timestamp,
            chosen.kept,
            _cut(body, chosen.ranges),
        )
        records = list(iter_records(plain[1], plain[0], 0, MAX_UNFOLDED))
        return _assembled(
            header,
            header.attributes | DELETE_HORIZON_MASK,
            horizon,
            header.max_timestamp if _appended(header) else max(record.timestamp for record in records),
            len(records),
            b"".join(
                encode_record(record, record.offset - header.base_offset, record.timestamp - horizon)
                for record in records
            ),
        )

    def _legacy(self, header: BatchHeader, data: memoryview) -> tuple[BatchHeader, bytes | memoryview] | None:
        records = [record for record, _ in unwrap(data, header, 0, MAX_UNFOLDED)]
        kept = [record for record in records if self._keeps_legacy(record) or record.offset + 1 == self.end]
        self._stats.records_read += len(records)
        self._stats.records_written += len(kept)
        if not kept:
            return None
        if len(kept) == len(records):
            return header, data
        made = encode_message_set(kept, header.magic, codec=header.compression, timestamp_type=header.timestamp_type)
        return read_any_header(made), made

    def _keeps_legacy(self, record: Record) -> bool:
        if record.offset > self._offsets.latest_offset:
            return True
        if record.key is None or self._offsets.get(record.key) > record.offset:
            return False
        return record.value is not None or self.keep_legacy_tombstones


def _cut(body: bytes, ranges: list[int]) -> bytes:
    if len(ranges) == 2:
        return body[ranges[0] : ranges[1]]
    return b"".join([body[ranges[at] : ranges[at + 1]] for at in range(0, len(ranges), 2)])


def _reduced(header: BatchHeader, body: bytes, chosen: Selection) -> tuple[BatchHeader, bytes]:
    if _appended(header) or header.max_timestamp == NO_TIMESTAMP:
        latest = header.max_timestamp
    else:
        latest = header.base_timestamp + largest_timestamp_delta(body, chosen.ranges)
    return _assembled(header, header.attributes, header.base_timestamp, latest, chosen.kept, _cut(body, chosen.ranges))


def _appended(header: BatchHeader) -> bool:
    return header.timestamp_type == LOG_APPEND_TIME


def _assembled(
    header: BatchHeader, attributes: int, base_timestamp: int, max_timestamp: int, count: int, body: bytes
) -> tuple[BatchHeader, bytes]:
    """A batch in the place of ``header``'s: same offsets, epoch, producer and sequence, and the codec it says."""
    made = BatchHeader(
        header.base_offset,
        0,
        header.leader_epoch,
        2,
        0,
        attributes,
        header.last_offset_delta,
        base_timestamp,
        max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        count,
    )
    data = assemble(made, compress(attributes & COMPRESSION_MASK, body) if body else b"")
    return made, data

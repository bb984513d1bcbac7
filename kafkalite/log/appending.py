"""Appending: as a leader, which gives the offsets, and as a follower, which takes them.

Answers to: ``kafka.log.UnifiedLog.{appendAsLeader,appendAsFollower}``. Deterministic.
"""

from __future__ import annotations

from contextlib import suppress

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import Buffer
from kafkalite.log.base import LogBase
from kafkalite.log.log_segment import MAX_RELATIVE_OFFSET
from kafkalite.log.producer_entry import BatchMetadata
from kafkalite.log.producer_state import Staged
from kafkalite.log.values import AbortedTxn, AppendInfo, UnexpectedAppendOffsetError
from kafkalite.record.batch import BatchHeader, CorruptRecordError, check_crc, iter_headers
from kafkalite.record.validator import validate_for_leader

_TAIL = 32
"""How many ends of appends are remembered; twice as many at most."""


class AppendingLog(LogBase):
    """The part of a log that writes."""

    __slots__ = ()

    def append_as_leader(
        self,
        records: memoryview,
        leader_epoch: int,
        now_ms: int,
        *,
        from_client: bool = True,
        required_acks: int = 1,  # noqa: ARG002
    ) -> AppendInfo:
        """Give offsets to what a producer sent, and write it; ``records`` is patched in place where writable.

        ``from_client`` is off for what brokers write themselves (markers of transactions). Raises :class:`ApiError`:
        what validation refuses, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, RECORD_LIST_TOO_LARGE,
        KAFKA_STORAGE_ERROR. A batch that was appended before is answered with its first offsets.
        """
        if self._broken:
            raise self._storage_error()
        first_offset = self.log_end_offset
        valid = validate_for_leader(
            records, first_offset, leader_epoch, self._validation, now_ms, from_client=from_client
        )
        headers = valid.headers
        header = headers[0]
        entry = None
        staged = None
        if header.producer_id >= 0 or len(headers) > 1:
            entry = self.producer_state.entries.get(header.producer_id)
            if (
                entry is None
                or len(headers) > 1
                or header.attributes & 0x30
                or entry.producer_epoch != header.producer_epoch
                or entry.current_txn_first_offset >= 0
                or not entry.is_next(header.base_sequence)
            ):
                entry = None
                staged = self._stage(headers, valid.buffer, from_client)
                if staged is not None and staged.duplicate is not None:
                    return self._duplicate(staged.duplicate, header, len(records), leader_epoch)
        last_offset = valid.last_offset
        size = len(valid.buffer)
        if size > self.config.segment_bytes:
            raise ApiError(
                ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes do not fit a segment of {self.config.segment_bytes}"
            )
        self._write(valid.buffer, headers, size, last_offset, valid.max_timestamp, now_ms)
        if leader_epoch != self.epochs.latest_epoch:
            self.assign_epoch_start(leader_epoch, first_offset)
        if entry is not None:
            entry.append_data(header)
        elif staged is not None:
            self._commit(staged)
        return AppendInfo(
            first_offset,
            last_offset,
            valid.log_append_time,
            self.log_start_offset,
            valid.max_timestamp,
            valid.record_count,
            size,
            False,
            leader_epoch,
        )

    def append_as_follower(self, records: memoryview) -> AppendInfo:
        """Write what the leader sent: any number of batches, offsets as they are; a batch cut by the end is left out.

        Raises ``ApiError(CORRUPT_MESSAGE)`` for a wrong CRC, :class:`UnexpectedAppendOffsetError` for batches below the
        log's end.
        """
        if self._broken:
            raise self._storage_error()
        headers: list[BatchHeader] = []
        placed: list[tuple[int, BatchHeader]] = []
        end = 0
        expected = self.log_end_offset
        max_timestamp = -1
        count = 0
        known = True
        try:
            for position, header in iter_headers(records, allow_partial_tail=True):
                if not check_crc(records, position, header):
                    raise CorruptRecordError(f"batch at offset {header.base_offset} has a wrong CRC")
                if header.base_offset < expected:
                    raise self._unexpected(header, expected, bool(headers))
                expected = header.base_offset + header.last_offset_delta + 1
                max_timestamp = max(max_timestamp, header.max_timestamp)
                if header.producer_id >= 0:
                    placed.append((position, header))
                if header.leader_epoch != self.epochs.latest_epoch:
                    known = False
                count += header.record_count
                headers.append(header)
                end = position + header.size
        except CorruptRecordError as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{self.topic_partition}: {error}") from None
        if not headers:
            leo = self.log_end_offset
            return AppendInfo(leo, leo - 1, -1, self.log_start_offset, -1, 0, 0, False, -1)
        buffer = records if end == len(records) else records[:end]
        staged = self.producer_state.stage(placed, records, from_client=False, checks=False) if placed else None
        now_ms = self._services.clock.time_ms()
        self._write(buffer, headers, end, expected - 1, max_timestamp, now_ms)
        if not known:
            for header in headers:
                if header.leader_epoch != self.epochs.latest_epoch:
                    self.assign_epoch_start(header.leader_epoch, header.base_offset)
        if staged is not None:
            self._commit(staged)
        first = headers[0].base_offset
        start, epoch = self.log_start_offset, headers[-1].leader_epoch
        return AppendInfo(first, expected - 1, -1, start, max_timestamp, count, end, False, epoch)

    def _unexpected(self, header: BatchHeader, expected: int, within: bool) -> ApiError:
        if within:
            return ApiError(ErrorCode.CORRUPT_MESSAGE, f"{self.topic_partition}: offsets of batches do not ascend")
        return UnexpectedAppendOffsetError(
            f"{self.topic_partition}: batch starts at {header.base_offset}, but the log ends at {expected}",
            header.base_offset,
            header.last_offset,
        )

    def note_refusal(self, records: memoryview) -> None:
        """The leader did not take ``records``, which their producer will send again."""
        with suppress(CorruptRecordError):
            for _, header in iter_headers(records):
                self.producer_state.note_refusal(header)

    def _stage(self, headers: list[BatchHeader], buffer: Buffer, from_client: bool) -> Staged | None:
        placed = []
        position = 0
        for header in headers:
            placed.append((position, header))
            position += header.size
        return self.producer_state.stage(placed, buffer, from_client=from_client)

    def _duplicate(self, batch: BatchMetadata, header: BatchHeader, size: int, leader_epoch: int) -> AppendInfo:
        first, last, stamp = batch.first_offset, batch.last_offset, batch.timestamp
        appended = stamp if self._validation.timestamp_type == 1 else -1
        start = self.log_start_offset
        return AppendInfo(first, last, appended, start, stamp, header.record_count, size, True, leader_epoch)

    def _write(
        self,
        buffer: Buffer,
        headers: list[BatchHeader],
        size: int,
        last_offset: int,
        max_timestamp: int,
        now_ms: int,
    ) -> None:
        segment = self.segments.active
        config = self.config
        try:
            if (
                segment.size
                and (
                    segment.size + size > config.segment_bytes
                    or (max_timestamp if self._roll_by_timestamp else now_ms) > self._roll_at
                    or segment.full
                )
            ) or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
                segment = self.roll(last_offset - MAX_RELATIVE_OFFSET)
            segment.append(buffer, headers, config.index_interval_bytes)
        except OSError as error:
            raise self._write_failed(segment, error) from error
        if segment.size == size:
            self._activated()
        end = last_offset + 1
        tail = self._tail
        if len(tail) >= _TAIL:
            self._older_tail = tail
            tail = self._tail = {}
        tail[end] = segment.size
        self.log_end_offset = end
        if end - self.recovery_point >= config.flush_messages:
            if config.flush_messages == 1:
                # Every message on the disk before it is acknowledged: that cannot wait for another thread.
                self.flush()
            else:
                self._services.flush_later(self)

    def _commit(self, staged: Staged) -> None:
        for txn, stable in self.producer_state.commit(staged):
            if txn.aborted:
                self._guard(
                    self.segments.active.add_aborted,
                    AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, stable),
                )

    def assign_epoch_start(self, epoch: int, start_offset: int) -> None:
        """Note that ``epoch`` begins at ``start_offset``: this broker has become leader, or a batch says so."""
        self._guard(self.epochs.assign, epoch, start_offset)

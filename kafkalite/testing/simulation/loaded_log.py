"""The rules for a single log after any end of its process or machine.

Answers to: nothing in Kafka. Deterministic.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from unittest.mock import patch

from kafkalite.log.file_system import FilePool, FileSystem
from kafkalite.log.log import FlushWork, Log, LogOwner, LogServices
from kafkalite.log.log_config import LogConfig
from kafkalite.log.log_dir import LogDir
from kafkalite.log.log_segment import LogSegment
from kafkalite.log.partition_folder import Folder
from kafkalite.log.producer_entry import ProducerEntry
from kafkalite.log.producer_state import ProducerStateManager
from kafkalite.record.batch import BatchHeader, CorruptRecordError, check_crc, read_any_header
from kafkalite.testing.simulation.durability import Durability


def check_loaded_log(log: Log) -> list[str]:
    """The errors of ``log``, while nothing is appended to it.

    Every batch is complete, valid and at its offset, and no bytes follow the last one; indexes, leader epochs,
    producers and aborted transactions are those of the batches; the recovery point is not above the end. Only compacted
    logs may have gaps, and no log has gaps between segments.
    """
    faults: list[str] = []
    batches = [(header, data) for header, data in _batches(log, faults)]
    headers = [header for header, _ in batches]
    if log.recovery_point > log.log_end_offset:
        faults.append(f"the recovery point {log.recovery_point} is above the end {log.log_end_offset}")
    if headers and headers[-1].next_offset != log.log_end_offset:
        faults.append(f"the last batch ends at {headers[-1].next_offset}, the log at {log.log_end_offset}")
    for segment in log.segments:
        faults += _segment_faults(segment)
    faults += _epoch_faults(log, headers)
    faults += _producer_faults(log, batches)
    if not log.config.compacted:
        faults += _transaction_faults(log, batches)
    return [f"{log.dir}: {fault}" for fault in faults]


def check_cut_log(log: Log) -> list[str]:
    """The errors of ``log``, which was just truncated: it must not refer to removed entries."""
    faults = check_loaded_log(log)
    end = log.log_end_offset
    left = [(epoch, start) for epoch, start in log.epochs.entries if start >= end]
    if left:
        faults.append(f"{log.dir}: was cut to {end}, and its leader epochs still have {left}")
    return faults


@contextmanager
def checked_logs(tell: Callable[[str], object], durability: Durability) -> Iterator[None]:
    """Inside the context every log that is loaded, truncated or flushed is checked; ``tell`` gets each error."""
    load, truncate_to, flushed = LogDir.load, Log.truncate_to, Log.flushed

    def checked_load(
        self: LogDir, config_of: Callable[[str], LogConfig], services: LogServices, owner: LogOwner
    ) -> list[Log]:
        logs = load(self, config_of, services, owner)
        durability.began(self)
        for loaded in logs:
            durability.loaded(loaded)
            durability.recovery_point_set(loaded)
            for fault in check_loaded_log(loaded):
                tell(f"loaded: {fault}")
        return logs

    def checked_truncation(self: Log, offset: int) -> bool:
        was_cut = truncate_to(self, offset)
        if was_cut:
            durability.truncated(self)
            # No check if the disk fails to read.
            with suppress(OSError):
                for fault in check_cut_log(self):
                    tell(f"truncated: {fault}")
        return was_cut

    def checked_flush(self: Log, work: FlushWork) -> None:
        flushed(self, work)
        durability.recovery_point_set(self)

    with (
        patch.object(LogDir, "load", checked_load),
        patch.multiple(Log, truncate_to=checked_truncation, flushed=checked_flush),
    ):
        yield


def _batches(log: Log, faults: list[str]) -> Iterator[tuple[BatchHeader, memoryview]]:
    end = log.segments[0].base_offset
    for segment in log.segments:
        if segment.base_offset < end:
            faults.append(f"segment {segment.base_offset} begins below {end}, where the one before it ends")
        elif segment.base_offset > end:
            faults.append(f"segment {segment.base_offset} begins behind {end}, where the one before it ends")
        data = memoryview(segment.read(0, segment.size))
        end = segment.base_offset
        position = 0
        while position < segment.size:
            try:
                header = read_any_header(data, position)
                whole = position + header.size <= segment.size and check_crc(data, position, header)
            except CorruptRecordError:
                whole = False
            if not whole:
                faults.append(f"segment {segment.base_offset} has no whole batch at byte {position}")
                return
            if header.base_offset < end or (header.base_offset > end and not log.config.compacted):
                faults.append(f"segment {segment.base_offset}: a batch begins at {header.base_offset}, not at {end}")
            end = header.next_offset
            yield header, data[position : position + header.size]
            position += header.size


def _segment_faults(segment: LogSegment) -> Iterator[str]:
    """Errors of a segment: bytes after the last batch, index entries that do not point at batches."""
    try:
        size = os.path.getsize(segment.path)
    except FileNotFoundError:
        size = 0
    if size != segment.size:
        yield f"segment {segment.base_offset} has {segment.size} bytes, its file {size}"
    try:
        lasts = {position: header.last_offset for position, header in segment.headers()}
    except CorruptRecordError:
        return  # the check of its batches reports it
    for entry in map(segment.index.entry, range(len(segment.index))):
        if lasts.get(entry[1]) != entry[0]:
            yield f"segment {segment.base_offset}: its index has {entry}, where no batch ends with that offset"
    end = max(lasts.values(), default=segment.base_offset)
    for timestamp, offset in map(segment.time_index.entry, range(len(segment.time_index))):
        if offset > end:
            yield f"segment {segment.base_offset} ends at {end}, its time index has {timestamp} at {offset}"


def _epoch_faults(log: Log, headers: list[BatchHeader]) -> Iterator[str]:
    expected: list[tuple[int, int]] = []
    for header in headers:
        if header.last_offset >= log.log_start_offset and (not expected or header.leader_epoch > expected[-1][0]):
            expected.append((header.leader_epoch, max(header.base_offset, log.log_start_offset)))
    # An epoch that begins at the end has no batch yet.
    known = [(epoch, start) for epoch, start in log.epochs.entries if start < log.log_end_offset]
    if log.config.compacted:
        # Compaction may have removed the first batches of an epoch, or all of them.
        starts = dict(known)
        if any(starts.get(epoch, start + 1) > start for epoch, start in expected):
            yield f"leader epochs are {known}, those of the batches {expected}"
    elif known != expected:
        yield f"leader epochs are {known}, those of the batches {expected}"


def _producer_faults(log: Log, batches: list[tuple[BatchHeader, memoryview]]) -> Iterator[str]:
    """Errors in the state of producers with a batch in the log; the others may be only in a snapshot."""
    rebuilt = ProducerStateManager(Folder(log.dir, FileSystem(), FilePool(1)))
    for header, data in batches:
        staged = rebuilt.stage(((0, header),), data, from_client=False, checks=False)
        if staged is not None:
            rebuilt.commit(staged)
    for producer_id, entry in sorted(rebuilt.entries.items()):
        known = log.producer_state.entries.get(producer_id)
        if known is None:
            yield f"producer {producer_id} is not known"
            continue
        expected = entry.producer_epoch, entry.last_sequence, entry.current_txn_first_offset
        found = known.producer_epoch, known.last_sequence, known.current_txn_first_offset
        # Compaction may have removed all batches of a transaction except its marker.
        if found == expected or not entry.batches:
            continue
        if (
            log.config.compacted
            and (found[:2] == expected[:2] or _last_batch_compacted_away(known, entry, batches))
            and (found[2] == expected[2] or _transaction_began_before(known, entry, batches))
        ):
            continue
        yield f"producer {producer_id} has (epoch, sequence, transaction) {found}, its batches say {expected}"


def _transaction_began_before(
    known: ProducerEntry, rebuilt: ProducerEntry, batches: list[tuple[BatchHeader, memoryview]]
) -> bool:
    """Whether the open transaction of ``known`` began with a batch that compaction removed.

    Compaction removed the batch because the transaction had ended. If a power failure then loses the marker, the older
    snapshot still has the first offset. The remaining batches begin later; if the marker aborted the transaction with
    a later producer epoch, none may remain, not even the producer's last one.
    """
    began = known.current_txn_first_offset
    remaining = rebuilt.current_txn_first_offset
    return (
        (0 <= began < remaining if remaining >= 0 else rebuilt.last_offset < began <= known.last_offset)
        and not any(header.base_offset <= began <= header.last_offset for header, _ in batches)
        and not any(
            header.is_control and header.producer_id == known.producer_id and header.base_offset > began
            for header, _ in batches
        )
    )


def _last_batch_compacted_away(
    known: ProducerEntry, rebuilt: ProducerEntry, batches: list[tuple[BatchHeader, memoryview]]
) -> bool:
    """Whether the last batch of ``known`` is only in a snapshot, because compaction removed the batch.

    Compaction keeps no batch below its end offset of a producer that wrote above that offset. If the batches above it
    are then lost in a power failure, or truncated, the older snapshot still has the producer's last batch below it.
    """
    ahead = (known.producer_epoch, known.last_sequence) > (rebuilt.producer_epoch, rebuilt.last_sequence)
    offset = known.last_offset
    return (
        ahead
        and offset > rebuilt.last_offset
        and not any(header.base_offset <= offset <= header.last_offset for header, _ in batches)
        and any(header.base_offset > offset for header, _ in batches)
    )


def _transaction_faults(log: Log, batches: list[tuple[BatchHeader, memoryview]]) -> Iterator[str]:
    """Errors in the index of aborted transactions, for transactions whose first batch is in the log."""
    rebuilt = ProducerStateManager(Folder(log.dir, FileSystem(), FilePool(1)))
    aborted: set[tuple[int, int, int]] = set()
    for header, data in batches:
        staged = rebuilt.stage(((0, header),), data, from_client=False, checks=False)
        for txn, _ in () if staged is None else rebuilt.commit(staged):
            if txn.aborted and txn.first_offset >= log.log_start_offset:
                aborted.add((txn.producer_id, txn.first_offset, txn.last_offset))
    known = {
        (txn.producer_id, txn.first_offset, txn.last_offset)
        for txn in log.aborted_transactions(log.log_start_offset, log.log_end_offset + 1)
        if txn.first_offset >= log.log_start_offset
    }
    if known != aborted:
        yield f"aborted transactions (producer, first, last) are {sorted(known)}, the batches say {sorted(aborted)}"

"""Indexes and producer snapshots as text, line for line as Kafka's own tool prints them.

Answers to: the index, time index, transaction index and producer snapshot parts of ``kafka.tools.DumpLogSegments``
(3.9). Deterministic: reads the files that it is given and writes through a callable.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from pathlib import Path

from kafkalite.log.dump import (
    DumpOptions,
    Findings,
    Write,
    base_offset_of,
    batches_of,
    mapped,
    optional_long,
    records_at,
)
from kafkalite.log.producer_snapshot import decode_snapshot
from kafkalite.record.batch import MAX_SEQUENCE, CorruptRecordError

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_TXN_ENTRY = struct.Struct(">hqqqq")


def read_offset_index(path: Path, base: int) -> list[tuple[int, int]]:
    """(offset, position) of every whole entry of a ``.index`` file."""
    view = mapped(path)
    whole = view[: len(view) // _OFFSET_ENTRY.size * _OFFSET_ENTRY.size]
    return [(base + relative, position) for relative, position in _OFFSET_ENTRY.iter_unpack(whole)]


def read_time_index(path: Path, base: int) -> list[tuple[int, int]]:
    """(timestamp, offset) of every whole entry of a ``.timeindex`` file."""
    view = mapped(path)
    whole = view[: len(view) // _TIME_ENTRY.size * _TIME_ENTRY.size]
    return [(timestamp, base + relative) for timestamp, relative in _TIME_ENTRY.iter_unpack(whole)]


def _check_length(path: Path, entry_size: int, kind: str) -> None:
    size = path.stat().st_size
    if size % entry_size:
        raise CorruptRecordError(
            f"{kind} file {path.absolute()} is corrupt, found {size} bytes which is neither positive nor a multiple "
            f"of {entry_size}"
        )


class IndexDumper:
    """Prints what stands beside a segment. Raises ``CorruptRecordError`` and ``OSError`` where Kafka gives up."""

    def __init__(self, options: DumpOptions, write: Write, write_error: Write, findings: Findings) -> None:
        self._options = options
        self._write = write
        self._write_error = write_error
        self._findings = findings

    def offset_index(self, path: Path) -> None:
        """Print a ``.index`` file and compare it to its segment."""
        options = self._options
        base = base_offset_of(path)
        log = mapped(path.with_suffix(".log"))
        entries = read_offset_index(path, base)
        if not entries:
            self._write(f"{path} is empty.\n")
            return
        if options.index_sanity_check:
            last = entries[-1][0]
            if last < base:
                raise CorruptRecordError(
                    f"Corrupt index found, index file ({path.absolute()}) has non-zero size but the last offset is "
                    f"{last} which is less than the base offset {base}"
                )
            _check_length(path, _OFFSET_ENTRY.size, "Index")
            self._write(f"{path} passed sanity check.\n")
            return
        for number, (offset, position) in enumerate(entries):
            # A file that Kafka preallocated and did not get to trim ends in zeros.
            if offset == base and number:
                return
            found = next(batches_of(log, path, position, position + options.max_message_size), None)
            if position > len(log) or found is None:
                raise CorruptRecordError(f"{path}: no batch at position {position} of the segment")
            if found[1].last_offset != offset:
                pairs = self._findings.index_mismatches.setdefault(str(path.absolute()), [])
                pairs.append((offset, found[1].last_offset))
            if not options.verify_index_only:
                self._write(f"offset: {offset} position: {position}\n")

    def time_index(self, path: Path) -> None:
        """Print a ``.timeindex`` file and compare it to its segment, which is found through the offset index."""
        base = base_offset_of(path)
        log_path = path.with_suffix(".log")
        log = mapped(log_path)
        offsets = read_offset_index(path.with_suffix(".index"), base)
        entries = read_time_index(path, base)
        if self._options.index_sanity_check:
            self._check_time_index(path, base, entries)
            return
        name = str(path.absolute())
        previous = -1
        for number, (timestamp, offset) in enumerate(entries):
            if offset == base and number:
                return
            before = bisect_right(offsets, offset, key=lambda entry: entry[0]) - 1
            start = offsets[before][1] if before >= 0 else 0
            found = next((item for item in batches_of(log, log_path, start) if item[1].last_offset >= offset), None)
            if found is None or found[1].last_offset != offset:
                pairs = self._findings.offsets_not_found.setdefault(name, [])
                pairs.append((offset, -1 if found is None else found[1].last_offset))
            else:
                newest = max((record.timestamp for record, _ in records_at(log, found[1], found[0])), default=-1)
                newest = max(newest, -1)
                if newest != timestamp:
                    self._findings.time_mismatches.setdefault(name, []).append((timestamp, newest))
                if previous >= timestamp:
                    self._findings.time_out_of_order.setdefault(name, []).append((timestamp, previous))
            if not self._options.verify_index_only:
                self._write(f"timestamp: {timestamp} offset: {offset}\n")
            previous = timestamp

    def _check_time_index(self, path: Path, base: int, entries: list[tuple[int, int]]) -> None:
        if entries:
            trouble = f"Corrupt time index found, time index file ({path.absolute()}) has non-zero size but the last "
            timestamp, offset = entries[-1]
            if timestamp < entries[0][0]:
                raise CorruptRecordError(
                    f"{trouble}timestamp is {timestamp} which is less than the first timestamp {entries[0][0]}"
                )
            if offset < base:
                raise CorruptRecordError(f"{trouble}offset is {offset} which is less than the first offset {base}")
        _check_length(path, _TIME_ENTRY.size, "Time index")
        self._write(f"{path} passed sanity check.\n")

    def transaction_index(self, path: Path) -> None:
        """Print a ``.txnindex`` file."""
        base_offset_of(path)
        data = path.read_bytes()
        if len(data) % _TXN_ENTRY.size:
            raise CorruptRecordError(f"{path}: the transaction index ends in the middle of an entry")
        for version, producer_id, first, last, stable in _TXN_ENTRY.iter_unpack(data):
            if version > 0:
                raise CorruptRecordError(
                    f"Unexpected aborted transaction version {version} in transaction index {path}, "
                    f"current version is 0"
                )
            self._write(
                f"version: {version} producerId: {producer_id} firstOffset: {first} lastOffset: {last} "
                f"lastStableOffset: {stable}\n"
            )

    def producer_snapshot(self, path: Path) -> None:
        """Print a ``.snapshot`` file; what is wrong with it is said on standard error, and the next file follows."""
        try:
            entries = decode_snapshot(path.read_bytes())
        except CorruptRecordError as error:
            self._write_error(f"{error}\n")
            return
        for entry in entries:
            in_txn = entry.current_txn_first_offset
            line = (
                f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
                f"coordinatorEpoch: {entry.coordinator_epoch} "
                f"currentTxnFirstOffset: {optional_long(in_txn if in_txn >= 0 else None)} "
                f"lastTimestamp: {entry.last_timestamp} "
            )
            if entry.batches:
                batch = entry.batches[0]
                first = batch.last_sequence - batch.offset_delta
                line += (
                    f"firstSequence: {first if first >= 0 else first + MAX_SEQUENCE + 1} "
                    f"lastSequence: {batch.last_sequence} lastOffset: {batch.last_offset} "
                    f"offsetDelta: {batch.offset_delta} timestamp: {batch.timestamp}"
                )
            self._write(line + "\n")

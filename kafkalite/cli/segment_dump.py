"""Segments, their indexes and producer snapshots as text, line for line as Kafka's own tool prints them.

Answers to: ``kafka.tools.DumpLogSegments`` (3.9), and the tool of Kafka 0.11 to 2.0 for the classic form.
Deterministic: reads the files that it is given and writes through a callable.

Lines for standard output and for standard error are kept apart, as Kafka does: what is wrong with a file is said on
standard error, at the end.
"""

from __future__ import annotations

import mmap
import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kafkalite.log.producer_entry import decode_snapshot
from kafkalite.record.batch import (
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAX_SEQUENCE,
    BatchHeader,
    CorruptRecordError,
    check_crc,
    read_any_header,
)
from kafkalite.record.compression import NAMES
from kafkalite.record.legacy import Message, unwrap
from kafkalite.record.records import Record, iter_records

MAX_BYTES = 2147483647
_UNFOLDED = 1 << 30
_OFFSET_AND_SIZE = struct.Struct(">qi")
_SMALLEST_SIZE = 14
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_CONTROL_KEY = struct.Struct(">hh")
_END_MARKER = struct.Struct(">hi")
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_TXN_ENTRY = struct.Struct(">hqqqq")
_CONTROL_TYPES = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)

Decoder = Callable[[bytes], str]
Write = Callable[[str], object]


def decode_string(data: bytes) -> str:
    """Text as UTF-8, what is none of it replaced; an encoded surrogate as a whole, as Java does."""
    if b"\xed" in data:
        data = _SURROGATE.sub(b"\xff", data)
    return data.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """What to print; fields are named as the tool's flags. ``max_bytes`` limits how much of a segment is read."""

    print_data_log: bool = False
    deep_iteration: bool = False
    skip_record_metadata: bool = False
    verify_index_only: bool = False
    index_sanity_check: bool = False
    max_message_size: int = 5242880
    max_bytes: int = MAX_BYTES
    key_decoder: Decoder = decode_string
    value_decoder: Decoder = decode_string
    classic: bool = False


@dataclass(slots=True)
class Findings:
    """What was found wrong, by absolute file name, for the end of the output."""

    non_consecutive: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    index_mismatches: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    time_mismatches: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    time_out_of_order: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    offsets_not_found: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def write(self, write: Write, *, classic: bool = False) -> None:
        """Print it all. Kafka lists the pairs of the first two kinds latest first."""
        _section(
            write, "Mismatches in :{}", "  Index offset: {}, log offset: {}", self.index_mismatches, latest_first=True
        )
        _section(
            write, "Found timestamp mismatch in :{}", "  Index timestamp: {}, log timestamp: {}", self.time_mismatches
        )
        _section(
            write,
            "Found out of order timestamp in :{}",
            "  Index timestamp: {}, Previously indexed timestamp: {}",
            self.time_out_of_order,
        )
        _section(
            write,
            "The following indexed offsets are not found in the log.",
            "Indexed offset: {}, found log offset: {}",
            self.offsets_not_found,
        )
        title = "Non-consecutive offsets in :{}" if classic else "Non-consecutive offsets in {}"
        _section(write, title, "  {} is followed by {}", self.non_consecutive, latest_first=True)


def _section(
    write: Write, title: str, line: str, found: Mapping[str, list[tuple[int, int]]], *, latest_first: bool = False
) -> None:
    for name, pairs in found.items():
        write(title.format(name) + "\n")
        for pair in reversed(pairs) if latest_first else pairs:
            write(line.format(*pair) + "\n")


def mapped(path: Path) -> memoryview:
    """The bytes of a file, read as they are looked at; the mapping goes when the last view of it does."""
    with path.open("rb") as file:
        if not file.seek(0, 2):
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def base_offset_of(path: Path) -> int:
    """The offset that a segment's or index's name tells. Raises ``CorruptRecordError`` where it tells none."""
    name = path.name.split(".")[0]
    if not re.fullmatch(r"[+-]?[0-9]+", name):
        raise CorruptRecordError(f"{path}: the file's name has no offset")
    return int(name)


def batches_of(
    view: memoryview, path: Path, start: int = 0, end: int | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of the batches between two positions, as far as they are whole.

    Raises ``CorruptRecordError`` at a size or magic that makes no sense.
    """
    pos = start
    end = len(view) if end is None else min(end, len(view))
    while pos < end - MAGIC_POSITION - 1:
        size = _OFFSET_AND_SIZE.unpack_from(view, pos)[1]
        if size < _SMALLEST_SIZE:
            raise CorruptRecordError(
                f"Found record size {size} smaller than minimum record overhead ({_SMALLEST_SIZE}) in file {path}."
            )
        if pos > end - LOG_OVERHEAD - size:
            return
        yield pos, read_any_header(view, pos)
        pos += LOG_OVERHEAD + size


def records_at(view: memoryview, header: BatchHeader, pos: int) -> Iterator[tuple[Record, Message | None]]:
    """The records of a batch; of magic 0 and 1 with the message that holds each."""
    if header.magic >= 2:
        for record in iter_records(view, header, pos, _UNFOLDED):
            yield record, None
    else:
        yield from unwrap(view, header, pos, _UNFOLDED)


def timestamp_type(header: BatchHeader) -> str:
    """Kafka's name of what a batch's timestamps are."""
    return ("CreateTime", "LogAppendTime")[header.timestamp_type] if header.magic else "NoTimestampType"


class LogDumper:
    """Prints one segment."""

    def __init__(self, options: DumpOptions, write: Write, findings: Findings) -> None:
        self._options = options
        self._write = write
        self._findings = findings

    def dump(self, path: Path) -> None:
        """Print ``path``. Raises ``CorruptRecordError`` and ``ApiError`` where Kafka's tool gives up, too."""
        options, write = self._options, self._write
        opening = "Starting offset" if options.classic else "Log starting offset"
        write(f"{opening}: {base_offset_of(path)}\n")
        deep = options.deep_iteration or options.print_data_log or options.classic
        print_record = self._classic_record if options.classic else self._record
        view = mapped(path)
        end = min(len(view), options.max_bytes)
        valid, last = 0, -1
        for pos, header in batches_of(view, path, 0, end):
            if not options.classic:
                write(batch_line(view, header, pos))
            if deep:
                for record, message in records_at(view, header, pos):
                    if last not in (-1, record.offset - 1):
                        pairs = self._findings.non_consecutive.setdefault(str(path.absolute()), [])
                        pairs.append((last, record.offset))
                    last = record.offset
                    print_record(header, record, message, pos)
            valid = pos + header.size
        if end > valid and options.max_bytes == MAX_BYTES:
            write(f"Found {end - valid} invalid bytes at the end of {path.name}\n")

    def _record(self, header: BatchHeader, record: Record, message: Message | None, _pos: int) -> None:
        options = self._options
        prefix = "| "
        parts: list[str] = []
        if not options.skip_record_metadata:
            parts.append(
                f"| offset: {record.offset} {timestamp_type(header)}: {record.timestamp} "
                f"keySize: {_size(record.key)} valueSize: {_size(record.value)}"
            )
            prefix = " "
            if message is None:
                parts.append(f" sequence: {record.sequence} headerKeys: [{_header_keys(record)}]")
            else:
                # The lone brace is Kafka's.
                parts.append(f" isValid: {_flag(message.valid)} crc: {message.header.crc}}}")
            if header.is_control:
                parts.append(_control(record))
        if options.print_data_log and not header.is_control:
            if record.key is not None:
                parts.append(f"{prefix}key: {options.key_decoder(record.key)}")
            if record.value is not None:
                parts.append(f" payload: {options.value_decoder(record.value)}")
        parts.append("\n")
        self._write("".join(parts))

    def _classic_record(self, header: BatchHeader, record: Record, message: Message | None, pos: int) -> None:
        options = self._options
        # Records of magic 2 carry no CRC of their own and were always called valid.
        parts = [
            f"offset: {record.offset} position: {pos} {timestamp_type(header)}: {record.timestamp} "
            f"isvalid: {_flag(message is None or message.valid)} keysize: {_size(record.key)} "
            f"valuesize: {_size(record.value)} magic: {header.magic} compresscodec: {NAMES[header.compression].upper()}"
        ]
        if message is None:
            parts.append(
                f" producerId: {header.producer_id} producerEpoch: {header.producer_epoch} sequence: {record.sequence} "
                f"isTransactional: {_flag(header.is_transactional)} headerKeys: [{_header_keys(record)}]"
            )
        else:
            parts.append(f" crc: {message.header.crc}")
        if header.is_control:
            parts.append(_control(record, _CONTROL_TYPES[:2]))
        elif options.print_data_log and record.value is not None:
            # That old tool said nothing of a tombstone's key.
            if record.key is not None:
                parts.append(f" key: {options.key_decoder(record.key)}")
            parts.append(f" payload: {options.value_decoder(record.value)}")
        parts.append("\n")
        self._write("".join(parts))


def batch_line(view: memoryview, header: BatchHeader, pos: int) -> str:
    """The line of a batch."""
    if header.magic >= 2:
        horizon = header.delete_horizon_ms
        head = (
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
            f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
            f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
            f"partitionLeaderEpoch: {header.leader_epoch} isTransactional: {_flag(header.is_transactional)} "
            f"isControl: {_flag(header.is_control)} deleteHorizonMs: {optional_long(horizon)}"
        )
    else:
        head = f"offset: {header.last_offset}"
    codec = header.compression
    if codec >= len(NAMES):
        raise CorruptRecordError(f"Unknown compression type id: {codec}")
    return (
        f"{head} position: {pos} {timestamp_type(header)}: {header.max_timestamp} size: {header.size} "
        f"magic: {header.magic} compresscodec: {NAMES[codec]} crc: {header.crc} "
        f"isvalid: {_flag(check_crc(view, pos, header))}\n"
    )


def optional_long(value: int | None) -> str:
    """As Java prints an ``OptionalLong``."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _header_keys(record: Record) -> str:
    return ",".join(key for key, _ in record.headers)


def _control(record: Record, names: Sequence[str] = _CONTROL_TYPES) -> str:
    try:
        kind = _CONTROL_KEY.unpack_from(record.key or b"")[1]
        name = names[kind] if 0 <= kind < len(names) else "UNKNOWN"
        if kind in (0, 1):
            return f" endTxnMarker: {name} coordinatorEpoch: {_END_MARKER.unpack_from(record.value or b'')[1]}"
    except struct.error as error:
        raise CorruptRecordError(f"control record at offset {record.offset} is cut short") from error
    return f" controlType: {name}({kind})"


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

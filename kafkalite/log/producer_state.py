"""The producers of a partition: who may append what, which transactions are open, and snapshots of it.

Answers to: ``org.apache.kafka.storage.internals.log.ProducerStateManager``. Deterministic.
"""

from __future__ import annotations

import bisect
import logging
import struct
from collections.abc import Callable, Iterable, Sequence

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import Buffer
from kafkalite.log.partition_folder import DELETED_SUFFIX, SNAPSHOT_SUFFIX, Folder
from kafkalite.log.producer_entry import NO_EPOCH, BatchMetadata, CompletedTxn, EndTxnMarker, ProducerEntry, StartedTxn
from kafkalite.log.producer_snapshot import decode_snapshot, encode_snapshot
from kafkalite.record.batch import BatchHeader, CorruptRecordError
from kafkalite.record.records import iter_records

log = logging.getLogger(__name__)
_CONTROL_KEY = struct.Struct(">hh")
_CONTROL_VALUE = struct.Struct(">hi")
_MOST_REFUSED = 1000
"""Producers whose refused first batches are remembered, a partition; one that gives up never sends it again."""


def read_marker(buffer: Buffer, position: int, header: BatchHeader) -> EndTxnMarker | None:
    """What the control batch at ``position`` says; ``None`` for control records of other kinds."""
    for record in iter_records(buffer, header, position):
        if record.key is None or len(record.key) < _CONTROL_KEY.size:
            raise CorruptRecordError(f"control record at offset {header.base_offset} has no type")
        kind = _CONTROL_KEY.unpack_from(record.key)[1]
        if kind not in (0, 1) or record.value is None:
            return None
        return EndTxnMarker(kind == 1, _CONTROL_VALUE.unpack_from(record.value)[1])
    return None


class Staged:
    """Changes of one append, checked but not yet made: they count once the bytes are written."""

    __slots__ = ("duplicate", "entries", "transactions")

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.transactions: list[StartedTxn | CompletedTxn] = []
        """What began and what ended, in the order of offsets."""
        self.duplicate: BatchMetadata | None = None


class ProducerStateManager:
    """Every producer that wrote to one partition and has not expired."""

    __slots__ = (
        "_folder",
        "_ongoing",
        "_refused",
        "_snapshots",
        "_unreplicated",
        "entries",
        "map_end_offset",
        "unsynced",
    )

    def __init__(self, folder: Folder, snapshots: Iterable[int] = ()) -> None:
        self._folder = folder
        self._snapshots = sorted(snapshots)
        self.entries: dict[int, ProducerEntry] = {}
        self._ongoing: dict[int, int] = {}
        self._unreplicated: list[CompletedTxn] = []
        self._refused: dict[int, int] = {}
        """Producers whose first batch was refused and will be sent again: id → epoch."""
        self.map_end_offset = 0
        self.unsynced: set[int] = set()
        """Offsets of snapshots that are not known to be on the disk."""

    # -- appending

    def stage(
        self, headers: Sequence[tuple[int, BatchHeader]], buffer: Buffer, *, from_client: bool, checks: bool = True
    ) -> Staged | None:
        """Check batches, given with their positions in ``buffer``, and return what they change; ``None`` for nothing.

        ``checks`` is off for a follower and a recovery: what a leader took is taken. ``from_client`` adds the checks
        of sequences and finds duplicates. Raises :class:`ApiError`.
        """
        staged: Staged | None = None
        for position, header in headers:
            producer_id = header.producer_id
            if producer_id < 0:
                continue
            if staged is None:
                staged = Staged()
            entry = staged.entries.get(producer_id)
            if entry is None:
                known = self.entries.get(producer_id)
                if known is not None and from_client and checks:
                    staged.duplicate = known.find_duplicate(header)
                    if staged.duplicate is not None:
                        return staged
                entry = known.copy() if known is not None else ProducerEntry(producer_id)
                staged.entries[producer_id] = entry
            if checks:
                entry.check_epoch(header)
            if header.is_control:
                self._stage_marker(staged, entry, header, read_marker(buffer, position, header), checks)
                continue
            if checks and from_client:
                if self._refused and entry.producer_epoch == NO_EPOCH:
                    self._check_first(header)
                entry.check_sequence(header)
            try:
                if entry.append_data(header):
                    staged.transactions.append(StartedTxn(producer_id, header.base_offset))
            except ApiError:
                if checks:
                    raise
        return staged

    def note_refusal(self, header: BatchHeader) -> None:
        """A batch was refused, and its producer will send it again: if it is the producer's first, none comes before.

        Of a producer without an entry any sequence is taken, because it may have been forgotten (KIP-360). The second
        batch in flight would be taken so, and the first could then be written only behind it, or not at all
        (KAFKA-14359).
        """
        if header.producer_id >= 0 and header.base_sequence == 0 and header.producer_id not in self.entries:
            if len(self._refused) >= _MOST_REFUSED:
                del self._refused[next(iter(self._refused))]
            self._refused[header.producer_id] = header.producer_epoch

    def _check_first(self, header: BatchHeader) -> None:
        if self._refused.get(header.producer_id) != header.producer_epoch:
            return
        if header.base_sequence:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"the first batch of producer {header.producer_id} was refused, and comes before sequence "
                f"{header.base_sequence}",
            )
        del self._refused[header.producer_id]

    @staticmethod
    def _stage_marker(
        staged: Staged, entry: ProducerEntry, header: BatchHeader, marker: EndTxnMarker | None, checks: bool
    ) -> None:
        if marker is None:
            return
        if checks and marker.coordinator_epoch < entry.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"marker of coordinator epoch {marker.coordinator_epoch}, but {entry.coordinator_epoch} is current",
            )
        completed = entry.append_marker(header, marker)
        if completed is not None:
            staged.transactions.append(completed)

    def commit(self, staged: Staged) -> list[tuple[CompletedTxn, int]]:
        """Make the changes; returns each transaction that ended, with the last stable offset at its end."""
        self.entries.update(staged.entries)
        if self._refused:
            # Another leader may have taken the batch that was refused here.
            for producer_id in staged.entries:
                self._refused.pop(producer_id, None)
        ended = []
        # In the order of offsets: a follower may be sent the end of a transaction with the starts of later ones.
        for txn in staged.transactions:
            if isinstance(txn, StartedTxn):
                self._ongoing[txn.producer_id] = txn.first_offset
                continue
            if self._ongoing.get(txn.producer_id) == txn.first_offset:
                del self._ongoing[txn.producer_id]
            self._unreplicated.append(txn)
            ended.append((txn, min(self._ongoing.values(), default=txn.last_offset + 1)))
        return ended

    # -- transactions

    @property
    def first_unstable_offset(self) -> int:
        """The first offset of a transaction that is open, or ended above the high watermark; -1 without one."""
        if not self._ongoing and not self._unreplicated:
            return -1
        offsets = list(self._ongoing.values())
        offsets.extend(txn.first_offset for txn in self._unreplicated)
        return min(offsets)

    def on_high_watermark(self, high_watermark: int) -> None:
        """Transactions that ended below ``high_watermark`` no longer hold the last stable offset back."""
        if self._unreplicated:
            self._unreplicated = [txn for txn in self._unreplicated if txn.last_offset >= high_watermark]

    # -- life

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that have been silent for ``expiration_ms`` and have no open transaction."""
        old = [
            entry.producer_id
            for entry in self.entries.values()
            if entry.current_txn_first_offset < 0 and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in old:
            del self.entries[producer_id]
        return len(old)

    def on_log_start(self, log_start_offset: int) -> None:
        """Records below ``log_start_offset`` are gone, and transactions that began there with them."""
        self._ongoing = {pid: first for pid, first in self._ongoing.items() if first >= log_start_offset}
        self._unreplicated = [txn for txn in self._unreplicated if txn.last_offset >= log_start_offset]

    def clear(self, offset: int) -> None:
        """Forget everything; the state is that of an empty log that ends at ``offset``."""
        self._refused.clear()
        self._clear(offset)

    def _clear(self, offset: int) -> None:
        self.entries.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self.map_end_offset = offset

    # -- snapshots

    @property
    def snapshots(self) -> list[int]:
        """Offsets of the snapshot files, ascending."""
        return list(self._snapshots)

    def take_snapshot(self, offset: int) -> None:
        """Write the state, which is that at ``offset``, unless there is a snapshot for it or a later one.

        A flush of the log forces it to the disk.
        """
        self.map_end_offset = offset
        if not offset or (self._snapshots and self._snapshots[-1] >= offset):
            return
        self._folder.fs.write_file(
            self._folder.file(offset, SNAPSHOT_SUFFIX), encode_snapshot(self.entries.values()), sync=False
        )
        self._snapshots.append(offset)
        self.unsynced.add(offset)

    def truncate_and_reload(self, first_offset: int, log_end_offset: int, now_ms: int, expiration_ms: int) -> None:
        """Go back to the latest usable snapshot at or below the log's end; later ones are removed.

        ``first_offset`` is the first that is still in the files. What an older snapshot says is not used: batches are
        missing since, and a producer that is not known at all may go on where one that is known wrongly may not.
        """
        while self._snapshots and self._snapshots[-1] > log_end_offset:
            self.remove_snapshot(self._snapshots[-1])
        self._clear(first_offset)
        while self._snapshots:
            offset = self._snapshots[-1]
            if offset < first_offset:
                return
            path = self._folder.file(offset, SNAPSHOT_SUFFIX)
            try:
                loaded = decode_snapshot(self._folder.fs.read_file(path))
            except (CorruptRecordError, FileNotFoundError) as error:
                log.warning("%s is of no use and is removed: %s", path, error)
                self.remove_snapshot(offset)
                continue
            for entry in loaded:
                if entry.current_txn_first_offset < 0 and now_ms - entry.last_timestamp >= expiration_ms:
                    continue
                self.entries[entry.producer_id] = entry
                if entry.current_txn_first_offset >= 0:
                    self._ongoing[entry.producer_id] = entry.current_txn_first_offset
            self.map_end_offset = offset
            return

    def remove_snapshot(self, offset: int, later: Callable[[str], object] | None = None) -> None:
        """Remove the snapshot of ``offset`` where there is one: now, or renamed and handed to ``later``."""
        at = bisect.bisect_left(self._snapshots, offset)
        if at == len(self._snapshots) or self._snapshots[at] != offset:
            return
        del self._snapshots[at]
        self.unsynced.discard(offset)
        path = self._folder.file(offset, SNAPSHOT_SUFFIX)
        if later is None:
            self._folder.fs.remove(path)
            return
        self._folder.fs.rename(path, path + DELETED_SUFFIX)
        later(path + DELETED_SUFFIX)

    def remove_stray_snapshots(self, bases: Iterable[int]) -> None:
        """Keep only snapshots of segment starts and the newest of all."""
        known = set(bases)
        for offset in self._snapshots[:-1]:
            if offset not in known:
                self.remove_snapshot(offset)

    def remove_all_snapshots(self) -> None:
        """Remove every snapshot file."""
        for offset in self.snapshots:
            self.remove_snapshot(offset)

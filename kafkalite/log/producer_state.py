"""The producers of a partition: their last sequences and epochs, their open transactions, and snapshots of both.

Answers to: ``org.apache.kafka.storage.internals.log.ProducerStateManager``. Deterministic.
"""

from __future__ import annotations

import bisect
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import Buffer
from kafkalite.log.partition_folder import DELETED_SUFFIX, SNAPSHOT_SUFFIX, Folder
from kafkalite.log.producer_entry import (
    NO_EPOCH,
    BatchMetadata,
    CompletedTxn,
    EndTxnMarker,
    ProducerEntry,
    StartedTxn,
    decode_snapshot,
    encode_snapshot,
    is_later,
)
from kafkalite.record.batch import BatchHeader, CorruptRecordError
from kafkalite.record.records import ABORT, COMMIT, CONTROL_KEY, END_TXN_MARKER, iter_records

log = logging.getLogger(__name__)
_MOST_REFUSED = 1000
"""How many refused batches a partition remembers; the bound is for producers that never send them again."""


def read_marker(buffer: Buffer, position: int, header: BatchHeader) -> EndTxnMarker | None:
    """The transaction marker in the control batch at ``position``; ``None`` for control records of other types."""
    for record in iter_records(buffer, header, position):
        if record.key is None or len(record.key) < CONTROL_KEY.size:
            raise CorruptRecordError(f"control record at offset {header.base_offset} has no type")
        kind = CONTROL_KEY.unpack_from(record.key)[1]
        if kind not in (ABORT, COMMIT) or record.value is None:
            return None
        return EndTxnMarker(kind == COMMIT, END_TXN_MARKER.unpack_from(record.value)[1])
    return None


class Staged:
    """Checked changes of one append, which :meth:`ProducerStateManager.commit` makes once the bytes are written."""

    __slots__ = ("duplicate", "entries", "transactions")

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.transactions: list[StartedTxn | CompletedTxn] = []
        """The transactions that the append begins and ends, in the order of offsets."""
        self.duplicate: BatchMetadata | None = None


class Refusal(NamedTuple):
    """The earliest batch of a producer that was refused with ``error`` and that the producer will send again."""

    producer_epoch: int
    sequence: int
    error: ErrorCode

    def is_over(self, entry: ProducerEntry | None) -> bool:
        """Whether the batch is not missing any more in the log that has ``entry`` of its producer."""
        if entry is None:
            return False
        if entry.producer_epoch == self.producer_epoch:
            return not is_later(self.sequence, entry.last_sequence)
        return entry.producer_epoch > self.producer_epoch


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
        self._refused: dict[int, Refusal] = {}
        self.map_end_offset = 0
        self.unsynced: set[int] = set()
        """Offsets of snapshots that are not known to be on the disk."""

    # -- appending

    def stage(
        self,
        headers: Sequence[tuple[int, BatchHeader]],
        buffer: Buffer,
        *,
        from_client: bool,
        checks: bool = True,
        had_other_leader: bool = False,
    ) -> Staged | None:
        """Check batches, given with their positions in ``buffer``, and return what they change; ``None`` for nothing.

        ``checks`` is off for a follower and for recovery, because the leader has checked the batches. ``from_client``
        adds the checks of sequences and finds duplicates. ``had_other_leader``: batches may be on their way to a
        former leader. Raises :class:`ApiError`.
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
                if self._refused:
                    self._check_refused(header)
                if had_other_leader and entry.producer_epoch == NO_EPOCH:
                    self._check_begin(header)
                entry.check_sequence(header)
            try:
                if entry.append_data(header):
                    staged.transactions.append(StartedTxn(producer_id, header.base_offset))
            except ApiError:
                if checks:
                    raise
        return staged

    def note_refusal(self, header: BatchHeader, error: ErrorCode) -> None:
        """A batch was refused with ``error``, after which its producer sends it again.

        Until that batch is written, the later batches in flight are refused with the same error, for two reasons:

        - A producer without an entry may begin with any sequence, because its entry may have expired (KIP-360).
          Therefore its second batch would be accepted, and the first one could only be written behind it, or not at
          all (KAFKA-14359).
        - The error of a gap, OUT_OF_ORDER_SEQUENCE_NUMBER, makes librdkafka begin a new producer epoch and renumber
          what is unanswered in all partitions. What another leader wrote but answered with an error is then written
          twice (https://github.com/confluentinc/librdkafka/issues/4953).
        """
        producer_id, sequence = header.producer_id, header.base_sequence
        if producer_id < 0 or sequence < 0:
            return
        refusal = Refusal(header.producer_epoch, sequence, error)
        if refusal.is_over(self.entries.get(producer_id)):
            return
        known = self._refused.get(producer_id)
        if known is not None and known.producer_epoch == header.producer_epoch and is_later(sequence, known.sequence):
            return
        if known is None and len(self._refused) >= _MOST_REFUSED:
            del self._refused[next(iter(self._refused))]
        self._refused[producer_id] = refusal

    def is_refused(self, producer_id: int) -> bool:
        """Whether a refused batch of the producer is still missing; :meth:`commit` notes that it is written."""
        return producer_id in self._refused

    def _check_refused(self, header: BatchHeader) -> None:
        """Raises the error with which a batch was refused that comes before this one and is still missing."""
        refusal = self._refused.get(header.producer_id)
        if refusal is None or refusal.producer_epoch != header.producer_epoch:
            return
        if is_later(header.base_sequence, refusal.sequence):
            raise ApiError(
                refusal.error,
                f"sequence {refusal.sequence} of producer {header.producer_id} was refused, and comes before sequence "
                f"{header.base_sequence}",
            )

    def _check_begin(self, header: BatchHeader) -> None:
        """Raises NOT_LEADER_OR_FOLLOWER, once, if a producer that this log does not know begins with a later batch.

        Its first batch may have gone to the former leader, which refuses it, and could not be written behind this one
        (KAFKA-14359). The producer sends both again, in order. If it was forgotten here, only this batch comes again,
        and is taken, because :meth:`note_refusal` has been called with it.
        """
        refusal = self._refused.get(header.producer_id)
        if header.base_sequence > 0 and (refusal is None or refusal.producer_epoch != header.producer_epoch):
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"producer {header.producer_id} begins with sequence {header.base_sequence}; its batch before that may "
                "be on the way to the former leader",
            )

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
            # The batch that was refused is written, perhaps by another leader.
            for producer_id, entry in staged.entries.items():
                refusal = self._refused.get(producer_id)
                if refusal is not None and refusal.is_over(entry):
                    del self._refused[producer_id]
        ended = []
        # In the order of offsets, because one fetch may hold the end of a transaction and the starts of later ones.
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

    def has_late_transaction(self, before_ms: int) -> bool:
        """Whether an open transaction got its last record before ``before_ms``, in ms since the epoch."""
        entries = self.entries
        return any(pid in entries and entries[pid].last_timestamp < before_ms for pid in self._ongoing)

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
            self._refused.pop(producer_id, None)
        return len(old)

    def on_log_start(self, log_start_offset: int) -> None:
        """Forget transactions that began below ``log_start_offset``, because their records are deleted."""
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

        ``first_offset`` is the first offset in the files. An older snapshot is not used, because the batches after it
        are missing: a producer without an entry may continue with any sequence, one with a wrong entry is refused.
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

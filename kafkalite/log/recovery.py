"""Recovery: indexes, leader epochs and producer state are rebuilt from the batches.

Answers to: ``LogSegment.recover`` and ``UnifiedLog.rebuildProducerState``. Deterministic.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from kafkalite.log.batch_scan import checked_batches, is_unfinished
from kafkalite.log.leader_epoch_cache import LeaderEpochCache
from kafkalite.log.log_segment import LogSegment
from kafkalite.log.log_segments import LogSegments
from kafkalite.log.producer_state import ProducerStateManager
from kafkalite.log.values import AbortedTxn
from kafkalite.record.batch import NO_LEADER_EPOCH, BatchHeader, CorruptRecordError

log = logging.getLogger(__name__)


class Cut(NamedTuple):
    """What :func:`recover_segment` cut: how many bytes, and whether they were the beginning of one batch."""

    size: int
    unfinished: bool


def recover_segment(
    segment: LogSegment, producers: ProducerStateManager, epochs: LeaderEpochCache, index_interval: int
) -> Cut:
    """Check every batch, rebuild the indexes, and cut the file at the first batch that is not whole and intact.

    ``producers`` has to stand at the segment's base offset. The caller writes the indexes (``become_inactive``): that
    may fail, and then it already knows what was cut.
    """
    fs = segment.folder.fs
    file = segment.opened()
    end = fs.file_size(file.fd)
    segment.start_over()
    position = 0
    last_offset = segment.base_offset - 1
    for at, header, data in checked_batches(fs, file.fd, 0, end):
        if (
            header.last_offset <= last_offset
            or header.leader_epoch < NO_LEADER_EPOCH
            or not segment.fits(header.last_offset)
        ):
            break
        try:
            load_producers(segment, producers, header, data)
        except CorruptRecordError as error:
            log.warning("%s: offset %d: %s", segment.path, header.base_offset, error)
            break
        segment.note(header, at, index_interval)
        epochs.recover(header.leader_epoch, header.base_offset, last_offset + 1)
        last_offset = header.last_offset
        position = at + header.size
    cut = Cut(end - position, position < end and is_unfinished(fs, file.fd, position, end))
    if cut.size:
        fs.truncate(file.fd, position)
    segment.size = position
    return cut


def load_producers(segment: LogSegment, producers: ProducerStateManager, header: BatchHeader, data: memoryview) -> None:
    """Apply one batch to the producer state; an aborted transaction is added to the segment's transaction index."""
    staged = producers.stage(((0, header),), data, from_client=False, checks=False)
    if staged is not None:
        for txn, stable in producers.commit(staged):
            if txn.aborted:
                segment.add_aborted(AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, stable))


def rebuild_producers(
    segments: LogSegments,
    producers: ProducerStateManager,
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
    expiration_ms: int,
) -> None:
    """Set ``producers`` to their state at ``end_offset``, from the last snapshot and the batches that follow it."""
    producers.truncate_and_reload(min(segments[0].base_offset, end_offset), end_offset, now_ms, expiration_ms)
    if end_offset > producers.map_end_offset:
        newest = segments.bases[-2:]
        for segment in segments.from_offset(producers.map_end_offset):
            if segment.base_offset >= end_offset:
                break
            start = max(segment.base_offset, producers.map_end_offset)
            if segment.base_offset in newest and start == segment.base_offset:
                producers.take_snapshot(start)
            found = segment.find(start)
            if found is not None:
                _replay(segment, producers, found[0], end_offset)
    # Batches below the log start offset (DeleteRecords) count for sequences, but not for transactions.
    producers.on_log_start(log_start_offset)
    producers.map_end_offset = end_offset


def _replay(segment: LogSegment, producers: ProducerStateManager, position: int, end_offset: int) -> None:
    for at, header in segment.headers(position):
        if header.base_offset >= end_offset:
            return
        if header.producer_id < 0:
            continue
        data = memoryview(segment.read(at, header.size)) if header.is_control else memoryview(b"")
        staged = producers.stage(((0, header),), data, from_client=False, checks=False)
        if staged is not None:
            # Add nothing to the transaction index, because that of this segment is complete.
            producers.commit(staged)

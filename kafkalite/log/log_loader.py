"""Opens the folder of a partition: completes or removes what a crash left behind, and recovers the log.

Answers to: ``kafka.log.LogLoader``. Deterministic.
"""

from __future__ import annotations

import logging
import uuid

from kafkalite.common.types import TopicPartition
from kafkalite.log.leader_epoch_cache import LeaderEpochCache
from kafkalite.log.log import Log, LogOwner, LogServices, LogState
from kafkalite.log.log_config import LogConfig
from kafkalite.log.log_segment import LogSegment
from kafkalite.log.log_segments import LogSegments
from kafkalite.log.partition_folder import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    PARTITION_METADATA,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    Folder,
    decode_partition_metadata,
    file_name,
    parse_file_name,
)
from kafkalite.log.producer_state import ProducerStateManager
from kafkalite.log.recovery import rebuild_producers, recover_segment
from kafkalite.record.batch import CorruptRecordError

log = logging.getLogger(__name__)


class LogLoader:
    """Loads one folder, once."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        path: str,
        log_dir: str,
        config: LogConfig,
        services: LogServices,
        owner: LogOwner,
    ) -> None:
        self._topic_partition = topic_partition
        self._log_dir = log_dir
        self._config = config
        self._services = services
        self._owner = owner
        self._fs = services.fs
        self._folder = Folder(path, services.fs, services.pool)
        self._segments = LogSegments()
        self._epochs = LeaderEpochCache(self._folder)
        self._rewritten: int | None = None
        """Base offset of the first segment that :meth:`load` shortened, or one of whose indexes it had to rebuild."""
        self.lost_batches = False
        """Whether :meth:`load` found less than a killed process leaves. After a kill, only the last batch is cut, which
        was half-written and not acknowledged."""

    def create(self) -> Log:
        """A log in a folder that has just been made."""
        self._add_segment(0, 0, set())
        producers = ProducerStateManager(self._folder)
        return self._finish(LogState(self._segments, self._epochs, producers, 0, 0, 0))

    def load(self, clean_shutdown: bool, recovery_point: int, log_start_offset: int, cleaned_to: int = 0) -> Log:
        """The log in an existing folder; below ``cleaned_to`` it was compacted.

        Without a clean shutdown, segments from ``recovery_point`` on are checked batch by batch. The recovery point of
        the loaded log may be lower; the caller then writes the checkpoint before anything is appended. Raises
        ``OSError`` if the files cannot be read.
        """
        names = self._complete_swaps(self._remove_temporary())
        files: dict[int, set[str]] = {}
        for name in names:
            parsed = parse_file_name(name)
            if parsed is not None:
                files.setdefault(parsed[0], set()).add(parsed[1])
        producers = ProducerStateManager(
            self._folder, [offset for offset, suffixes in files.items() if SNAPSHOT_SUFFIX in suffixes]
        )
        # Without snapshots after a clean shutdown, a Kafka without snapshots wrote the folder: it knows no producers.
        nothing_known = clean_shutdown and not producers.snapshots
        epochs_known = self._epochs.load()
        rebuild = self._load_segments(files)
        self._recover(producers, clean_shutdown, recovery_point, rebuild, epochs_known, cleaned_to)
        if len(self._segments):
            end = self._segments.active.tail()[0]
            if end < log_start_offset:
                log.warning("%s ends at %d, below its start %d: starts empty", self._folder.path, end, log_start_offset)
                self.lost_batches = True
                for segment in self._segments:
                    self._segments.remove(segment)
                    segment.remove_files()
                self._epochs.clear()
        if not len(self._segments):
            end = log_start_offset
            segment = self._add_segment(end, 0, set())
            if end:
                segment.create_files()
        start = max(log_start_offset, self._segments[0].base_offset)
        # Recovery does not raise the recovery point, because it may have read from the page cache, not from the disk.
        recovery_point = min(max(recovery_point, start) if clean_shutdown else recovery_point, end)
        if self._rewritten is not None:
            # The new length and the new indexes have to be flushed, because lost power could restore the cut bytes, or
            # leave an empty index of aborted transactions or half a time index, which look right to a start.
            recovery_point = min(recovery_point, self._rewritten)
        self._epochs.truncate_from_end(end)
        self._epochs.truncate_from_start(start)
        producers.remove_stray_snapshots(self._segments.bases)
        if nothing_known:
            producers.clear(end)
        else:
            expiration = self._services.producer_expiration_ms
            rebuild_producers(self._segments, producers, start, end, self._services.clock.time_ms(), expiration)
        loaded = self._finish(LogState(self._segments, self._epochs, producers, start, end, recovery_point))
        for segment in self._segments:
            segment.release_all()
        return loaded

    def _finish(self, state: LogState) -> Log:
        loaded = Log(
            self._topic_partition, self._folder, self._log_dir, self._config, self._services, self._owner, state
        )
        loaded.topic_id = self._topic_id()
        return loaded

    def _topic_id(self) -> uuid.UUID | None:
        try:
            return decode_partition_metadata(self._fs.read_file(f"{self._folder.path}/{PARTITION_METADATA}"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            log.warning("%s: %s", self._folder.path, error)
            return None

    def _add_segment(self, base: int, size: int, suffixes: set[str]) -> LogSegment:
        jitter = self._config.segment_jitter_ms
        segment = LogSegment(
            self._folder,
            base,
            index_bytes=self._config.segment_index_bytes,
            created_ms=self._services.clock.time_ms(),
            size=size,
            exists=suffixes,
            roll_jitter_ms=self._services.rng.randrange(min(jitter, self._config.segment_ms)) if jitter else 0,
        )
        self._segments.add(segment)
        return segment

    # -- left-overs

    def _remove(self, name: str) -> None:
        self._fs.remove(f"{self._folder.path}/{name}")

    def _remove_temporary(self) -> list[str]:
        """Remove what is deleted, half-written or half-cleaned; a swap not older than a half-cleaned file goes too."""
        names = self._fs.list_dir(self._folder.path)
        cleaned = [int(name.split(".", 1)[0]) for name in names if name.endswith(CLEANED_SUFFIX)]
        least = min(cleaned, default=None)
        kept = []
        for name in names:
            stale_swap = name.endswith(SWAP_SUFFIX) and least is not None and int(name.split(".", 1)[0]) >= least
            if stale_swap or name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")):
                self._remove(name)
            else:
                kept.append(name)
        return kept

    def _complete_swaps(self, names: list[str]) -> list[str]:
        """Finish what compaction had begun: a ``.log.swap`` replaces the segments whose offsets it covers."""
        swaps = sorted(name for name in names if name.endswith(SWAP_SUFFIX))
        if not swaps:
            return names
        kept = set(names)
        for name in [name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]:
            base = int(name.split(".", 1)[0])
            segment = LogSegment(self._folder, base, index_bytes=0, created_ms=0, size=1)
            segment.suffix = LOG_SUFFIX + SWAP_SUFFIX
            segment.exists = True
            segment.size = self._fs.stat_size(segment.path)
            end = segment.tail()[0]
            segment.release_all()
            for other in sorted(kept):
                parsed = parse_file_name(other)
                if parsed is not None and parsed[1] in SEGMENT_SUFFIXES and base <= parsed[0] < max(end, base + 1):
                    self._remove(other)
                    kept.discard(other)
        for name in swaps:
            target = name.removesuffix(SWAP_SUFFIX)
            self._fs.rename(f"{self._folder.path}/{name}", f"{self._folder.path}/{target}")
            kept.discard(name)
            kept.add(target)
        return sorted(kept)

    # -- segments

    def _load_segments(self, files: dict[int, set[str]]) -> set[int]:
        """Open the segments of ``files``; returns the base offsets of those whose indexes have to be rebuilt."""
        rebuild = set()
        for base in sorted(files):
            suffixes = files[base]
            if LOG_SUFFIX not in suffixes:
                for suffix in sorted(suffixes.intersection(INDEX_SUFFIXES)):
                    log.warning("%s has no log file and is removed", self._folder.file(base, suffix))
                    self._remove(file_name(base, suffix))
                continue
            size = self._fs.stat_size(self._folder.file(base, LOG_SUFFIX))
            segment = self._add_segment(base, size, suffixes)
            if not size and INDEX_SUFFIX not in suffixes and TIME_INDEX_SUFFIX not in suffixes:
                continue
            if not segment.indexes_sane():
                log.warning("%s: indexes are missing or wrong and are rebuilt", segment.path)
                rebuild.add(base)
        return rebuild

    def _recover(
        self,
        producers: ProducerStateManager,
        clean_shutdown: bool,
        recovery_point: int,
        rebuild: set[int],
        epochs_known: bool,
        cleaned_to: int,
    ) -> None:
        cut = doubted = False
        if not len(self._segments):
            return
        stands_at = -1
        for segment in self._segments:
            following = self._segments.following(segment)
            if cut:
                log.warning("%s follows a cut and is removed", segment.path)
                self._segments.remove(segment)
                segment.remove_files()
                producers.remove_snapshot(segment.base_offset)
                continue
            unflushed = not clean_shutdown and (following is None or following.base_offset > recovery_point)
            if not unflushed and segment.base_offset not in rebuild and not (following is None and _is_torn(segment)):
                if not epochs_known:
                    # The epoch file is lost or wrong, so take the epochs from the batches.
                    previous_end = segment.base_offset
                    for _, header in segment.headers():
                        self._epochs.recover(header.leader_epoch, header.base_offset, previous_end)
                        previous_end = header.next_offset
                continue
            if unflushed and not doubted:
                doubted = True
                self._epochs.doubt_from(segment.base_offset)
            if stands_at != segment.base_offset:
                self._rebuild_producers(producers, segment.base_offset)
            elif following is None:
                producers.take_snapshot(segment.base_offset)
            gone = recover_segment(segment, producers, self._epochs, self._config.index_interval_bytes)
            rewritten = gone.size or segment.txn_index is not None or segment.base_offset in rebuild
            if self._rewritten is None and rewritten:
                self._rewritten = segment.base_offset
            if gone.size:
                log.warning("%s: %d bytes that were not whole batches were cut", segment.path, gone.size)
                cut = True
                if clean_shutdown or following is not None or not gone.unfinished:
                    self.lost_batches = True
            segment.become_inactive()
            if not gone.size and following is not None:
                stands_at = following.base_offset
                cut = unflushed and not self._leads_to(segment, following, cleaned_to)
                self.lost_batches = self.lost_batches or cut
        if not clean_shutdown or not epochs_known:
            self._epochs.write()

    def _rebuild_producers(self, producers: ProducerStateManager, end: int) -> None:
        now_ms, expiration_ms = self._services.clock.time_ms(), self._services.producer_expiration_ms
        rebuild_producers(self._segments, producers, self._segments[0].base_offset, end, now_ms, expiration_ms)

    def _leads_to(self, segment: LogSegment, following: LogSegment, cleaned_to: int) -> bool:
        """Whether ``following`` begins where ``segment`` ends.

        Lost power may remove the end of one file and leave the next file. The batches behind such a hole are useless,
        because a replica fetches only from its log end offset on. Compaction leaves holes within segments, and only
        that of Kafka and of earlier versions between them (``log/cleaner/batch_filter``).
        """
        end = segment.tail()[0]
        if end == following.base_offset:
            return True
        if end < following.base_offset and segment.base_offset < cleaned_to:
            return True
        log.warning("%s ends at %d, but the next segment begins at %d", segment.path, end, following.base_offset)
        return False


def _is_torn(segment: LogSegment) -> bool:
    """Whether the file does not end with a whole batch, which can happen even after a clean shutdown."""
    try:
        return segment.tail()[1] != segment.size
    except CorruptRecordError:
        return True

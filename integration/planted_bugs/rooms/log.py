"""Planted bugs of the log: recovery, truncation, checkpoints, producers."""

from __future__ import annotations

from typing import Final

from integration.planted_bugs.bug import Edit, PlantedBug

_ROOM: Final = "log"

BUGS: Final = (
    PlantedBug(
        "torn-batch-stays",
        _ROOM,
        "log/recovery.py",
        "    if cut.size:\n        fs.truncate(file.fd, position)\n",
        "",
        "two lines: recovery cuts what is not a whole batch, and a start looks at the end of the last segment",
        "lost power with unsynced blocks",
        (
            Edit(
                "log/log_loader.py",
                "        return segment.tail()[1] != segment.size\n",
                "        return False\n",
            ),
        ),
    ),
    PlantedBug(
        "recovery-trusts-headers",
        _ROOM,
        "log/recovery.py",
        "    for at, header, data in checked_batches(fs, file.fd, 0, end):\n",
        "    for at, header, data in _unchecked(segment, end):\n",
        "recovery checks the CRC of every batch",
        "lost power with torn blocks",
        (
            Edit(
                "log/recovery.py",
                "def load_producers(",
                "def _unchecked(segment: Segment, end: int):  # type: ignore[no-untyped-def]\n"
                "    segment.size = end\n"
                "    try:\n"
                "        for at, header in segment.headers():\n"
                "            if header.size > end - at:\n"
                "                return\n"
                "            yield at, header, memoryview(segment.read(at, header.size))\n"
                "    except CorruptRecordError:\n"
                "        return\n\n\n"
                "def load_producers(",
            ),
        ),
    ),
    PlantedBug(
        "recovery-point-at-the-end",
        _ROOM,
        "log/log_loader.py",
        "recovery_point = min(max(recovery_point, start) if clean_shutdown else recovery_point, end)",
        "recovery_point = min(max(recovery_point, start), end) if clean_shutdown else end",
        "after an unclean start nothing counts as flushed that was not",
        "killed, started, then lost power",
    ),
    PlantedBug(
        "checkpoint-above-the-cut",
        _ROOM,
        "log/log.py",
        "            # Checkpoints first: on a full disk the log is still whole, and the truncation can be "
        "tried again.\n"
        "            self._storage.attempt(self._owner.before_truncation, self, offset, offset)\n",
        "",
        "truncation lowers the recovery point on the disk",
        "truncated, appended to, then lost power",
    ),
    PlantedBug(
        "recovery-moves-epochs",
        _ROOM,
        "log/leader_epoch_cache.py",
        "        if epoch < 0 or (self.latest_epoch is not None and epoch <= self.latest_epoch):\n            return\n"
        "        start = self._doubtful",
        "        if epoch < 0:\n            return\n        start = self._doubtful",
        "two lines: recovery leaves the start of an epoch that began below it, and the cache takes no later start",
        "kill -9 after elections",
        (
            Edit(
                "log/leader_epoch_cache.py",
                "        if self._epochs and epoch == self._epochs[-1] and start >= self._starts[-1]:\n"
                "            return False\n",
                "",
            ),
        ),
    ),
    PlantedBug(
        "truncation-keeps-epochs",
        _ROOM,
        "log/log.py",
        "        self._ends_at(offset)\n        self.epochs.truncate_from_end(offset)\n",
        "        self._ends_at(offset)\n",
        "truncation forgets the leader epochs that it cuts",
        "an unacknowledged tail of an epoch of its own",
    ),
    PlantedBug(
        "followers-forget-producers",
        _ROOM,
        "log/log.py",
        "staged = self.producer_state.stage(placed, records, from_client=False, checks=False) if placed else None",
        "staged = None",
        "followers know the producers, so that a new leader recognises what is sent again",
        "a leader dies with answers under way",
    ),
    PlantedBug(
        "truncation-keeps-producers",
        _ROOM,
        "log/log.py",
        "        rebuild_producers(\n"
        "            segments,\n"
        "            self.producer_state,\n"
        "            self.log_start_offset,\n"
        "            offset,\n            now_ms,\n            self._services.producer_expiration_ms,\n        )\n",
        "",
        "what was cut is forgotten of the producers, too",
        "an idempotent producer's batch is cut, and sent again to the same broker",
    ),
    PlantedBug(
        "start-forgets-the-tail-of-producers",
        _ROOM,
        "log/recovery.py",
        "    if end_offset > producers.map_end_offset:\n",
        "    if end_offset > producers.map_end_offset and not producers.snapshots:\n",
        "what follows the last producer snapshot is read at a start",
        "a leader restarts with answers under way",
    ),
    PlantedBug(
        "snapshot-without-transactions",
        _ROOM,
        "log/producer_entry.py",
        "        entry.current_txn_first_offset = txn_first\n",
        "        entry.current_txn_first_offset = -1\n",
        "an open transaction outlasts a restart",
        "a restart while transactions are open, in a log with several segments",
    ),
    PlantedBug(
        "duplicates-are-not-recognised",
        _ROOM,
        "log/producer_state.py",
        "                    staged.duplicate = known.find_duplicate(header)\n",
        "                    staged.duplicate = None\n",
        "two lines: a batch that was sent again is answered with its first offset, or refused",
        "lost answers",
        (Edit("log/producer_state.py", "                entry.check_sequence(header)\n", "                pass\n"),),
    ),
    PlantedBug(
        "one-batch-is-remembered",
        _ROOM,
        "log/producer_entry.py",
        "BATCHES_KEPT = 5",
        "BATCHES_KEPT = 1",
        "the last five batches of a producer are recognised",
        "lost answers with several requests in flight",
    ),
    PlantedBug(
        "clean-mark-outlives-the-start",
        _ROOM,
        "log/log_dir.py",
        '        self._fs.remove(f"{self.path}/{CLEAN_SHUTDOWN_FILE}")\n        # Sync, because',
        "        # Sync, because",
        "a crash after a clean start is a crash",
        "a restart in order, then lost power",
    ),
    PlantedBug(
        "any-boot-is-this-boot",
        _ROOM,
        "log/log_dir_files.py",
        "(boot.boot_id, boot.directories) == (boot_id, directories)",
        "boot.directories == directories",
        "a start after another boot of the machine may lack records",
        "lost power of a machine that is back at once",
    ),
    PlantedBug(
        "high-watermark-from-the-end",
        _ROOM,
        "log/log_dir.py",
        "loaded.update_high_watermark(high_watermarks.get(tp, 0))",
        "loaded.update_high_watermark(loaded.log_end_offset)",
        "the high watermark of a start is the one of the checkpoint",
        "a leader comes back with a tail that no other replica has, and dies again",
    ),
    PlantedBug(
        "flush-over-a-cut",
        _ROOM,
        "log/log.py",
        "        if self._cuts == work.cuts:\n",
        "        if work.end >= 0:\n",
        "a flush that began before a truncation does not count for what was written after it",
        "a truncation during a flush, then lost power",
    ),
    PlantedBug(
        "index-keeps-what-was-cut",
        _ROOM,
        "log/log_segment.py",
        "        self.index.truncate_to(offset)\n"
        "        self.time_index.truncate_to(offset)\n"
        "        if self.txn_index",
        "        if self.txn_index",
        "the indexes of a segment end with it",
        "truncations",
    ),
)

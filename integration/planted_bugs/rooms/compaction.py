"""Planted bugs of compaction."""

from __future__ import annotations

from typing import Final

from integration.planted_bugs.bug import Edit, PlantedBug

_ROOM: Final = "compaction"

BUGS: Final = (
    PlantedBug(
        "last-value-is-dropped",
        _ROOM,
        "log/cleaner/records.py",
        "digest(key), -1) > offset or (",
        "digest(key), -1) >= offset or (",
        "the last value of a key stays",
        "none",
    ),
    PlantedBug(
        "compaction-above-the-high-watermark",
        _ROOM,
        "log/cleaner/log_cleaner_manager.py",
        "    uncleanable = min(log_.last_stable_offset, log_.segments.active.base_offset)\n",
        "    uncleanable = log_.segments.active.base_offset\n",
        "compaction ends at the last stable offset",
        "truncations after a compaction",
    ),
    PlantedBug(
        "tombstones-go-at-once",
        _ROOM,
        "log/cleaner/batch_filter.py",
        "                horizon is None or self._now_ms < horizon,\n",
        "                False,\n",
        "a tombstone stays for `delete.retention.ms`",
        "readers of a compacted topic, deleted keys",
    ),
    PlantedBug(
        "cleaned-segment-over-a-cut",
        _ROOM,
        "log/cleaner/log_cleaner.py",
        "        if offset < cut.segments.active.base_offset:\n            self.abort(topic_partition)\n"
        "        if self.checkpoints.truncate",
        "        if self.checkpoints.truncate",
        "two lines: a round ends where its log is truncated, and takes in only what is never truncated",
        "truncations during a round",
        (
            Edit(
                "log/cleaner/log_cleaner_manager.py",
                "    uncleanable = min(log_.last_stable_offset, log_.segments.active.base_offset)\n",
                "    uncleanable = log_.segments.active.base_offset\n",
            ),
        ),
    ),
    PlantedBug(
        "swap-after-the-old-are-gone",
        _ROOM,
        "log/log.py",
        "        self._rename_files(paths, CLEANED_SUFFIX, SWAP_SUFFIX)\n        gone: list[str] = []\n",
        "        gone: list[str] = []\n",
        "a compacted segment has its second name before the old ones go",
        "a crash during a swap",
        (
            Edit(
                "log/log.py",
                '        self._rename_files(paths, SWAP_SUFFIX, "")\n',
                '        self._rename_files(paths, CLEANED_SUFFIX, "")\n',
            ),
        ),
    ),
    PlantedBug(
        "keys-of-aborted-records",
        _ROOM,
        "log/cleaner/cleaner.py",
        "                elif not transactions.on_data(header):\n",
        "                elif transactions.on_data(header) or True:\n",
        "a record of an aborted transaction takes no other's place",
        "transactions that write to a compacted topic, and abort",
    ),
    PlantedBug(
        "compaction-forgets-producers",
        _ROOM,
        "log/cleaner/batch_filter.py",
        "            return header.last_offset == last.offset\n",
        "            return False\n",
        "a batch that tells where its producer is stays, empty",
        "restarts of compacted logs with answers under way",
    ),
)

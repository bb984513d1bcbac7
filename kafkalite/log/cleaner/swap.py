"""Putting a compacted segment in the place of those that it was made from.

Answers to: ``kafka.log.LocalLog.replaceSegments``. Deterministic.

A crash at any moment leaves either the old segments (``.cleaned`` is thrown away by the loader) or the new one
(``.swap`` is finished). Old files are renamed and removed later, so that readers under way go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafkalite.log.log_segment import LogSegment
from kafkalite.log.log_segments import LogSegments
from kafkalite.log.partition_folder import CLEANED_SUFFIX, SWAP_SUFFIX, Folder
from kafkalite.log.producer_state import ProducerStateManager


def swap_in(
    segments: LogSegments,
    made: LogSegment,
    suffixes: Iterable[str],
    old: list[LogSegment],
    folder: Folder,
    producers: ProducerStateManager,
) -> list[str]:
    """Replace ``old`` by ``made``, whose files have ``.cleaned`` names; returns the files to be removed later.

    Raises ``OSError``; some of the renames may then have been done.
    """
    paths = [folder.file(made.base_offset, suffix) for suffix in suffixes]
    _rename(folder, paths, CLEANED_SUFFIX, SWAP_SUFFIX)
    gone: list[str] = []
    for segment in old:
        segments.remove(segment)
        gone.extend(segment.mark_deleted())
        if segment.base_offset != made.base_offset:
            producers.remove_snapshot(segment.base_offset, gone.append)
    _rename(folder, paths, SWAP_SUFFIX, "")
    segments.add(made)
    return gone


def _rename(folder: Folder, paths: Iterable[str], old: str, new: str) -> None:
    rename: Callable[[str, str], None] = folder.fs.rename
    for path in paths:
        rename(path + old, path + new)

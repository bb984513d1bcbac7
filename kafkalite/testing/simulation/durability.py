"""Compares the recovery points of logs with the synced data of their disks.

Answers to: nothing in Kafka. Deterministic: it reads logs and disks and changes nothing.

A recovery point promises that a start need not read the log below it. It is checked whenever the recovery point or the
log's end changes, because otherwise a later power failure would have to show the violation.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from kafkalite.log.log import Log
from kafkalite.log.log_dir import LogDir
from kafkalite.log.log_dir_files import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK,
    RECOVERY_POINT,
    CheckpointError,
    decode_offsets,
)
from kafkalite.log.log_segment import LogSegment
from kafkalite.log.partition_folder import DELETE_DIR_SUFFIX
from kafkalite.record.batch import iter_headers
from kafkalite.testing.simulation.disk import SimDisk


class Durability:
    """Checks the logs on ``disks`` (by log directory); ``tell`` is called with each violation."""

    def __init__(self, disks: Mapping[str, SimDisk], tell: Callable[[str], object]) -> None:
        self._disks = disks
        self._tell = tell

    def began(self, directory: LogDir) -> None:
        """A process has loaded the logs of ``directory`` and will write to it."""
        disk = self._disks.get(directory.path)
        if disk is not None and disk.may_be_there(f"{directory.path}/{CLEAN_SHUTDOWN_FILE}"):
            self._tell(f"{directory.path}: a process works here, and the mark of a clean shutdown may be on the disk")

    def loaded(self, log: Log) -> None:
        """``log`` was loaded: its high watermark must not exceed the last known one of the process before."""
        known = max(_checkpointed(log, HIGH_WATERMARK), log.log_start_offset)
        if log.log_dir in self._disks and log.high_watermark > known:
            self._tell(f"{log.dir}: starts with the high watermark {log.high_watermark}, the checkpoint says {known}")

    def recovery_point_set(self, log: Log) -> None:
        """The recovery point of ``log`` may have risen: all data below it must be on the disk."""
        disk = self._disks.get(log.log_dir)
        if disk is None or log.dir.endswith(DELETE_DIR_SUFFIX):
            return
        point = log.recovery_point
        for segment in log.segments:
            if segment.base_offset >= point or not os.path.exists(segment.path):
                continue
            position = disk.unsynced_from(segment.path)
            synced = None if position is None else _offset_at(segment, position)
            if synced is not None and synced < point:
                self._tell(f"{log.dir}: the recovery point is {point}, but only what is below {synced} was synced")
            elif disk.name_may_go(segment.path):
                self._tell(f"{log.dir}: the recovery point is {point}, but the name of {segment.path} was not synced")
            following = log.segments.following(segment)
            if following is not None and following.base_offset < point:
                self._check_indexes(log, segment, disk)

    def _check_indexes(self, log: Log, segment: LogSegment, disk: SimDisk) -> None:
        """Of a closed segment below the recovery point a start believes the indexes; it rebuilds empty ones."""
        for index in (segment.index, segment.time_index):
            if index.needs_sync and disk.unsynced_from(index.path) is not None:
                self._tell(f"{log.dir}: the recovery point is {log.recovery_point}, but {index.path} was not synced")

    def truncated(self, log: Log) -> None:
        """``log`` was truncated: the next start must not take later appends for synced."""
        point = checkpointed_recovery_point(log)
        if log.log_dir in self._disks and point > log.recovery_point:
            self._tell(f"{log.dir}: was cut to {log.log_end_offset}, and its recovery point on the disk is {point}")


def synced_end(disk: SimDisk, log: Log) -> int:
    """The offset below which a loss of power takes nothing from ``log``, which is on ``disk``."""
    for segment in log.segments:
        if not os.path.exists(segment.path) or disk.name_may_go(segment.path):
            return segment.base_offset
        position = disk.unsynced_from(segment.path)
        if position is not None:
            return _offset_at(segment, position)
    return log.log_end_offset


def checkpointed_recovery_point(log: Log) -> int:
    """The recovery point of ``log`` that a start would read; 0 if the disk has none."""
    return _checkpointed(log, RECOVERY_POINT)


def _checkpointed(log: Log, name: str) -> int:
    """The offset of ``log`` in the checkpoint file ``name``; 0 if the file has none."""
    try:
        with open(f"{log.log_dir}/{name}", "rb") as file:
            return decode_offsets(file.read()).get(log.topic_partition, 0)
    except (FileNotFoundError, CheckpointError):
        return 0


def _offset_at(segment: LogSegment, position: int) -> int:
    """The offset that follows the last batch which ends at or before ``position``.

    Reads the file itself, because the broker's disk may refuse reads at this moment.
    """
    offset = segment.base_offset
    if position:
        with open(segment.path, "rb") as file:
            data = memoryview(file.read(segment.size))
        for at, header in iter_headers(data):
            if at + header.size > position:
                break
            offset = header.next_offset
    return offset

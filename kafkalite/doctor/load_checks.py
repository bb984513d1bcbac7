"""Checks of what clients leave behind and of disks: groups, transactions, log directories. Pure.

Answers to: nothing in Kafka.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafkalite.doctor.finding import Finding, Severity
from kafkalite.doctor.health_check import HealthCheck
from kafkalite.doctor.snapshot import LogDirUsage, Snapshot

HOUR = 3600.0
SOON, LATER = HOUR, 24 * HOUR
"""Seconds until a disk is full that make an error and a warning."""
LEAST_BYTES = 256 << 20
"""With less than this a disk counts as full."""


def _groups(snapshot: Snapshot) -> Iterator[Finding]:
    for group in snapshot.groups:
        if group.members == 0 and group.after > group.before:
            rate = (group.after - group.before) / snapshot.interval
            yield Finding(
                "group-abandoned",
                Severity.WARNING,
                f"group {group.name}",
                f"Group {group.name} has no member, and is {group.after} records behind: {rate:.0f} more each second.",
                "Its consumers have ended while producers go on; records that retention deletes are never read by it.",
                (
                    snapshot.commands.kafka("consume", "--group", group.name, config_flag="--consumer.config")
                    + " --topic <its topic>    # or start its application; if the group is not needed any more:",
                    snapshot.commands.kafka("groups", "--delete", "--group", group.name),
                ),
            )


def _transactions(snapshot: Snapshot) -> Iterator[Finding]:
    for one in snapshot.hanging:
        yield Finding(
            "transaction-hangs",
            Severity.ERROR,
            f"partition {one.partition}",
            f"A transaction of producer {one.producer_id} in {one.partition} is open from offset {one.start_offset}, "
            f"without a write for {one.idle_ms / 60000:.0f} min, and no coordinator knows it.",
            f"No coordinator is going to end it: readers with read_committed stop at offset {one.start_offset}, and "
            "compaction, too.",
            (
                snapshot.commands.kafka(
                    "transactions",
                    "abort",
                    "--topic",
                    one.partition.topic,
                    "--partition",
                    str(one.partition.partition),
                    "--start-offset",
                    str(one.start_offset),
                ),
            ),
        )


def _offline_dirs(snapshot: Snapshot) -> Iterator[Finding]:
    for broker_id, directories in snapshot.log_dirs.items():
        for directory in directories:
            if directory.error:
                yield Finding(
                    "log-directory-offline",
                    Severity.ERROR,
                    f"broker {broker_id}, {directory.path}",
                    f"Log directory {directory.path} of broker {broker_id} is offline: {directory.error}.",
                    "A read or a write failed there. Its replicas are offline until the broker starts again.",
                    (
                        f"dmesg | tail    # on the host of broker {broker_id}: mend or replace the disk, then",
                        *snapshot.commands.restart(snapshot.brokers[broker_id]),
                    ),
                )


def _full(snapshot: Snapshot) -> Iterator[Finding]:
    for (host, _), parts in _by_disk(snapshot).items():
        usable, where = min(part.now.usable_bytes for part in parts), _where(parts)
        if usable < LEAST_BYTES:
            yield Finding(
                "disk-full",
                Severity.ERROR,
                where,
                f"{usable / 2**20:.0f} MiB are free under {where} on {host}.",
                "A full disk refuses every write: producers get KAFKA_STORAGE_ERROR.",
                _free_space(snapshot, parts),
            )


def _fills(snapshot: Snapshot) -> Iterator[Finding]:
    for (host, _), parts in _by_disk(snapshot).items():
        usable, where = min(part.now.usable_bytes for part in parts), _where(parts)
        growth = sum(part.now.log_bytes - part.before.log_bytes for part in parts) / snapshot.interval
        if usable < LEAST_BYTES or growth <= 0 or usable / growth >= LATER:
            continue
        left = usable / growth
        yield Finding(
            "disk-fills",
            Severity.ERROR if left < SOON else Severity.WARNING,
            where,
            f"The disk under {where} on {host} is full in {_duration(left)}: {usable / 2**30:.1f} GiB are free, and "
            f"the logs grow by {growth / 2**20:.1f} MiB/s.",
            f"The rate is that of {snapshot.interval:.0f} s; retention may delete records before the disk is full.",
            _free_space(snapshot, parts),
        )


class _Part(NamedTuple):
    """A log directory on a disk, in both samples."""

    broker_id: int
    before: LogDirUsage
    now: LogDirUsage


def _by_disk(snapshot: Snapshot) -> dict[tuple[str, int], list[_Part]]:
    """The log directories by host and size of their file system.

    Directories of equal size on one host count as one disk, because the answers of brokers name no device.
    """
    disks: defaultdict[tuple[str, int], list[_Part]] = defaultdict(list)
    for broker_id, directories in snapshot.log_dirs.items():
        registered = snapshot.brokers[broker_id].registered if broker_id in snapshot.brokers else None
        host = registered.endpoints[0].host if registered and registered.endpoints else f"broker {broker_id}"
        earlier = {directory.path: directory for directory in snapshot.log_dirs_before.get(broker_id, ())}
        for directory in directories:
            if not directory.error and directory.usable_bytes >= 0:
                before = earlier.get(directory.path, directory)
                disks[host, directory.total_bytes].append(_Part(broker_id, before, directory))
    return disks


def _where(parts: Sequence[_Part]) -> str:
    return ", ".join(f"broker {part.broker_id} {part.now.path}" for part in parts)


def _free_space(snapshot: Snapshot, parts: Sequence[_Part]) -> tuple[str, ...]:
    return (
        f"du -s {parts[0].now.path}/* | sort -n | tail    # the largest partitions; then for their topics",
        snapshot.commands.set_topic("<topic>", "retention.bytes=<bytes a partition>"),
    )


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * HOUR else f"{seconds / HOUR:.1f} h"


CHECKS = (
    HealthCheck(
        "group-abandoned",
        "warning",
        "A group has offsets, no member, and more lag in the second sample than in the first.",
        "Start its consumers, or delete the group.",
        _groups,
    ),
    HealthCheck(
        "transaction-hangs",
        "error",
        "A transaction in a partition is older than --max-transaction-timeout, and no coordinator knows it.",
        "Abort it by its start offset.",
        _transactions,
    ),
    HealthCheck(
        "log-directory-offline",
        "error",
        "A broker reports an error of a log directory.",
        "Mend the disk, and restart the broker.",
        _offline_dirs,
    ),
    HealthCheck(
        "disk-full",
        "error",
        f"Less than {LEAST_BYTES >> 20} MiB are free where a log directory is.",
        "Lower the retention of the largest topics, or add space.",
        _full,
    ),
    HealthCheck(
        "disk-fills",
        "warning, error",
        "At the rate at which the logs grew between the two samples, a disk is full within a day; an error within an "
        "hour.",
        "Lower the retention of the largest topics, or add space.",
        _fills,
    ),
)

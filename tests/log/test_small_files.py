"""Names, configuration, checkpoints, epochs, owners: the small parts."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from kafkalite.common.errors import ConfigError, StartupError
from kafkalite.common.types import TopicPartition
from kafkalite.log.file_system import File, FileHolder, FilePool, FileSystem
from kafkalite.log.leader_epoch_cache import LeaderEpochCache
from kafkalite.log.log_config import log_config
from kafkalite.log.log_dir_files import (
    CheckpointError,
    decode_meta_properties,
    decode_offsets,
    encode_meta_properties,
    encode_offsets,
    stored_broker_id,
)
from kafkalite.log.partition_folder import (
    Folder,
    decode_partition_metadata,
    deleted_dir_name,
    dir_name,
    encode_partition_metadata,
    parse_dir_name,
    parse_file_name,
)


@pytest.mark.parametrize(
    ("name", "parsed"),
    [("a-0", TopicPartition("a", 0)), ("a-b-12", TopicPartition("a-b", 12)), ("a", None), ("a-", None), ("-1", None)],
)
def test_folder_names(name: str, parsed: TopicPartition | None) -> None:
    assert parse_dir_name(name) == parsed
    if parsed:
        assert dir_name(parsed) == name


def test_deleted_name_has_room() -> None:
    name = deleted_dir_name(TopicPartition("x" * 249, 7), uuid.UUID(int=1))
    assert len(name) == 255 and name.endswith("-7." + "0" * 31 + "1-delete")


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("00000000000000000012.log", (12, ".log")),
        ("00000000000000000012.log.swap", None),
        ("leader-epoch-checkpoint", None),
    ],
)
def test_file_names(name: str, parsed: tuple[int, str] | None) -> None:
    assert parse_file_name(name) == parsed


@pytest.mark.parametrize(
    ("broker", "overrides", "field", "value"),
    [
        ({}, {}, "retention_ms", 604_800_000),
        ({"log.retention.hours": 1}, {}, "retention_ms", 3_600_000),
        ({"log.retention.hours": 1, "log.retention.minutes": 1}, {}, "retention_ms", 60_000),
        ({"log.retention.hours": 1, "log.retention.ms": 5}, {}, "retention_ms", 5),
        ({"log.retention.hours": -1}, {}, "retention_ms", -1),
        ({"log.roll.hours": 1}, {"segment.ms": "7"}, "segment_ms", 7),
        ({"log.segment.bytes": 100}, {}, "segment_bytes", 100),
        ({}, {"cleanup.policy": "compact,delete"}, "compacted", True),
        ({}, {"unknown.key": "x"}, "deletes", True),
    ],
)
def test_config(broker: dict[str, Any], overrides: dict[str, str], field: str, value: object) -> None:
    assert getattr(log_config(broker, overrides), field) == value


@pytest.mark.parametrize(
    "overrides",
    [
        {"segment.bytes": "13"},
        {"retention.ms": "x"},
        {"cleanup.policy": "shred"},
        {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"},
        {"leader.replication.throttled.replicas": "1-2"},
    ],
)
def test_wrong_config(overrides: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=next(iter(overrides))):
        log_config({}, overrides)


def test_checkpoint() -> None:
    offsets = {TopicPartition("a", 0): 5, TopicPartition("b-c", 11): 1 << 40}
    data = encode_offsets(offsets)
    assert data == b"0\n2\na 0 5\nb-c 11 1099511627776\n"
    assert decode_offsets(data) == offsets


@pytest.mark.parametrize("data", [b"", b"0\n", b"1\n0\n", b"0\n2\na 0 5\n", b"0\n1\na 0\n", b"0\n1\na x 5\n", b"\0\0"])
def test_wrong_checkpoint(data: bytes) -> None:
    with pytest.raises(CheckpointError):
        decode_offsets(data)


def test_partition_metadata() -> None:
    topic_id = uuid.UUID(int=0x1234)
    assert decode_partition_metadata(encode_partition_metadata(topic_id) + b"\n") == topic_id
    for wrong in (b"", b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ", b"version: 0\ntopic_id: x"):
        with pytest.raises(ValueError, match=r"version|uuid|base64|padded|characters"):
            decode_partition_metadata(wrong)


def test_meta_properties(tmp_path: Path) -> None:
    values = {"version": "0", "broker.id": "3", "cluster.id": "a=b:c\\d"}
    data = encode_meta_properties(values, "today")
    assert b"cluster.id=a\\=b\\:c\\\\d\n" in data and decode_meta_properties(data) == values
    dirs = [tmp_path / name for name in "abc"]
    for number, folder in enumerate(dirs[:2]):
        folder.mkdir()
        (folder / "meta.properties").write_bytes(
            encode_meta_properties({"version": "0", "broker.id": str(number)}, "today")
        )
    paths = [str(folder) for folder in dirs]
    assert stored_broker_id(FileSystem(), [paths[2]]) is None
    assert stored_broker_id(FileSystem(), [paths[1], paths[2]]) == 1
    with pytest.raises(StartupError, match="different brokers"):
        stored_broker_id(FileSystem(), paths)
    (dirs[0] / "meta.properties").write_bytes(b"version=1\nnode.id=3\n")
    with pytest.raises(StartupError, match="version 1"):
        stored_broker_id(FileSystem(), paths)


def epochs(tmp_path: Path, *entries: tuple[int, int]) -> LeaderEpochCache:
    cache = LeaderEpochCache(Folder(str(tmp_path), FileSystem(), FilePool(1)))
    for epoch, start in entries:
        cache.assign(epoch, start)
    return cache


@pytest.mark.parametrize(
    ("assigned", "kept"),
    [
        (((1, 0), (3, 10), (4, 20)), [(1, 0), (3, 10), (4, 20)]),
        (((1, 0), (1, 5)), [(1, 0)]),
        (((1, 0), (3, 10), (4, 10)), [(1, 0), (4, 10)]),
        (((1, 0), (5, 10), (3, 20)), [(1, 0), (3, 20)]),
        (((1, 0), (5, 10), (6, 5)), [(1, 0), (6, 5)]),
        (((2, 10), (2, 4)), [(2, 4)]),
    ],
)
def test_epochs_stay_monotonic(
    tmp_path: Path, assigned: tuple[tuple[int, int], ...], kept: list[tuple[int, int]]
) -> None:
    cache = epochs(tmp_path, *assigned)
    assert cache.entries == kept and cache.latest_epoch == kept[-1][0]
    again = epochs(tmp_path)
    assert again.load() and again.entries == kept


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(-1, (-1, -1)), (0, (0, 2)), (1, (1, 10)), (2, (1, 10)), (3, (3, 20)), (4, (4, 99)), (5, (-1, -1))],
)
def test_end_offset_for_epoch(tmp_path: Path, asked: int, answer: tuple[int, int]) -> None:
    assert epochs(tmp_path, (1, 2), (3, 10), (4, 20)).end_offset_for(asked, 99) == answer


def test_epoch_truncation(tmp_path: Path) -> None:
    cache = epochs(tmp_path, (1, 0), (3, 10), (4, 20))
    assert [cache.epoch_for(offset) for offset in (0, 9, 10, 50)] == [1, 1, 3, 4]
    cache.truncate_from_start(15)
    assert cache.entries == [(3, 15), (4, 20)]
    cache.truncate_from_end(20)
    assert (cache.entries, cache.latest_epoch) == ([(3, 15)], 3)
    cache.truncate_from_end(0)
    assert (cache.entries, cache.latest_epoch, cache.end_offset_for(1, 5)) == ([], None, (-1, -1))


def test_pool_bounds_open_files(tmp_path: Path) -> None:
    closed: list[int] = []

    class Counting(FileSystem):
        def close(self, fd: int) -> None:
            closed.append(fd)
            super().close(fd)

    fs, pool = Counting(), FilePool(3)
    holders = [FileHolder() for _ in range(8)]
    for number, holder in enumerate(holders):
        holder.file = File(fs, str(tmp_path / str(number)), create=True)
        pool.add(holder)
        assert len(pool) <= 3
    assert len(closed) == 5
    assert sum(holder.file is not None for holder in holders) == 3

"""Damage to a broker's files while it is down: what can be mended is, the rest is fetched again, replicas converge."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.conftest import ClusterFactory
from integration.faults.cluster import compare_logs, create_topic, move_leader, wait_in_sync
from integration.harness.history import LoadProducer, judge, read_all
from integration.harness.wait import wait_for
from integration.harness.wire import Wire, leaders
from kafkalite.embedded.cluster import LocalCluster

pytestmark = pytest.mark.kafkalite_only

TOPIC = "damaged"
PARTITIONS = 3
VICTIM = 1
RECORDS = 12_000
SEGMENT_BYTES = 131_072


def folders(cluster: LocalCluster) -> list[Path]:
    """The victim's folders of the topic."""
    return [cluster.broker_dir(VICTIM) / "data" / f"{TOPIC}-{partition}" for partition in range(PARTITIONS)]


def knows(cluster: LocalCluster, broker_id: int) -> bool:
    """Whether a broker tells its clients that the victim leads everything."""
    with Wire(cluster.address(broker_id)) as wire:
        return set(leaders(wire, TOPIC).values()) == {VICTIM}


def flip(path: Path, position: int, chance: random.Random) -> None:
    """One bit of a file."""
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes((byte ^ 1 << chance.randrange(8),)))


def flipped_bytes(folder: Path, chance: random.Random) -> None:
    """Bits in the middle of a closed segment."""
    segments = sorted(folder.glob("*.log"))
    assert len(segments) > 2, "there are closed segments"
    middle = segments[len(segments) // 2]
    for _ in range(3):
        flip(middle, chance.randrange(middle.stat().st_size), chance)


def torn_tail(folder: Path, chance: random.Random) -> None:
    """The last write came half, and what followed it was never written."""
    last = max(folder.glob("*.log"))
    size = last.stat().st_size
    with last.open("r+b") as file:
        file.truncate(max(0, size - chance.randrange(1, 2000)))


def garbage_tail(folder: Path, chance: random.Random) -> None:
    """Something that was never written there stands at the end."""
    with max(folder.glob("*.log")).open("ab") as file:
        file.write(chance.randbytes(chance.randrange(1, 5000)))


def zero_tail(folder: Path, chance: random.Random) -> None:
    """As some file systems leave it after a power cut."""
    with max(folder.glob("*.log")).open("ab") as file:
        file.write(bytes(chance.randrange(1, 1 << 16)))


def garbage_indexes(folder: Path, chance: random.Random) -> None:
    """Index files of any size with anything in them, also such that look well-formed."""
    for path in sorted([*folder.glob("*.index"), *folder.glob("*.timeindex")]):
        kind = chance.randrange(4)
        if kind == 0:
            path.write_bytes(chance.randbytes(chance.randrange(200)))
        elif kind == 1:
            path.write_bytes(b"".join(struct.pack(">ii", n * 7, n * 100_000_000) for n in range(20)))
        elif kind == 2:
            path.write_bytes(b"")
        else:
            path.unlink()


def garbage_state(folder: Path, chance: random.Random) -> None:
    """Everything beside the records: snapshots, leader epochs, checkpoints."""
    for path in sorted(folder.glob("*.snapshot")):
        path.write_bytes(chance.randbytes(chance.randrange(300)))
    (folder / "leader-epoch-checkpoint").write_bytes(chance.randbytes(50))
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"):
        (folder.parent / name).write_bytes(chance.randbytes(70))


Damage = Callable[[Path, random.Random], None]
AFTER_A_CRASH: dict[str, Damage] = {
    "flipped bytes": flipped_bytes,
    "torn tail": torn_tail,
    "garbage tail": garbage_tail,
    "zero tail": zero_tail,
    "garbage indexes": garbage_indexes,
    "garbage state": garbage_state,
}
AFTER_A_CLEAN_STOP: dict[str, Damage] = {"garbage indexes": garbage_indexes, "garbage state": garbage_state}


def test_damaged_files(make_cluster: ClusterFactory) -> None:
    """One cluster, one damage after the other: each time all replicas are the same in the end, and any can lead."""
    chance = random.Random(20)
    cluster = make_cluster(3, {"log.segment.bytes": str(SEGMENT_BYTES), "log.index.interval.bytes": "1024"})
    create_topic(cluster, TOPIC, PARTITIONS)
    rounds = [(name, damage, False) for name, damage in AFTER_A_CRASH.items()]
    rounds += [(name, damage, True) for name, damage in AFTER_A_CLEAN_STOP.items()]
    producers: list[LoadProducer] = []
    for name, damage, clean in rounds:
        print(f"{name} after a {'clean stop' if clean else 'crash'}", flush=True)
        producer = LoadProducer(cluster.bootstrap, TOPIC, PARTITIONS, 0, batch_bytes=SEGMENT_BYTES // 2)
        producers.append(producer)
        producer.start()
        wait_for(lambda producer=producer: producer.acknowledged > RECORDS, "records are acknowledged")  # type: ignore[misc]
        if clean:
            cluster.stop_broker(VICTIM)
        else:
            cluster.kill_broker(VICTIM)
        producer.finish()
        assert producer.failures == []
        for folder in folders(cluster):
            damage(folder, chance)
        cluster.start_broker(VICTIM)
        wait_in_sync(cluster, TOPIC, PARTITIONS, timeout=60)
        compare_logs(cluster, TOPIC, PARTITIONS)
        assert "Traceback" not in cluster.log_file(VICTIM).read_text()
    # What the mended broker serves is what the others had.
    for partition in range(PARTITIONS):
        move_leader(cluster, TOPIC, partition, VICTIM)
    wait_for(lambda: all(knows(cluster, broker_id) for broker_id in cluster.broker_ids), "all know who leads")
    assert judge(read_all(cluster.bootstrap, TOPIC, PARTITIONS), producers, [], {}) == []

"""Damaged files of a stopped broker are repaired or their records fetched again, so that the replicas converge."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.conftest import ClusterFactory
from integration.faults.cluster import compare_logs, create_topic, move_leader, wait_in_sync
from integration.faults.producers import QUICK_RETRIES, LoadProducer
from integration.faults.readers import judge
from integration.faults.worker import Record
from integration.harness.wait import wait_for
from integration.harness.wire import Wire, leaders
from kafkalite.embedded.cluster import LocalCluster

pytestmark = pytest.mark.kafkalite_only

TOPIC = "damaged"
PARTITIONS = 3
VICTIM = 1
RECORDS = 12_000
RATE = 5_000
SEGMENT_BYTES = 131_072


def folders(cluster: LocalCluster) -> list[Path]:
    """The victim's folders of the topic."""
    return [cluster.broker_dir(VICTIM) / "data" / f"{TOPIC}-{partition}" for partition in range(PARTITIONS)]


def knows(cluster: LocalCluster, broker_id: int) -> bool:
    """Whether a broker's metadata has the victim as the leader of all partitions."""
    with Wire(cluster.address(broker_id)) as wire:
        return set(leaders(wire, TOPIC).values()) == {VICTIM}


def flip(path: Path, position: int, rng: random.Random) -> None:
    """Flip one bit of a file."""
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes((byte ^ 1 << rng.randrange(8),)))


def flipped_bytes(folder: Path, rng: random.Random) -> None:
    """Flip bits in the middle of a closed segment."""
    segments = sorted(folder.glob("*.log"))
    assert len(segments) > 2, "there are closed segments"
    middle = segments[len(segments) // 2]
    for _ in range(3):
        flip(middle, rng.randrange(middle.stat().st_size), rng)


def torn_tail(folder: Path, rng: random.Random) -> None:
    """Truncate the log within a batch, as if the last write was incomplete."""
    last = max(folder.glob("*.log"))
    size = last.stat().st_size
    with last.open("r+b") as file:
        file.truncate(max(0, size - rng.randrange(1, 2000)))


def garbage_tail(folder: Path, rng: random.Random) -> None:
    """Append random bytes."""
    with max(folder.glob("*.log")).open("ab") as file:
        file.write(rng.randbytes(rng.randrange(1, 5000)))


def zero_tail(folder: Path, rng: random.Random) -> None:
    """Append zeros, which some file systems leave after a power cut."""
    with max(folder.glob("*.log")).open("ab") as file:
        file.write(bytes(rng.randrange(1, 1 << 16)))


def garbage_indexes(folder: Path, rng: random.Random) -> None:
    """Replace index files by random bytes of any size, some of them well-formed."""
    for path in sorted([*folder.glob("*.index"), *folder.glob("*.timeindex")]):
        kind = rng.randrange(4)
        if kind == 0:
            path.write_bytes(rng.randbytes(rng.randrange(200)))
        elif kind == 1:
            path.write_bytes(b"".join(struct.pack(">ii", n * 7, n * 100_000_000) for n in range(20)))
        elif kind == 2:
            path.write_bytes(b"")
        else:
            path.unlink()


def garbage_state(folder: Path, rng: random.Random) -> None:
    """Damage all files except segments and indexes: snapshots, leader epochs, checkpoints."""
    for path in sorted(folder.glob("*.snapshot")):
        path.write_bytes(rng.randbytes(rng.randrange(300)))
    (folder / "leader-epoch-checkpoint").write_bytes(rng.randbytes(50))
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"):
        (folder.parent / name).write_bytes(rng.randbytes(70))


Damage = Callable[[Path, random.Random], None]
Rounds = list[tuple[Damage, bool]]
"""Damages, and whether the broker was stopped cleanly before each."""
TWO: Rounds = [(flipped_bytes, False), (garbage_indexes, True)]
OTHERS: Rounds = [
    (torn_tail, False),
    (garbage_tail, False),
    (zero_tail, False),
    (garbage_indexes, False),
    (garbage_state, False),
    (garbage_state, True),
]


@pytest.mark.parametrize("rounds", [TWO, pytest.param(OTHERS, marks=pytest.mark.full)], ids=["two", "others"])
def test_replicas_converge_after_each_damage(make_cluster: ClusterFactory, rounds: Rounds) -> None:
    """One cluster, one damage after the other: each time all replicas become equal, and each can lead."""
    rng = random.Random(20)
    cluster = make_cluster(3, {"log.segment.bytes": str(SEGMENT_BYTES), "log.index.interval.bytes": "1024"})
    create_topic(cluster, TOPIC, PARTITIONS)
    record = Record(len(rounds), PARTITIONS)
    # Batches that fit into a segment, because the broker refuses larger ones.
    settings = {**QUICK_RETRIES, "batch.size": SEGMENT_BYTES // 2}
    for number, (damage, clean) in enumerate(rounds):
        print(f"{damage.__name__} after a {'clean stop' if clean else 'crash'}", flush=True)
        producer = LoadProducer(number, record, cluster.bootstrap, TOPIC, PARTITIONS, RATE, settings=settings)
        producer.start()
        wait_for(lambda producer=producer: producer.acknowledged > RECORDS, "records are acknowledged")  # type: ignore[misc]
        if clean:
            cluster.stop_broker(VICTIM)
        else:
            cluster.kill_broker(VICTIM)
        producer.stop()
        assert producer.failures == []
        for folder in folders(cluster):
            damage(folder, rng)
        cluster.start_broker(VICTIM)
        wait_in_sync(cluster, TOPIC, PARTITIONS, timeout=60)
        compare_logs(cluster, TOPIC, PARTITIONS)
        assert "Traceback" not in cluster.log_file(VICTIM).read_text()
    # The repaired broker serves the records of the others.
    for partition in range(PARTITIONS):
        move_leader(cluster, TOPIC, partition, VICTIM)
    wait_for(lambda: all(knows(cluster, broker_id) for broker_id in cluster.broker_ids), "all know who leads")
    assert judge(record, cluster.bootstrap, TOPIC, PARTITIONS) == []

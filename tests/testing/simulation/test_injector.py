"""Which faults a history may inject: one machine at a time misses records, and the others keep them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import spawn
from kafkalite.common.types import TopicPartition
from kafkalite.log.log import Log
from kafkalite.log.log_dir_files import RECOVERY_POINT, encode_offsets
from kafkalite.record.batch import check_crc, iter_headers
from kafkalite.testing.simulation.cluster import SimCluster
from kafkalite.testing.simulation.injector import FaultInjector
from kafkalite.testing.simulation.world import World
from tests.log.fixtures import NOW, batch
from tests.testing.simulation.slice import TOPIC, Workload

TP = TopicPartition(TOPIC, 0)


@pytest.fixture
def cluster() -> Iterator[SimCluster]:
    """Three brokers that have acknowledged some records."""
    with World(1) as world, SimCluster(world) as made:
        made.start_all()
        workload = Workload(made, partitions=1)
        admin, producer = made.client_node("admin"), made.client_node("producer")
        admin.spawn(lambda: workload.create_topic(admin), "making the topic")
        assert world.run_until(lambda: workload.leader(TP) > 0, world.now + 10), world.lines
        producer.spawn(lambda: workload.produce(producer, "producer", 0.02), "producing")
        assert world.run_until(lambda: workload.acked > 20, world.now + 10), world.lines
        workload.running = False
        yield made


def test_a_killed_process_keeps_its_records(cluster: SimCluster) -> None:
    inject = FaultInjector(cluster)
    inject.kill(2)
    inject.kill(3)
    assert inject.lose_power(1)


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_leader_that_is_left_alone_keeps_only_what_is_synced(cluster: SimCluster, is_synced: bool) -> None:
    """Readers may have seen the last record, so its loss would be taken for a defect of the broker."""
    inject = FaultInjector(cluster)
    leader = inject.leader(TP)
    for broker in {1, 2, 3} - {leader}:
        inject.kill(broker)
    assert cluster.world.run_until(lambda: inject.isr(TP) == (leader,), cluster.world.now + 20), cluster.world.lines
    machine = cluster.brokers[leader]
    assert machine.services is not None
    machine.services.replicas.append_records(1000, 1, [(TP, batch(1))], lambda _: None)
    cluster.world.run_until(cluster.world.now + 1)
    if is_synced:
        partition = machine.last_partition(TP)
        assert partition is not None and partition.log is not None
        partition.log.flush()
    assert inject.lose_power(leader) is is_synced


def test_a_machine_that_lost_power_keeps_nothing_before_it_is_in_sync_again(cluster: SimCluster) -> None:
    inject = FaultInjector(cluster)
    assert inject.lose_power(1)
    inject.kill(3)
    inject.start(1)
    assert cluster.world.run_until(inject.power_may_fail, cluster.world.now + 30), "broker 1 has fetched what it lost"
    cluster.world.run_until(cluster.world.now + 10)
    assert inject.lose_power(2), "broker 1 joined the ISR"


def test_no_machine_loses_power_while_another_misses_records(cluster: SimCluster) -> None:
    inject = FaultInjector(cluster)
    assert inject.lose_power(1)
    assert not inject.lose_power(2)
    assert cluster.brokers[3].is_alive


def test_disk_that_fails_may_lose_records_as_lost_power_does(cluster: SimCluster) -> None:
    inject = FaultInjector(cluster)
    inject.break_disk(1, "fsync", 0)
    assert not inject.power_may_fail(), "the disk of broker 1 fails"
    assert not inject.lose_power(2), "broker 2 was killed instead"
    inject.start(2)
    inject.mend_disk(1)
    inject.kill(1)
    inject.start(1)
    assert cluster.world.run_until(inject.power_may_fail, cluster.world.now + 30), "broker 1 has fetched what it lost"
    cluster.world.run_until(cluster.world.now + 10)
    assert inject.lose_power(2)


def test_no_disk_fails_while_another_machine_misses_records(cluster: SimCluster) -> None:
    inject = FaultInjector(cluster)
    assert inject.lose_power(1)
    before = inject.count
    inject.break_disk(2, "fsync", 0)
    assert inject.count == before


def test_a_flipped_bit_is_in_a_synced_batch_and_is_repaired(cluster: SimCluster) -> None:
    inject = FaultInjector(cluster)
    partition = cluster.brokers[1].last_partition(TP)
    assert partition is not None and isinstance(partition.log, Log)
    assert not inject.flip_a_bit(1, random.Random(1)), "the only segment is still written"
    partition.log.roll()
    partition.log.flush()
    assert not inject.flip_a_bit(1, random.Random(1)), "a start would read the segment again"
    checkpoint = Path(partition.log.log_dir) / RECOVERY_POINT
    checkpoint.write_bytes(encode_offsets({TP: partition.log.recovery_point}))
    segment = Path(partition.log.segments[0].path)
    before = segment.read_bytes()
    assert inject.flip_a_bit(1, random.Random(1))
    damaged = segment.read_bytes()
    assert [(start, header.base_offset) for start, header in iter_headers(damaged)] == [
        (start, header.base_offset) for start, header in iter_headers(before)
    ]
    assert [check_crc(damaged, start, header) for start, header in iter_headers(damaged)].count(False) == 1
    assert inject.reads_wrong_bits
    assert not inject.power_may_fail(), "the machine may lose what its disk gives wrong"
    inject.mend_bits(1)
    assert segment.read_bytes() == before
    assert not inject.reads_wrong_bits


def test_a_process_learns_of_a_slow_flush_where_it_lives(cluster: SimCluster) -> None:
    inject = FaultInjector(cluster)
    assert len(set(inject.ends(TP).values())) == 1, "all replicas hold the same"
    follower = next(broker for broker in inject.replicas(TP) if broker != inject.leader(TP))
    assert inject.known_end(TP, follower) == inject.ends(TP)[follower]
    flush, other = inject.begin_flush(1, TP), inject.begin_flush(2, TP)
    assert flush is not None
    assert other is not None
    assert flush.log.recovery_point < flush.work.end
    flush.finish()
    assert flush.log.recovery_point == flush.work.end
    inject.kill(2)
    other.finish()
    assert other.log.recovery_point < other.work.end


def test_a_full_disk_begins_no_slow_flush(cluster: SimCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")
    monkeypatch.setattr(Log, "prepare_flush", Mock(side_effect=refused))
    assert FaultInjector(cluster).begin_flush(1, TP) is None


def test_a_slow_flush_is_overtaken_by_a_truncation(cluster: SimCluster) -> None:
    flush = FaultInjector(cluster).begin_flush(1, TP)
    assert flush is not None
    flush.log.truncate_to(flush.work.end - 1)
    was_overtaken = flush.is_overtaken
    flush.log.append_as_leader(batch(1), 0, NOW)
    assert (was_overtaken, flush.is_overtaken) == (False, True), "only what is appended may be taken for flushed"
    flush.finish()
    assert flush.log.recovery_point < flush.work.end


def test_a_process_is_killed_between_two_renames(cluster: SimCluster) -> None:
    inject, machine = FaultInjector(cluster), cluster.brokers[1]
    partition, life = machine.last_partition(TP), machine.life
    assert partition is not None and isinstance(partition.log, Log)
    assert life is not None
    partition.log.roll()
    segment = partition.log.segments[0]
    killed: list[int | None] = []
    fs = partition.log.segments[0].folder.fs
    life.run(lambda: fs.close(fs.open(f"{segment.path}.cleaned", create=True)))

    async def kill() -> None:
        killed.append(await inject.kill_in_a_swap(0, 5))

    spawn(kill(), "killing")

    def rename_all() -> None:
        segment.mark_deleted()
        raise ValueError("not known of a dead process")

    life.run(rename_all)
    assert not machine.is_alive
    names = sorted(path.name for path in Path(partition.log.dir).glob(f"{segment.base_offset:020d}*"))
    assert len(names) > 1, names
    assert [name.endswith(".deleted") for name in names].count(True) == 1, names
    assert cluster.world.run_until(lambda: killed == [1], cluster.world.now + 1)
    assert inject.count == 1
    assert cluster.world.failures == []

"""Full disks and failed log directories: the right error, no broker ends, no acknowledged record is lost."""

from __future__ import annotations

import pytest

from integration.conftest import ClusterFactory
from integration.faults.cluster import compare_logs, create_topic, states, wait_in_sync
from integration.faults.disk import fill, small_disk
from integration.faults.producers import LoadProducer
from integration.faults.readers import judge
from integration.faults.worker import Record
from integration.harness.garbage import batch, produce_body
from integration.harness.wait import wait_for
from integration.harness.wire import PRODUCE, Cursor, Wire
from integration.test_bad_input import complaints
from kafkalite.embedded.cluster import LocalCluster

pytestmark = pytest.mark.kafkalite_only

TOPIC = "disk"
PROBED = "probed"
"""A second topic, whose records are not checked."""
PARTITIONS = 3
NOT_LEADER, STORAGE_ERROR = 6, 56


def probe(cluster: LocalCluster, broker_id: int, partition: int) -> int:
    """The error code of one record that is sent with acks=1 to this broker, leader or not."""
    with Wire(cluster.address(broker_id)) as wire:
        cursor = Cursor(wire.call(PRODUCE, 7, produce_body(PROBED, partition, batch([bytes(1000)]), 1)))
    assert cursor.take("i") == 1
    cursor.text()
    return int(cursor.take("iih")[2])


def leader_of(cluster: LocalCluster, partition: int) -> int:
    """The leader of a partition of the probed topic."""
    return int(states(cluster, PROBED, PARTITIONS)[partition]["leader"])


def led_by(cluster: LocalCluster, broker_id: int) -> int:
    """A partition of the probed topic that the broker leads."""
    return next(p for p in range(PARTITIONS) if leader_of(cluster, p) == broker_id)


def start_load(cluster: LocalCluster) -> LoadProducer:
    """Two topics on all brokers, and a producer with acknowledged records."""
    cluster.start()
    create_topic(cluster, TOPIC, PARTITIONS)
    create_topic(cluster, PROBED, PARTITIONS)
    producer = LoadProducer(0, Record(1, PARTITIONS), cluster.bootstrap, TOPIC, PARTITIONS, 2000)
    producer.start()
    wait_for(lambda: producer.acknowledged > 2000, "records are acknowledged")
    return producer


def settle(cluster: LocalCluster, producer: LoadProducer, *expected: str, spread: bool = False) -> None:
    """Check that all replicas become in sync and equal, that no acknowledged record is lost, and that the brokers log
    no errors but ``expected``."""
    before = producer.acknowledged
    wait_for(lambda: producer.acknowledged > before + 2000, "records are acknowledged", 90)
    producer.stop()
    assert producer.failures == []
    wait_in_sync(cluster, TOPIC, PARTITIONS, timeout=90)
    assert judge(producer.record, cluster.bootstrap, TOPIC, PARTITIONS) == []
    if not spread:
        compare_logs(cluster, TOPIC, PARTITIONS)
    assert all(cluster.is_alive(broker_id) for broker_id in cluster.broker_ids)
    unexpected = [line for line in complaints(cluster) if not any(part in line for part in expected)]
    assert not unexpected, "\n".join(unexpected[:20])


@pytest.mark.full
def test_brokers_recover_from_a_full_disk(make_cluster: ClusterFactory) -> None:
    """A leader answers KAFKA_STORAGE_ERROR and a follower falls behind until the disk has space again."""
    cluster = make_cluster(3, {"log.segment.bytes": "1048576", "replica.lag.time.max.ms": "3000"}, start=False)
    with small_disk(cluster.broker_dir(1) / "data", 40) as disk:
        try:
            producer = start_load(cluster)
            mine = led_by(cluster, 1)
            ballast = fill(disk)
            wait_for(lambda: probe(cluster, 1, mine) == STORAGE_ERROR, "the leader's disk is full", 30)

            def goes_on_without_it() -> bool:
                found = states(cluster, TOPIC, PARTITIONS).values()
                return all(1 not in state["isr"] for state in found if state["leader"] != 1)

            wait_for(goes_on_without_it, "the follower whose disk is full leaves the ISRs", 60)
            others = [partition for partition in range(PARTITIONS) if leader_of(cluster, partition) != 1]
            assert others
            assert [probe(cluster, leader_of(cluster, partition), partition) for partition in others] == [0, 0]
            assert probe(cluster, 1, mine) == STORAGE_ERROR
            ballast.unlink()
            wait_for(lambda: probe(cluster, 1, mine) == 0, "there is space again", 30)
            settle(cluster, producer, "No space left")
        finally:
            cluster.close()


def test_a_broker_serves_on_without_a_failed_directory(make_cluster: ClusterFactory) -> None:
    """Other brokers lead its partitions; those of the other directory stay; a restart repairs the directory."""
    cluster = make_cluster(3, {"log.segment.bytes": "1048576", "log.retention.ms": "-1"}, start=False)
    data, more = cluster.broker_dir(1) / "data", cluster.broker_dir(1) / "more"
    cluster.override_broker(1, {"log.dirs": f"{data},{more}"})
    producer = start_load(cluster)
    mine = {p for topic in (TOPIC, PROBED) for p in range(PARTITIONS) if (data / f"{topic}-{p}").exists()}
    assert mine, "some partitions lie in the first directory"
    kept = [folder.name for folder in more.iterdir() if folder.is_dir()]
    assert kept, "and some in the second"
    # Replace the directory by a file, so that each file operation in it fails.
    data.rename(data.with_name("gone"))
    data.write_text("not a folder")

    def offline() -> bool:
        for topic in (TOPIC, PROBED):
            for partition, state in states(cluster, topic, PARTITIONS).items():
                if (more / f"{topic}-{partition}").exists():
                    continue
                if state["leader"] in (-1, 1) or 1 in state["isr"]:
                    raise LookupError(f"{topic}-{partition}: {state}")
        return True

    wait_for(offline, "others lead what lay in the failed directory", 60)
    assert cluster.is_alive(1)
    for name in kept:
        topic, _, partition = name.rpartition("-")
        state = states(cluster, topic, PARTITIONS)[int(partition)]
        assert 1 in state["isr"], f"{name} lies in the directory that works: {state}"
    before = producer.acknowledged
    wait_for(lambda: producer.acknowledged > before + 2000, "records are acknowledged", 60)
    gone = next(p for p in range(PARTITIONS) if not (more / f"{PROBED}-{p}").exists())
    assert probe(cluster, 1, gone) in (STORAGE_ERROR, NOT_LEADER)
    cluster.stop_broker(1)
    data.unlink()
    data.with_name("gone").rename(data)
    cluster.start_broker(1)
    settle(cluster, producer, str(data), "offline", spread=True)

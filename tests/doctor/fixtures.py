"""A healthy cluster as the doctor sees it: three brokers on three hosts, a topic with three replicas. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafkalite.cluster.model import Broker, Endpoint, LeaderAndIsr, PartitionAssignment
from kafkalite.common.types import TopicPartition
from kafkalite.doctor.broker_process import BrokerProcess
from kafkalite.doctor.commands import Commands
from kafkalite.doctor.snapshot import (
    BrokerView,
    GroupLag,
    LogDirUsage,
    Snapshot,
    ZooKeeperServer,
    ZooKeeperView,
)

GIB = 1 << 30
CONFIGS = {
    "zookeeper.connect": "zk1:2181,zk2:2181,zk3:2181/kafka",
    "zookeeper.session.timeout.ms": "18000",
    "inter.broker.protocol.version": "3.9",
    "inter.broker.listener.name": "INSIDE",
    "min.insync.replicas": "1",
    "default.replication.factor": "1",
    "replica.fetch.wait.max.ms": "500",
    "replica.lag.time.max.ms": "30000",
    "group.min.session.timeout.ms": "6000",
    "group.max.session.timeout.ms": "1800000",
}
TOPIC_CONFIGS = {
    "cleanup.policy": "delete",
    "min.insync.replicas": "2",
    "retention.ms": "604800000",
    "segment.ms": "604800000",
    "retention.bytes": "-1",
    "segment.bytes": "1073741824",
}


def endpoints(broker_id: int) -> tuple[Endpoint, ...]:
    """Two listeners on the broker's own host."""
    return tuple(
        Endpoint(name, "PLAINTEXT", f"host{broker_id}", port) for name, port in (("INSIDE", 9091), ("OUTSIDE", 9092))
    )


def broker(broker_id: int) -> BrokerView:
    """A broker that answers, with a process on this machine."""
    return BrokerView(
        broker_id,
        Broker(broker_id, endpoints(broker_id)),
        1_700_000_000_000,
        1_700_000_000_010,
        configs=CONFIGS,
        api_versions={0: (0, 11), 1: (0, 17)},
        process=BrokerProcess(
            100 + broker_id, f"kafkalite broker start --config b{broker_id}.properties", False, 90, 1024, 1 << 20, 260
        ),
    )


def state(partition: int, *replicas: int, topic: str = "t", **changes: Any) -> LeaderAndIsr:
    """A partition that its preferred replica leads, with all replicas in sync."""
    healthy = LeaderAndIsr(
        topic, partition, leader=replicas[0], isr=replicas, assignment=PartitionAssignment(tuple(replicas))
    )
    return replace(healthy, **changes)


def healthy() -> Snapshot:
    """Nothing is wrong with it."""
    return Snapshot(
        Commands("host1:9092", "zk1:2181,zk2:2181,zk3:2181/kafka"),
        ZooKeeperView(
            (
                ZooKeeperServer("zk1:2181", mode="follower"),
                ZooKeeperServer("zk2:2181", mode="leader"),
                ZooKeeperServer("zk3:2181", mode="follower"),
            ),
            latency_ms=2.0,
            session_limits_ms=(4000, 40000),
        ),
        controller=1,
        brokers={broker_id: broker(broker_id) for broker_id in (1, 2, 3)},
        states=(state(0, 1, 2, 3), state(1, 2, 3, 1), state(2, 3, 1, 2)),
        topic_configs={"t": TOPIC_CONFIGS},
        interval=10.0,
        log_dirs_before={broker_id: (LogDirUsage("/data", "", 100 * GIB, 50 * GIB, GIB),) for broker_id in (1, 2, 3)},
        log_dirs={broker_id: (LogDirUsage("/data", "", 100 * GIB, 50 * GIB, GIB),) for broker_id in (1, 2, 3)},
        groups=(GroupLag("readers", 2, 10, 500), GroupLag("idle", 0, 7, 7)),
        max_map_count=65530,
    )


def with_broker(snapshot: Snapshot, broker_id: int, **changes: Any) -> Snapshot:
    """``snapshot`` with fields of one broker changed."""
    return replace(snapshot, brokers={**snapshot.brokers, broker_id: replace(snapshot.brokers[broker_id], **changes)})


def with_config(snapshot: Snapshot, broker_id: int, name: str, value: object) -> Snapshot:
    """``snapshot`` with one configuration of one broker changed."""
    return with_broker(snapshot, broker_id, configs={**CONFIGS, name: str(value)})


def with_process(snapshot: Snapshot, broker_id: int, **changes: Any) -> Snapshot:
    """``snapshot`` with fields of one broker's process changed."""
    process = snapshot.brokers[broker_id].process
    assert process is not None
    return with_broker(snapshot, broker_id, process=replace(process, **changes))


def with_endpoint(snapshot: Snapshot, broker_id: int, **changes: Any) -> Snapshot:
    """``snapshot`` with fields of one broker's outside listener changed."""
    inside, outside = endpoints(broker_id)
    return with_broker(snapshot, broker_id, registered=Broker(broker_id, (inside, replace(outside, **changes))))


def with_topic(snapshot: Snapshot, name: str, value: object) -> Snapshot:
    """``snapshot`` with one configuration of the topic changed."""
    return replace(snapshot, topic_configs={"t": {**TOPIC_CONFIGS, name: str(value)}})


def without_broker(snapshot: Snapshot, broker_id: int) -> Snapshot:
    """``snapshot`` after a broker has ended and the controller has moved its leaderships."""
    states = []
    for each in snapshot.states:
        isr = tuple(replica for replica in each.isr if replica != broker_id)
        leader = isr[0] if isr and each.leader == broker_id else each.leader if isr else -1
        states.append(replace(each, leader=leader, isr=isr or each.isr))
    gone = with_broker(snapshot, broker_id, registered=None, process=None)
    return replace(gone, states=tuple(states), controller=2 if broker_id == 1 else 1)


TP = TopicPartition("t", 0)

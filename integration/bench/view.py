"""State of a cluster by its brokers' answers: the controller, and whether a topic is led and in sync."""

from __future__ import annotations

from collections import defaultdict

from integration.bench.raw import RawConnection
from integration.bench.side import Side
from integration.harness.wait import wait_for
from kafkalite.embedded.probe import ask
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey

METADATA_VERSION = 5
OFFSETS_VERSION = 4
LATEST = -1


def controller(side: Side) -> int:
    """The active controller's broker id."""
    host, port = side.cluster.address(side.cluster.broker_ids[0]).split(":")
    return wait_for(lambda: max(ask(host, int(port)).controller, 0), "there is a controller")


def all_in_sync(side: Side, topic: str, partitions: int) -> bool:
    """Whether all partitions are led and in sync in every live broker's metadata, and every leader serves its own."""
    leaders: dict[int, list[int]] = {}
    for broker_id in side.cluster.broker_ids:
        with _connect(side, broker_id) as connection:
            found = _leaders(connection, topic, partitions)
        if found is None:
            return False
        leaders = found
    return all(_serves(side, leader, topic, theirs) for leader, theirs in leaders.items())


def _connect(side: Side, broker_id: int) -> RawConnection:
    host, port = side.cluster.address(broker_id).split(":")
    return RawConnection(host, int(port))


def _leaders(connection: RawConnection, topic: str, partitions: int) -> dict[int, list[int]] | None:
    """Leader → partitions; ``None`` unless all partitions are led and in sync."""
    wanted = messages.MetadataRequest
    request = wanted(topics=[wanted.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    (answer,) = connection.ask(ApiKey.METADATA, METADATA_VERSION, request).topics
    if answer.error_code or len(answer.partitions) != partitions:
        return None
    leaders: dict[int, list[int]] = defaultdict(list)
    for partition in answer.partitions:
        if partition.error_code or partition.leader_id < 0:
            return None
        if len(partition.isr_nodes) != len(partition.replica_nodes):
            return None
        leaders[partition.leader_id].append(partition.partition_index)
    return leaders


def _serves(side: Side, leader: int, topic: str, partitions: list[int]) -> bool:
    """Whether the broker answers ListOffsets for each partition, which only a leader does."""
    wanted = messages.ListOffsetsRequest
    asked = [
        wanted.ListOffsetsTopic.ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=-1, timestamp=LATEST
        )
        for partition in partitions
    ]
    request = wanted(replica_id=-1, isolation_level=0, topics=[wanted.ListOffsetsTopic(name=topic, partitions=asked)])
    with _connect(side, leader) as connection:
        (answer,) = connection.ask(ApiKey.LIST_OFFSETS, OFFSETS_VERSION, request).topics
    return all(not partition.error_code for partition in answer.partitions)

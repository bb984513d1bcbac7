"""The rules for a healed cluster: brokers, logs and ZooKeeper must agree.

Answers to: nothing in Kafka; the final checks of Jepsen's tests. Pure: it reads the brokers and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from kafkalite.apis.services import BrokerServices
from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.types import NO_LEADER, TopicPartition
from kafkalite.record.batch import CorruptRecordError, iter_headers
from kafkalite.record.records import iter_records
from kafkalite.replication.partition import Partition, Role
from kafkalite.testing.history.events import LogEntry, RecordId
from kafkalite.testing.simulation.clients.records import identity_of
from kafkalite.testing.znodes import Znode
from kafkalite.zk.znodes.claims import COORDINATOR_CLAIM
from kafkalite.zk.znodes.groups import decode_generation

_GENERATION = re.compile(r"^(/consumers/[^/]+)/generation$")


def differences(
    states: Mapping[TopicPartition, LeaderAndIsr], controller: int | None, servers: Mapping[int, BrokerServices]
) -> list[str]:
    """The remaining differences, a line each; empty once the cluster has converged.

    ``states`` and ``controller`` are those in ZooKeeper; ``servers`` are all brokers by id, all of them running.
    """
    if controller is None or controller not in servers:
        return [f"the controller is {controller}"]
    found: list[str] = []
    for broker_id, server in servers.items():
        found += _broker(broker_id, server, states, controller, set(servers))
    for tp, state in states.items():
        found += _partition(tp, state, servers)
    return found


def _broker(
    broker_id: int,
    server: BrokerServices,
    states: Mapping[TopicPartition, LeaderAndIsr],
    controller: int,
    brokers: set[int],
) -> Iterator[str]:
    metadata, hosted = server.metadata, server.replicas.replicas.partitions
    if metadata.controller_id != controller:
        yield f"broker {broker_id} takes {metadata.controller_id} for the controller, which is {controller}"
    if set(metadata.brokers) != brokers:
        yield f"broker {broker_id} knows the brokers {sorted(metadata.brokers)}, there are {sorted(brokers)}"
    known = {state.topic_partition for topic in metadata.topics.values() for state in topic.values()}
    for tp in sorted(known ^ states.keys()):
        yield f"broker {broker_id}: {tp} is {'not known' if tp in states else 'known, though it was deleted'}"
    for tp in sorted(hosted.keys() - states.keys()):
        yield f"broker {broker_id} holds {tp}, which was deleted"
    for tp in sorted(known & states.keys()):
        told, state = metadata.topics[tp.topic][tp.partition], states[tp]
        for name in ("leader", "leader_epoch", "isr", "zk_version"):
            mine, theirs = getattr(told, name), getattr(state, name)
            if mine != theirs:
                yield f"broker {broker_id} believes {name} {mine} of {tp}, ZooKeeper says {theirs}"


def _partition(tp: TopicPartition, state: LeaderAndIsr, servers: Mapping[int, BrokerServices]) -> Iterator[str]:
    if state.leader == NO_LEADER:
        yield f"{tp} has no leader"
        return
    if set(state.isr) != set(state.replicas):
        yield f"{tp}: the ISR {list(state.isr)} is not full, the replicas are {list(state.replicas)}"
    if state.assignment.is_being_reassigned:
        yield f"{tp} is still being reassigned"
    ends: dict[int, tuple[int, int]] = {}
    for broker_id in state.replicas:
        partition = servers[broker_id].replicas.replicas.partitions.get(tp) if broker_id in servers else None
        if partition is None or partition.log is None:
            yield f"broker {broker_id} does not hold {tp}"
            continue
        yield from _role(tp, broker_id, partition, state)
        ends[broker_id] = partition.log.log_end_offset, partition.log.high_watermark
    for broker_id, server in servers.items():
        # A stopped replica may keep its log, because as in Kafka a request to delete it is lost if the controller dies.
        stray = server.replicas.replicas.partitions.get(tp) if broker_id not in state.replicas else None
        if stray is not None and stray.role is not Role.NONE:
            yield f"broker {broker_id} is {stray.role.value} of {tp}, of which it is no replica"
    if len({end for offsets in ends.values() for end in offsets}) > 1:
        yield f"{tp}: log ends and high watermarks differ: {ends}"


def _role(tp: TopicPartition, broker_id: int, partition: Partition, state: LeaderAndIsr) -> Iterator[str]:
    role = Role.LEADER if broker_id == state.leader else Role.FOLLOWER
    if partition.role is not role:
        yield f"broker {broker_id} is {partition.role.value} of {tp}, it should be {role.value}"
    if partition.leader_epoch != state.leader_epoch:
        yield f"broker {broker_id} has {tp} in leader epoch {partition.leader_epoch}, it should be {state.leader_epoch}"


def leftovers(nodes: Mapping[str, Znode]) -> list[str]:
    """Members of coordinated groups that are left after all clients have ended; ``nodes``: ZooKeeper's tree."""
    found = []
    for path, node in nodes.items():
        match = _GENERATION.match(path)
        if match is None or COORDINATOR_CLAIM.claim_path(match[1]) not in nodes or not node.data:
            continue
        members = nodes.get(f"{path}/{decode_generation(path, node.data).number}")
        if members is not None and members.children:
            found.append(f"{match[1]} has the members {', '.join(sorted(members.children))}")
    return found


def entries(folder: Path) -> tuple[LogEntry, ...]:
    """All records and markers in the segments of a partition's folder. Raises ``LookupError`` if one is corrupt."""
    found = []
    for segment in sorted(folder.glob("*.log")):
        data = memoryview(segment.read_bytes())
        try:
            for position, header in iter_headers(data):
                for record in iter_records(data, header, position):
                    known = identity_of(record) or RecordId("unknown", record.offset)
                    mine = None if header.is_control else known
                    found.append(LogEntry(record.offset, header.leader_epoch, mine, header.crc))
        except CorruptRecordError as error:
            raise LookupError(f"{segment}: {error}") from error
    return tuple(found)

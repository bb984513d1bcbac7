"""What the page shows: the entities of a cluster as values for JSON, each computed from the znodes that describe it.

Answers to: ``kafka.admin.TopicCommand`` and ``ConsumerGroupCommand``, from ZooKeeper alone. Pure.

An entity has a key: ``cluster``, ``broker/1``, ``topic/orders``, ``group/billing``, ``transaction/0/ids/t1``, or
``znode`` with the path behind it. Every value names the znodes that it was read from. A znode that breaks its
schema gives a value with a ``fault``, because the page is there to show such a znode.
"""

from __future__ import annotations

import base64
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import zk_schema
from kafkalite.common.types import TopicPartition
from kafkalite.dashboard.tree_mirror import Tree
from kafkalite.protocol.library import protocol_module
from kafkalite.zk.znode_acls import Access, access_to
from kafkalite.zk.znodes import brokers, consumers, topics, transactions
from kafkalite.zk.znodes.claims import CONTROLLER, CONTROLLER_EPOCH, COORDINATOR_CLAIM, decode_claim, decode_epoch
from kafkalite.zk.znodes.cluster import CLUSTER_ID, decode_cluster_id
from kafkalite.zk.znodes.codec import MalformedZnodeError, decode_name
from kafkalite.zk.znodes.groups import Generation, decode_generation, decode_member, generation_path, members_path

T = TypeVar("T")
Value = dict[str, object]

CLUSTER = "cluster"


class DecodedTopic(Protocol):
    """A topic in an assignment as kafka-python decodes it."""

    topic: str
    partitions: Sequence[int]


def entities_of(path: str) -> list[str]:
    """Keys of the entities that the znode at ``path`` is a part of: itself, and what it describes."""
    keys = [f"znode{path}"]
    parts = path.split("/")
    if path in (CONTROLLER, CONTROLLER_EPOCH, CLUSTER_ID):
        keys.append(CLUSTER)
    elif path.startswith((f"{brokers.IDS}/", f"{topics.TOPICS}/")):
        keys.append(f"{'broker' if parts[2] == 'ids' else 'topic'}/{parts[3]}")
    elif path.startswith(f"{consumers.CONSUMERS}/"):
        keys.append(f"group/{parts[2]}")
    elif path.startswith(f"{transactions.TRANSACTIONS}/") and len(parts) == 5:
        keys.append(f"transaction/{path.removeprefix(transactions.TRANSACTIONS).lstrip('/')}")
    return keys


def value_of(key: str, tree: Tree) -> Value | None:
    """The entity's value now; ``None`` where it does not exist."""
    kind, _, name = key.partition("/")
    try:
        match kind:
            case "cluster":
                return _cluster(tree)
            case "broker":
                return _broker(name, tree)
            case "topic":
                return _topic(name, tree)
            case "group":
                return _group(name, tree)
            case "transaction":
                return _transaction(f"{transactions.TRANSACTIONS}/{name}", tree)
            case _:
                return _znode(f"/{name}", tree)
    except MalformedZnodeError as error:
        return {"name": name, "fault": str(error)}


def _cluster(tree: Tree) -> Value:
    return {
        "id": _decoded(tree, CLUSTER_ID, lambda _, data: decode_cluster_id(data)),
        "controller": _decoded(tree, CONTROLLER, decode_claim),
        "controller_epoch": _decoded(tree, CONTROLLER_EPOCH, decode_epoch),
        "znodes": {"id": CLUSTER_ID, "controller": CONTROLLER, "controller_epoch": CONTROLLER_EPOCH},
    }


def _decoded(tree: Tree, path: str, decode: Callable[[str, bytes], T]) -> T | None:
    """The value of the znode at ``path``; ``None`` where it is missing or hidden. Raises what ``decode`` raises."""
    znode = tree.get(path)
    return None if znode is None or znode.data is None else decode(path, znode.data)


def _broker(name: str, tree: Tree) -> Value | None:
    path = f"{brokers.IDS}/{name}"
    znode = tree.get(path)
    if znode is None or znode.data is None:
        return None
    broker = brokers.decode_broker(int(name), znode.data, znode.stat.czxid)
    return {
        "id": broker.id,
        "endpoints": [
            {"listener": each.listener, "protocol": each.security_protocol, "host": each.host, "port": each.port}
            for each in broker.endpoints
        ],
        "rack": broker.rack,
        "events": broker.events,
        "epoch": broker.epoch,
        "session": f"0x{znode.stat.ephemeral_owner:x}",
        "since_ms": znode.stat.ctime_ms,
        "znodes": [path],
    }


def _topic(name: str, tree: Tree) -> Value | None:
    path = topics.topic_path(name)
    assignment = _decoded(tree, path, lambda _, data: topics.decode_topic(name, data))
    if assignment is None:
        return None
    partitions = [
        _partition(TopicPartition(name, number), replicas.replicas, tree)
        for number, replicas in sorted(assignment.partitions.items())
    ]
    return {"name": name, "partitions": partitions, "znodes": [path]}


def _partition(tp: TopicPartition, replicas: tuple[int, ...], tree: Tree) -> Value:
    path = topics.state_path(tp)
    value: Value = {"partition": tp.partition, "replicas": list(replicas), "znode": path}
    znode = tree.get(path)
    if znode is None or znode.data is None:
        return {**value, "leader": -1, "isr": []}
    try:
        state = topics.decode_state(tp, znode.data, znode.stat)
    except MalformedZnodeError as error:
        return {**value, "leader": -1, "isr": [], "fault": str(error)}
    return {
        **value,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
        "controller_epoch": state.controller_epoch,
    }


def _group(encoded: str, tree: Tree) -> Value | None:
    name = decode_name(encoded)
    root = consumers.group_path(name)
    if tree.get(root) is None:
        return None
    coordinator = COORDINATOR_CLAIM.claim_path(root)
    generation = _decoded(tree, generation_path(name), decode_generation)
    return {
        "name": name,
        "coordinator": _decoded(tree, coordinator, decode_claim),
        "generation": None if generation is None else generation.number,
        "protocol": None if generation is None else generation.protocol,
        "leader": None if generation is None else generation.leader,
        "members": [] if generation is None else list(_members(name, generation, tree)),
        "consumers": list(_consumers(name, tree)),
        "offsets": list(_offsets(name, tree)),
        "znodes": [root, generation_path(name), coordinator],
    }


def _members(group: str, generation: Generation, tree: Tree) -> Iterator[Value]:
    parent = members_path(group, generation.number)
    for encoded in sorted(tree.children(parent)):
        path = f"{parent}/{encoded}"
        znode = tree.get(path)
        if znode is not None and znode.data is not None:
            member = decode_member(path, decode_name(encoded), znode.data)
            yield {
                "id": member.member_id,
                "client": member.client_id,
                "host": member.client_host,
                "instance": member.instance_id,
                "assigned": _assigned(generation.protocol_type, member.assignment),
                "znode": path,
            }


def _assigned(protocol_type: str, assignment: bytes) -> list[str] | None:
    """The partitions in a member's assignment; ``None`` where only the clients of the group can read it."""
    if not assignment:
        return []
    if protocol_type != "consumer":
        return None
    try:
        codec = protocol_module("consumer.metadata").ConsumerProtocolAssignment
        found: list[DecodedTopic] = codec.decode(assignment).assigned_partitions
        return [f"{each.topic}-{number}" for each in found for number in sorted(each.partitions)]
    except (struct.error, TypeError, ValueError):
        return None


def _consumers(group: str, tree: Tree) -> Iterator[Value]:
    """The group's ZooKeeper consumers, with the partitions that they own."""
    root, owners = consumers.ids_path(group), f"{consumers.group_path(group)}/owners"
    owned: dict[str, list[str]] = defaultdict(list)
    for topic in sorted(tree.children(owners)):
        for number in sorted(tree.children(f"{owners}/{topic}")):
            znode = tree.get(f"{owners}/{topic}/{number}")
            # The stream's number follows the consumer's id.
            owner = (znode.data if znode is not None and znode.data else b"").decode(errors="replace")
            owned[owner.rpartition("-")[0]].append(f"{decode_name(topic)}-{number}")
    for name in sorted(tree.children(root)):
        path = f"{root}/{name}"
        try:
            registration = _decoded(tree, path, consumers.decode_consumer)
        except MalformedZnodeError as error:
            yield {"id": name, "assigned": owned[name], "fault": str(error), "znode": path}
        else:
            topics = {} if registration is None else registration.subscription
            yield {"id": name, "assigned": owned[name], "subscription": sorted(topics), "znode": path}


def _offsets(group: str, tree: Tree) -> Iterator[Value]:
    root = consumers.offsets_path(group)
    for topic in sorted(tree.children(root)):
        for number in sorted(tree.children(f"{root}/{topic}")):
            path = f"{root}/{topic}/{number}"
            value: Value = {"topic": decode_name(topic), "partition": int(number) if number.isdigit() else -1}
            try:
                offset = _decoded(tree, path, consumers.decode_offset)
            except MalformedZnodeError as error:
                yield {**value, "offset": None, "fault": str(error), "znode": path}
            else:
                yield {**value, "offset": offset, "znode": path}


def _transaction(path: str, tree: Tree) -> Value | None:
    transactional_id = decode_name(path.rpartition("/")[2])
    found = _decoded(tree, path, lambda _, data: transactions.decode_transaction(path, data, transactional_id))
    if found is None:
        return None
    return {
        "id": transactional_id,
        "state": found.state.value,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "since_ms": found.start_ms,
        "partitions": sorted(map(str, found.partitions)),
        "groups": sorted(found.groups),
        "znodes": [path],
    }


def _znode(path: str, tree: Tree) -> Value | None:
    znode = tree.get(path)
    if znode is None:
        return None
    kind = zk_schema.lookup(path)
    return {
        "path": path,
        "data": _shown(path, znode.data),
        "version": znode.stat.version,
        "czxid": znode.stat.czxid,
        "mzxid": znode.stat.mzxid,
        "mtime_ms": znode.stat.mtime_ms,
        "ephemeral_owner": f"0x{znode.stat.ephemeral_owner:x}" if znode.stat.ephemeral_owner else None,
        "kind": None
        if kind is None
        else {
            "path": kind.path,
            "writer": kind.writer,
            "watchers": kind.watchers,
            "lifetime": kind.lifetime,
            "description": kind.description,
        },
    }


def _shown(path: str, data: bytes | None) -> str | None:
    """The data as text; ``None`` where they are hidden from this client, or secret and so from the page."""
    if data is None or (data and access_to(path) is Access.SENSITIVE):
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"base64: {base64.b64encode(data).decode()}"

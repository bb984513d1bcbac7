"""Holds a live tree against ``zk_schema`` and against itself. Pure; needs ``jsonschema``, imported when used.

Answers to: nothing in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kafkalite.cluster.model import topic_fault
from kafkalite.common.acls import CLUSTER_NAME, AclResourceType
from kafkalite.common.config import ConfigDef, ConfigKey, ConfigType
from kafkalite.common.errors import ConfigError, StartupError
from kafkalite.common.quota_rates import CONNECTION_CREATION_RATE, QuotaType
from kafkalite.common.types import TopicPartition
from kafkalite.zk.zk_client import ZnodeStat
from kafkalite.zk.znodes import acls, brokers, config, topics
from kafkalite.zk.znodes.claims import CONTROLLER, decode_claim
from kafkalite.zk.znodes.codec import MalformedZnodeError, from_json

Tree = Mapping[str, tuple[bytes, ZnodeStat]]


def _rate(name: str) -> ConfigKey:
    return ConfigKey(name, ConfigType.DOUBLE, None, "A quota.", minimum=0)


_CLIENT_QUOTAS = ConfigDef(_rate(each.value) for each in QuotaType)
QUOTAS: Mapping[str, ConfigDef] = {
    config.CLIENTS: _CLIENT_QUOTAS,
    config.USERS: _CLIENT_QUOTAS,
    config.IPS: ConfigDef([_rate(CONNECTION_CREATION_RATE)]),
}
"""The quotas of KIP-124, KIP-599 and KIP-612, by type of entity."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with one znode."""

    path: str
    problem: str


def verify(tree: Tree, definitions: Mapping[str, ConfigDef] = QUOTAS) -> list[Fault]:
    """All faults, in the order of their paths. ZooKeeper's own ``/zookeeper`` is left out.

    ``definitions`` are the keys of each type of entity under ``/config`` (``topics``, ``brokers``): values of known
    keys are checked against them, unknown keys are passed over as brokers pass over them.

    Raises :class:`StartupError` where ``jsonschema`` is missing.
    """
    faults = []
    for path in sorted(tree):
        if path in ("/", "/zookeeper") or path.startswith("/zookeeper/"):
            continue
        faults += [Fault(path, problem) for problem in _znode_problems(path, *tree[path])]
        faults += [Fault(path, problem) for problem in _config_problems(path, tree[path][0], definitions)]
        faults += [Fault(path, problem) for problem in _security_problems(path, tree[path][0])]
    faults += _cross_checks(tree)
    return sorted(faults, key=lambda fault: fault.path)


def _znode_problems(path: str, data: bytes, stat: ZnodeStat) -> Iterator[str]:
    try:
        import jsonschema
    except ImportError:
        raise StartupError("zk verify needs jsonschema: pip install 'kafkalite[testing]'") from None
    import zk_schema

    kind = zk_schema.lookup(path)
    if kind is None:
        yield "no such znode in the classic tree"
        return
    if kind.ephemeral != bool(stat.ephemeral_owner):
        yield f"is {'ephemeral' if stat.ephemeral_owner else 'persistent'}, should be {kind.lifetime}"
    if not data and kind.may_be_empty:
        return
    try:
        value = kind.value(data)
    except ValueError as error:
        yield f"not {kind.format}: {error}"
        return
    for misfit in jsonschema.Draft202012Validator(kind.schema).iter_errors(value):
        where = "/".join(str(part) for part in misfit.absolute_path)
        yield f"{where}: {misfit.message}" if where else misfit.message


def _config_problems(path: str, data: bytes, definitions: Mapping[str, ConfigDef]) -> Iterator[str]:
    if not path.startswith(f"{config.CONFIG}/") or path.startswith(config.CHANGES):
        return
    # Of a user's client, /config/users/USER/clients/CLIENT, the client counts.
    definition = definitions.get(path.split("/")[-2])
    if definition is None:
        return
    try:
        texts = config.decode_config(path, data)
    except MalformedZnodeError:
        return  # The schema's check reports it.
    for name, text in texts.items():
        try:
            definition.parse({name: text})
        except ConfigError as error:
            yield str(error)


def _security_problems(path: str, data: bytes) -> Iterator[str]:
    """What no schema says of ACLs and delegation tokens: authorizers of brokers pass over such a znode, or fail."""
    parts = path.split("/")[1:]
    try:
        if parts[0] == "kafka-acl-extended":
            yield from _acl_problems(path, parts[1:], "prefixed", data)
        elif parts[0] == "kafka-acl":
            yield from _acl_problems(path, ["", *parts[1:]], "", data)
        elif path.startswith(f"{acls.LITERAL_CHANGES}/"):
            acls.decode_literal_change(data)
        elif path.startswith(f"{acls.EXTENDED_CHANGES}/"):
            acls.decode_extended_change(data)
        elif parts[:2] == ["delegation_token", "tokens"] and len(parts) == 3:
            token = from_json(data, path).get("tokenId")
            if token != parts[2]:
                yield f"tokenId is {token!r}, and the znode has another name"
    except MalformedZnodeError as error:
        yield str(error).removeprefix(f"{path}: ")


def _acl_problems(path: str, parts: Sequence[str], pattern: str, data: bytes) -> Iterator[str]:
    """``parts``: type of pattern, type of resource, name."""
    if parts and parts[0] != pattern:
        yield f"no such type of pattern: {parts[0]}"
    elif len(parts) > 1 and acls.resource_type(parts[1]) is None:
        yield f"no such type of resource: {parts[1]}"
    elif len(parts) > 2:
        acls.decode_acls(path, data)
        if acls.resource_type(parts[1]) is AclResourceType.CLUSTER and parts[2] != CLUSTER_NAME and not pattern:
            yield f"brokers ask for no other cluster than {CLUSTER_NAME}"


def _cross_checks(tree: Tree) -> Iterator[Fault]:
    """Checks across znodes: the ISR is within the replicas, the leader within the ISR, the controller registered."""
    for path, (data, _) in tree.items():
        if path.startswith(f"{topics.TOPICS}/") and path.count("/") == 3:
            fault = topic_fault(path.rpartition("/")[2])
            if fault is not None:
                yield Fault(path, f"brokers ignore this topic, delete the znode: {fault}")
            yield from _topic_faults(tree, path.rpartition("/")[2], data)
    if CONTROLLER in tree:
        try:
            controller = decode_claim(CONTROLLER, tree[CONTROLLER][0])
        except MalformedZnodeError:
            return
        if brokers.broker_path(controller) not in tree:
            yield Fault(CONTROLLER, f"broker {controller} is not in {brokers.IDS}")


def _topic_faults(tree: Tree, topic: str, data: bytes) -> Iterator[Fault]:
    try:
        assignment = topics.decode_topic(topic, data)
    except MalformedZnodeError:
        return  # The schema's check reports it.
    for partition, replicas in assignment.partitions.items():
        stray = (set(replicas.adding) | set(replicas.removing)) - set(replicas.replicas)
        if stray:
            yield Fault(topics.topic_path(topic), f"partition {partition}: {sorted(stray)} are no replicas")
        path = topics.state_path(TopicPartition(topic, partition))
        if path not in tree:
            continue
        try:
            state = topics.decode_state(TopicPartition(topic, partition), *tree[path])
        except MalformedZnodeError:
            continue
        outside = set(state.isr) - set(replicas.replicas)
        if outside:
            yield Fault(path, f"in the ISR but no replicas: {sorted(outside)}")
        if state.leader >= 0 and state.leader not in state.isr:
            yield Fault(path, f"leader {state.leader} is not in the ISR {list(state.isr)}")
    parent = topics.partitions_path(topic) + "/"
    for path in tree:
        index = path.removeprefix(parent)
        if path.startswith(parent) and index.isdigit() and int(index) not in assignment.partitions:
            yield Fault(path, "no such partition in the assignment")

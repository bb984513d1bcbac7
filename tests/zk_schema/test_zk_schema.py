"""The examples fit their schemas, and the znode codecs fit the examples."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

import zk_schema
from kafkalite.cluster.model import Broker, Endpoint, LeaderAndIsr, PartitionAssignment
from kafkalite.common.acls import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from kafkalite.common.principals import KafkaPrincipal
from kafkalite.common.types import TopicPartition
from kafkalite.security.delegation_tokens import DelegationToken, decode_token, encode_token
from kafkalite.zk.verify import verify
from kafkalite.zk.zk_client import ZnodeStat
from kafkalite.zk.znodes import acls, admin, brokers, claims, cluster, config, consumers, offsets, topics
from kafkalite.zk.znodes.claims import CONTROLLER_CLAIM, COORDINATOR_CLAIM, decode_claim
from kafkalite.zk.znodes.codec import MalformedZnodeError
from zk_schema import ZnodeSchema

TP = TopicPartition("lat3", 0)
STAT = ZnodeStat(1, 1, 0)
OWNED = ZnodeStat(1, 1, 0, 7)
COMMIT = offsets.OffsetAndMetadata(77, 5, "from page 7", 1795262835778)
STAGED = offsets.StagedOffsets(
    offsets.TxnProducer("mover-1", 4000, 3),
    {TopicPartition("flights", 0): offsets.OffsetAndMetadata(77, 2, "", 1795262835778)},
)


def kind(name: str) -> ZnodeSchema:
    return next(found for found in zk_schema.schemas() if found.name == name)


def check(name: str, data: bytes) -> None:
    jsonschema.Draft202012Validator(kind(name).schema).validate(kind(name).value(data))


@pytest.mark.parametrize("found", zk_schema.schemas(), ids=lambda found: found.name)
def test_schema_names_its_people_and_fits_its_example(found: ZnodeSchema) -> None:
    assert found.writer and found.watchers
    assert found.lifetime in ("persistent", "ephemeral", "persistent sequential")
    assert found.format in ("json", "text", "empty")
    jsonschema.Draft202012Validator.check_schema(found.schema)
    check(found.name, found.example())


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/brokers/topics/t/partitions/0/state", "partition_state"),
        ("/config/changes", "config_changes"),
        ("/config/changes/config_change_0000000001", "config_change"),
        ("/config/topics", "config_entities"),
        ("/config/brokers/<default>", "broker_config"),
        ("/isr_change_notification/isr_change_0000000000", "isr_change"),
        ("/isr_change_notification/isr_change_1", None),
        ("/brokers/topics/t/partitions/0/other", None),
    ],
)
def test_lookup_by_path(path: str, name: str | None) -> None:
    found = zk_schema.lookup(path)
    assert (found.name if found else None) == name


BROKER = Broker(
    1,
    (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9091),),
    unclean_start_epoch=25,
    events="http://127.0.0.1:9404/events",
)
ASSIGNMENT = topics.TopicAssignment(
    uuid.UUID("e6c83b2b-9417-47a9-8849-43d3dd1f97ec"), {0: PartitionAssignment((3, 2, 1))}
)
ALLOW = AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)
OLDT = ResourcePattern(AclResourceType.TOPIC, "oldt", PatternType.LITERAL)
PREFIX = ResourcePattern(AclResourceType.TOPIC, "pre", PatternType.PREFIXED)
ALICE = KafkaPrincipal("User", "alice")
TOKEN = DelegationToken("wPXhqMxtQ8ShzLCpbv_HUQ", ALICE, ALICE, (), 1795441600123, 1796046400123, 1795528000123)
STATE = LeaderAndIsr(
    "lat3",
    0,
    leader=3,
    leader_epoch=0,
    isr=(3, 2, 1),
    controller_epoch=1,
    zk_version=0,
    mzxid=1,
    unclean_start_epochs=((3, 29), (2, 27), (1, 25)),
)


def codecs() -> list[tuple[str, bytes, Callable[[bytes], Any], Any]]:
    """Kind, what we write, how we read, and the value that the example must give."""
    return [
        ("broker_id", brokers.encode_broker(BROKER, 1795261479137), lambda d: brokers.decode_broker(1, d), BROKER),
        ("topic", topics.encode_topic(ASSIGNMENT), lambda d: topics.decode_topic("lat3", d), ASSIGNMENT),
        ("partition_state", topics.encode_state(STATE), lambda d: topics.decode_state(TP, d, STAT), STATE),
        (
            "controller",
            CONTROLLER_CLAIM.encode_claim(1, 1795261479280),
            lambda d: decode_claim("p", d),
            1,
        ),
        ("controller_epoch", claims.encode_epoch(1), lambda d: claims.decode_epoch("p", d), 1),
        ("cluster_id", cluster.encode_cluster_id("casQwW0MTX2g9nuWSQQ5WQ"), cluster.decode_cluster_id, None),
        ("isr_change", admin.encode_isr_change([TP]), admin.decode_isr_change, [TP]),
        ("log_dir_event", admin.encode_log_dir_event(1), admin.decode_log_dir_event, 1),
        (
            "reassign_partitions",
            admin.encode_reassignment({TopicPartition("t", 0): (1, 2)}),
            admin.decode_reassignment,
            None,
        ),
        (
            "preferred_replica_election",
            b'{"version":1,"partitions":[{"topic":"t","partition":0}]}',
            admin.decode_preferred_election,
            [TopicPartition("t", 0)],
        ),
        ("topic_config", config.encode_config({"retention.ms": "1000"}), lambda d: config.decode_config("p", d), None),
        (
            "config_change",
            config.encode_change("users/alice/clients/c1"),
            config.decode_change,
            "users/alice/clients/c1",
        ),
        (
            "latest_producer_id_block",
            cluster.encode_block(cluster.ProducerIdBlock(1, 3000, 3999)),
            cluster.decode_block,
            None,
        ),
        (
            "consumer_id",
            consumers.encode_consumer(consumers.ConsumerRegistration({"oldt": 1}, "white_list", 1795262835778)),
            lambda d: consumers.decode_consumer("p", d),
            None,
        ),
        ("consumer_offset", consumers.encode_offset(133), lambda d: consumers.decode_offset("p", d), 133),
        (
            "group_coordinator",
            COORDINATOR_CLAIM.encode_claim(2, 1795262835778),
            lambda d: decode_claim("p", d),
            2,
        ),
        ("group_coordinator_epoch", claims.encode_epoch(3), lambda d: claims.decode_epoch("p", d), 3),
        ("group_commit", offsets.encode_commit(COMMIT), lambda d: offsets.decode_commit("p", d, 77), COMMIT),
        ("acl", acls.encode_acls([ALLOW]), lambda d: acls.decode_acls("p", d), frozenset([ALLOW])),
        ("acl_change", acls.encode_change(OLDT), acls.decode_literal_change, OLDT),
        ("acl_extended_change", acls.encode_change(PREFIX), acls.decode_extended_change, PREFIX),
        ("delegation_token_info", encode_token(TOKEN), lambda d: decode_token("p", d), TOKEN),
        ("staged_offsets", offsets.encode_staged(STAGED), lambda d: offsets.decode_staged("p", d), STAGED),
    ]


@pytest.mark.parametrize(("name", "written", "read", "expected"), codecs(), ids=[codec[0] for codec in codecs()])
def test_what_we_write_and_read_is_the_example(
    name: str, written: bytes, read: Callable[[bytes], Any], expected: Any
) -> None:
    check(name, written)
    example = kind(name).example()
    assert read(written) == read(example)
    if expected is not None:
        assert read(example) == expected
    if kind(name).format == "json":
        assert json.loads(written) == json.loads(example)
        for bad in (b"", b"{", b"[]", b"{}", b"\xff"):
            if not (bad == b"" and name in ("topic_config", "acl")):
                with pytest.raises(MalformedZnodeError):
                    read(bad)


def good_tree() -> dict[str, tuple[bytes, ZnodeStat]]:
    tree: dict[str, tuple[bytes, ZnodeStat]] = {"/": (b"", STAT), "/zookeeper": (b"x", STAT)}
    for path in ("/brokers", "/brokers/ids", "/brokers/topics", "/brokers/topics/lat3/partitions"):
        tree[path] = (b"", STAT)
    tree["/brokers/topics/lat3/partitions/0"] = (b"", STAT)
    tree["/brokers/ids/1"] = (kind("broker_id").example(), OWNED)
    tree["/brokers/topics/lat3"] = (kind("topic").example(), STAT)
    tree["/brokers/topics/lat3/partitions/0/state"] = (kind("partition_state").example(), STAT)
    tree["/controller"] = (kind("controller").example(), OWNED)
    return tree


def test_a_good_tree_has_no_faults() -> None:
    assert verify(good_tree()) == []


@pytest.mark.parametrize(
    ("path", "data", "stat", "problem"),
    [
        ("/brokers/ids/1", kind("broker_id").example(), STAT, "is persistent, should be ephemeral"),
        ("/controller_epoch", b"one", STAT, "does not match"),
        ("/brokers/ids/2", b"{", OWNED, "not json"),
        ("/brokers/topics/lat3/partitions/0/state", topics.encode_state(STATE.with_(leader=9)), STAT, "not in the ISR"),
        (
            "/brokers/topics/lat3/partitions/0/state",
            topics.encode_state(STATE.with_(isr=(3, 4))),
            STAT,
            "no replicas: [4]",
        ),
        ("/brokers/topics/lat3/partitions/7", b"", STAT, "no such partition"),
        ("/controller", CONTROLLER_CLAIM.encode_claim(8, 1), OWNED, "broker 8 is not in /brokers/ids"),
        ("/stray", b"", STAT, "no such znode"),
        ("/config/topics/t", b'{"version":1,"config":{"retention.ms":5}}', STAT, "5 is not of type 'string'"),
        ("/consumers/g/offsets/t/0", b"x", STAT, "does not match"),
    ],
)
def test_planted_faults_are_found(path: str, data: bytes, stat: ZnodeStat, problem: str) -> None:
    faults = verify({**good_tree(), path: (data, stat)})
    assert [fault.path for fault in faults] == [path]
    assert problem in faults[0].problem

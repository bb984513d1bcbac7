"""``kafkalite zk verify``: what no schema can say of names and of configuration values."""

from __future__ import annotations

import json
import uuid

import pytest

from kafkalite.broker.config_keys import BROKER_CONFIGS
from kafkalite.cluster.model import PartitionAssignment
from kafkalite.log.log_config import TOPIC_CONFIGS
from kafkalite.zk.verify import QUOTAS, verify
from kafkalite.zk.zk_client import ZnodeStat
from kafkalite.zk.znodes.config import encode_config
from kafkalite.zk.znodes.topics import TopicAssignment, encode_topic

STAT = ZnodeStat(czxid=1, mzxid=1, version=0)
ASSIGNMENT = encode_topic(TopicAssignment(uuid.UUID(int=5), {0: PartitionAssignment((1,))}))
DEFINITIONS = {**QUOTAS, "topics": TOPIC_CONFIGS, "brokers": BROKER_CONFIGS}


@pytest.mark.parametrize(
    ("name", "said"),
    [("x" * 300, "longer than the max allowed length 249"), ("a b", "ASCII alphanumerics"), ("ok.topic", None)],
)
def test_topic_names(name: str, said: str | None) -> None:
    faults = verify({f"/brokers/topics/{name}": (ASSIGNMENT, STAT)})
    assert [fault.path for fault in faults] == ([] if said is None else [f"/brokers/topics/{name}"])
    assert said is None or (said in faults[0].problem and "delete the znode" in faults[0].problem)


@pytest.mark.parametrize(
    ("path", "configs", "said"),
    [
        ("/config/topics/t", {"retention.ms": "1000"}, None),
        ("/config/topics/t", {"retention.ms": "one day"}, "Invalid value one day for configuration retention.ms"),
        ("/config/topics/t", {"cleanup.policy": "shred"}, "one of compact, delete"),
        ("/config/topics/t", {"confluent.tier.enable": "maybe"}, None),
        ("/config/brokers/1", {"log.cleaner.threads": "-1"}, "Invalid value -1 for configuration log.cleaner.threads"),
        ("/config/brokers/<default>", {"log.retention.ms": "x"}, "log.retention.ms"),
        ("/config/users/alice", {"producer_byte_rate": "much"}, "producer_byte_rate"),
        ("/config/users/alice/clients/c", {"consumer_byte_rate": "-1"}, "at least 0"),
        ("/config/clients/c", {"producer_byte_rate": "1024"}, None),
        ("/config/ips/10.0.0.1", {"connection_creation_rate": "fast"}, "connection_creation_rate"),
    ],
)
def test_configuration_values(path: str, configs: dict[str, str], said: str | None) -> None:
    problems = [fault.problem for fault in verify({path: (encode_config(configs), STAT)}, DEFINITIONS)]
    if said is None:
        assert problems == []
    else:
        assert any(said in problem for problem in problems), problems


def test_a_configuration_that_is_no_json_is_named_once() -> None:
    (fault,) = verify({"/config/topics/t": (b"{", STAT)}, DEFINITIONS)
    assert fault.path == "/config/topics/t" and "not json" in fault.problem
    assert json.loads(encode_config({}))["version"] == 1


TOKEN = (
    b'{"version":3,"owner":"User%%3Aa","tokenRequester":"User%%3Aa","renewers":[],"issueTimestamp":1,"maxTimestamp":2,'
    b'"expiryTimestamp":2,"tokenId":"%s"}'
)
ACL = b'{"version":1,"acls":[{"principal":"%s","permissionType":"Allow","operation":"%s","host":"*"}]}'


@pytest.mark.parametrize(
    ("path", "data", "said"),
    [
        ("/kafka-acl/Topic/t", ACL % (b"User:a", b"Read"), None),
        ("/kafka-acl/User/User:a", ACL % (b"User:b", b"CreateTokens"), None),
        ("/kafka-acl/Topic/t", ACL % (b"User:a", b"Red"), "an unknown operation"),
        ("/kafka-acl/Topic/t", ACL % (b"alice", b"Read"), "principal"),
        ("/kafka-acl/Topics", b"", "no such type of resource: Topics"),
        ("/kafka-acl/Topics/t", ACL % (b"User:a", b"Read"), "no such type of resource: Topics"),
        ("/kafka-acl/Cluster/kafka-cluster", ACL % (b"User:a", b"All"), None),
        ("/kafka-acl/Cluster/mine", ACL % (b"User:a", b"All"), "kafka-cluster"),
        ("/kafka-acl-extended/prefixed/Group/g", ACL % (b"User:a", b"All"), None),
        ("/kafka-acl-extended/prefixed", b"", None),
        ("/kafka-acl-extended/suffixed/Group/g", ACL % (b"User:a", b"All"), "no such type of pattern: suffixed"),
        ("/kafka-acl-extended/prefixed/Grp/g", ACL % (b"User:a", b"All"), "no such type of resource: Grp"),
        ("/kafka-acl-changes/acl_changes_0000000001", b"TOPIC:t", None),
        ("/kafka-acl-changes/acl_changes_0000000001", b"TOPICS:t", "an unknown resource type"),
        (
            "/kafka-acl-extended-changes/acl_changes_0000000001",
            b'{"version":1,"resourceType":"TOPIC","name":"t","patternType":"SUFFIXED"}',
            "not a change of version 1",
        ),
        ("/delegation_token/tokens/id", TOKEN % b"id", None),
        ("/delegation_token/tokens/id", TOKEN % b"other", "another name"),
        ("/delegation_token/tokens/id", TOKEN.replace(b"%%3A", b":") % b"id", "does not match"),
        ("/delegation_token/tokens/id", b"", "not json"),
        ("/delegation_token/token_changes/token_change_0000000000", b"id", None),
        ("/delegation_token/token_changes/token_change_0000000000", b"", "should be non-empty"),
        ("/delegation_token/others", b"", "no such znode"),
    ],
)
def test_znodes_of_security(path: str, data: bytes, said: str | None) -> None:
    problems = [fault.problem for fault in verify({path: (data, STAT)})]
    if said is None:
        assert problems == []
    else:
        assert any(said in problem for problem in problems), problems

"""The values of the page, from znodes as real brokers write them and from znodes that are wrong."""

from __future__ import annotations

import json

import pytest

import zk_schema
from kafkalite.dashboard.entities import Value, entities_of, value_of
from kafkalite.dashboard.tree_mirror import MirroredZnode, Tree
from kafkalite.zk.zk_client import ZnodeStat


def tree_of(znodes: dict[str, bytes | None], owner: int = 0) -> Tree:
    tree = Tree()
    for path in znodes:
        for end in range(1, len(path)):
            if path[end] == "/" and path[:end] not in znodes:
                tree.set(path[:end], MirroredZnode(b"", ZnodeStat(1, 1, 0)))
    for path, data in znodes.items():
        tree.set(path, MirroredZnode(data, ZnodeStat(5, 7, 2, owner, ctime_ms=1000, mtime_ms=2000)))
    return tree


def value(key: str, tree: Tree) -> Value:
    found = value_of(key, tree)
    assert found is not None, key
    return found


def values(listed: object) -> list[Value]:
    """``listed`` as what it is, a list of values."""
    assert isinstance(listed, list)
    return listed


TOPIC = b'{"version":1,"partitions":{"0":[1,2],"1":[2,1]}}'
STATE = b'{"controller_epoch":3,"leader":1,"version":1,"leader_epoch":9,"isr":[1]}'


def test_a_topic_has_its_partitions_with_their_states() -> None:
    tree = tree_of({"/brokers/topics/t": TOPIC, "/brokers/topics/t/partitions/0/state": STATE})
    assert value("topic/t", tree) == {
        "name": "t",
        "znodes": ["/brokers/topics/t"],
        "partitions": [
            {
                "partition": 0,
                "replicas": [1, 2],
                "leader": 1,
                "leader_epoch": 9,
                "isr": [1],
                "controller_epoch": 3,
                "znode": "/brokers/topics/t/partitions/0/state",
            },
            {
                "partition": 1,
                "replicas": [2, 1],
                "leader": -1,
                "isr": [],
                "znode": "/brokers/topics/t/partitions/1/state",
            },
        ],
    }


def test_a_wrong_state_is_shown_at_its_partition_alone() -> None:
    tree = tree_of({"/brokers/topics/t": TOPIC, "/brokers/topics/t/partitions/0/state": b"?"})
    first, second = values(value("topic/t", tree)["partitions"])
    assert "/brokers/topics/t/partitions/0/state" in str(first["fault"])
    assert "fault" not in second


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("broker/1", "/brokers/ids/1"),
        ("topic/t", "/brokers/topics/t"),
        ("transaction/0/ids/x", "/transactions/0/ids/x"),
    ],
)
def test_a_wrong_znode_is_a_fault_and_no_failure(key: str, path: str) -> None:
    assert path in str(value(key, tree_of({path: b"no json"}))["fault"])
    assert value_of(key, tree_of({})) is None


def test_the_cluster_names_its_controller_and_where_that_stands() -> None:
    tree = tree_of({"/cluster/id": b'{"version":"1","id":"abc"}', "/controller_epoch": b"4"})
    assert value("cluster", tree)["controller"] is None
    tree.set("/controller", MirroredZnode(b'{"version":2,"brokerid":3,"timestamp":"1"}', ZnodeStat(0, 0, 0)))
    found = value("cluster", tree)
    assert (found["id"], found["controller"], found["controller_epoch"]) == ("abc", 3, 4)
    assert found["znodes"] == {
        "id": "/cluster/id",
        "controller": "/controller",
        "controller_epoch": "/controller_epoch",
    }


def test_a_broker_has_its_endpoints_epoch_and_session() -> None:
    schema = zk_schema.lookup("/brokers/ids/1")
    assert schema is not None
    found = value("broker/1", tree_of({"/brokers/ids/1": schema.example()}, owner=0x1F))
    assert found["epoch"] == 5
    assert found["session"] == "0x1f"
    assert {"listener", "protocol", "host", "port"} == values(found["endpoints"])[0].keys()


def test_a_group_has_members_offsets_and_its_coordinator() -> None:
    member = b"""{"version":1,"instance_id":null,"client_id":"c","client_host":"/127.0.0.1","session_timeout_ms":1,
        "rebalance_timeout_ms":1,"protocols":[],"assignment":"AAEAAAABAAF0AAAAAQAAAAD/////"}"""
    generation = (
        b'{"version":1,"generation":2,"protocol_type":"consumer","protocol":"range","leader":"m","timestamp":"1"}'
    )
    tree = tree_of(
        {
            "/consumers/g": b"",
            "/consumers/g/coordinator": b'{"version":1,"brokerid":2,"timestamp":"1"}',
            "/consumers/g/generation": generation,
            "/consumers/g/generation/1/old": member,
            "/consumers/g/generation/2/m": member,
            "/consumers/g/offsets/t/0": b"17",
            "/consumers/g/offsets/t/1": b"many",
        }
    )
    found = value("group/g", tree)
    assert (found["coordinator"], found["generation"]) == (2, 2)
    assert [(each["id"], each["assigned"]) for each in values(found["members"])] == [("m", ["t-0"])]
    first, second = values(found["offsets"])
    assert first == {"topic": "t", "partition": 0, "offset": 17, "znode": "/consumers/g/offsets/t/0"}
    assert second["offset"] is None
    assert "not an offset" in str(second["fault"])


@pytest.mark.parametrize(("protocol_type", "assignment"), [("connect", "AAE="), ("consumer", "AAE=")])
def test_an_assignment_that_only_its_clients_can_read_is_unknown(protocol_type: str, assignment: str) -> None:
    member: dict[str, object] = {
        "version": 1,
        "instance_id": None,
        "client_id": "c",
        "client_host": "h",
        "session_timeout_ms": 1,
    }
    member |= {"rebalance_timeout_ms": 1, "protocols": [], "assignment": assignment}
    generation = {"version": 1, "generation": 1, "protocol_type": protocol_type, "protocol": "", "leader": ""}
    tree = tree_of(
        {
            "/consumers/g/generation": json.dumps({**generation, "timestamp": "1"}).encode(),
            "/consumers/g/generation/1/m": json.dumps(member).encode(),
        }
    )
    assert [each["assigned"] for each in values(value("group/g", tree)["members"])] == [None]


def test_a_zookeeper_consumer_has_the_partitions_that_it_owns() -> None:
    tree = tree_of(
        {
            "/consumers/g/ids/g_host-1": b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}',
            "/consumers/g/ids/wrong": b"?",
            "/consumers/g/owners/t/0": b"g_host-1-0",
        }
    )
    first, second = values(value("group/g", tree)["consumers"])
    path = "/consumers/g/ids/g_host-1"
    assert first == {"id": "g_host-1", "assigned": ["t-0"], "subscription": ["t"], "znode": path}
    assert "/consumers/g/ids/wrong" in str(second["fault"])
    assert second["assigned"] == []


def test_every_kind_of_znode_has_a_meaning() -> None:
    assert [kind.path for kind in zk_schema.schemas() if not kind.description.endswith(".")] == []


def test_a_znode_says_what_it_means() -> None:
    found = value("znode/controller_epoch", tree_of({"/controller_epoch": b"4"}))
    assert (found["data"], found["version"], found["ephemeral_owner"]) == ("4", 2, None)
    kind = found["kind"]
    assert isinstance(kind, dict)
    assert kind["path"] == "/controller_epoch"
    assert kind["writer"]
    assert "How often a controller was elected" in str(kind["description"])
    assert value("znode/mine", tree_of({"/mine": b"\xff"}))["data"] == "base64: /w=="
    assert value("znode/mine", tree_of({"/mine": b""}))["kind"] is None


@pytest.mark.parametrize("path", ["/config/users/alice", "/delegation_token/tokens/x"])
def test_credentials_are_never_shown(path: str) -> None:
    assert value(f"znode{path}", tree_of({path: b"stored_key"}))["data"] is None


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        ("/controller", ["cluster"]),
        ("/brokers/ids/1", ["broker/1"]),
        ("/brokers/ids", []),
        ("/brokers/topics/t/partitions/0/state", ["topic/t"]),
        ("/consumers/g/offsets/t/0", ["group/g"]),
        ("/transactions/0/ids/x", ["transaction/0/ids/x"]),
        ("/transactions/0", []),
        ("/config/topics/t", []),
    ],
)
def test_a_znode_belongs_to_what_it_describes(path: str, keys: list[str]) -> None:
    assert entities_of(path) == [f"znode{path}", *keys]

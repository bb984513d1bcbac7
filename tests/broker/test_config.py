"""server.properties: syntax, defaults, listeners, refusals."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kafkalite.broker.config import BROKER_CONFIGS, BrokerConfig
from kafkalite.broker.config_keys import KNOWN_CONFIGS, is_known_elsewhere
from kafkalite.broker.properties import parse_properties
from kafkalite.common.errors import ConfigError


def parse(**texts: str) -> BrokerConfig:
    named = {name.replace("_", "."): text for name, text in texts.items()}
    return BrokerConfig.parse({"zookeeper.connect": "localhost:2181", **named})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb = 2\n c:3\nd 4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# no\n! no\n\n  # no\na=1", {"a": "1"}),
        ("a=1\\\n   ,2\\\n,3\nb=4", {"a": "1,2,3", "b": "4"}),
        ("a=x\\\\\nb=2", {"a": "x\\", "b": "2"}),
        ("a=\\u0041\\t\\:b", {"a": "A\t:b"}),
        ("a\\=b=c=d", {"a=b": "c=d"}),
        ("a=\\ud834\\udd1e", {"a": "\U0001d11e"}),
        ("a", {"a": ""}),
        ("a=1\r\nb=2\ra=3", {"a": "3", "b": "2"}),
        ("a=value  ", {"a": "value  "}),
        ("a=1\\", {"a": "1"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("zookeeper.session.timeout.ms", 18000),
        ("message.max.bytes", 1048588),
        ("num.partitions", 1),
        ("auto.create.topics.enable", True),
        ("fetch.max.bytes", 57671680),
        ("replica.lag.time.max.ms", 30000),
        ("log.retention.hours", 168),
        ("log.cleanup.policy", ("delete",)),
        ("listeners", "PLAINTEXT://:9092"),
        ("broker.id", -1),
        ("producer.id.expiration.ms", 86400000),
    ],
)
def test_defaults_are_kafkas(name: str, default: object) -> None:
    assert BROKER_CONFIGS[name].default == default


def test_a_file_with_overrides_on_top(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=3\nzookeeper.connect=zk:2181/chroot\nlog.dirs=/a, /b\nbroker.rack=r1\n")
    config = BrokerConfig.load(file, {"broker.id": "4", "num.partitions": "6"})
    assert config.broker_id == 4
    assert config.rack == "r1"
    assert config.log_dirs == ("/a", "/b")
    assert config.values["num.partitions"] == 6
    assert config.values["zookeeper.connect"] == "zk:2181/chroot"
    assert config.zookeeper_connection_timeout_ms == 18000


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_both_encodings_are_read(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes("zookeeper.connect=zk\nbroker.rack=Zürich\n".encode(encoding))
    assert BrokerConfig.load(file).rack == "Zürich"


def test_the_controllers_requests_come_on_the_listener_between_brokers() -> None:
    listening = parse(
        listeners="PLAINTEXT://127.0.0.1:9092", advertised_listeners="PLAINTEXT://broker.example:19092"
    ).listening
    assert [(e.listener, e.host, e.port) for e in listening.bound] == [("PLAINTEXT", "127.0.0.1", 9092)]
    assert [(e.listener, e.security_protocol, e.host, e.port) for e in listening.reachable({"PLAINTEXT": 9092})] == [
        ("PLAINTEXT", "PLAINTEXT", "broker.example", 19092)
    ]
    assert (listening.inter_broker, listening.control_plane) == ("PLAINTEXT", None)


@pytest.mark.parametrize("name", ["CONTROLLER", "controller"])
def test_the_control_plane_may_have_a_listener_of_its_own(name: str) -> None:
    listening = parse(
        listeners="INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.1:0,CONTROLLER://127.0.0.1:9090",
        listener_security_protocol_map="INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        control_plane_listener_name=name,
        inter_broker_listener_name="INTERNAL",
    ).listening
    assert (listening.inter_broker, listening.control_plane) == ("INTERNAL", "CONTROLLER")
    assert sorted(listening.of_clients) == ["EXTERNAL", "INTERNAL"]
    ports = {"INTERNAL": 1, "EXTERNAL": 2, "CONTROLLER": 9090}
    assert [e.port for e in listening.reachable(ports)] == [1, 2, 9090]


@pytest.mark.parametrize(
    ("texts", "named"),
    [
        ({"zookeeper.connect": ""}, "zookeeper.connect"),
        ({"broker.id": "x"}, "broker.id"),
        ({"broker.id": "1001"}, "reserved.broker.max.id"),
        ({"broker.id.generation.enable": "false"}, "broker.id"),
        ({"num.partitions": "0"}, "num.partitions"),
        ({"listeners": "PLAINTEXT:9092"}, "listeners"),
        ({"listeners": "PLAINTEXT://h:70000"}, "listeners"),
        ({"listeners": "FOO://h:9092"}, "listener.security.protocol.map"),
        ({"listeners": "PLAINTEXT://h:1,PLAINTEXT://h:2"}, "each listener name once"),
        ({"listeners": "SASL_SSL://h:1"}, "security.inter.broker.protocol"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "advertised.listeners"),
        ({"control.plane.listener.name": "OTHER"}, "control.plane.listener.name: allowed are the advertised listeners"),
        ({"control.plane.listener.name": "PLAINTEXT"}, "allowed is another listener than that between brokers"),
        ({"inter.broker.protocol.version": "latest"}, "inter.broker.protocol.version"),
        ({"inter.broker.protocol.version": "4.0"}, "inter.broker.protocol.version"),
        ({"inter.broker.listener.name": "INTERNAL"}, "inter.broker.listener.name"),
        ({"compression.type": "brotli"}, "one of uncompressed, zstd"),
        ({"log.dirs": "/a,/a"}, "log.dirs"),
        ({"compression.gzip.level": "0"}, "1 to 9, or -1"),
    ],
)
def test_wrong_values_are_refused_with_what_is_allowed(texts: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named) as caught:
        BrokerConfig.parse({"zookeeper.connect": "localhost:2181", **texts})
    assert "allowed " in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        BrokerConfig.load(tmp_path / "none")


def test_unknown_names_are_for_an_authorizer_in_python(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        config = parse(authorizer_class_name="house_rules:Authorizer", house_friends="alice,bob")
    assert config.texts["house.friends"] == "alice,bob"
    assert [record.getMessage() for record in caplog.records if "house.friends" in record.getMessage()] == [
        "No configurations of brokers, and given to the authorizer house_rules:Authorizer: house.friends"
    ]
    assert not any(record.levelno >= logging.WARNING for record in caplog.records)


def test_unknown_names_are_warned_of_and_kafkas_others_are_not(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        parse(num_partitionz="3", offsets_topic_replication_factor="3")
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == ["Unknown configuration num.partitionz; it has no effect"]
    assert any("offsets.topic.replication.factor" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    "name",
    ["group.consumer.max.size", "transaction.state.log.min.isr", "sasl.kerberos.kinit.cmd", "super.users"],
)
def test_kafkas_other_keys_are_known(name: str) -> None:
    assert is_known_elsewhere(name)


def test_a_wrong_value_of_a_key_that_only_kafka_uses_is_refused_too() -> None:
    with pytest.raises(ConfigError, match=r"log\.local\.retention\.ms: allowed is at least -2"):
        parse(log_local_retention_ms="-7")


@pytest.mark.parametrize("name", ["broker.id", "node.id"])
def test_a_brokers_id_and_its_nodes_id_are_one(name: str) -> None:
    config = parse(**{name.replace(".", "_"): "7"})
    assert (config.broker_id, config.dynamic["broker.id"], config.dynamic["node.id"]) == (7, 7, 7)


def test_two_ids_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"node\.id: allowed is the value of broker\.id"):
        parse(broker_id="7", node_id="8")


def test_every_key_has_a_meaning_and_a_default_that_it_allows() -> None:
    for key in KNOWN_CONFIGS.keys.values():
        assert key.doc.endswith("."), key.name
        rendered = key.render(key.default)
        if rendered is not None:
            assert key.parse(rendered) == key.default, key.name

"""Configurations of topics and brokers are described and changed like in Apache Kafka with equal settings."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import NewTopic

from integration.conftest import TEST_OVERRIDES, launcher
from integration.harness.admin import ask_controller
from integration.harness.java import KAFKA_3_9, kafka_launcher, run_tool
from integration.harness.raw import RawClient
from integration.harness.tree import Tree
from integration.harness.wait import wait_for
from kafkalite.cli.configs_explain import BROKER as BROKERS
from kafkalite.cli.configs_explain import TABLES, find
from kafkalite.cli.configs_explain import TOPIC as TOPICS
from kafkalite.common.errors import ErrorCode
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.processes import free_ports
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
CONFIG_TOOL = "kafka.admin.ConfigCommand"
SETTINGS = {
    "compression.type": "lz4",
    "log.flush.scheduler.interval.ms": "5000",
    "log.retention.hours": "48",
    "log.roll.ms": "600000",
    "log.cleaner.io.max.bytes.per.second": "20000000",
    "log.segment.bytes": "1000000",
    "my.plugin.key": "x",
    "num.io.threads": "4",
    "sasl.server.max.receive.size": "100000",
    "ssl.keystore.password": "secret",
}
OURS = {
    "log.format",
    "metrics.listener",
    "producer.id.expiration.check.interval.ms",
    "transaction.two.phase.commit.enable",
    "java.security.auth.login.config",
    "zookeeper.auth.digest",
    "zookeeper.sasl.client",
    "zookeeper.sasl.clientconfig",
    "zookeeper.session.guardian.enable",
}
"""Keys that Kafka lacks, or hides as internal ones."""
OF_A_MACHINE = {"listeners", "log.dirs", "zookeeper.connect"}
"""Keys with ports and paths."""
QUIRKS = {"log.retention.hours"}
"""Keys of which Kafka describes the default instead of the value once the broker has any dynamic configuration."""


class Entry(NamedTuple):
    """One key in the answer of DescribeConfigs; synonyms are (name, value, source)."""

    value: str | None
    source: int
    read_only: bool
    sensitive: bool
    type: int
    synonyms: tuple[tuple[str, str | None, int], ...]


class Pair(NamedTuple):
    """The broker under test, and Kafka, in separate clusters."""

    tested: LocalCluster
    kafka: LocalCluster


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both with the same settings and a topic ``t``."""
    overrides = {**TEST_OVERRIDES, **SETTINGS}
    clusters = Pair(
        LocalCluster(tmp_path_factory.mktemp("tested"), 1, overrides=overrides, launcher=launcher()),
        LocalCluster(tmp_path_factory.mktemp("kafka"), 1, overrides=overrides, launcher=kafka_launcher("256m")),
    )
    topic = NewTopic("t", 1, 1, config={"retention.ms": "12345", "cleanup.policy": "compact,delete"})
    try:
        for cluster in clusters:
            cluster.start()
            ask_controller(cluster.bootstrap, lambda client: client.create_topics([topic]), ["TOPIC_ALREADY_EXISTS"])
        yield clusters
    finally:
        for cluster in clusters:
            cluster.close()


def describe(cluster: LocalCluster, kind: int, name: str) -> dict[str, Entry]:
    """Every entry of a resource."""
    resource = messages.DescribeConfigsRequest.DescribeConfigsResource
    asked = resource(resource_type=kind, resource_name=name, configuration_keys=None)
    with RawClient(cluster.address(1)) as client:
        answer = client.ask(
            ApiKey.DESCRIBE_CONFIGS, 4, resources=[asked], include_synonyms=True, include_documentation=False
        )
    (found,) = answer.results
    assert not found.error_code, found
    return {
        each.name: Entry(
            each.value,
            each.config_source,
            each.read_only,
            each.is_sensitive,
            each.config_type,
            tuple((synonym.name, synonym.value, synonym.source) for synonym in each.synonyms),
        )
        for each in found.configs
    }


def alter(
    cluster: LocalCluster, name: str, configs: Mapping[str, str | None], kind: int = BROKER
) -> tuple[ErrorCode, str | None]:
    """Set keys of the broker ``name`` (empty: of all brokers), or delete them (``None``); returns error and message."""
    resource = messages.IncrementalAlterConfigsRequest.AlterConfigsResource
    changes = [
        resource.AlterableConfig(name=key, config_operation=int(value is None), value=value)
        for key, value in configs.items()
    ]
    asked = resource(resource_type=kind, resource_name=name, configs=changes)
    with RawClient(cluster.address(1)) as client:
        answer = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[asked], validate_only=False)
    (outcome,) = answer.responses
    return ErrorCode(outcome.error_code), outcome.error_message


def comparable(cluster: LocalCluster, kind: int, name: str) -> dict[str, Any]:
    """The part of a resource's description that must be equal in both clusters."""
    entries: dict[str, Any] = describe(cluster, kind, name)
    for key in entries.keys() & OF_A_MACHINE:
        entry = entries[key]
        entries[key] = entry._replace(value=None, synonyms=tuple((s[0], s[2]) for s in entry.synonyms))
    return {key: entry for key, entry in entries.items() if key not in OURS | QUIRKS}


def assert_described_alike(pair: Pair) -> None:
    """Compare every key of the topic, of the broker, and of all brokers."""
    for kind, name in ((TOPIC, "t"), (BROKER, "1"), (BROKER, "")):
        tested, kafka = comparable(pair.tested, kind, name), comparable(pair.kafka, kind, name)
        assert sorted(tested) == sorted(kafka), f"the keys of {name!r}"
        differing = {key: (tested[key], kafka[key]) for key in kafka if tested[key] != kafka[key]}
        assert not differing, f"{name!r}: ours, Kafka's"


def test_configurations_are_described_alike(pair: Pair) -> None:
    assert_described_alike(pair)
    own = {
        "follower.replication.throttled.rate": "2000",
        "leader.replication.throttled.rate": "1000",
        "listener.name.plaintext.ssl.keystore.type": "PKCS12",
        "log.cleanup.policy": "compact, delete",
        "log.local.retention.ms": "1000",
        "log.retention.ms": "7000000",
        "max.connection.creation.rate": "5",
        "my.plugin": "x",
        "num.io.threads": "8",
        "replica.alter.log.dirs.io.max.bytes.per.second": "30000",
        "sasl.login.refresh.window.factor": "0.7",
    }
    of_all_brokers = {
        "leader.replication.throttled.rate": "9",
        "log.cleaner.threads": "2",
        "log.retention.ms": "8000000",
        "my.plugin": "y",
        "transaction.partition.verification.enable": "false",
    }
    for cluster in pair:
        assert alter(cluster, "1", own) == (ErrorCode.NONE, None)
        assert alter(cluster, "", of_all_brokers) == (ErrorCode.NONE, None)
        wait_for(lambda cluster=cluster: len(describe(cluster, BROKER, "")) == len(of_all_brokers), "all is in force")  # type: ignore[misc]
        wait_for(
            lambda cluster=cluster: describe(cluster, BROKER, "1")["num.io.threads"].value == "8",  # type: ignore[misc]
            "the broker's own is in force",
        )
    assert_described_alike(pair)
    for cluster in pair:
        assert alter(cluster, "1", dict.fromkeys(own)) == (ErrorCode.NONE, None)
        assert alter(cluster, "", dict.fromkeys(of_all_brokers)) == (ErrorCode.NONE, None)


@pytest.mark.parametrize(
    ("name", "configs", "text"),
    [
        ("1", {"log.local.retention.ms": "zzz"}, "Invalid value zzz for configuration log.local.retention.ms"),
        ("1", {"log.local.retention.ms": "-7"}, "Invalid value -7 for configuration log.local.retention.ms"),
        ("1", {"leader.replication.throttled.rate": "-1"}, "Invalid value -1 for configuration leader.replication."),
        ("1", {"remote.log.manager.thread.pool.size": "9"}, "Cannot update these configs dynamically"),
        ("1", {"delegation.token.master.key": "x"}, "Cannot update these configs dynamically"),
        ("1", {"ssl.keystore.type": "PEM"}, "only per-listener using the listener prefix"),
        ("", {"listeners": "PLAINTEXT://:1"}, "at default cluster level, broker id must be specified"),
        ("", {"sasl.enabled.mechanisms": "PLAIN"}, "at default cluster level, broker id must be specified"),
        ("1", {"num.io.threads": "9"}, "num.io.threads=9, value should not be greater than double the current value 4"),
        ("1", {"num.io.threads": "1"}, "num.io.threads=1, value should be at least half the current value 4"),
        ("", {"num.network.threads": "7"}, "num.network.threads=7, value should not be greater than double the "),
        ("1", {"num.replica.fetchers": "3"}, "num.replica.fetchers=3, value should not be greater than double the "),
        ("1", {"background.threads": "4"}, "background.threads=4, value should be at least half the current value 10"),
        ("1", {"num.recovery.threads.per.data.dir": "3"}, "dir=3, value should not be greater than double the "),
        ("1", {"log.cleaner.threads": "3"}, "cleaner threads cannot be increased to more than double the current "),
    ],
)  # fmt: skip
def test_changes_are_refused_alike(pair: Pair, name: str, configs: dict[str, str | None], text: str) -> None:
    answers = [alter(cluster, name, configs) for cluster in pair]
    assert [error for error, _ in answers] == [ErrorCode.INVALID_REQUEST] * 2, answers
    assert all(text in (message or "") for _, message in answers), answers


def test_kafkas_tool_changes_a_broker_while_throttles_are_set(pair: Pair) -> None:
    cluster = pair.tested
    throttles = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
    rates: dict[str, str | None] = {**dict.fromkeys(throttles, "1000"), "max.connection.creation.rate": "77"}
    assert alter(cluster, "1", rates) == (ErrorCode.NONE, None)
    flags = ("--bootstrap-server", cluster.bootstrap, "--entity-type", "brokers", "--entity-name", "1", "--alter")
    run_tool(KAFKA_3_9, CONFIG_TOOL, *flags, "--add-config", "log.cleaner.backoff.ms=5")
    wait_for(lambda: describe(cluster, BROKER, "1")["log.cleaner.backoff.ms"].value == "5", "the change is in force")
    assert describe(cluster, BROKER, "1")[throttles[0]].value == "1000"
    run_tool(KAFKA_3_9, CONFIG_TOOL, *flags, "--delete-config", ",".join([*rates, "log.cleaner.backoff.ms"]))
    wait_for(lambda: throttles[0] not in describe(cluster, BROKER, "1"), "the throttle is gone")


def test_a_listener_is_opened_advertised_and_closed_by_kafkas_tool(pair: Pair) -> None:
    cluster = pair.tested
    host, _, port = cluster.address(1).rpartition(":")
    extra_port, another_port = free_ports(2)
    settings = describe(cluster, BROKER, "1")
    listeners = settings["listeners"].value or ""
    protocols = settings["listener.security.protocol.map"].value or ""
    flags = ("--bootstrap-server", cluster.bootstrap, "--entity-type", "brokers", "--entity-name", "1", "--alter")

    def add(text: str, advertised: str) -> None:
        configs = {
            "listeners": f"{listeners},{text}",
            "listener.security.protocol.map": f"{protocols},EXTRA:PLAINTEXT",
            "advertised.listeners": f"{listeners},EXTRA://{advertised}",
        }
        changes = ",".join(f"{name}=[{value}]" for name, value in configs.items())
        run_tool(KAFKA_3_9, CONFIG_TOOL, *flags, "--add-config", changes)

    def advertised() -> set[str]:
        with Tree(cluster.zookeeper) as tree:
            found = tree.json("/brokers/ids/1")
        return set(found["endpoints"])

    def brokers_by(listener_port: int) -> list[tuple[str, int]]:
        with RawClient(f"{host}:{listener_port}") as client:
            answer = client.ask(ApiKey.METADATA, 1, topics=[])
            return [(broker.host, broker.port) for broker in answer.brokers]

    add(f"EXTRA://{host}:{extra_port}", f"{host}:{extra_port}")
    before = f"PLAINTEXT://{host}:{port}"
    wait_for(lambda: advertised() == {before, f"EXTRA://{host}:{extra_port}"}, "the listener is advertised")
    wait_for(lambda: brokers_by(extra_port) == [(host, extra_port)], "the listener serves, and names itself")
    assert brokers_by(int(port)) == [(host, int(port))]

    # With another advertised address, for example a proxy's.
    add(f"EXTRA://{host}:{extra_port}", f"proxy.example:{another_port}")
    wait_for(lambda: brokers_by(extra_port) == [("proxy.example", another_port)], "the new address is named")

    with RawClient(f"{host}:{extra_port}") as client:
        names = "listeners,listener.security.protocol.map,advertised.listeners"
        run_tool(KAFKA_3_9, CONFIG_TOOL, *flags, "--delete-config", names)
        wait_for(lambda: advertised() == {before}, "the listener is advertised no more")
        wait_for(lambda: not is_open(host, extra_port), "the port is closed")
        client.socket.settimeout(10)
        assert client.socket.recv(1) == b"", "the connection is closed"
    assert brokers_by(int(port)) == [(host, int(port))]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("advertised.listeners", "NOWHERE://h:1"),
        ("listeners", "PLAINTEXT://127.0.0.1"),
        ("listeners", "EXTRA://127.0.0.1:1"),
        ("listener.security.protocol.map", "PLAINTEXT:NOTHING"),
        ("listener.security.protocol.map", "EXTRA:PLAINTEXT"),
    ],
)
def test_invalid_listeners_are_refused(pair: Pair, name: str, value: str) -> None:
    for cluster in pair:
        before = describe(cluster, BROKER, "1")[name]
        error, message = alter(cluster, "1", {name: value})
        assert error in (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG), message
        assert describe(cluster, BROKER, "1")[name] == before


def test_the_levels_of_loggers_are_changed_by_kafkas_tool(pair: Pair) -> None:
    """Both clusters, each with a logger of its own; errors and their messages are equal."""
    errors = []
    for cluster, logger in ((pair.tested, "kafkalite.controller"), (pair.kafka, "kafka.server.KafkaServer")):
        flags = ("--bootstrap-server", cluster.bootstrap, "--entity-type", "broker-loggers", "--entity-name", "1")
        run_tool(KAFKA_3_9, CONFIG_TOOL, *flags, "--alter", "--add-config", f"{logger}=DEBUG")
        levels = describe(cluster, BROKER_LOGGER, "1")
        assert levels[logger] == Entry("DEBUG", 6, False, False, 0, ())
        root = levels["root"].value
        error, message = alter(cluster, "1", {logger: None}, BROKER_LOGGER)
        assert error is ErrorCode.NONE, message
        assert describe(cluster, BROKER_LOGGER, "1")["root"].value == root
        of_this_broker = ({logger: "LOUD"}, {"nothing": "INFO"}, {"root": None}, {logger: "OFF"}, {"nothing": None})
        answers = [alter(cluster, "1", configs, BROKER_LOGGER) for configs in of_this_broker]
        # Without the levels, which Kafka names in an order of chance.
        known = [(error, (text or "").replace(logger, "L").partition("Valid")[0]) for error, text in answers]
        # Kafka's message of another broker's id names its own id twice.
        errors.append((known, [alter(cluster, name, {logger: "INFO"}, BROKER_LOGGER)[0] for name in ("2", "x", "")]))
    assert errors[0] == errors[1]


def is_open(host: str, port: int) -> bool:
    """Whether the port accepts connections."""
    try:
        socket.create_connection((host, port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize(
    ("scope", "program"),
    [(BROKERS, "kafka.server.KafkaConfig"), (TOPICS, "org.apache.kafka.storage.internals.log.LogConfig")],
)
def test_explanations_link_to_places_that_kafkas_documentation_has(scope: str, program: str) -> None:
    """Kafka's programs print the tables of its documentation as HTML."""
    anchors = set(re.findall(r'id="(\w+configs_[^"]+)"', run_tool(KAFKA_3_9, program).out))
    links = {
        name: found.documentation.partition("#")[2]
        for name in TABLES[scope].keys
        for found in find(name)
        if found.scope == scope and found.documentation
    }
    assert len(links) > 30
    assert {name: anchor for name, anchor in links.items() if anchor not in anchors} == {}
    own = set(TABLES[scope].keys) - set(links)
    assert {name for name in own if f"{scope}configs_{name}" in anchors} == set(), "Kafka documents these"

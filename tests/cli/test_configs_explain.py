"""``kafkalite configs --explain``: every key of every table, names that are wrong, and both forms of the output."""

from __future__ import annotations

import json
import re

import pytest

from kafkalite.broker.authorizer_keys import AUTHORIZER_CONFIGS
from kafkalite.broker.config_keys import BROKER_CONFIGS, KNOWN_CONFIGS
from kafkalite.cli.configs_explain import (
    BROKER,
    BROKER_KEYS,
    CONSUMER,
    SPARK_SOURCE,
    TABLES,
    TOPIC,
    Explanation,
    find,
    nearest,
)
from kafkalite.cli.main import main
from kafkalite.log.log_config import TOPIC_CONFIGS

NEIGHBOUR = re.compile(
    r"^(?:It|Its|Such|Their|They|The same)\b|\b(?:such a|that age|that happens|often that is|that long)\b"
)
"""Words that refer to the key above in the table."""
NAMES = sorted({name for definition in TABLES.values() for name in definition.keys})


def explained(name: str, scope: str) -> Explanation:
    """The explanation of ``name`` in one of the tables."""
    (found,) = (each for each in find(name) if each.scope == scope)
    return found


def test_a_broker_key_for_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["configs", "--explain", "log.retention.ms"]) == 0
    assert capsys.readouterr().out == (
        "log.retention.ms (broker)\n"
        f"  {KNOWN_CONFIGS['log.retention.ms'].doc}\n"
        "  type           long\n"
        "  default        none\n"
        "  allowed        at least -1\n"
        "  update         cluster-wide: may be changed while brokers run, for one or for all\n"
        "  topic key      retention.ms\n"
        "  documentation  "
        "https://kafka.apache.org/39/configuration/broker-configs/#brokerconfigs_log.retention.ms\n"
    )


def test_a_name_of_brokers_and_topics_is_explained_twice(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--explain", "compression.type", "--json"]) == 0
    broker, topic = json.loads(capsys.readouterr().out)
    assert (broker["scope"], topic["scope"]) == (BROKER, TOPIC)
    assert broker["related"] == topic["related"] == ["compression.type"]
    assert (broker["update"], broker["dynamic"], topic["update"], topic["dynamic"]) == (
        "cluster-wide",
        True,
        "per-topic",
        True,
    )
    assert topic == {
        "name": "compression.type",
        "scope": "topic",
        "meaning": TOPIC_CONFIGS["compression.type"].doc,
        "type": "string",
        "default": "producer",
        "allowed": "uncompressed, zstd, lz4, snappy, gzip, producer",
        "update": "per-topic",
        "dynamic": True,
        "how": "may be changed while brokers run, for each topic",
        "has_effect": True,
        "related": ["compression.type"],
        "documentation": "https://kafka.apache.org/39/configuration/topic-level-configs/#topicconfigs_compression.type",
    }


@pytest.mark.parametrize(
    ("name", "scope", "values"),
    [
        ("broker.rack", BROKER, {"default": None, "allowed": "any text", "update": "read-only", "dynamic": False}),
        ("listeners", BROKER, {"update": "per-broker", "dynamic": True}),
        ("broker.heartbeat.interval.ms", BROKER, {"has_effect": False}),
        ("log.preallocate", BROKER, {"type": "boolean", "default": "false", "allowed": "true or false"}),
        ("compression.gzip.level", BROKER, {"allowed": "1 to 9, or -1"}),
        ("group.share.max.record.lock.duration.ms", BROKER, {"allowed": "30000 to 3600000"}),
        ("zookeeper.session.guardian.enable", BROKER, {"documentation": None}),
        ("super.users", BROKER, {"documentation": None, "update": "read-only", "has_effect": True}),
        ("sasl.enabled.mechanisms", BROKER, {"default": "GSSAPI", "update": "per-broker", "has_effect": True}),
        ("ssl.client.auth", BROKER, {"allowed": "required, requested, none", "has_effect": True}),
        ("leader.replication.throttled.rate", BROKER, {"documentation": None}),
        ("retention.ms", TOPIC, {"default": "604800000", "related": ("log.retention.ms",)}),
        ("leader.replication.throttled.replicas", TOPIC, {"default": "", "related": ()}),
        ("auto.offset.reset", CONSUMER, {"default": "largest", "allowed": "smallest, earliest, largest, latest"}),
        ("rebalance.max.retries", CONSUMER, {"default": "4", "allowed": "at least 1", "update": "read-only"}),
        ("group.id", CONSUMER, {"default": None, "type": "string"}),
        ("failOnDataLoss", SPARK_SOURCE, {"default": "true", "allowed": "true or false", "update": "read-only"}),
        ("startingoffsetsbytimestampstrategy", SPARK_SOURCE, {"default": "error", "allowed": "error, latest"}),
        ("maxTriggerDelay", SPARK_SOURCE, {"default": "15m", "related": (), "dynamic": False}),
        ("maxOffsetsPerTrigger", SPARK_SOURCE, {"default": None, "allowed": "at least 1", "type": "long"}),
        ("kafka.bootstrap.servers", SPARK_SOURCE, {"name": "kafka.bootstrap.servers"}),
        ("kafka.isolation.level", SPARK_SOURCE, {"name": "kafka.*", "allowed": "the values that Kafka allows"}),
    ],
)
def test_what_is_said_of_a_key(name: str, scope: str, values: dict[str, object]) -> None:
    found = explained(name, scope)
    assert {field: getattr(found, field) for field in values} == values


@pytest.mark.parametrize("name", NAMES)
def test_every_key_has_a_meaning_that_stands_alone(name: str) -> None:
    """``--explain`` shows a meaning without the keys above and below it in the table."""
    for found in find(name):
        assert found.meaning.endswith(".") and found.allowed and found.how
        assert not NEIGHBOUR.search(found.meaning), found.meaning


def test_only_keys_of_brokers_that_nothing_reads_or_checks_have_no_effect() -> None:
    without = {name for name in NAMES for found in find(name) if not found.has_effect}
    unread = BROKER_KEYS.keys.keys() - BROKER_CONFIGS.keys.keys() - AUTHORIZER_CONFIGS.keys.keys()
    assert without == {name for name in unread if BROKER_KEYS[name].check is None}
    assert "broker.heartbeat.interval.ms" in without
    assert "ssl.keystore.location" not in without


def test_a_listeners_prefix_is_left_out() -> None:
    assert [found.name for found in find("listener.name.inside.ssl.keystore.type")] == ["ssl.keystore.type"]
    assert [found.name for found in find("listener.name.inside.plain.sasl.jaas.config")] == ["sasl.jaas.config"]
    assert list(find("listener.name.inside.no.such.key")) == []


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("log.retntion.ms", "log.retention.ms"),
        ("num_io_threads", "num.io.threads"),
        ("Retention.MS", "retention.ms"),
        ("insync", "min.insync.replicas"),
        ("startingOffset", "startingOffsets"),
        ("failondatalos", "failOnDataLoss"),
    ],
)
def test_an_unknown_name_gets_the_nearest_names(name: str, near: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert nearest(name)[0] == near
    assert main(["configs", "--explain", name]) == 2
    said = capsys.readouterr().err
    assert said.startswith(
        f"kafkalite configs: brokers, topics, consumers and Spark's source have no configuration {name!r}; "
        f"the nearest names are {near}"
    )


def test_a_name_like_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("qqq", ""):
        assert nearest(name) == []
        assert main(["configs", "--explain", name]) == 2
        assert "docs/configuration.md and docs/spark.md list all" in capsys.readouterr().err


def test_a_key_of_another_release_has_no_effect(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["configs", "--explain", "advertised.host.name"]) == 2
    assert "brokers accept it, and it has no effect" in capsys.readouterr().err


def test_other_actions_need_a_broker_to_ask(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["configs", "--describe", "--topic", "t"]) == 2
    assert capsys.readouterr().err.endswith("the following arguments are required: --bootstrap-server\n")

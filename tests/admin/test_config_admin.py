"""Configurations described and altered."""

from __future__ import annotations

import pytest

from kafkalite.admin.config_admin import AlterOp, ConfigEntry, ResourceType
from kafkalite.admin.dynamic_config import ConfigSource
from kafkalite.cluster.model import PartitionAssignment
from kafkalite.common.errors import ApiError, ErrorCode
from tests.support import run

from .helpers import AdminCluster

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER


def cluster_with_topic(static: dict[str, str] | None = None) -> AdminCluster:
    cluster = AdminCluster(static)
    cluster.add("t", None, {0: PartitionAssignment((1,))})
    return cluster


def entry(cluster: AdminCluster, kind: int, name: str, key: str) -> ConfigEntry:
    (found,) = run(cluster.configs.describe(kind, name, [key]))
    return found


def test_a_topics_value_comes_from_its_override_the_broker_or_the_default() -> None:
    cluster = cluster_with_topic({"log.retention.hours": "2"})
    found = entry(cluster, TOPIC, "t", "retention.ms")
    # Kafka names no source in another unit.
    assert (found.value, found.source, found.synonyms) == ("7200000", ConfigSource.DEFAULT_CONFIG, [])
    run(cluster.configs.replace(TOPIC, "t", {"retention.ms": "5"}))
    found = entry(cluster, TOPIC, "t", "retention.ms")
    assert (found.value, found.source) == ("5", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    cluster.config.update_default({"message.max.bytes": "1000"})
    found = entry(cluster, TOPIC, "t", "max.message.bytes")
    assert (found.value, found.source) == ("1000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
    assert found.type == 3
    assert not found.read_only


def test_a_broker_shows_everything_and_hides_secrets() -> None:
    cluster = AdminCluster({"zookeeper.auth.digest": "me:secret", "broker.rack": "r1"})
    entries = {found.name: found for found in run(cluster.configs.describe(BROKER, "1", None))}
    assert entries["broker.rack"].value == "r1"
    assert entries["broker.rack"].read_only
    assert not entries["message.max.bytes"].read_only
    assert entries["zookeeper.auth.digest"].sensitive
    assert "secret" not in repr(entries["zookeeper.auth.digest"])
    assert len(entries) == len([key for key in cluster.config.definition.keys.values() if not key.is_dynamic_only])


STATIC, DEFAULT = ConfigSource.STATIC_BROKER_CONFIG, ConfigSource.DEFAULT_CONFIG


@pytest.mark.parametrize(
    ("static", "dynamic", "key", "expected"),
    [
        (
            {"log.retention.hours": "2"},
            {},
            "log.retention.hours",
            [("log.retention.hours", "2", STATIC), ("log.retention.hours", "168", DEFAULT)],
        ),
        ({"log.retention.hours": "2"}, {}, "log.retention.ms", []),
        (
            {"log.retention.hours": "2", "log.retention.minutes": "7"},
            {"log.retention.ms": "9"},
            "log.retention.minutes",
            [
                ("log.retention.minutes", "7", STATIC),
                ("log.retention.hours", "2", STATIC),
                ("log.retention.hours", "168", DEFAULT),
            ],
        ),
        ({"log.flush.scheduler.interval.ms": "5"}, {}, "log.flush.interval.ms", []),
        ({}, {}, "sasl.enabled.mechanisms", [("sasl.enabled.mechanisms", "GSSAPI", DEFAULT)]),
        (
            {},
            {"listener.name.l.ssl.keystore.type": "PEM"},
            "listener.name.l.ssl.keystore.type",
            [
                ("listener.name.l.ssl.keystore.type", "PEM", ConfigSource.DYNAMIC_BROKER_CONFIG),
                ("ssl.keystore.type", "JKS", DEFAULT),
            ],
        ),
    ],
)
def test_synonyms_are_those_that_kafka_names(
    static: dict[str, str], dynamic: dict[str, str], key: str, expected: list[tuple[str, str, ConfigSource]]
) -> None:
    cluster = AdminCluster(static)
    cluster.config.update_broker(dynamic)
    found = entry(cluster, BROKER, "1", key)
    assert [tuple(synonym) for synonym in found.synonyms] == expected
    assert not found.sensitive


@pytest.mark.parametrize(
    ("dynamic", "key", "expected"),
    [
        ({}, "log.cleaner.io.max.bytes.per.second", ("1.7976931348623157E308", False, False, 6)),
        ({"log.cleaner.io.max.bytes.per.second": "20000000"}, "log.cleaner.io.max.bytes.per.second",
         ("2.0E7", False, False, 6)),
        ({"log.cleanup.policy": "compact, delete"}, "log.cleanup.policy", ("compact,delete", False, False, 7)),
        ({"leader.replication.throttled.rate": "5"}, "leader.replication.throttled.rate", ("5", True, False, 5)),
        ({"plugin.key": "x"}, "plugin.key", (None, True, True, 0)),
        ({}, "ssl.key.password", (None, False, True, 9)),
        ({}, "remote.log.reader.threads", ("10", True, False, 3)),
    ],
)  # fmt: skip
def test_values_are_shown_as_kafka_shows_them(
    dynamic: dict[str, str], key: str, expected: tuple[str | None, bool, bool, int]
) -> None:
    cluster = AdminCluster()
    cluster.config.update_broker(dynamic)
    found = entry(cluster, BROKER, "1", key)
    assert (found.value, found.read_only, found.sensitive, found.type) == expected


def test_thread_counts_change_by_a_factor_of_two_at_most() -> None:
    cluster = AdminCluster({"num.io.threads": "5"})
    for wanted, refusal in (
        ("1", "be at least half the current value 5"),
        ("11", "not be greater than double the current value 5"),
    ):
        text = f"Dynamic thread count update validation failed for num.io.threads={wanted}, value should {refusal}"
        for change in (
            cluster.configs.alter(BROKER, "1", [AlterOp("num.io.threads", 0, wanted)], validate_only=True),
            cluster.configs.replace(BROKER, "", {"num.io.threads": wanted}),
        ):
            with pytest.raises(ApiError, match=text) as refused:
                run(change)
            assert refused.value.code is ErrorCode.INVALID_REQUEST
    for wanted in ("2", "5", "10"):
        run(cluster.configs.alter(BROKER, "1", [AlterOp("num.io.threads", 0, wanted)]))
    cluster.config.update_broker({"num.io.threads": "20"})
    with pytest.raises(ApiError, match=r"num\.io\.threads=5, value should be at least half the current value 20"):
        run(cluster.configs.alter(BROKER, "1", [AlterOp("num.io.threads", 1, None)]))


def test_the_default_of_all_brokers_shows_only_what_was_set() -> None:
    cluster = AdminCluster()
    assert run(cluster.configs.describe(BROKER, "", None)) == []
    cluster.config.update_default({"message.max.bytes": "1000"})
    (found,) = run(cluster.configs.describe(BROKER, "", None))
    assert (found.name, found.value) == ("message.max.bytes", "1000")


def test_single_changes_of_a_topic() -> None:
    cluster = cluster_with_topic()
    run(cluster.configs.alter(TOPIC, "t", [AlterOp("cleanup.policy", 2, "compact")]))
    assert run(cluster.config_store.topic("t")) == {"cleanup.policy": "delete,compact"}
    run(cluster.configs.alter(TOPIC, "t", [AlterOp("cleanup.policy", 3, "delete"), AlterOp("flush.ms", 0, "9")]))
    assert run(cluster.config_store.topic("t")) == {"cleanup.policy": "compact", "flush.ms": "9"}
    run(cluster.configs.alter(TOPIC, "t", [AlterOp("cleanup.policy", 1, None)]))
    assert run(cluster.config_store.topic("t")) == {"flush.ms": "9"}


def test_changes_of_brokers() -> None:
    cluster = AdminCluster()
    run(cluster.configs.alter(BROKER, "1", [AlterOp("message.max.bytes", 0, "10")]))
    run(cluster.configs.alter(BROKER, "", [AlterOp("message.max.bytes", 0, "20")]))
    assert run(cluster.config_store.broker(1)) == {"message.max.bytes": "10"}
    assert run(cluster.config_store.broker("<default>")) == {"message.max.bytes": "20"}


def test_only_checking_writes_nothing() -> None:
    cluster = cluster_with_topic()
    run(cluster.configs.replace(TOPIC, "t", {"flush.ms": "9"}, validate_only=True))
    run(cluster.configs.alter(BROKER, "", [AlterOp("message.max.bytes", 0, "20")], validate_only=True))
    assert run(cluster.config_store.topic("t")) == {}
    assert run(cluster.config_store.broker("<default>")) == {}


@pytest.mark.parametrize(
    ("kind", "name", "texts", "code"),
    [
        (TOPIC, "none", {"flush.ms": "9"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", {"flush.ms": "9"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "t", {"nonsense": "9"}, ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", {"flush.ms": "x"}, ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", {"remote.storage.enable": "true"}, ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", {"flush.ms": None}, ErrorCode.INVALID_REQUEST),
        (BROKER, "2", {"message.max.bytes": "9"}, ErrorCode.INVALID_REQUEST),
        (BROKER, "x", {"message.max.bytes": "9"}, ErrorCode.INVALID_REQUEST),
        (BROKER, "1", {"broker.rack": "r"}, ErrorCode.INVALID_REQUEST),
        (BROKER, "1", {"message.max.bytes": "-1"}, ErrorCode.INVALID_REQUEST),
        (ResourceType.CLIENT_METRICS, "1", {"a": "INFO"}, ErrorCode.INVALID_REQUEST),
        (99, "1", {"a": "INFO"}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_refusals(kind: int, name: str, texts: dict[str, str | None], code: ErrorCode) -> None:
    cluster = cluster_with_topic()
    with pytest.raises(ApiError) as caught:
        run(cluster.configs.replace(kind, name, texts))
    assert caught.value.code is code
    with pytest.raises(ApiError) as caught:
        run(cluster.configs.alter(kind, name, [AlterOp(key, 0, value) for key, value in texts.items()]))
    assert caught.value.code is code


def test_a_malformed_znode_is_an_error_of_its_own_topic() -> None:
    cluster = cluster_with_topic()
    run(cluster.configs.replace(TOPIC, "t", {"retention.ms": "5"}))
    run(cluster.client.set("/config/topics/t", b"no JSON"))
    for work in (
        cluster.configs.describe(TOPIC, "t", None),
        cluster.configs.alter(TOPIC, "t", [AlterOp("retention.ms", 0, "6")]),
    ):
        with pytest.raises(ApiError, match="/config/topics/t") as caught:
            run(work)
        assert caught.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
    run(cluster.configs.replace(TOPIC, "t", {"retention.ms": "7"}))
    assert entry(cluster, TOPIC, "t", "retention.ms").value == "7"

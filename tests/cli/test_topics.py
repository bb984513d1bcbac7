"""``kafkalite topics``: what is shown and what is chosen."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.cli.main import UsageError
from kafkalite.cli.topics import create, delete, describe, list_topics, matching, parse_assignment
from kafkalite.common.errors import ApiError

from .helpers import Admin, parse, topic

TOPICS = [
    topic("orders", (1, [1, 2], [1, 2]), (2, [2, 1], [2])),
    topic("order-audit", (-1, [3], [3])),
    topic("__consumer_offsets", (1, [1], [1])),
]


def admin(configs: dict[str, Any] | None = None) -> Admin:
    entries = {
        name: {key: {"value": value, "config_source": "DYNAMIC_TOPIC_CONFIG"} for key, value in values.items()}
        for name, values in (configs or {}).items()
    }
    cluster = {"brokers": [{"broker_id": 1}, {"broker_id": 2}]}
    return Admin(describe_topics=TOPICS, describe_configs={"topic": entries}, describe_cluster=cluster)


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ((), ["orders", "order-audit", "__consumer_offsets"]),
        (("--exclude-internal",), ["orders", "order-audit"]),
        (("--topic", "orders"), ["orders"]),
        (("--topic", "order.*"), ["orders", "order-audit"]),
        (("--topic", "orders,__.*"), ["orders", "__consumer_offsets"]),
        (("--topic", "order"), []),
    ],
)
def test_which_topics(flags: tuple[str, ...], names: list[str]) -> None:
    assert [found["name"] for found in matching(admin(), parse("topics", "--list", *flags))] == names


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert list_topics(admin(), parse("topics", "--list")) == 0
    assert capsys.readouterr().out == "__consumer_offsets\norder-audit\norders\n"


def test_describe(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = admin({"orders": {"retention.ms": "5", "segment.bytes": "9"}})
    assert describe(cluster, parse("topics", "--describe", "--topic", "orders")) == 0
    tail = "\tElr: N/A\tLastKnownElr: N/A\n"
    assert capsys.readouterr().out == (
        "Topic: orders\tTopicId: \tPartitionCount: 2\tReplicationFactor: 2\t"
        "Configs: retention.ms=5,segment.bytes=9\n"
        f"\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2{tail}"
        f"\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,1\tIsr: 2{tail}"
    )


@pytest.mark.parametrize(
    ("flag", "shown"),
    [
        ("--under-replicated-partitions", {"orders-1"}),
        ("--unavailable-partitions", {"order-audit-0"}),
        ("--at-min-isr-partitions", {"orders-1", "order-audit-0", "__consumer_offsets-0"}),
        ("--under-min-isr-partitions", {"order-audit-0"}),
    ],
)
def test_filters(flag: str, shown: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    describe(admin(), parse("topics", "--describe", flag))
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert {f"{line[1].removeprefix('Topic: ')}-{line[2].removeprefix('Partition: ')}" for line in lines} == shown


def test_what_is_missing() -> None:
    with pytest.raises(ApiError, match="Topic 'none' does not exist as expected"):
        describe(admin(), parse("topics", "--describe", "--topic", "none"))
    assert describe(admin(), parse("topics", "--describe", "--topic", "none", "--if-exists")) == 0
    assert delete(admin(), parse("topics", "--delete", "--topic", "none", "--if-exists")) == 0


def test_create(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Admin(create_topics={"topics": [{"error_code": 0}]})
    args = parse("topics", "--create", "--topic", "t", "--replica-assignment", "1:2,2:3", "--config", "a=b=c")
    assert create(cluster, args) == 0
    assert cluster.calls == [("create_topics", {"t": {"configs": {"a": "b=c"}, "assignments": {0: [1, 2], 1: [2, 3]}}})]
    assert capsys.readouterr().out == "Created topic t.\n"
    existing = Admin(create_topics={"topics": [{"error_code": 36, "error_message": "it is there"}]})
    assert create(existing, parse("topics", "--create", "--topic", "t", "--if-not-exists")) == 0
    with pytest.raises(ApiError, match="it is there"):
        create(existing, parse("topics", "--create", "--topic", "t"))


@pytest.mark.parametrize(
    ("text", "complaint"), [("1:x", "expected broker ids"), ("1:1", "stands twice"), ("1:2,3", "same number")]
)
def test_assignments_that_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse_assignment(text)

"""Groups as Kafka's tables and as JSON."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.cli.groups_view import (
    CLASSIC,
    MIXED,
    ZOOKEEPER,
    GroupView,
    MemberView,
    group_json,
    list_table,
    members_table,
    offsets_table,
    old_host,
    plan_table,
    state_table,
)
from kafkalite.common.types import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
MODERN = MemberView("c-1", "/1.2.3.4", "c", "static-1", (T1, T0))
IDLE = MemberView("c-2", "/1.2.3.4", "c")
OLD = MemberView("g_host-1795262835722-4abc1a60-0", "host", "", partitions=(T0,), is_old=True)


def group(*members: MemberView, state: str = "Stable", **more: Any) -> GroupView:
    return GroupView("g", state, (2, "h", 9092), "range", members, {T0: 5, U0: 3}, {T0: 12, T1: 4}, **more)


def cells(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines]


def test_offsets_of_a_group() -> None:
    lines = offsets_table(group(MODERN, IDLE))
    assert cells(lines)[0] == (
        ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"]
    )
    assert cells(lines)[1:] == [
        ["g", "t", "0", "5", "12", "7", "c-1", "/1.2.3.4", "c"],
        ["g", "t", "1", "-", "4", "-", "c-1", "/1.2.3.4", "c"],
        ["g", "u", "0", "3", "-", "-", "-", "-", "-"],
        ["g", "-", "-", "-", "-", "-", "c-2", "/1.2.3.4", "c"],
    ]
    assert lines[0].index("TOPIC") == lines[1].index("t ") == 16, "columns are as wide as Kafka's"


def test_a_mixed_group_shows_both_readers_of_a_partition() -> None:
    mixed = group(MODERN, OLD)
    assert mixed.kind == MIXED
    readers = [row[6] for row in cells(offsets_table(mixed)) if row[1:3] == ["t", "0"]]
    assert readers == ["c-1", OLD.consumer_id]
    assert "is mixed: 1 ZooKeeper consumers and 1 modern members" in (mixed.remark() or "")


@pytest.mark.parametrize(
    ("shown", "kind", "remark"),
    [
        (group(MODERN), CLASSIC, None),
        (group(OLD), ZOOKEEPER, None),
        (group(state="Empty"), CLASSIC, "Consumer group 'g' has no active members."),
        (group(MODERN, state="PreparingRebalance"), CLASSIC, "Warning: Consumer group 'g' is rebalancing."),
    ],
)
def test_kinds_and_remarks(shown: GroupView, kind: str, remark: str | None) -> None:
    assert (shown.kind, shown.remark()) == (kind, remark)


def test_members_of_a_group() -> None:
    assert cells(members_table(group(MODERN, IDLE, OLD), verbose=True)) == [
        ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT"],
        ["g", "c-1", "static-1", "/1.2.3.4", "c", "2", "t(0,1)"],
        ["g", "c-2", "-", "/1.2.3.4", "c", "0", "-"],
        f"g {OLD.consumer_id} - host - 1 t(0)".split(),
    ]
    assert cells(members_table(group(IDLE), verbose=False)) == [
        ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"],
        ["g", "c-2", "/1.2.3.4", "c", "0"],
    ]
    assert members_table(group(), verbose=True) == []


def test_states_of_groups() -> None:
    assert cells(state_table(group(MODERN)))[1] == ["g", "h:9092", "(2)", "range", "Stable", "1"]
    assert cells(state_table(GroupView("o", "Stable", None, "range", (OLD,))))[1] == [
        "o",
        "ZooKeeper",
        "range",
        "Stable",
        "1",
    ]
    assert cells(state_table(GroupView("e", "Empty")))[1] == ["e", "-", "-", "Empty", "0"]


def test_lists_and_plans() -> None:
    groups = [("a", CLASSIC, "Empty"), ("b", ZOOKEEPER, "Stable")]
    assert list_table(groups, with_type=False, with_state=False) == ["a", "b"]
    assert cells(list_table(groups, with_type=False, with_state=True)) == [
        ["GROUP", "STATE"],
        ["a", "Empty"],
        ["b", "Stable"],
    ]
    assert cells(list_table(groups, with_type=True, with_state=True))[2] == ["b", "ZooKeeper", "Stable"]
    assert cells(plan_table({"g": {T0: 3}})) == [["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], ["g", "t", "0", "3"]]


def test_json_of_groups() -> None:
    offsets: Any = group_json(group(MODERN), "offsets")
    assert (offsets["group"], offsets["type"], offsets["state"]) == ("g", "Classic", "Stable")
    assert offsets["offsets"][0] | {"consumer_id": 0} == {
        "topic": "t",
        "partition": 0,
        "current_offset": 5,
        "log_end_offset": 12,
        "lag": 7,
        "consumer_id": 0,
        "host": "/1.2.3.4",
        "client_id": "c",
    }
    shown: Any = group_json(group(OLD), "members")
    [member] = shown["members"]
    assert (member["zookeeper_consumer"], member["client_id"]) == (True, None)
    assert group_json(group(MODERN), "state")["coordinator"] == {"id": 2, "host": "h", "port": 9092}
    assert group_json(GroupView("e", "Empty"), "state")["coordinator"] is None


@pytest.mark.parametrize(
    ("consumer", "host"),
    [("g_vm-1795262835722-4abc1a60", "vm"), ("g_my-host-1795262835722-4abc1a60", "my-host"), ("g_mine", "")],
)
def test_hosts_of_old_members(consumer: str, host: str) -> None:
    assert old_host("g", consumer) == host

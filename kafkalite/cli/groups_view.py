"""The output of ``kafkalite groups``: groups of both kinds as values, as Kafka's tables and as JSON.

Answers to: ``ConsumerGroupCommand.ConsumerGroupService.{printOffsets,printMembers,printStates,printGroupInfo}`` with
``PartitionAssignmentState``, ``MemberAssignmentState`` and ``GroupState`` (3.9). Pure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafkalite.common.types import TopicPartition

CLASSIC, ZOOKEEPER, MIXED = "Classic", "ZooKeeper", "Mixed"
"""Types of groups: members with a coordinator, members that coordinate through ZooKeeper, and both."""
EMPTY, STABLE, DEAD = "Empty", "Stable", "Dead"
UNSETTLED = ("PreparingRebalance", "CompletingRebalance")
_OLD_ID = re.compile(r"(?P<host>.+)-\d{13}-[0-9a-f]{1,8}")


@dataclass(frozen=True, slots=True)
class MemberView:
    """One member. ``is_old``: a ZooKeeper consumer; its id is that of one of its streams, or its own if it has none."""

    consumer_id: str
    host: str
    client_id: str
    instance_id: str = ""
    partitions: tuple[TopicPartition, ...] = ()
    is_old: bool = False


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group in its coordinator and ZooKeeper. ``state`` is the coordinator's; without one it is derived here.

    ``ends``: log end offsets, of partitions that have a leader.
    """

    name: str
    state: str
    coordinator: tuple[int, str, int] | None = None
    strategy: str = ""
    members: tuple[MemberView, ...] = ()
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """:data:`CLASSIC`, :data:`ZOOKEEPER` or :data:`MIXED`, by its members."""
        kinds = {member.is_old for member in self.members}
        return MIXED if len(kinds) == 2 else ZOOKEEPER if kinds == {True} else CLASSIC

    def remark(self) -> str | None:
        """The remark beside the tables: the group has no member, is rebalancing, or is mixed."""
        if self.kind == MIXED:
            old = sum(member.is_old for member in self.members)
            return (
                f"Warning: Consumer group '{self.name}' is mixed: {old} ZooKeeper consumers and"
                f" {len(self.members) - old} modern members, each kind of which reads every partition."
            )
        if self.state in UNSETTLED:
            return f"Warning: Consumer group '{self.name}' is rebalancing."
        if not self.members:
            return f"Consumer group '{self.name}' has no active members."
        return None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of ``--offsets``: a partition and its reader, or a member that reads none."""

    tp: TopicPartition | None
    offset: int | None
    end: int | None
    member: MemberView | None

    @property
    def lag(self) -> int | None:
        """Records between the committed offset and the end of the log."""
        return None if self.offset is None or self.end is None else self.end - self.offset


def rows_of(group: GroupView) -> list[Row]:
    """Every partition that is read or has an offset, with each of its readers; then the members without partitions."""
    readers: defaultdict[TopicPartition, list[MemberView | None]] = defaultdict(list)
    for member in group.members:
        for tp in member.partitions:
            readers[tp].append(member)
    rows = [
        Row(tp, group.committed.get(tp), group.ends.get(tp), member)
        for tp in sorted({*readers, *group.committed})
        for member in readers.get(tp) or [None]
    ]
    return rows + [Row(None, None, None, member) for member in group.members if not member.partitions]


def old_host(group: str, consumer_id: str) -> str:
    """The host in a ZooKeeper consumer's id, if Kafka or kafkalite generated the id."""
    match = _OLD_ID.fullmatch(consumer_id.removeprefix(f"{group}_"))
    return match["host"] if match else ""


# Tables, as Kafka prints them


def offsets_table(group: GroupView) -> list[str]:
    """``--describe --offsets``."""
    titles = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    titles += ["CONSUMER-ID", "HOST", "CLIENT-ID"]
    rows = [
        [
            group.name,
            row.tp.topic if row.tp else None,
            row.tp.partition if row.tp else None,
            row.offset,
            row.end,
            row.lag,
            *([row.member.consumer_id, row.member.host, row.member.client_id] if row.member else [None] * 3),
        ]
        for row in rows_of(group)
    ]
    return table(titles, rows, [15, 15, 10, 15, 15, 15, 15, 15, 0]) if rows else []


def members_table(group: GroupView, verbose: bool) -> list[str]:
    """``--describe --members``."""
    with_instances = any(member.instance_id for member in group.members)
    titles = ["GROUP", "CONSUMER-ID", *(["GROUP-INSTANCE-ID"] if with_instances else []), "HOST", "CLIENT-ID"]
    titles += ["#PARTITIONS", *(["ASSIGNMENT"] if verbose else [])]
    rows = [
        [
            group.name,
            member.consumer_id,
            *([member.instance_id] if with_instances else []),
            member.host,
            member.client_id,
            len(member.partitions),
            *([assignment_text(member.partitions)] if verbose else []),
        ]
        for member in group.members
    ]
    return table(titles, rows, [15] * len(titles)) if rows else []


def state_table(group: GroupView) -> list[str]:
    """``--describe --state``."""
    where = "ZooKeeper" if group.kind == ZOOKEEPER else None
    if group.coordinator is not None:
        number, host, port = group.coordinator
        where = f"{host}:{port}  ({number})"
    row = [group.name, where, group.strategy, group.state, len(group.members)]
    return table(["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"], [row], [25, 25, 20, 15, 0])


def list_table(groups: Sequence[tuple[str, str, str]], with_type: bool, with_state: bool) -> list[str]:
    """``--list``: (group, type, state) each; plain names if neither column was requested."""
    if not with_type and not with_state:
        return [name for name, _, _ in groups]
    width = max([15, *(len(name) for name, _, _ in groups)]) + 10
    titles = ["GROUP", *(["TYPE"] if with_type else []), *(["STATE"] if with_state else [])]
    rows = [[name, *([kind] if with_type else []), *([state] if with_state else [])] for name, kind, state in groups]
    return table(titles, rows, [width, 20, 20])


def plan_table(plans: Mapping[str, Mapping[TopicPartition, int]]) -> list[str]:
    """``--reset-offsets``."""
    rows = [[group, tp.topic, tp.partition, offset] for group, plan in plans.items() for tp, offset in plan.items()]
    return table(["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], rows, [30, 30, 10, 15])


def table(titles: Sequence[str], rows: Sequence[Sequence[object]], widths: Sequence[int]) -> list[str]:
    """Lines of columns with at least ``widths``; missing and empty cells are ``-``."""
    texts = [list(titles), *([("-" if cell is None or cell == "" else str(cell)) for cell in row] for row in rows)]
    wide = [max(widths[column], *(len(row[column]) for row in texts)) for column in range(len(titles))]
    return [" ".join(cell.ljust(width) for cell, width in zip(row, wide, strict=True)).rstrip() for row in texts]


def assignment_text(partitions: Sequence[TopicPartition]) -> str:
    """``topic(0,1), other(0)``, as in Kafka before 3.9, which forgets the topics' names."""
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for tp in sorted(partitions):
        topics[tp.topic].append(tp.partition)
    return ", ".join(f"{topic}({','.join(map(str, numbers))})" for topic, numbers in topics.items())


# JSON


def group_json(group: GroupView, section: str) -> dict[str, object]:
    """A group with one section of its description: ``offsets``, ``members`` or ``state``."""
    value: dict[str, object] = {"group": group.name, "type": group.kind, "state": group.state}
    if section == "offsets":
        value["offsets"] = [_row_json(row) for row in rows_of(group)]
    elif section == "members":
        value["members"] = [_member_json(member) for member in group.members]
    else:
        coordinator = group.coordinator and dict(zip(("id", "host", "port"), group.coordinator, strict=True))
        value |= {"coordinator": coordinator, "strategy": group.strategy or None, "members": len(group.members)}
    return value


def _row_json(row: Row) -> dict[str, object]:
    member = row.member
    return {
        "topic": row.tp and row.tp.topic,
        "partition": None if row.tp is None else row.tp.partition,
        "current_offset": row.offset,
        "log_end_offset": row.end,
        "lag": row.lag,
        "consumer_id": member and member.consumer_id,
        "host": member and (member.host or None),
        "client_id": member and (member.client_id or None),
    }


def _member_json(member: MemberView) -> dict[str, object]:
    return {
        "consumer_id": member.consumer_id,
        "group_instance_id": member.instance_id or None,
        "host": member.host or None,
        "client_id": member.client_id or None,
        "zookeeper_consumer": member.is_old,
        "partitions": [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(member.partitions)],
    }

"""Actions on groups without a cluster: flags that do not go together, what is changed, what is asked again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from kafkalite.cli import groups_source
from kafkalite.cli.groups import check, chosen, describe, list_groups
from kafkalite.cli.groups_change import delete, delete_offsets, reset, target_of
from kafkalite.cli.groups_reset import To
from kafkalite.cli.groups_source import GroupSource
from kafkalite.cli.groups_view import GroupView, MemberView
from kafkalite.cli.main import UsageError
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition
from tests.cli.helpers import parse

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
MODERN = MemberView("c-1", "/1.2.3.4", "c", "static-1", (T1, T0))
OLD = MemberView("g_host-1795262835722-4abc1a60-0", "host", "", partitions=(T0,), is_old=True)
LIST = ("--list",)
RESET = ("--reset-offsets", "--group", "g")


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--describe",), "--describe takes one of --group and --all-groups"),
        (("--describe", "--group", "g", "--all-groups"), "takes one of --group and --all-groups"),
        (("--describe", "--group", "g", "--members", "--state"), "at most one of"),
        (("--describe", "--group", "g", "--state", "Empty"), "takes no states"),
        (("--delete-offsets", "--group", "g"), "takes one --group, and --topic"),
        ((*RESET, "--topic", "t"), "takes one of --to-earliest, --to-latest"),
        ((*RESET, "--to-earliest"), "takes one of --topic and --all-topics"),
        ((*RESET, "--to-earliest", "--topic", "t", "--all-topics"), "takes one of --topic and --all-topics"),
        ((*RESET, "--from-file", "f", "--topic", "t"), "--from-file neither"),
        ((*RESET, "--to-latest", "--topic", "t", "--dry-run", "--execute"), "one of --dry-run and --execute"),
    ],
)
def test_flags_that_do_not_go_together(flags: tuple[str, ...], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        check(parse("groups", *flags))


def test_targets() -> None:
    assert target_of(parse("groups", *RESET, "--to-offset", "0")) is To.OFFSET
    assert target_of(parse("groups", *RESET, "--shift-by", "-3")) is To.SHIFT
    assert target_of(parse("groups", *RESET, "--to-current")) is To.CURRENT


def test_states_in_upper_and_lower_case() -> None:
    assert chosen(None, ("Empty",), "--state") == chosen("", ("Empty",), "--state") == set()
    assert chosen("empty, STABLE", ("Empty", "Stable"), "--state") == {"Empty", "Stable"}
    with pytest.raises(UsageError, match="there are Empty, Stable"):
        chosen("empty,none", ("Empty", "Stable"), "--state")


class Source:
    """Groups by name; ``done`` is what was changed."""

    def __init__(self, *groups: GroupView, refused: Mapping[TopicPartition, ErrorCode] | None = None) -> None:
        self.groups = {group.name: group for group in groups}
        self.refused = refused or {}
        self.done: list[object] = []

    def listing(self) -> list[tuple[str, str, str]]:
        return [(group.name, group.kind, group.state) for group in self.groups.values()]

    def describe(self, names: list[str], *, offsets: bool = True) -> list[GroupView]:
        assert offsets in (True, False)
        return [self.groups.get(name) or GroupView(name, "Dead") for name in names]

    def partitions(self) -> dict[str, list[int]]:
        return {"t": [0, 1], "u": [0]}

    def log_offsets(self, partitions: list[TopicPartition], moment: int) -> dict[TopicPartition, int]:
        return {tp: {-2: 0, -1: 100}.get(moment, 40) for tp in partitions}

    def commit(self, name: str, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, ErrorCode]:
        self.done.append((name, offsets))
        return {tp: self.refused.get(tp, ErrorCode.NONE) for tp in offsets}

    def delete_offsets(self, name: str, partitions: list[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        self.done.append((name, partitions))
        return {tp: self.refused.get(tp, ErrorCode.NONE) for tp in partitions}

    def delete(self, name: str) -> ErrorCode:
        self.done.append(name)
        return ErrorCode.GROUP_ID_NOT_FOUND if name not in self.groups else ErrorCode.NONE


def act(action: Any, source: Source, *flags: str) -> int:
    args = parse("groups", *flags)
    check(args)
    code: int = action(source, args)
    return code


def group(*members: MemberView) -> GroupView:
    return GroupView("g", "Stable", (2, "h", 9092), "range", members, {T0: 5, U0: 3}, {T0: 12, T1: 4})


def cells(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines]


EMPTY = GroupView("e", "Empty", committed={T0: 50, U0: 5})


def test_listing(capsys: pytest.CaptureFixture[str]) -> None:
    source = Source(EMPTY, group(OLD))
    assert act(list_groups, source, *LIST, "--state", "stable") == 0
    assert cells(capsys.readouterr().out.splitlines())[1:] == [["g", "Stable"]]
    assert act(list_groups, source, *LIST, "--type", "classic", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [{"group": "e", "type": "Classic", "state": "Empty"}]


def test_describing(capsys: pytest.CaptureFixture[str]) -> None:
    source = Source(EMPTY, group(MODERN))
    assert act(describe, source, "--describe", "--all-groups", "--state") == 0
    assert act(describe, source, "--describe", "--group", "g", "--group", "none") == 1
    said = capsys.readouterr()
    assert "Error: Consumer group 'none' does not exist." in said.err and "has no active members" in said.err
    assert said.out.count("GROUP") == 3


@pytest.mark.parametrize(
    ("flags", "offsets"),
    [
        (("--to-earliest", "--topic", "t"), {T0: 0, T1: 0}),
        (("--shift-by", "-5", "--all-topics"), {T0: 45, U0: 0}),
        (("--to-datetime", "2026-01-01T00:00:00.000", "--topic", "t:1"), {T1: 40}),
        (("--by-duration", "PT5M", "--topic", "t:1"), {T1: 40}),
        (("--to-offset", "7", "--topic", "u"), {U0: 7}),
    ],
)
def test_resetting(flags: tuple[str, ...], offsets: dict[TopicPartition, int]) -> None:
    source = Source(EMPTY)
    assert act(reset, source, "--reset-offsets", "--group", "e", *flags, "--dry-run") == 0
    assert source.done == []
    assert act(reset, source, "--reset-offsets", "--group", "e", *flags, "--execute") == 0
    assert source.done == [("e", offsets)]


def test_what_is_not_reset(capsys: pytest.CaptureFixture[str]) -> None:
    source = Source(EMPTY, group(OLD), refused={T0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    flags = ("--reset-offsets", "--all-groups", "--to-latest", "--topic", "t:0", "--execute")
    assert act(reset, source, *flags) == 1
    assert source.done == [("e", {T0: 100})], "the group of a live ZooKeeper consumer is left alone"
    said = capsys.readouterr().err
    assert "group 'g' is inactive, but the current state is Stable" in said
    assert "Error: t-0: UNKNOWN_TOPIC_OR_PARTITION" in said


def test_export_and_import(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    source = Source(EMPTY)
    assert act(reset, source, "--reset-offsets", "--group", "e", "--to-current", "--all-topics", "--export") == 0
    path = tmp_path / "plan.csv"
    path.write_text(capsys.readouterr().out)
    assert act(reset, source, "--reset-offsets", "--group", "e", "--from-file", str(path), "--execute") == 0
    assert source.done == [("e", {T0: 50, U0: 5})]


def test_deleting(capsys: pytest.CaptureFixture[str]) -> None:
    source = Source(EMPTY, group(OLD))
    assert act(delete, source, "--delete", "--group", "e") == 0
    assert act(delete, source, "--delete", "--group", "e", "--group", "g", "--group", "x") == 1
    assert source.done == ["e", "e", "x"], "the group of a live ZooKeeper consumer is not even tried"
    said = capsys.readouterr()
    assert "Deletion of requested consumer groups ('e') was successful." in said.out
    assert "* Group 'g' could not be deleted due to: NON_EMPTY_GROUP" in said.err


def test_forgetting_offsets(capsys: pytest.CaptureFixture[str]) -> None:
    source = Source(EMPTY, group(OLD))
    assert act(delete_offsets, source, "--delete-offsets", "--group", "e", "--topic", "t") == 0
    assert act(delete_offsets, source, "--delete-offsets", "--group", "g", "--topic", "t:0", "--topic", "u") == 1
    assert source.done == [("e", [T0, T1]), ("g", [U0])]
    out = capsys.readouterr().out
    assert "Request succeed for deleting offsets with topic t group e" in out
    assert "Error: GROUP_SUBSCRIBED_TO_TOPIC" in out


def test_a_coordinator_on_its_way_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from kafka.errors import CoordinatorNotAvailableError, GroupAuthorizationFailedError

    source = GroupSource.__new__(GroupSource)
    source._args = parse("groups", *LIST)
    clients = iter(range(10))
    monkeypatch.setattr(groups_source, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(GroupSource, "_connect", lambda self: setattr(self, "_admin", next(clients)))
    source._connect()

    def ask(client: int) -> int:
        if client < 2:
            raise CoordinatorNotAvailableError if client else ApiError(ErrorCode.NOT_COORDINATOR)
        return client

    assert source._ask(ask) == 2

    def refuse(_: int) -> int:
        raise GroupAuthorizationFailedError

    with pytest.raises(GroupAuthorizationFailedError):
        source._ask(refuse)
    source._args.timeout = -1
    with pytest.raises(ApiError, match="NOT_COORDINATOR"):
        source._ask(lambda _: ask(0))

"""The commands of the page: each is taken by the parser of its command, and no value becomes a flag."""

from __future__ import annotations

import json
import shlex

import pytest

from kafkalite.cli.main import build_parser
from kafkalite.dashboard.actions import ACTIONS, ActionError, ToolAccess, command_of, offered

LOCAL = ToolAccess("zk:2181/kafka", ("--zk-tls-config-file", "zk.properties"), None, "admin.properties", "cluster")
REMOTE = ToolAccess("zk:2181/kafka")
BOOTSTRAP = "one:9092,two:9092"
VALUES = {
    "topic": "orders",
    "group": "billing",
    "broker": "2",
    "partition": "0",
    "partitions": "3",
    "replicas": 2,
    "offset": "400",
    "type": "unclean",
    "to": "latest",
}


def words(action: str, access: ToolAccess = LOCAL, **values: object) -> tuple[str, ...]:
    return command_of({"action": action, "fields": {**VALUES, **values}}, access, BOOTSTRAP).words


@pytest.mark.parametrize("action", ACTIONS)
def test_the_command_of_each_action_is_accepted_and_is_what_the_page_shows(action: str) -> None:
    command = command_of({"action": action, "fields": VALUES}, LOCAL, BOOTSTRAP)
    program, *shown = shlex.split(command.shown)
    assert (program, tuple(shown)) == ("kafkalite", command.words)
    assert build_parser(command.words[0]).parse_args(command.words).command == command.words[0]


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("create-topic", "--create --topic orders --partitions 3 --replication-factor 2"),
        ("delete-topic", "--delete --topic orders"),
        ("elect", "--election-type unclean --topic orders --partition 0"),
        ("set-offset", "--path /consumers/billing/offsets/orders/0 --data 400"),
        ("reset-group", "--reset-offsets --group billing --all-topics --to-latest --execute"),
        ("kill", "cluster kill --dir cluster --broker 2"),
    ],
)
def test_the_command_does_what_the_form_says(action: str, expected: str) -> None:
    assert expected in " ".join(words(action))


@pytest.mark.parametrize(
    "hostile", ["--all-groups", "-x", "--execute", "<script>alert(1)</script>", "a b; rm -rf '$x'"]
)
def test_a_hostile_name_of_a_group_stays_one_value(hostile: str) -> None:
    for action in ("reset-group", "set-offset"):
        command = command_of({"action": action, "fields": {**VALUES, "group": hostile}}, LOCAL, BOOTSTRAP)
        assert tuple(shlex.split(command.shown)[1:]) == command.words
        args = build_parser(command.words[0]).parse_args(command.words)
        if action == "reset-group":
            assert args.group == [hostile]
            assert args.all_groups is False
        else:
            assert args.path.count("/") == 5, "the name of a group is one level of the path"
    assert json.dumps(offered(LOCAL)), "the forms are JSON"


def test_a_topic_with_a_dot_is_deleted_alone() -> None:
    import re

    expression = words("delete-topic", topic="a.b")[-1]
    assert [name for name in ("a.b", "axb", "a-b") if re.fullmatch(expression, name)] == ["a.b"]
    assert "--topic=-dash" in words("delete-topic", topic="-dash")


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"topic": ""}, "Topic: a value is missing"),
        ({"topic": None}, "Topic: a value is missing"),
        ({"topic": "a|b"}, "characters other than"),
        ({"topic": ".*"}, "characters other than"),
        ({"partitions": "-1"}, "Partitions: '-1' is no number"),
        ({"partitions": True}, "Partitions: a value is missing"),
        ({"partitions": "٣"}, "is no number"),
        ({"topic": "a\nb"}, "no control characters"),
        ({"topic": "a" * 1025}, "at most 1024 characters"),
    ],
)
def test_a_wrong_value_is_refused_with_the_name_of_its_field(values: dict[str, object], complaint: str) -> None:
    with pytest.raises(ActionError, match=complaint.replace("|", r"\|")):
        words("create-topic", LOCAL, **values)


@pytest.mark.parametrize(
    "request_", [None, [], "kill", {}, {"action": "format"}, {"action": ["kill"]}, {"action": "kill", "fields": []}]
)
def test_a_request_that_names_no_action_is_refused(request_: object) -> None:
    with pytest.raises(ActionError, match="names no action"):
        command_of(request_, LOCAL, BOOTSTRAP)


def test_brokers_are_killed_only_in_a_local_cluster() -> None:
    assert {"kill", "pause", "resume", "expire"} & {str(each["name"]) for each in offered(REMOTE)} == set()
    assert {str(each["name"]) for each in offered(LOCAL)} == set(ACTIONS)
    with pytest.raises(ActionError, match="with --dir"):
        words("kill", REMOTE)


def test_a_choice_is_one_of_those_offered() -> None:
    with pytest.raises(ActionError, match="none of preferred, unclean"):
        words("elect", type="preferred --all-topic-partitions")


def test_the_secret_of_the_digest_scheme_is_not_shown() -> None:
    access = ToolAccess("zk:2181", (), "kafka:secret")
    command = command_of({"action": "set-offset", "fields": VALUES}, access, BOOTSTRAP)
    assert "kafka:secret" in command.words
    assert "secret" not in command.shown
    assert "--digest USER:PASSWORD" in command.shown


def test_without_a_broker_no_broker_is_asked() -> None:
    with pytest.raises(ActionError, match="no broker is registered"):
        command_of({"action": "elect", "fields": VALUES}, LOCAL, "")
    assert command_of({"action": "set-offset", "fields": VALUES}, LOCAL, "").words

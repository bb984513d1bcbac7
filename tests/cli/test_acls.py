"""The flags of ``kafkalite acls`` as ACLs and as filters."""

from __future__ import annotations

import argparse

import pytest

from kafkalite.cli import acls
from kafkalite.cli.main import build_parser, main
from kafkalite.common.acls import AclBindingFilter, AclOperation, AclPermissionType, AclResourceType, PatternType

BOOTSTRAP = ["--bootstrap-server", "localhost:1"]
ALICE = ["--allow-principal", "User:alice"]


def parse(*arguments: str) -> argparse.Namespace:
    return build_parser("acls").parse_args(["acls", *BOOTSTRAP, *arguments])


def wanted(*arguments: str) -> set[str]:
    args = parse("--add", *arguments)
    acls.check(args)
    return {acls.text(binding) for binding in acls.bindings(args)}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--topic", "t"], {"ALLOW All of User:alice from * on LITERAL TOPIC t"}),
        (
            ["--topic", "t", "--operation", "Read", "--operation", "DESCRIBE_CONFIGS"],
            {
                "ALLOW Read of User:alice from * on LITERAL TOPIC t",
                "ALLOW DescribeConfigs of User:alice from * on LITERAL TOPIC t",
            },
        ),
        (
            ["--topic", "t", "--resource-pattern-type", "prefixed", "--operation", "write", "--allow-host", "10.0.0.1"],
            {"ALLOW Write of User:alice from 10.0.0.1 on PREFIXED TOPIC t"},
        ),
        (
            ["--topic", "*", "--deny-principal", "User:bob", "--deny-host", "10.0.0.2", "--operation", "Read"],
            {
                "ALLOW Read of User:alice from * on LITERAL TOPIC *",
                "DENY Read of User:bob from 10.0.0.2 on LITERAL TOPIC *",
            },
        ),
        (
            ["--cluster", "--operation", "ClusterAction"],
            {"ALLOW ClusterAction of User:alice from * on LITERAL CLUSTER kafka-cluster"},
        ),
        (
            ["--producer", "--topic", "t", "--transactional-id", "x", "--idempotent"],
            {
                *(f"ALLOW {each} of User:alice from * on LITERAL TOPIC t" for each in ("Write", "Describe", "Create")),
                *(f"ALLOW {each} of User:alice from * on LITERAL TRANSACTIONAL_ID x" for each in ("Write", "Describe")),
                "ALLOW IdempotentWrite of User:alice from * on LITERAL CLUSTER kafka-cluster",
            },
        ),
        (
            ["--consumer", "--topic", "t", "--group", "g"],
            {
                *(f"ALLOW {each} of User:alice from * on LITERAL TOPIC t" for each in ("Read", "Describe")),
                "ALLOW Read of User:alice from * on LITERAL GROUP g",
            },
        ),
        (
            ["--user-principal", "bob", "--operation", "CreateTokens"],
            {"ALLOW CreateTokens of User:alice from * on LITERAL USER bob"},
        ),
    ],
)
def test_acls_to_add(arguments: list[str], expected: set[str]) -> None:
    assert wanted(*ALICE, *arguments) == expected


def test_without_principals_all_acls_of_a_resource_are_removed() -> None:
    args = parse("--remove", "--force", "--group", "g", "--resource-pattern-type", "any")
    acls.check(args)
    every = (None, None, AclOperation.ANY, AclPermissionType.ANY)
    assert acls.removed(args) == [AclBindingFilter(AclResourceType.GROUP, "g", PatternType.ANY, *every)]


def test_one_acl_is_removed() -> None:
    args = parse("--remove", "--force", *ALICE, "--topic", "t", "--operation", "Read")
    assert acls.removed(args) == [
        AclBindingFilter(
            AclResourceType.TOPIC,
            "t",
            PatternType.LITERAL,
            "User:alice",
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
    ]


def test_what_is_listed() -> None:
    every = (None, AclOperation.ANY, AclPermissionType.ANY)
    assert acls.listed(parse("--list")) == [AclBindingFilter(AclResourceType.ANY, None, PatternType.ANY, None, *every)]
    assert acls.listed(parse("--list", "--principal", "User:bob", "--topic", "t")) == [
        AclBindingFilter(AclResourceType.TOPIC, "t", PatternType.LITERAL, "User:bob", *every)
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--add", *ALICE], "say of which resource"),
        (["--remove"], "say of which resource"),
        (["--add", "--topic", "t"], "--add needs --allow-principal"),
        (["--add", "--allow-principal", "alice", "--topic", "t"], "principal 'alice'"),
        (["--add", *ALICE, "--topic", "t", "--operation", "fly"], "--operation 'fly'"),
        (["--add", *ALICE, "--group", "g", "--operation", "Write"], "type GROUP has no operation Write"),
        (["--add", *ALICE, "--topic", "t", "--resource-pattern-type", "match"], "is for --list and --remove"),
        (["--add", *ALICE, "--consumer", "--topic", "t"], "--consumer needs --topic and --group"),
        (["--add", *ALICE, "--producer", "--group", "g"], "--producer needs --topic"),
        (["--add", *ALICE, "--producer", "--topic", "t", "--operation", "Read"], "stand instead of --operation"),
        (["--add", *ALICE, "--idempotent", "--topic", "t"], "--idempotent needs --producer"),
        (["--add", *ALICE, "--topic", "t", "--deny-host", "h"], "--deny-host needs --deny-principal"),
        (["--add", "--deny-principal", "User:a", "--topic", "t", "--allow-host", "h"], "--allow-host needs"),
        (["--remove", "--topic", "t", "--principal", "User:a"], "--principal is for --list"),
    ],
)
def test_flags_that_make_no_sense(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["acls", *BOOTSTRAP, *arguments]) == 2
    assert complaint in capsys.readouterr().err

"""ACLs: the decision, the filters, and the znodes that Kafka reads and writes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from kafkalite.common.acls import (
    SUPPORTED_OPERATIONS,
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from kafkalite.common.principals import KafkaPrincipal
from kafkalite.security.acl_cache import AclCache
from kafkalite.security.decisions import Decisions
from kafkalite.zk.znodes.acls import (
    change_path,
    decode_acls,
    decode_extended_change,
    decode_literal_change,
    encode_acls,
    encode_change,
    resource_path,
    resource_type,
)
from kafkalite.zk.znodes.codec import MalformedZnodeError

ALICE, BOB, ADMIN = (KafkaPrincipal.user(name) for name in ("alice", "bob", "admin"))
TYPES = {kind.name: kind for kind in AclResourceType}


def pattern(text: str) -> ResourcePattern:
    """``TOPIC:t`` is literal, ``TOPIC:t…`` prefixed."""
    kind, _, name = text.partition(":")
    if name.endswith("…"):
        return ResourcePattern(TYPES[kind], name[:-1], PatternType.PREFIXED)
    return ResourcePattern(TYPES[kind], name, PatternType.LITERAL)


def entry(text: str) -> AccessControlEntry:
    """``ALLOW User:alice READ host``; the host may be left out."""
    permission, principal, operation, *host = text.split()
    return AccessControlEntry(
        principal, host[0] if host else "*", AclOperation[operation], AclPermissionType[permission]
    )


def authorizer(acls: dict[str, list[str]], *, allow_if_no_acl: bool = False) -> AclCache:
    made = AclCache(frozenset({ADMIN}), allow_if_no_acl=allow_if_no_acl)
    for resource, entries in acls.items():
        made.update(pattern(resource), [entry(each) for each in entries])
    return made


ALLOWED, DENIED = True, False
DECISIONS: list[tuple[dict[str, list[str]], str, str, bool]] = [
    ({}, "READ", "TOPIC:t", DENIED),
    ({"TOPIC:t": ["ALLOW User:alice READ"]}, "READ", "TOPIC:t", ALLOWED),
    ({"TOPIC:t": ["ALLOW User:alice READ"]}, "WRITE", "TOPIC:t", DENIED),
    ({"TOPIC:t": ["ALLOW User:alice READ"]}, "READ", "TOPIC:t2", DENIED),
    ({"TOPIC:t": ["ALLOW User:alice READ"]}, "READ", "GROUP:t", DENIED),
    ({"TOPIC:t": ["ALLOW User:bob READ"]}, "READ", "TOPIC:t", DENIED),
    ({"TOPIC:t": ["ALLOW User:* READ"]}, "READ", "TOPIC:t", ALLOWED),
    ({"TOPIC:t": ["ALLOW Group:alice READ"]}, "READ", "TOPIC:t", DENIED),
    ({"TOPIC:t": ["ALLOW User:alice ALL"]}, "ALTER_CONFIGS", "TOPIC:t", ALLOWED),
    ({"TOPIC:*": ["ALLOW User:alice READ"]}, "READ", "TOPIC:t", ALLOWED),
    ({"TOPIC:*": ["ALLOW User:alice READ"]}, "READ", "TOPIC:*", ALLOWED),
    ({"TOPIC:t": ["ALLOW User:alice READ 10.0.0.1"]}, "READ", "TOPIC:t", ALLOWED),
    ({"TOPIC:t": ["ALLOW User:alice READ 10.0.0.2"]}, "READ", "TOPIC:t", DENIED),
    ({"TOPIC:pre…": ["ALLOW User:alice READ"]}, "READ", "TOPIC:prefix", ALLOWED),
    ({"TOPIC:pre…": ["ALLOW User:alice READ"]}, "READ", "TOPIC:pre", ALLOWED),
    ({"TOPIC:pre…": ["ALLOW User:alice READ"]}, "READ", "TOPIC:pr", DENIED),
    ({"TOPIC:p…": ["ALLOW User:bob READ"], "TOPIC:pre…": ["ALLOW User:alice READ"]}, "READ", "TOPIC:prefix", ALLOWED),
    ({"TOPIC:t": ["ALLOW User:alice READ", "DENY User:alice READ"]}, "READ", "TOPIC:t", DENIED),
    ({"TOPIC:t": ["ALLOW User:alice READ", "DENY User:* READ"]}, "READ", "TOPIC:t", DENIED),
    ({"TOPIC:t": ["ALLOW User:alice READ", "DENY User:alice ALL"]}, "READ", "TOPIC:t", DENIED),
    ({"TOPIC:t": ["ALLOW User:alice READ", "DENY User:alice WRITE"]}, "READ", "TOPIC:t", ALLOWED),
    ({"TOPIC:t": ["ALLOW User:alice READ", "DENY User:alice READ 10.0.0.2"]}, "READ", "TOPIC:t", ALLOWED),
    ({"TOPIC:t": ["ALLOW User:alice READ"], "TOPIC:*": ["DENY User:alice READ"]}, "READ", "TOPIC:t", DENIED),
    ({"TOPIC:t": ["ALLOW User:alice READ"], "TOPIC:t…": ["DENY User:alice READ"]}, "READ", "TOPIC:t", DENIED),
    ({"TOPIC:t": ["ALLOW User:alice READ"]}, "DESCRIBE", "TOPIC:t", ALLOWED),
    ({"TOPIC:t": ["ALLOW User:alice WRITE"]}, "DESCRIBE", "TOPIC:t", ALLOWED),
    ({"TOPIC:t": ["ALLOW User:alice DELETE"]}, "DESCRIBE", "TOPIC:t", ALLOWED),
    ({"TOPIC:t": ["ALLOW User:alice ALTER"]}, "DESCRIBE", "TOPIC:t", ALLOWED),
    ({"TOPIC:t": ["ALLOW User:alice CREATE"]}, "DESCRIBE", "TOPIC:t", DENIED),
    ({"TOPIC:t": ["ALLOW User:alice ALTER_CONFIGS"]}, "DESCRIBE_CONFIGS", "TOPIC:t", ALLOWED),
    ({"TOPIC:t": ["ALLOW User:alice DESCRIBE_CONFIGS"]}, "ALTER_CONFIGS", "TOPIC:t", DENIED),
    ({"TOPIC:t": ["ALLOW User:alice DESCRIBE"]}, "READ", "TOPIC:t", DENIED),
    # A deny is of exactly the operation: denying READ does not deny DESCRIBE, which WRITE implies.
    ({"TOPIC:t": ["ALLOW User:alice WRITE", "DENY User:alice READ"]}, "DESCRIBE", "TOPIC:t", ALLOWED),
    ({"TOPIC:t": ["ALLOW User:alice READ", "DENY User:alice DESCRIBE"]}, "DESCRIBE", "TOPIC:t", DENIED),
    ({"TOPIC:t": ["ALLOW User:alice READ", "DENY User:alice DESCRIBE"]}, "READ", "TOPIC:t", ALLOWED),
    ({"CLUSTER:kafka-cluster": ["ALLOW User:alice CREATE"]}, "CREATE", "CLUSTER:kafka-cluster", ALLOWED),
]


@pytest.mark.parametrize(("acls", "operation", "resource", "expected"), DECISIONS)
def test_the_decision_is_kafkas(acls: dict[str, list[str]], operation: str, resource: str, expected: bool) -> None:
    made = authorizer(acls)
    type_, name, _ = pattern(resource)
    assert made.authorize(ALICE, "10.0.0.1", AclOperation[operation], type_, name) is expected
    decisions = Decisions(made, ALICE, "10.0.0.1")
    assert [decisions.authorize(AclOperation[operation], type_, name) for _ in range(2)] == [expected] * 2
    assert made.authorize(ADMIN, "10.0.0.1", AclOperation[operation], type_, name)


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ({}, ALLOWED),
        ({"TOPIC:other": ["ALLOW User:bob READ"]}, ALLOWED),
        ({"GROUP:t": ["DENY User:alice READ"]}, ALLOWED),
        ({"TOPIC:t": ["ALLOW User:bob READ"]}, DENIED),
        ({"TOPIC:t…": ["ALLOW User:bob READ"]}, DENIED),
        ({"TOPIC:*": ["ALLOW User:bob READ"]}, DENIED),
    ],
)
def test_a_resource_without_acls_may_be_open(acls: dict[str, list[str]], expected: bool) -> None:
    made = authorizer(acls, allow_if_no_acl=True)
    assert made.authorize(ALICE, "h", AclOperation.READ, AclResourceType.TOPIC, "t") is expected


@pytest.mark.parametrize(
    ("acls", "open_", "expected"),
    [
        ({}, False, DENIED),
        ({}, True, ALLOWED),
        ({"TOPIC:t": ["ALLOW User:alice WRITE"]}, False, ALLOWED),
        ({"TOPIC:t": ["ALLOW User:alice ALL"]}, False, ALLOWED),
        ({"TOPIC:t": ["ALLOW User:* WRITE"]}, False, ALLOWED),
        ({"TOPIC:t": ["ALLOW User:bob WRITE"]}, False, DENIED),
        ({"TOPIC:t": ["ALLOW User:alice WRITE 10.0.0.9"]}, False, DENIED),
        ({"GROUP:t": ["ALLOW User:alice WRITE"]}, False, DENIED),
        ({"TOPIC:t…": ["ALLOW User:alice WRITE"]}, False, ALLOWED),
        ({"TOPIC:*": ["DENY User:alice WRITE"], "TOPIC:t": ["ALLOW User:alice WRITE"]}, False, DENIED),
        ({"TOPIC:*": ["DENY User:alice WRITE"]}, True, DENIED),
        ({"TOPIC:t": ["DENY User:alice WRITE"]}, True, ALLOWED),
        ({"TOPIC:t": ["ALLOW User:alice WRITE", "DENY User:alice WRITE"]}, False, DENIED),
        ({"TOPIC:t": ["ALLOW User:alice WRITE", "DENY User:bob WRITE"]}, False, ALLOWED),
        ({"TOPIC:t": ["ALLOW User:alice WRITE"], "TOPIC:u": ["DENY User:alice ALL"]}, False, ALLOWED),
        ({"TOPIC:foo": ["ALLOW User:alice WRITE"], "TOPIC:f…": ["DENY User:alice WRITE"]}, False, DENIED),
        ({"TOPIC:foo…": ["ALLOW User:alice WRITE"], "TOPIC:f…": ["DENY User:alice WRITE"]}, False, DENIED),
        ({"TOPIC:f…": ["ALLOW User:alice WRITE"], "TOPIC:foo…": ["DENY User:alice WRITE"]}, False, ALLOWED),
        ({"TOPIC:f…": ["ALLOW User:alice WRITE", "DENY User:alice WRITE"]}, False, DENIED),
        ({"TOPIC:*": ["ALLOW User:alice WRITE"], "TOPIC:f…": ["DENY User:alice WRITE"]}, False, ALLOWED),
        ({"TOPIC:t": ["ALLOW User:alice DESCRIBE"]}, False, DENIED),
    ],
)
def test_some_resource_of_a_type_may_be_allowed(acls: dict[str, list[str]], open_: bool, expected: bool) -> None:
    made = authorizer(acls, allow_if_no_acl=open_)
    asked = (AclOperation.WRITE, AclResourceType.TOPIC)
    assert made.authorize_by_resource_type(ALICE, "10.0.0.1", *asked) is expected
    assert made.authorize_by_resource_type(ADMIN, "10.0.0.1", *asked)


ASKED_OPERATIONS = ["READ", "WRITE", "DESCRIBE", "ALTER", "DELETE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS", "CREATE"]
ASKED_NAMES = ["a", "ab", "abcd", "c", "b", "B"]


def test_decisions_are_those_of_kafkas_own_class() -> None:
    """Random ACLs, and what ``AclAuthorizer`` of Kafka 3.9.1 decides on them, in the order of the loops below."""
    lines = (Path(__file__).parent / "data" / "kafka_decisions.jsonl").read_text().splitlines()
    assert len(lines) == 60
    for line in lines:
        recorded = json.loads(line)
        made = authorizer(recorded["acls"], allow_if_no_acl=recorded["open"])
        decided = []
        for principal in (ALICE, BOB):
            decisions = Decisions(made, principal, "10.0.0.1")
            for operation in (AclOperation[name] for name in ASKED_OPERATIONS):
                decided += [decisions.authorize(operation, AclResourceType.TOPIC, name) for name in ASKED_NAMES]
                decided.append(decisions.authorize_by_resource_type(operation, AclResourceType.TOPIC))
        assert "".join(str(int(each)) for each in decided) == recorded["decisions"], recorded


def test_a_kept_decision_ends_when_an_acl_changes() -> None:
    made = authorizer({"TOPIC:t": ["ALLOW User:alice READ"]})
    decisions = Decisions(made, ALICE, "h")
    asked = (AclOperation.READ, AclResourceType.TOPIC, "t")
    assert decisions.authorize(*asked)
    snapshot = made.snapshot
    made.update(pattern("TOPIC:t"), [entry("ALLOW User:alice READ")])
    assert made.snapshot is snapshot and snapshot.is_current, "nothing changed"
    made.update(pattern("TOPIC:t"), [])
    assert not decisions.authorize(*asked)
    assert made.patterns() == []
    made.replace_all({pattern("TOPIC:t…"): [entry("ALLOW User:alice READ")]})
    assert decisions.authorize(*asked)
    made.replace_all({})
    assert not decisions.authorize(*asked)


def test_decisions_of_many_names_take_bounded_memory() -> None:
    decisions = Decisions(authorizer({}), ALICE, "h")
    for number in range(10_000):
        decisions.authorize(AclOperation.READ, AclResourceType.TOPIC, f"t{number}")
    assert len(decisions._known) <= 4096


def naive(made: AclCache, principal: KafkaPrincipal, host: str, operation: AclOperation, name: str) -> bool:
    """The rule word by word, over all ACLs."""
    entries = [
        each for found in made.patterns() if found.matches(AclResourceType.TOPIC, name) for each in made.entries(found)
    ]
    if not entries:
        return False
    own = [e for e in entries if e.principal in (str(principal), "User:*") and e.host in (host, "*")]
    if any(e.permission_type == AclPermissionType.DENY and e.operation in (operation, AclOperation.ALL) for e in own):
        return False
    implied = {operation, AclOperation.ALL}
    if operation is AclOperation.DESCRIBE:
        implied |= {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    return any(e.permission_type == AclPermissionType.ALLOW and e.operation in implied for e in own)


def test_random_acls_decide_as_the_rule_says_word_by_word() -> None:
    rng = random.Random(26)
    names = ["a", "ab", "abc", "b", "*"]
    operations = [AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL]
    outcomes = set()
    for _ in range(300):
        made = AclCache()
        for _ in range(rng.randrange(6)):
            made.update(
                ResourcePattern(
                    AclResourceType.TOPIC, rng.choice(names), rng.choice((PatternType.LITERAL, PatternType.PREFIXED))
                ),
                [
                    AccessControlEntry(
                        rng.choice(("User:alice", "User:bob", "User:*")),
                        rng.choice(("*", "h1", "h2")),
                        rng.choice(operations),
                        rng.choice((AclPermissionType.ALLOW, AclPermissionType.ALLOW, AclPermissionType.DENY)),
                    )
                    for _ in range(rng.randrange(4))
                ],
            )
        for principal in (ALICE, BOB):
            for operation in operations[:3]:
                for name in names[:4]:
                    expected = naive(made, principal, "h1", operation, name)
                    outcomes.add(expected)
                    assert made.authorize(principal, "h1", operation, AclResourceType.TOPIC, name) is expected, (
                        list(made.acls(ANY_ACL)), principal, operation, name,
                    )  # fmt: skip
    assert outcomes == {True, False}


ANY_ACL = AclBindingFilter(
    AclResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)
STORED = {
    "TOPIC:t": ["ALLOW User:alice READ", "DENY User:bob ALL h"],
    "TOPIC:*": ["ALLOW User:* DESCRIBE"],
    "TOPIC:pre…": ["ALLOW User:alice WRITE"],
    "GROUP:t": ["ALLOW User:alice READ"],
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, 5),
        ({"resource_type": AclResourceType.TOPIC}, 4),
        ({"name": "t"}, 3),
        ({"name": "t", "pattern_type": PatternType.LITERAL, "resource_type": AclResourceType.TOPIC}, 2),
        ({"name": "t", "pattern_type": PatternType.MATCH}, 4),
        ({"name": "prefix", "pattern_type": PatternType.MATCH}, 2),
        ({"name": "*", "pattern_type": PatternType.MATCH}, 1),
        ({"pattern_type": PatternType.PREFIXED}, 1),
        ({"name": "prefix", "pattern_type": PatternType.PREFIXED}, 0),
        ({"principal": "User:alice"}, 3),
        ({"principal": "User:*"}, 1),
        ({"host": "h"}, 1),
        ({"host": "*"}, 4),
        ({"operation": AclOperation.READ}, 2),
        ({"operation": AclOperation.ALL}, 1),
        ({"permission_type": AclPermissionType.DENY}, 1),
    ],
)
def test_filters_find_what_kafkas_filters_find(change: dict[str, object], expected: int) -> None:
    fields: dict[str, object] = {name: getattr(ANY_ACL, name) for name in ANY_ACL.__slots__}
    wanted = AclBindingFilter(**{**fields, **change})  # type: ignore[arg-type]
    found = list(authorizer(STORED).acls(wanted))
    assert len(found) == expected
    assert all(wanted.matches_pattern(each.pattern) and wanted.matches_entry(each.entry) for each in found)
    assert not wanted.is_unknown
    if wanted.patterns:
        assert {binding.pattern for binding in found} <= set(wanted.patterns)


@pytest.mark.parametrize(
    ("binding", "is_right"),
    [
        (AclBinding(pattern("TOPIC:t"), entry("ALLOW User:a READ")), True),
        (AclBinding(pattern("TOPIC:a/b"), entry("ALLOW User:a READ")), False),
        (AclBinding(pattern("TOPIC:"), entry("ALLOW User:a READ")), False),
        (AclBinding(pattern("ANY:t"), entry("ALLOW User:a READ")), False),
        (AclBinding(pattern("TOPIC:t"), entry("ANY User:a READ")), False),
        (AclBinding(pattern("TOPIC:t"), entry("ALLOW User:a UNKNOWN")), False),
        (AclBinding(pattern("TOPIC:t")._replace(pattern_type=PatternType.MATCH), entry("ALLOW User:a READ")), False),
    ],
)
def test_a_binding_that_cannot_be_kept_is_refused(binding: AclBinding, is_right: bool) -> None:
    if is_right:
        binding.check()
    else:
        with pytest.raises(ValueError, match="ACL binding contains"):
            binding.check()


def test_authorized_operations_of_each_type_are_kafkas() -> None:
    names = {kind.name: {each.name for each in found} for kind, found in SUPPORTED_OPERATIONS.items()}
    assert names == {
        "TOPIC": {"READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"},
        "GROUP": {"READ", "DELETE", "DESCRIBE"},
        "CLUSTER": {
            *("CREATE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE")
        },
        "TRANSACTIONAL_ID": {"WRITE", "DESCRIBE"},
        "DELEGATION_TOKEN": {"DESCRIBE"},
        "USER": {"CREATE_TOKENS", "DESCRIBE_TOKENS"},
    }


def test_codes_of_requests() -> None:
    assert AclOperation.of_code(14) is AclOperation.DESCRIBE_TOKENS
    assert AclOperation.of_code(99) is AclOperation.UNKNOWN
    assert AclResourceType.of_code(-1) is AclResourceType.UNKNOWN
    assert PatternType.of_code(5) is PatternType.UNKNOWN
    assert AclPermissionType.of_code(3) is AclPermissionType.ALLOW


@pytest.mark.parametrize(
    ("resource", "path", "change_at", "change"),
    [
        ("TOPIC:oldt", "/kafka-acl/Topic/oldt", "/kafka-acl-changes/acl_changes_", b"TOPIC:oldt"),
        (
            "TRANSACTIONAL_ID:*",
            "/kafka-acl/TransactionalId/*",
            "/kafka-acl-changes/acl_changes_",
            b"TRANSACTIONAL_ID:*",
        ),
        (
            "TOPIC:pre…",
            "/kafka-acl-extended/prefixed/Topic/pre",
            "/kafka-acl-extended-changes/acl_changes_",
            b'{"version":1,"resourceType":"TOPIC","name":"pre","patternType":"PREFIXED"}',
        ),
    ],
)
def test_znodes_are_kafkas(resource: str, path: str, change_at: str, change: bytes) -> None:
    wanted = pattern(resource)
    assert resource_path(wanted) == path
    assert change_path(wanted) == change_at
    assert encode_change(wanted) == change
    decode = decode_literal_change if wanted.pattern_type == PatternType.LITERAL else decode_extended_change
    assert decode(change) == wanted
    assert resource_type(path.split("/")[-2]) == wanted.type


def test_a_list_is_stored_as_kafka_stores_it() -> None:
    entries = [entry("ALLOW User:alice READ"), entry("DENY User:bob DESCRIBE_CONFIGS 10.0.0.1")]
    data = encode_acls(entries)
    assert data == (
        b'{"version":1,"acls":['
        b'{"principal":"User:alice","permissionType":"Allow","operation":"Read","host":"*"},'
        b'{"principal":"User:bob","permissionType":"Deny","operation":"DescribeConfigs","host":"10.0.0.1"}]}'
    )
    assert decode_acls("/kafka-acl/Topic/t", data) == frozenset(entries)
    assert decode_acls("/kafka-acl/Topic/t", b"") == frozenset()
    assert resource_type("Unheard") is None


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        b"[]",
        b'{"version":2,"acls":[]}',
        b'{"version":1}',
        b'{"version":1,"acls":[1]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":"Read"}]}',
        b'{"version":1,"acls":[{"principal":"a","permissionType":"Allow","operation":"Read","host":"*"}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Maybe","operation":"Read","host":"*"}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":"Dance","host":"*"}]}',
    ],
)
def test_a_malformed_list_is_refused_with_its_path(data: bytes) -> None:
    with pytest.raises(MalformedZnodeError, match="/kafka-acl/Topic/t"):
        decode_acls("/kafka-acl/Topic/t", data)


def test_no_bytes_raise_anything_but_a_malformed_znode() -> None:
    rng = random.Random(27)
    valid = [
        encode_acls([entry("ALLOW User:alice READ")]),
        encode_change(pattern("TOPIC:t")),
        encode_change(pattern("TOPIC:pre…")),
    ]
    for _ in range(10_000):
        data = bytearray(rng.choice(valid))
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.choice(b'{}[]":,0aZ\xff\0')
        for decode in (lambda given: decode_acls("/p", given), decode_literal_change, decode_extended_change):
            try:
                decode(bytes(data))
            except MalformedZnodeError:
                pass

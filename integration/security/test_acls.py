"""ACLs with real parts: the matrix of requests and users, against Apache Kafka first, then against kafkalite.

``KAFKALITE_TEST_BROKER=kafka KAFKALITE_WRITE_ACL_ANSWERS=1`` writes Kafka's answers to ``acl_answers.json``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.conftest import AGAINST_KAFKA, TEST_OVERRIDES, launcher
from integration.harness.wait import wait_for
from integration.security import acl_matrix, acl_tokens
from integration.security.acl_cases import CASES, REFUSALS, TOPIC, AclCase, error_codes
from integration.security.acl_matrix import ADMIN, ALLOWED, CREATOR, DENIED, INSTEAD, READER, User, ways
from kafkalite.common.errors import ErrorCode
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.processes import free_ports
from kafkalite.protocol.api_keys import ApiKey

ANSWERS = Path(__file__).with_name("acl_answers.json")
TOKEN_ANSWERS = Path(__file__).with_name("acl_token_answers.json")
WRITES = AGAINST_KAFKA and os.environ.get("KAFKALITE_WRITE_ACL_ANSWERS") == "1"
(FOLLOWER,) = (case for case in CASES if case.name == "fetch as a follower")
Answers = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def sasl_address() -> str:
    return f"127.0.0.1:{free_ports(1)[0]}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, sasl_address: str) -> Iterator[LocalCluster]:
    made = LocalCluster(tmp_path_factory.mktemp("acls"), 1, overrides=TEST_OVERRIDES, launcher=launcher())
    names = [*acl_matrix.users(), *acl_tokens.users()]
    made.override_broker(1, acl_matrix.properties(made.address(1), sasl_address, names) | acl_tokens.PROPERTIES)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def answers(cluster: LocalCluster, sasl_address: str) -> Answers:  # noqa: ARG001
    """Request → way of granting → answer."""
    with User(sasl_address, ADMIN) as admin:
        acl_matrix.prepare(admin)
        found: Answers = {}
        for case in acl_matrix.order(CASES):
            for way in ways(case):
                if case.name in ("delete groups", "delete offsets"):
                    acl_matrix.commit_offset(admin)
                with User(sasl_address, acl_matrix.user(case, way)) as one:
                    found.setdefault(case.name, {})[way] = one.send(case)
    return found


def refusals(answer: Any) -> set[int]:
    return set(error_codes(answer)) & REFUSALS


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_who_may_send_what(case: AclCase, answers: Answers) -> None:
    wrong = []
    refused = refusals(answers[case.name]["nothing"])
    seen = answers[case.name]["literal"]
    for way, answer in answers[case.name].items():
        allowed = way in ALLOWED or way == INSTEAD
        if case.hides:
            right = (str(answer) == str(seen)) == allowed or way == "wildcard" or bool(refusals(answer))
        elif allowed:
            right = not refusals(answer)
        elif way in DENIED:
            right = refusals(answer) == refused != set()
        else:
            right = refusals(answer) != set()
        if not right:
            wrong.append(f"{way}: {answer}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_refusal_is_answered_as_by_kafka(case: AclCase, answers: Answers) -> None:
    denied = {
        way: answer for way, answer in answers[case.name].items() if way == "nothing" or way.startswith("without ")
    }
    kept: Answers = json.loads(ANSWERS.read_text()) if ANSWERS.exists() else {}
    if WRITES:
        kept[case.name] = denied
        ANSWERS.write_text(json.dumps(dict(sorted(kept.items())), indent=1, sort_keys=True) + "\n")
    assert denied == kept[case.name]


@pytest.fixture(scope="module")
def token_answers(cluster: LocalCluster, sasl_address: str) -> Answers:
    """Request about delegation tokens → client → answer."""
    found = acl_tokens.TokenMatrix(cluster.address(1), sasl_address).answers()
    if WRITES:
        TOKEN_ANSWERS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    return found


def test_who_may_make_and_see_tokens_of_others(token_answers: Answers) -> None:
    made = {way: answer["error_code"] for way, answer in token_answers[acl_tokens.CREATE].items()}
    refused = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert made == {way: ErrorCode.NONE if way in ALLOWED else refused for way in acl_tokens.ways()}
    for need in (acl_tokens.DESCRIBE, acl_tokens.DESCRIBE_ALL):
        seen = {way: len(answer["all"][1]) for way, answer in token_answers[need].items()}
        assert seen == {way: int(way in ALLOWED) for way in acl_tokens.ways()}


def test_tokens_are_made_changed_and_shown_as_by_kafka(token_answers: Answers) -> None:
    assert token_answers == json.loads(TOKEN_ANSWERS.read_text())


def test_what_is_denied_is_in_the_audit_log(answers: Answers, cluster: LocalCluster) -> None:
    assert answers
    lines = (
        "Principal = User:u0-nothing is Denied Operation = Write from host = 127.0.0.1 "
        "on resource = Topic:LITERAL:acl-topic for request = Produce with resourceRefCount = 1",
        f"Principal = User:{acl_matrix.user(FOLLOWER, 'nothing')} is Denied Operation = ClusterAction "
        "from host = 127.0.0.1 on resource = Cluster:LITERAL:kafka-cluster for request = Fetch "
        "with resourceRefCount = 1",
    )
    log = cluster.log_file(1)
    wait_for(lambda: all(line in log.read_text() for line in lines), f"{lines} are in {log}")


def test_topics_by_their_ids(answers: Answers, admin: User, sasl_address: str) -> None:
    """Ids may be told, names may not."""
    assert answers
    asked = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    (known,) = admin.ask(ApiKey.METADATA, 12, topics=[{"name": TOPIC}], **asked).topics
    by_id = {"name": None, "topic_id": known.topic_id}
    with User(sasl_address, READER) as stranger:
        (seen,) = stranger.ask(ApiKey.METADATA, 12, topics=[by_id], **asked).topics
        assert (seen.error_code, seen.name, seen.topic_id) == (29, None, known.topic_id)
        (kept,) = stranger.ask(ApiKey.DELETE_TOPICS, 6, topics=[by_id], timeout_ms=1000).responses
        assert (kept.error_code, kept.name, kept.topic_id) == (29, None, known.topic_id)
        (case,) = (case for case in CASES if case.name == "fetch")
        topics = [{"topic_id": known.topic_id, "partitions": case.fields["topics"][0]["partitions"]}]
        (denied,) = stranger.ask(ApiKey.FETCH, 13, **{**case.fields, "topics": topics}).responses
        assert [each.error_code for each in denied.partitions] == [29]


def acl(**fields: Any) -> dict[str, Any]:
    """An ACL for CreateAcls: Read on the topic ``t`` for carol, but for ``fields``."""
    return {
        "resource_type": 2,
        "resource_name": "t",
        "resource_pattern_type": 3,
        "principal": "User:carol",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
        **fields,
    }


def acl_filter(**fields: Any) -> dict[str, Any]:
    """A filter of all ACLs of carol, but for ``fields``."""
    return {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": "User:carol",
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
        **fields,
    }


@pytest.fixture
def admin(cluster: LocalCluster, sasl_address: str) -> Iterator[User]:  # noqa: ARG001
    with User(sasl_address, ADMIN) as one:
        yield one
        one.ask(ApiKey.DELETE_ACLS, 3, filters=[acl_filter()])


@pytest.mark.parametrize(
    ("wrong", "code", "message"),
    [
        ({"resource_name": "a/b"}, ErrorCode.INVALID_REQUEST, "Failed to create ACL"),
        ({"resource_name": ""}, ErrorCode.INVALID_REQUEST, "Invalid empty resource name"),
        (
            {"resource_type": 4, "resource_name": "other"},
            ErrorCode.INVALID_REQUEST,
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        ({"operation": 99}, ErrorCode.INVALID_REQUEST, "Failed to create ACL"),
        ({"resource_pattern_type": 9}, ErrorCode.INVALID_REQUEST, "Failed to create ACL"),
        ({"principal": "carol"}, ErrorCode.UNKNOWN_SERVER_ERROR, None),
    ],
)
def test_a_wrong_acl_is_refused_and_the_others_are_added(
    wrong: dict[str, Any], code: ErrorCode, message: str | None, admin: User
) -> None:
    answer = admin.ask(ApiKey.CREATE_ACLS, 3, creations=[acl(**wrong), acl(resource_name="right")])
    assert [each.error_code for each in answer.results] == [code, ErrorCode.NONE]
    assert answer.results[0].error_message == message or code is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("api", "fields"),
    [
        (ApiKey.CREATE_ACLS, {"creations": [acl(operation=0)]}),
        (ApiKey.CREATE_ACLS, {"creations": [acl(resource_pattern_type=0)]}),
        (ApiKey.DELETE_ACLS, {"filters": [acl_filter(permission_type=0)]}),
        (ApiKey.DESCRIBE_ACLS, acl_filter(resource_type_filter=0)),
    ],
)
def test_an_unknown_element_closes_the_connection(
    api: ApiKey,
    fields: dict[str, Any],
    cluster: LocalCluster,  # noqa: ARG001
    sasl_address: str,
) -> None:
    with User(sasl_address, ADMIN) as one, pytest.raises(OSError):
        one.ask(api, 3, **fields)


@pytest.mark.parametrize(
    "wrong", [{"resource_type": 1}, {"operation": 1}, {"permission_type": 1}, {"resource_pattern_type": 2}]
)
def test_an_acl_of_anything_refuses_the_whole_request(wrong: dict[str, Any], admin: User) -> None:
    answer = admin.ask(ApiKey.CREATE_ACLS, 3, creations=[acl(), acl(**wrong)])
    assert {each.error_code for each in answer.results} == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert admin.ask(ApiKey.DESCRIBE_ACLS, 3, **acl_filter()).resources == []


FILTERS = [
    ({}, {"t3", "t-4", "*3", "group3"}),
    ({"resource_type_filter": 2}, {"t3", "t-4", "*3"}),
    ({"resource_name_filter": "t", "resource_type_filter": 2}, {"t3"}),
    ({"resource_name_filter": "t-x", "resource_type_filter": 2, "pattern_type_filter": 2}, {"t-4", "*3"}),
    ({"resource_name_filter": "t-x", "resource_type_filter": 2, "pattern_type_filter": 1}, set()),
    ({"resource_name_filter": "t-", "resource_type_filter": 2, "pattern_type_filter": 4}, {"t-4"}),
    ({"resource_name_filter": "t-", "resource_type_filter": 2, "pattern_type_filter": 3}, set()),
    ({"pattern_type_filter": 4}, {"t-4"}),
    ({"operation": 4}, {"t-4"}),
    ({"permission_type": 2}, {"group3"}),
    ({"host_filter": "10.0.0.1"}, {"*3"}),
    ({"permission_type": 9}, set()),
    ({"resource_type_filter": 99, "resource_name_filter": "t"}, set()),
    ({"resource_type_filter": 2, "resource_name_filter": "t", "pattern_type_filter": 9}, set()),
    ({"resource_name_filter": "*", "resource_type_filter": 2, "pattern_type_filter": 2}, {"*3"}),
]


@pytest.mark.parametrize(("fields", "expected"), FILTERS)
def test_what_a_filter_finds_is_shown_and_removed(fields: dict[str, Any], expected: set[str], admin: User) -> None:
    creations = [
        acl(),
        acl(resource_name="t-", resource_pattern_type=4, operation=4),
        acl(resource_name="*", host="10.0.0.1"),
        acl(resource_type=3, resource_name="group", permission_type=2),
    ]
    made = admin.ask(ApiKey.CREATE_ACLS, 3, creations=creations)
    assert {each.error_code for each in made.results} == {ErrorCode.NONE}
    shown = admin.ask(ApiKey.DESCRIBE_ACLS, 3, **acl_filter(**fields))
    assert {f"{each.resource_name}{each.pattern_type}" for each in shown.resources} == expected
    (removed,) = admin.ask(ApiKey.DELETE_ACLS, 3, filters=[acl_filter(**fields)]).filter_results
    assert {f"{each.resource_name}{each.pattern_type}" for each in removed.matching_acls} == expected
    rest = admin.ask(ApiKey.DESCRIBE_ACLS, 3, **acl_filter()).resources
    assert len(rest) == 4 - len(expected)


def test_the_oldest_versions_are_about_literal_acls(admin: User) -> None:
    (made,) = admin.ask(ApiKey.CREATE_ACLS, 1, creations=[acl()]).results
    assert made.error_code == ErrorCode.NONE
    admin.ask(ApiKey.CREATE_ACLS, 3, creations=[acl(resource_name="t-", resource_pattern_type=4)])
    fields = {name: value for name, value in acl_filter().items() if name != "pattern_type_filter"}
    shown = admin.ask(ApiKey.DESCRIBE_ACLS, 1, **fields, pattern_type_filter=3)
    assert [each.resource_name for each in shown.resources] == ["t"]


def test_authorized_operations(admin: User, sasl_address: str) -> None:
    mine = {"principal": f"User:{READER}"}
    creations = [
        acl(resource_name="acl-seen", operation=2, **mine),
        acl(resource_name="acl-seen", operation=6, permission_type=2, **mine),
        acl(resource_name="acl-read", operation=3, **mine),
        acl(resource_name="acl-missing", operation=11, **mine),
        acl(resource_name="acl-missing", operation=8, **mine),
        acl(resource_type=3, resource_name="acl-team", operation=3, **mine),
        acl(resource_type=4, resource_name="kafka-cluster", operation=7, **mine),
    ]
    admin.ask(ApiKey.CREATE_ACLS, 3, creations=creations)
    topics: list[dict[str, Any]] = [
        {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        for name in ("acl-seen", "acl-read")
    ]
    admin.ask(ApiKey.CREATE_TOPICS, 5, topics=topics, timeout_ms=10_000, validate_only=False)
    names = [{"name": name} for name in ("acl-seen", "acl-read", "acl-missing", "acl-hidden")]

    def seen() -> Any:
        with User(sasl_address, READER) as reader:
            answer = reader.ask(
                ApiKey.METADATA,
                9,
                topics=names,
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=True,
                include_topic_authorized_operations=True,
            )
            operations = {each.name: each.authorized_operations for each in answer.topics}
            return answer.authorized_operations, operations

    assert wait_for(lambda: seen() if len(seen()[1]["acl-read"] or ()) else None, "the topics are there") == (
        {7, 8},
        {
            "acl-seen": {3, 4, 5, 7, 8, 10, 11},
            "acl-read": {3, 8},
            "acl-missing": {8, 10, 11},
            "acl-hidden": None,
        },
    )
    with User(sasl_address, READER) as reader:
        cluster = reader.ask(ApiKey.DESCRIBE_CLUSTER, 0, include_cluster_authorized_operations=True)
        assert cluster.authorized_operations == {7, 8}

        def group() -> Any:
            admin.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["acl-team"])
            asked = {"groups": ["acl-team"], "include_authorized_operations": True}
            (found,) = reader.ask(ApiKey.DESCRIBE_GROUPS, 5, **asked).groups
            return None if found.error_code else found

        assert wait_for(group, "the group has a coordinator").authorized_operations == {3, 8}


def test_a_partial_refusal_serves_the_rest(admin: User, sasl_address: str) -> None:
    mine = {"principal": f"User:{CREATOR}"}
    admin.ask(
        ApiKey.CREATE_ACLS,
        3,
        creations=[
            acl(resource_name="made-", resource_pattern_type=4, operation=5, **mine),
            acl(resource_name="made-", resource_pattern_type=4, operation=6, **mine),
        ],
    )
    with User(sasl_address, CREATOR) as creator:
        topics: list[dict[str, Any]] = [
            {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
            for name in ("made-one", "other")
        ]
        answer = creator.ask(ApiKey.CREATE_TOPICS, 5, topics=topics, timeout_ms=10_000, validate_only=False)
        assert {each.name: (each.error_code, each.topic_config_error_code) for each in answer.topics} == {
            "made-one": (ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            "other": (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        }
        deleted = creator.ask(ApiKey.DELETE_TOPICS, 5, topic_names=["other", "made-one"], timeout_ms=10_000)
        assert {each.name: each.error_code for each in deleted.responses} == {
            "made-one": ErrorCode.NONE,
            "other": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        }

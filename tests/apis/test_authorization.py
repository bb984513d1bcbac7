"""Every API asks the authorizer for what its row in the table says, and answers a refusal with Kafka's error."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from integration.blocks import blocks_of
from integration.security.acl_cases import CASES, REFUSALS, TRANSACTION, AclCase, build, error_codes, plain
from kafkalite.apis.dispatch import Dispatcher
from kafkalite.apis.permissions import PERMISSIONS
from kafkalite.apis.registry import served
from kafkalite.common.acls import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from kafkalite.common.errors import ErrorCode
from kafkalite.common.principals import KafkaPrincipal
from kafkalite.common.types import ZERO_UUID, TopicPartition
from kafkalite.coordinator.transaction.values import TransactionListing
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import decode_response, encode_request, request_class
from kafkalite.security.acl_cache import AclCache
from kafkalite.security.acl_snapshot import AclSnapshot
from kafkalite.security.audit import audit
from kafkalite.security.authorizer_interface import Authorizer
from kafkalite.zk.znodes.transactions import TransactionState

from .helpers import TOPIC_ID, FakeBroker
from .test_produce import T0, answer, batch, send

Question = tuple[AclOperation, AclResourceType]
E = ErrorCode


class Asked(Authorizer):
    """Remembers what it is asked; allows everything but ``denied``, and nothing where that is ``None``."""

    def __init__(self, denied: frozenset[Question] | None = None) -> None:
        self.denied = denied
        self.questions: set[Question] = set()
        self.names: list[str] = []
        self.state = AclSnapshot()

    @property
    def snapshot(self) -> AclSnapshot:
        return self.state

    def change(self) -> None:
        self.state = self.state.succeeded()

    def authorize(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, type_: AclResourceType, name: str
    ) -> bool:
        self.names.append(name)
        return self.authorize_by_resource_type(principal, host, operation, type_)

    def authorize_by_resource_type(
        self,
        principal: KafkaPrincipal,  # noqa: ARG002
        host: str,  # noqa: ARG002
        operation: AclOperation,
        type_: AclResourceType,
    ) -> bool:
        self.questions.add((operation, type_))
        return self.denied is not None and (operation, type_) not in self.denied


class FakeTransactions:
    """Knows one transaction, and fails at every other call."""

    def list(self, *_: object) -> tuple[list[TransactionListing], list[str]]:
        return [TransactionListing(TRANSACTION, 1, TransactionState.ONGOING)], []

    def __getattr__(self, name: str) -> Any:
        return Anything()


class FakeGroups:
    """Knows groups without offsets."""

    def __init__(self) -> None:
        self.offsets = self

    async def fetch(self, *_: object, **__: object) -> dict[TopicPartition, object]:
        return {}


class Anything:
    """Stands for services that the broker of these tests lacks: every call fails, as where nothing is known."""

    def __getattr__(self, name: str) -> Any:
        return Anything()

    def __call__(self, *_: object, **__: object) -> Any:
        raise LookupError("no such service in this test")


def ask(case: AclCase, denied: frozenset[Question] | None) -> tuple[Asked, Any]:
    """What the handler of ``case`` asks, and its answer as plain values."""
    authorizer = Asked(denied)
    broker = FakeBroker(authorizer=authorizer)
    services = replace(broker.services, transactions=cast("Any", FakeTransactions()), control=cast("Any", Anything()))
    if case.api is ApiKey.OFFSET_FETCH:
        services = replace(services, groups=cast("Any", FakeGroups()))
    broker.dispatcher = Dispatcher(services)
    broker.send(case.api, case.version, encode_request(case.api, case.version, case.message()))
    broker.clock.advance(10)
    return authorizer, plain(decode_response(case.api, case.version, memoryview(broker.take())))


IDS = [case.name for case in CASES]


def case_named(name: str) -> AclCase:
    """The one case of that name."""
    (found,) = (case for case in CASES if case.name == name)
    return found


def answer_to(broker: FakeBroker, api: ApiKey, version: int, fields: Mapping[str, Any]) -> Any:
    """The answer to a request of plain values."""
    return broker.answer(api, version, build(request_class(api), version, fields))


def test_the_table_names_every_served_api() -> None:
    assert set(served()) - set(PERMISSIONS) == set()


def test_a_case_is_there_for_every_api_that_asks() -> None:
    # These have tests of their own: no error tells of what is denied.
    apart = {ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN, ApiKey.DESCRIBE_CLUSTER}
    asking = {key for key, permissions in PERMISSIONS.items() if permissions and key in served()}
    assert asking - {case.api for case in CASES} - apart == set()


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_what_is_denied_is_refused_with_kafkas_errors(case: AclCase) -> None:
    _, answer = ask(case, None)
    codes = set(error_codes(answer)) & REFUSALS
    if case.hides:
        assert not codes and case.topic not in str(answer)
    else:
        assert codes, answer


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_what_is_allowed_is_not_refused(case: AclCase) -> None:
    _, answer = ask(case, frozenset())
    assert not set(error_codes(answer)) & REFUSALS


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_each_permission_is_needed(case: AclCase) -> None:
    for need in case.needs:
        _, answer = ask(case, frozenset({need, *case.instead}))
        refused = set(error_codes(answer)) & REFUSALS
        assert refused or case.hides, f"without {need[0].name} on a {need[1].name}"


def test_the_table_has_the_questions_that_are_asked() -> None:
    for key in {case.api for case in CASES}:
        questions: set[Question] = set()
        for case in CASES:
            if case.api is key:
                for denied in (None, frozenset[Question](), *(frozenset({need}) for need in case.needs)):
                    questions |= ask(case, denied)[0].questions
        table = {(permission.operation, permission.type) for permission in PERMISSIONS[key]}
        optional = {(permission.operation, permission.type) for permission in PERMISSIONS[key] if permission.note}
        assert questions <= table, f"{key.name} asks for more than its row says"
        assert table - optional <= questions, f"{key.name} does not ask for all that its row says"


def test_without_an_authorizer_everything_is_allowed() -> None:
    broker = FakeBroker()
    answer = broker.call(ApiKey.METADATA, 12, topics=None)
    assert [topic.name for topic in answer.topics] == ["t"]
    assert broker.connection.info.decisions is None


def metadata(broker: FakeBroker, *names: str) -> dict[str, int]:
    asked = [{"name": name} for name in names]
    answer = answer_to(broker, ApiKey.METADATA, 9, {"topics": asked or None, "allow_auto_topic_creation": False})
    return {topic.name: topic.error_code for topic in answer.topics}


def test_an_answer_that_was_kept_for_one_principal_is_not_given_to_another() -> None:
    class ByName(Asked):
        def authorize_by_resource_type(
            self, principal: KafkaPrincipal, host: str, operation: AclOperation, type_: AclResourceType
        ) -> bool:
            super().authorize_by_resource_type(principal, host, operation, type_)
            return principal.name == "alice"

    broker = FakeBroker(authorizer=ByName())
    broker.connection.info.principal = KafkaPrincipal.user("alice")
    assert metadata(broker, "t") == {"t": E.NONE}
    assert metadata(broker) == {"t": E.NONE}
    broker.connection.info.principal = KafkaPrincipal.user("bob")
    assert metadata(broker, "t") == {"t": E.TOPIC_AUTHORIZATION_FAILED}
    assert metadata(broker) == {}
    broker.connection.info.principal = KafkaPrincipal.user("alice")
    assert metadata(broker) == {"t": E.NONE}


def test_an_answer_that_was_kept_is_not_given_after_a_change_of_acls() -> None:
    authorizer = Asked(frozenset())
    broker = FakeBroker(authorizer=authorizer)
    assert metadata(broker) == metadata(broker, "t") == {"t": E.NONE}
    authorizer.denied = None
    authorizer.change()
    assert metadata(broker) == {}
    assert metadata(broker, "t") == {"t": E.TOPIC_AUTHORIZATION_FAILED}


def test_a_producer_is_refused_at_once_after_a_change_of_acls() -> None:
    class Acls(Asked):
        """Decides by real ACLs."""

        known = AclCache()

        @property
        def snapshot(self) -> AclSnapshot:
            return self.known.snapshot

        def authorize(
            self, principal: KafkaPrincipal, host: str, operation: AclOperation, type_: AclResourceType, name: str
        ) -> bool:
            self.names.append(name)
            return self.known.authorize(principal, host, operation, type_, name)

    def allow(*operations: AclOperation) -> None:
        entries = [AccessControlEntry("User:*", "*", each, AclPermissionType.ALLOW) for each in operations]
        authorizer.known.update(ResourcePattern(AclResourceType.TOPIC, "t", PatternType.LITERAL), entries)

    def produced() -> int:
        send(broker, 9, [(T0, batch())])
        return answer(broker, 9)[T0].error

    authorizer = Acls()
    broker = FakeBroker(authorizer=authorizer)
    assert produced() == E.TOPIC_AUTHORIZATION_FAILED
    allow(AclOperation.WRITE)
    assert [produced(), produced(), produced()] == [E.NONE] * 3
    assert authorizer.names == ["t", "t"], "asked once for each state of the ACLs"
    allow(AclOperation.READ)
    assert produced() == E.TOPIC_AUTHORIZATION_FAILED
    allow(AclOperation.WRITE)
    assert produced() == E.NONE
    broker.connection.info.principal = KafkaPrincipal.user("bob")
    authorizer.names.clear()
    assert produced() == E.NONE
    assert authorizer.names == ["t"], "what was decided for one principal is not kept for another"


def test_it_is_not_revealed_whether_a_topic_that_may_not_be_described_exists() -> None:
    broker = FakeBroker(authorizer=Asked(None))
    assert metadata(broker, "t", "absent", "not/valid") == dict.fromkeys(
        ("t", "absent", "not/valid"), E.TOPIC_AUTHORIZATION_FAILED
    )


CREATE = {(AclOperation.CREATE, AclResourceType.CLUSTER), (AclOperation.CREATE, AclResourceType.TOPIC)}


@pytest.mark.parametrize(
    ("denied", "error"),
    [
        ((), E.LEADER_NOT_AVAILABLE),
        (((AclOperation.CREATE, AclResourceType.CLUSTER),), E.LEADER_NOT_AVAILABLE),
        (((AclOperation.CREATE, AclResourceType.TOPIC),), E.LEADER_NOT_AVAILABLE),
        (CREATE, E.TOPIC_AUTHORIZATION_FAILED),
        (((AclOperation.DESCRIBE, AclResourceType.TOPIC),), E.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_topics_are_created_on_request_for_those_who_may(denied: Any, error: ErrorCode) -> None:
    broker = FakeBroker({"auto.create.topics.enable": "true"}, authorizer=Asked(frozenset(denied)))
    answer = answer_to(broker, ApiKey.METADATA, 9, {"topics": [{"name": "new"}], "allow_auto_topic_creation": True})
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("new", error)]
    assert ("/brokers/topics/new" in broker.zookeeper.paths()) == (error is E.LEADER_NOT_AVAILABLE)


def test_what_is_denied_is_logged_once_a_request_in_kafkas_words(caplog: pytest.LogCaptureFixture) -> None:
    broker = FakeBroker(authorizer=Asked(None))
    broker.connection.info.ip = "10.0.0.7"
    with caplog.at_level(logging.INFO, "kafkalite.authorizer"):
        metadata(broker, "t")
        metadata(broker)
    assert [record.getMessage() for record in caplog.records if record.name == "kafkalite.authorizer"] == [
        "Principal = User:ANONYMOUS is Denied Operation = Describe from host = 10.0.0.7 on resource = Topic:LITERAL:t "
        "for request = Metadata with resourceRefCount = 1"
    ], "names that the client did not ask for are left out silently"


def test_a_denial_is_logged_as_documented(caplog: pytest.LogCaptureFixture) -> None:
    [block] = blocks_of("docs/security.md", __file__)
    eve = KafkaPrincipal("User", "eve")
    with caplog.at_level(logging.INFO, "kafkalite.authorizer"):
        audit(False, eve, "10.0.0.7", AclOperation.READ, AclResourceType.TOPIC, "orders", "Fetch", 3)
    assert [record.getMessage() for record in caplog.records] == block.text.splitlines()


def test_what_is_allowed_is_logged_for_debugging(caplog: pytest.LogCaptureFixture) -> None:
    broker = FakeBroker(authorizer=Asked(frozenset()))
    with caplog.at_level(logging.DEBUG, "kafkalite.authorizer"):
        metadata(broker, "t")
    (record,) = [record for record in caplog.records if record.name == "kafkalite.authorizer"]
    assert record.levelno == logging.DEBUG and "is Allowed Operation = Describe" in record.getMessage()


def test_a_name_cannot_forge_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    broker = FakeBroker(authorizer=Asked(None))
    with caplog.at_level(logging.INFO, "kafkalite.authorizer"):
        metadata(broker, "a\nPrincipal = User:admin is Allowed")
    assert "\n" not in caplog.records[-1].getMessage()


def test_one_topic_of_a_produce_request_is_refused_and_the_other_appended() -> None:
    class OnlyT(Asked):
        def authorize(
            self, principal: KafkaPrincipal, host: str, operation: AclOperation, type_: AclResourceType, name: str
        ) -> bool:
            super().authorize(principal, host, operation, type_, name)
            return name == "t"

    broker = FakeBroker(authorizer=OnlyT())
    case = case_named("produce")
    message = cast("Any", case.message())
    mine = message.topic_data[0]
    other = cast("Any", case.message()).topic_data[0]
    mine.name, other.name = "t", "u"
    message.topic_data.append(other)
    answer = broker.answer(ApiKey.PRODUCE, 9, message)
    assert {each.name: each.partition_responses[0].error_code for each in answer.responses} == {
        "t": E.NONE,
        "u": E.TOPIC_AUTHORIZATION_FAILED,
    }
    ((_, _, entries),) = broker.replicas.appended
    assert [tp for tp, _ in entries] == [TopicPartition("t", 0)]


def test_a_refused_produce_request_without_acknowledgement_closes_the_connection() -> None:
    broker = FakeBroker(authorizer=Asked(None))
    case = case_named("produce")
    message = replace(case, fields={**case.fields, "acks": 0}).message()
    broker.send(ApiKey.PRODUCE, 9, encode_request(ApiKey.PRODUCE, 9, message))
    assert broker.connection.closed and not broker.replicas.appended


class ByTopic(Asked):
    """Allows the operations on topics whose names are in ``allowed``, and everything on other resources."""

    def __init__(self, *allowed: str) -> None:
        super().__init__()
        self.allowed = set(allowed)

    def authorize(
        self, principal: KafkaPrincipal, host: str, operation: AclOperation, type_: AclResourceType, name: str
    ) -> bool:
        super().authorize(principal, host, operation, type_, name)
        return type_ is not AclResourceType.TOPIC or name in self.allowed


def fetch(broker: FakeBroker, session_id: int, epoch: int, *topics: str) -> tuple[int, dict[str, int]]:
    """One fetch of partition 0 of each topic; the session and the errors of the topics in the answer."""
    case = case_named("fetch")
    fields = dict(case.fields)
    (partition,) = fields["topics"][0]["partitions"]
    fields |= {
        "session_id": session_id,
        "session_epoch": epoch,
        "topics": [{"topic": name, "partitions": [partition]} for name in topics],
    }
    message = replace(case, fields=fields).message()
    answer = broker.answer(ApiKey.FETCH, 12, message)
    assert not answer.error_code, E(answer.error_code).name
    return answer.session_id, {each.topic: each.partitions[0].error_code for each in answer.responses}


def test_the_partitions_of_a_fetch_session_are_refused_while_the_client_may_not_read_them() -> None:
    authorizer = ByTopic("t")
    broker = FakeBroker(authorizer=authorizer)
    session, answer = fetch(broker, 0, 0, "t", "u")
    assert session and answer == {"t": E.NONE, "u": E.TOPIC_AUTHORIZATION_FAILED}
    assert fetch(broker, session, 1)[1] == {"u": E.TOPIC_AUTHORIZATION_FAILED}, "an error is told every time"
    authorizer.allowed = {"u"}
    authorizer.change()
    assert fetch(broker, session, 2)[1] == {"t": E.TOPIC_AUTHORIZATION_FAILED, "u": E.NONE}
    authorizer.allowed = {"t", "u"}
    authorizer.change()
    assert fetch(broker, session, 3)[1] == {"t": E.NONE}
    asked = [[(p.topic, p.partition) for p in partitions] for _, partitions in broker.replicas.fetches]
    assert ("u", 0) not in asked[0]


def test_a_fetch_of_nothing_that_may_be_read_is_answered_at_once() -> None:
    broker = FakeBroker(authorizer=ByTopic())
    session, answer = fetch(broker, 0, 0, "t")
    assert answer == {"t": E.TOPIC_AUTHORIZATION_FAILED}
    assert fetch(broker, session, 1)[1] == answer
    assert [params.max_wait_ms for params, _ in broker.replicas.fetches] == [0, 0]


def test_the_session_of_another_principal_is_not_found() -> None:
    broker = FakeBroker(authorizer=ByTopic("t"))
    session, _ = fetch(broker, 0, 0, "t")
    broker.connection.info.principal = KafkaPrincipal.user("mallory")
    with pytest.raises(AssertionError, match="FETCH_SESSION_ID_NOT_FOUND"):
        fetch(broker, session, 1)
    broker.connection.info.principal = KafkaPrincipal.user("ANONYMOUS")
    broker.connection.info.decisions = None
    fetch(broker, session, 1)


def test_decisions_are_kept_for_a_connection_until_an_acl_changes() -> None:
    authorizer = ByTopic("t")
    broker = FakeBroker(authorizer=authorizer)
    for _ in range(3):
        metadata(broker, "t")
    assert authorizer.names == ["t"]
    authorizer.change()
    metadata(broker, "t")
    assert authorizer.names == ["t", "t"]


def test_authorized_operations_are_those_that_the_client_may_do() -> None:
    denied = frozenset({(AclOperation.WRITE, AclResourceType.TOPIC), (AclOperation.ALTER, AclResourceType.CLUSTER)})
    broker = FakeBroker(authorizer=Asked(denied))
    answer = broker.call(
        ApiKey.METADATA,
        9,
        topics=None,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    assert answer.topics[0].authorized_operations == {3, 5, 6, 7, 8, 10, 11}
    assert answer.authorized_operations == {5, 8, 9, 10, 11, 12}
    answer = broker.call(ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=True, endpoint_type=1)
    assert answer.authorized_operations == {5, 8, 9, 10, 11, 12}


def test_the_clusters_operations_are_not_told_to_a_client_that_may_not_describe_it() -> None:
    broker = FakeBroker(authorizer=Asked(frozenset({(AclOperation.DESCRIBE, AclResourceType.CLUSTER)})))
    answer = broker.call(ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=True, endpoint_type=1)
    assert answer.authorized_operations == set()


@pytest.mark.parametrize("name", ["create ACLs", "delete ACLs", "describe ACLs"])
def test_an_unknown_element_of_an_acl_closes_the_connection(name: str) -> None:
    case = case_named(name)
    fields = (
        {key: [{**each, "operation": 0} for each in value] for key, value in case.fields.items()}
        if (name != "describe ACLs")
        else {**case.fields, "operation": 0}
    )
    broker = FakeBroker(authorizer=Asked(frozenset()))
    message = replace(case, fields=fields).message()
    broker.send(case.api, case.version, encode_request(case.api, case.version, message))
    assert broker.connection.closed == ["an ACL or a filter of ACLs has an unknown element"]


@pytest.mark.parametrize("version", [0, 3])
def test_acls_of_a_request_without_pattern_types_are_literal(version: int) -> None:
    class Keeper(Asked):
        async def create_acls(self, bindings: Sequence[AclBinding]) -> Sequence[Exception | None]:
            kept.extend(bindings)
            return [None] * len(bindings)

        def acls(self, wanted: AclBindingFilter) -> Sequence[AclBinding]:
            filters.append(wanted)
            return ()

    kept: list[AclBinding] = []
    filters: list[AclBindingFilter] = []
    broker = FakeBroker(authorizer=Keeper(frozenset()))
    for case in (case for case in CASES if case.api in (ApiKey.CREATE_ACLS, ApiKey.DESCRIBE_ACLS)):
        message = replace(case, version=version).message()
        broker.send(case.api, version, encode_request(case.api, version, message))
    assert [binding.pattern.pattern_type for binding in kept] == [PatternType.LITERAL]
    assert [wanted.pattern_type for wanted in filters] == [PatternType.LITERAL if version == 0 else PatternType.ANY]


def produce(broker: FakeBroker, topic: str) -> ErrorCode:
    message = cast("Any", case_named("produce").message())
    message.topic_data[0].name = topic
    answer = broker.answer(ApiKey.PRODUCE, 9, message)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def test_a_topic_that_was_written_is_refused_after_the_acl_is_gone() -> None:
    authorizer = ByTopic("t", "u")
    broker = FakeBroker(authorizer=authorizer)
    assert [produce(broker, "t"), produce(broker, "t")] == [E.NONE, E.NONE]
    assert authorizer.names == ["t"], "the authorizer is asked once"
    authorizer.allowed = {"u"}
    authorizer.change()
    # The other topic comes first: what is known of it must not bring back what was known of this one.
    assert [produce(broker, "u"), produce(broker, "t")] == [E.NONE, E.TOPIC_AUTHORIZATION_FAILED]


def test_a_topic_that_one_principal_may_write_is_refused_to_another_on_the_same_connection() -> None:
    class OfAlice(Asked):
        def authorize_by_resource_type(
            self, principal: KafkaPrincipal, host: str, operation: AclOperation, type_: AclResourceType
        ) -> bool:
            super().authorize_by_resource_type(principal, host, operation, type_)
            return principal.name == "alice"

    broker = FakeBroker(authorizer=OfAlice())
    broker.connection.info.principal = KafkaPrincipal.user("alice")
    assert produce(broker, "t") is E.NONE
    broker.connection.info.principal = KafkaPrincipal.user("bob")
    assert produce(broker, "t") is E.TOPIC_AUTHORIZATION_FAILED


def test_a_topic_that_was_read_is_refused_after_the_acl_is_gone() -> None:
    authorizer = ByTopic("t", "u")
    broker = FakeBroker(authorizer=authorizer)
    assert fetch(broker, 0, -1, "t") == (0, {"t": E.NONE})
    authorizer.allowed = {"u"}
    authorizer.change()
    assert fetch(broker, 0, -1, "u") == (0, {"u": E.NONE})
    assert fetch(broker, 0, -1, "t") == (0, {"t": E.TOPIC_AUTHORIZATION_FAILED})


@pytest.mark.parametrize("name", ["t", "absent"])
def test_a_refused_deletion_tells_nothing_of_the_topic(name: str) -> None:
    broker = FakeBroker(authorizer=Asked(None))
    (answer,) = answer_to(broker, ApiKey.DELETE_TOPICS, 6, {"topics": [{"name": name}], "timeout_ms": 0}).responses
    assert (answer.name, answer.error_code, answer.error_message) == (name, E.TOPIC_AUTHORIZATION_FAILED, None)
    assert answer.topic_id in (None, ZERO_UUID)


def test_a_topic_by_its_id_keeps_its_name_from_a_client_that_may_not_see_it() -> None:
    broker = FakeBroker(authorizer=Asked(None))
    fields = {"topics": [{"name": None, "topic_id": TOPIC_ID}]}
    (deleted,) = answer_to(broker, ApiKey.DELETE_TOPICS, 6, {**fields, "timeout_ms": 0}).responses
    (described,) = answer_to(broker, ApiKey.METADATA, 12, {**fields, "allow_auto_topic_creation": False}).topics
    for topic in (deleted, described):
        assert (topic.name, topic.topic_id, topic.error_code) == (None, TOPIC_ID, E.TOPIC_AUTHORIZATION_FAILED)


def test_a_follower_without_permission_opens_no_session_and_is_refused_every_partition() -> None:
    authorizer = Asked(frozenset({(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)}))
    broker = FakeBroker(authorizer=authorizer)
    case = case_named("fetch as a follower")
    message = replace(case, fields={**case.fields, "session_epoch": 0}).message()
    answer = broker.answer(ApiKey.FETCH, 12, message)
    assert answer.session_id == 0
    assert answer.responses[0].partitions[0].error_code == E.TOPIC_AUTHORIZATION_FAILED
    assert not broker.replicas.fetches

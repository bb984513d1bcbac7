"""AlterClientQuotas and DescribeClientQuotas, from bytes to bytes and to /config."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import deferred
from kafkalite.protocol.api_keys import ApiKey

from .helpers import FakeBroker, struct

ALTER, DESCRIBE = ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.DESCRIBE_CLIENT_QUOTAS
Entity = Sequence[tuple[str, str | None]]
ALICE: Entity = [("user", "alice")]


def alter(broker: FakeBroker, entity: Entity, version: int = 1, *, check: bool = False, **quotas: Any) -> Any:
    parts = [
        struct(ALTER, "EntryData.EntityData", version, entity_type=kind, entity_name=name) for kind, name in entity
    ]
    ops = [
        struct(ALTER, "EntryData.OpData", version, key=key, value=value or 0.0, remove=value is None)
        for key, value in quotas.items()
    ]
    entry = struct(ALTER, "EntryData", version, entity=parts, ops=ops)
    response = broker.call(ALTER, version, entries=[entry], validate_only=check)
    (answer,) = response.entries
    assert [(each.entity_type, each.entity_name) for each in answer.entity] == list(entity)
    return answer


def describe(
    broker: FakeBroker, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> Any:
    parts = [
        struct(DESCRIBE, "ComponentData", version, entity_type=kind, match_type=match_type, match=match)
        for kind, match_type, match in components
    ]
    return broker.call(DESCRIBE, version, components=parts, strict=strict)


def described(broker: FakeBroker, *components: tuple[str, int, str | None], **options: Any) -> list[str]:
    """The entities as text."""
    response = describe(broker, *components, **options)
    assert response.error_code == 0
    return sorted(
        ",".join(f"{part.entity_type}={part.entity_name}" for part in entry.entity) for entry in response.entries
    )


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("entity", "path"),
    [
        ([("user", "alice")], "users/alice"),
        ([("user", None)], "users/<default>"),
        ([("user", "CN=a, O=b*")], "users/CN%3Da%2C%20O%3Db%2A"),
        ([("client-id", "c1"), ("user", "alice")], "users/alice/clients/c1"),
        ([("user", None), ("client-id", None)], "users/<default>/clients/<default>"),
        ([("client-id", "<default>")], "clients/%3Cdefault%3E"),
        ([("client-id", None)], "clients/<default>"),
    ],
)
def test_quotas_are_written_where_kafka_reads_them(version: int, entity: Entity, path: str) -> None:
    broker = FakeBroker()
    answer = alter(broker, entity, version, producer_byte_rate=1000.0, request_percentage=12.5)
    assert (answer.error_code, answer.error_message) == (0, None)
    written = json.loads(broker.zookeeper.data(f"/config/{path}"))
    assert written == {"version": 1, "config": {"producer_byte_rate": "1000", "request_percentage": "12.5"}}
    (change,) = [p for p in broker.zookeeper.paths("/config/changes") if "config_change_" in p]
    assert json.loads(broker.zookeeper.data(change)) == {"version": 2, "entity_path": path}
    (entry,) = describe(broker, version=version).entries
    assert [(each.key, each.value) for each in entry.values] == [
        ("producer_byte_rate", 1000.0),
        ("request_percentage", 12.5),
    ]
    assert {(each.entity_type, each.entity_name) for each in entry.entity} == set(entity)


def test_quotas_that_are_not_named_stay_and_so_do_credentials() -> None:
    broker = FakeBroker()
    deferred(broker.config_store.set_entity("users", "alice", {"SCRAM-SHA-256": "hush", "consumer_byte_rate": "1"}))
    alter(broker, ALICE, producer_byte_rate=2.0)
    alter(broker, ALICE, consumer_byte_rate=None, controller_mutation_rate=3.0)
    alter(broker, ALICE, check=True, controller_mutation_rate=None, producer_byte_rate=9.0)
    written = json.loads(broker.zookeeper.data("/config/users/alice"))["config"]
    assert written == {"SCRAM-SHA-256": "hush", "producer_byte_rate": "2", "controller_mutation_rate": "3.0"}
    (entry,) = describe(broker).entries
    assert {each.key for each in entry.values} == {"producer_byte_rate", "controller_mutation_rate"}


def test_an_address_has_a_rate_of_connections() -> None:
    broker = FakeBroker()
    assert alter(broker, [("ip", "10.0.0.1")], connection_creation_rate=5.0).error_code == 0
    assert alter(broker, [("ip", None)], connection_creation_rate=50.0).error_code == 0
    assert json.loads(broker.zookeeper.data("/config/ips/10.0.0.1"))["config"] == {"connection_creation_rate": "5"}
    assert described(broker, ("ip", 0, "10.0.0.1")) == ["ip=10.0.0.1"]
    assert described(broker, ("ip", 1, None)) == ["ip=None"]


@pytest.mark.parametrize(
    ("entity", "quotas", "message"),
    [
        ([], {}, "Invalid empty client quota entity"),
        ([("user", "")], {}, "Empty user not supported"),
        ([("group", "g")], {}, "Unhandled client quota entity type: group"),
        (
            [("user", "alice"), ("ip", "10.0.0.1")],
            {},
            "Invalid quota entity combination, IP entity should not be used with user/client ID entity.",
        ),
        ([("ip", "no such host")], {}, "no such host is not a valid IP or resolvable host."),
        ([("ip", "<default>")], {}, "<default> is not a valid IP or resolvable host."),
        (ALICE, {"nonsense": 1.0}, "Invalid configuration key nonsense"),
        (ALICE, {"SCRAM-SHA-256": 1.0}, "Invalid configuration key SCRAM-SHA-256"),
        (ALICE, {"connection_creation_rate": 1.0}, "Invalid configuration key connection_creation_rate"),
        ([("ip", "10.0.0.1")], {"producer_byte_rate": 1.0}, "Invalid configuration key producer_byte_rate"),
        (ALICE, {"producer_byte_rate": 1.5}, "Configuration producer_byte_rate must be a LONG value"),
        (ALICE, {"producer_byte_rate": float("inf")}, "Configuration producer_byte_rate must be a LONG value"),
        (ALICE, {"producer_byte_rate": float("nan")}, "Configuration producer_byte_rate must be a LONG value"),
        (
            [("ip", None)],
            {"connection_creation_rate": 0.5},
            "Configuration connection_creation_rate must be a INT value",
        ),
    ],
)
def test_what_is_no_quota_is_refused(entity: Entity, quotas: dict[str, Any], message: str) -> None:
    broker = FakeBroker()
    answer = alter(broker, entity, **quotas)
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, message)
    assert not [path for path in broker.zookeeper.paths("/config/changes") if "config_change_" in path]


@pytest.fixture
def broker() -> FakeBroker:
    """One entity of each form."""
    broker = FakeBroker()
    for entity in (
        [("user", "alice")],
        [("user", None)],
        [("user", "alice"), ("client-id", "c1")],
        [("user", None), ("client-id", None)],
        [("client-id", "c1")],
        [("client-id", None)],
    ):
        alter(broker, entity, producer_byte_rate=1.0)
    alter(broker, [("ip", "10.0.0.1")], connection_creation_rate=1.0)
    deferred(broker.config_store.set_entity("users", "bob", {"SCRAM-SHA-256": "hush"}))
    deferred(broker.client.create("/config/users/carol", b"{"))
    return broker


EXACT, DEFAULT, ANY = 0, 1, 2


@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        (
            [],
            False,
            "client-id=None client-id=c1 ip=10.0.0.1 user=None user=None,client-id=None user=alice "
            "user=alice,client-id=c1",
        ),
        ([], True, ""),
        ([("user", EXACT, "alice")], False, "user=alice user=alice,client-id=c1"),
        ([("user", EXACT, "alice")], True, "user=alice"),
        ([("user", DEFAULT, None)], False, "user=None user=None,client-id=None"),
        ([("user", ANY, None)], True, "user=None user=alice"),
        ([("client-id", EXACT, "c1")], False, "client-id=c1 user=alice,client-id=c1"),
        ([("client-id", ANY, None)], True, "client-id=None client-id=c1"),
        ([("user", ANY, None), ("client-id", ANY, None)], True, "user=None,client-id=None user=alice,client-id=c1"),
        ([("user", EXACT, "bob")], False, ""),
        ([("ip", ANY, None)], True, "ip=10.0.0.1"),
        ([("ip", DEFAULT, None)], False, ""),
    ],
)
def test_a_filter_names_what_it_wants(
    broker: FakeBroker, components: list[tuple[str, int, str | None]], strict: bool, expected: str
) -> None:
    assert described(broker, *components, strict=strict) == sorted(expected.split())


@pytest.mark.parametrize(
    ("components", "error", "message"),
    [
        ([("", EXACT, "x")], ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type"),
        ([("group", EXACT, "x")], ErrorCode.UNSUPPORTED_VERSION, "Custom entity type 'group' not supported"),
        ([("user", ANY, None)] * 2, ErrorCode.INVALID_REQUEST, "Duplicate user filter component entity type"),
        ([("client-id", ANY, None)] * 2, ErrorCode.INVALID_REQUEST, "Duplicate client filter component entity type"),
        ([("user", 7, None)], ErrorCode.INVALID_REQUEST, "Unexpected match type: 7"),
        (
            [("user", ANY, None), ("ip", ANY, None)],
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination, IP filter component should not be used with user or "
            "clientId filter component.",
        ),
    ],
)
def test_a_wrong_filter_is_refused(
    components: list[tuple[str, int, str | None]], error: ErrorCode, message: str
) -> None:
    response = describe(FakeBroker(), *components)
    assert (response.error_code, response.error_message, response.entries) == (error, message, None)

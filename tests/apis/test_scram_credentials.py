"""SCRAM credentials written and described by requests. The texts are those of Kafka 3.9."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import deferred
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.security.scram_alterations import Upsertion
from kafkalite.security.scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512, ScramCredential

from .helpers import FakeBroker, struct

SHA_256, SHA_512 = 1, 2
SALT = b"0123456789"


def upsertion(user: str, mechanism: int = SHA_256, iterations: int = 4096, password: str = "wonder") -> Any:
    kind = SCRAM_SHA_512 if mechanism == SHA_512 else SCRAM_SHA_256
    return struct(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        "ScramCredentialUpsertion",
        0,
        name=user,
        mechanism=mechanism,
        iterations=iterations,
        salt=SALT,
        salted_password=kind.salted_password(password, SALT, max(1, iterations)),
    )


def deletion(user: str, mechanism: int = SHA_256) -> Any:
    return struct(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "ScramCredentialDeletion", 0, name=user, mechanism=mechanism)


def alter(broker: FakeBroker, *changes: Any) -> dict[str, tuple[int, str | None]]:
    answer = broker.call(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        upsertions=[each for each in changes if hasattr(each, "iterations")],
        deletions=[each for each in changes if not hasattr(each, "iterations")],
    )
    return {each.user: (each.error_code, each.error_message) for each in answer.results}


def describe(broker: FakeBroker, *users: str) -> dict[str, tuple[int, str | None, list[tuple[int, int]]]]:
    names = [struct(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "UserName", 0, name=user) for user in users]
    answer = broker.call(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=names or None)
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, "")
    return {
        each.user: (
            each.error_code,
            each.error_message,
            [(info.mechanism, info.iterations) for info in each.credential_infos],
        )
        for each in answer.results
    }


def overrides(broker: FakeBroker, name: str) -> dict[str, str]:
    found: list[dict[str, str]] = []
    deferred(broker.config_store.entity("users", name)).addCallback(found.append)
    return found[0]


def write(broker: FakeBroker, name: str, texts: dict[str, str]) -> None:
    deferred(broker.config_store.set_entity("users", name, texts))


def test_credentials_are_written_as_kafka_writes_them_beside_the_quotas_and_brokers_are_told() -> None:
    broker = FakeBroker()
    write(broker, "CN%3Dalice", {"producer_byte_rate": "7"})
    assert alter(broker, upsertion("CN=alice"), upsertion("CN=alice", SHA_512, 8192)) == {"CN=alice": (0, "")}
    texts = overrides(broker, "CN%3Dalice")
    assert texts.pop("producer_byte_rate") == "7"
    assert texts == {
        "SCRAM-SHA-256": ScramCredential.from_password(SCRAM_SHA_256, "wonder", SALT, 4096).text(),
        "SCRAM-SHA-512": ScramCredential.from_password(SCRAM_SHA_512, "wonder", SALT, 8192).text(),
    }
    assert describe(broker, "CN=alice") == {"CN=alice": (0, "", [(SHA_256, 4096), (SHA_512, 8192)])}
    assert alter(broker, deletion("CN=alice", SHA_512)) == {"CN=alice": (0, "")}
    assert describe(broker) == {"CN=alice": (0, "", [(SHA_256, 4096)])}
    assert len([path for path in broker.zookeeper.paths("/config/changes") if "config_change_" in path]) == 3


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ([upsertion("")], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        ([deletion("")], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        ([upsertion("u", 3)], ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        ([deletion("u", 0)], ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        ([upsertion("u", iterations=16385)], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        ([upsertion("u", iterations=4095)], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        ([upsertion("u"), upsertion("u", SHA_512, 1)], ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (
            [upsertion("u"), upsertion("u")],
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        ),
        (
            [upsertion("u"), deletion("u")],
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        ),
        (
            [upsertion("u"), deletion("u", SHA_512)],
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        ),
    ],
)
def test_one_wrong_change_refuses_all_of_its_user_and_no_other(changes: list[Any], code: ErrorCode, text: str) -> None:
    broker = FakeBroker()
    user = changes[0].name
    assert alter(broker, *changes, upsertion("other")) == {user: (code, text), "other": (0, "")}
    assert list(describe(broker)) == ["other"]


def test_credentials_are_altered_by_the_controller() -> None:
    broker = FakeBroker()
    broker.controller.is_active = False
    refused = (ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster.")
    assert alter(broker, upsertion("u"), deletion("v")) == {"u": refused, "v": refused}
    assert describe(broker) == {}


def test_users_that_cannot_be_described() -> None:
    broker = FakeBroker()
    write(broker, "quotas", {"producer_byte_rate": "7"})
    write(broker, "broken", {"SCRAM-SHA-256": "salt=planted"})
    write(broker, "<default>", {"producer_byte_rate": "7"})
    not_found, twice = ErrorCode.RESOURCE_NOT_FOUND, ErrorCode.DUPLICATE_RESOURCE
    prefix = "Attempt to describe a user credential that does not exist: "
    assert describe(broker, "quotas", "nobody", "", "twice", "twice", "broken") == {
        "quotas": (not_found, f"{prefix}quotas", []),
        "nobody": (not_found, f"{prefix}nobody", []),
        "": (not_found, "Username must not be empty", []),
        "twice": (twice, "Cannot describe SCRAM credentials for the same user twice in a single request: twice", []),
        "broken": (
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Error processing describe user SCRAM credential configs request",
            [],
        ),
    }


def test_a_password_is_not_shown() -> None:
    assert "planted" not in repr(Upsertion("u", 1, 4096, b"planted", b"planted"))

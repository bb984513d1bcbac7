"""UpdateFeatures and the delegation token requests: features that are off, refused as Kafka refuses them."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.protocol.api_keys import SUPPORTED, ApiKey

from .helpers import FakeBroker, struct

NOT_SUPPORTED = "Could not apply finalized feature update because the provided feature is not supported."
NO_DELETION = "Can not delete non-existing finalized feature."
TOO_LOW = "Can not provide versionLevel: 0 less than 1 without setting the SAFE downgradeType in the request."


@pytest.mark.parametrize(
    ("version", "fields", "message"),
    [
        (0, {"feature": "f", "max_version_level": 1, "allow_downgrade": False}, NOT_SUPPORTED),
        (0, {"feature": "f", "max_version_level": 0, "allow_downgrade": False}, TOO_LOW),
        (0, {"feature": "f", "max_version_level": 0, "allow_downgrade": True}, NO_DELETION),
        (1, {"feature": "f", "max_version_level": 1, "upgrade_type": 1}, NOT_SUPPORTED),
        (1, {"feature": "f", "max_version_level": 1, "upgrade_type": 2}, NOT_SUPPORTED),
        (1, {"feature": "f", "max_version_level": 0, "upgrade_type": 1}, TOO_LOW),
        (1, {"feature": "f", "max_version_level": 0, "upgrade_type": 3}, NO_DELETION),
        (1, {"feature": "f", "max_version_level": 1, "upgrade_type": 4}, "Received unknown upgrade type."),
        (1, {"feature": "", "max_version_level": 1, "upgrade_type": 4}, "Feature name can not be empty."),
    ],
)
def test_no_feature_can_be_updated(version: int, fields: dict[str, Any], message: str) -> None:
    update = struct(ApiKey.UPDATE_FEATURES, "FeatureUpdateKey", version, **fields)
    answer = FakeBroker().call(ApiKey.UPDATE_FEATURES, version, timeout_ms=1000, feature_updates=[update])
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
    assert [(r.feature, r.error_code, r.error_message) for r in answer.results] == [
        (fields["feature"], ErrorCode.INVALID_REQUEST, message)
    ]


def test_features_are_the_controllers() -> None:
    broker = FakeBroker()
    broker.controller.is_active = False
    answer = broker.call(ApiKey.UPDATE_FEATURES, 1, timeout_ms=1000, feature_updates=[], validate_only=False)
    assert answer.error_code == ErrorCode.NOT_CONTROLLER
    assert answer.error_message == "This is not the correct controller for this cluster."


@pytest.mark.parametrize(
    ("api_key", "fields"),
    [
        (ApiKey.CREATE_DELEGATION_TOKEN, {"renewers": [], "max_lifetime_ms": -1}),
        (ApiKey.RENEW_DELEGATION_TOKEN, {"hmac": b"h", "renew_period_ms": -1}),
        (ApiKey.EXPIRE_DELEGATION_TOKEN, {"hmac": b"h", "expiry_time_period_ms": -1}),
        (ApiKey.DESCRIBE_DELEGATION_TOKEN, {"owners": None}),
    ],
)
def test_clients_that_did_not_authenticate_have_no_tokens(api_key: ApiKey, fields: dict[str, Any]) -> None:
    for version in range(SUPPORTED[api_key].max + 1):
        answer = FakeBroker().call(api_key, version, **fields)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        if api_key is ApiKey.CREATE_DELEGATION_TOKEN:
            assert (answer.principal_type, answer.principal_name) == ("User", "ANONYMOUS")
            assert (answer.token_id, answer.hmac, answer.expiry_timestamp_ms) == ("", b"", -1)


@pytest.mark.parametrize(
    ("owner_type", "owner", "expected"),
    [("User", "bob", ("User", "bob")), ("User", "", ("User", "ANONYMOUS")), (None, None, ("User", "ANONYMOUS"))],
)
def test_a_token_for_another_owner_is_refused_in_the_owners_name(
    owner_type: str | None, owner: str | None, expected: tuple[str, str]
) -> None:
    answer = FakeBroker().call(
        ApiKey.CREATE_DELEGATION_TOKEN,
        3,
        owner_principal_type=owner_type,
        owner_principal_name=owner,
        renewers=[],
        max_lifetime_ms=-1,
    )
    assert (answer.principal_type, answer.principal_name) == expected
    assert (answer.token_requester_principal_type, answer.token_requester_principal_name) == ("User", "ANONYMOUS")

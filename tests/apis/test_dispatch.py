"""Dispatch: versions, failures, and the shape of their answers."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kafkalite.apis.error_responses import error_response
from kafkalite.apis.registry import served
from kafkalite.common.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import SUPPORTED, ApiKey
from kafkalite.protocol.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    request_class,
    response_class,
)

from .helpers import FakeBroker, struct

HOT = (ApiKey.PRODUCE, ApiKey.FETCH)
SERVED = {key: api.versions for key, api in served().items()}
EVERY_VERSION = [(key, version) for key, span in SERVED.items() for version in range(span.min, span.max + 1)]


def test_api_versions_advertises_the_registry_in_every_version() -> None:
    broker = FakeBroker()
    for version in range(5):
        fields = {} if version < 3 else {"client_software_name": "lib-x", "client_software_version": "1.0"}
        response = broker.call(ApiKey.API_VERSIONS, version, **fields)
        assert response.error_code == 0
        told = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}
        assert told == {int(key): tuple(span) for key, span in SERVED.items()}
    assert broker.connection.info.software_name == "lib-x"


def test_an_unknown_version_of_api_versions_is_answered_in_version_0() -> None:
    broker = FakeBroker()
    broker.send(ApiKey.API_VERSIONS, 99, b"anything")
    response = decode_response(ApiKey.API_VERSIONS, 0, memoryview(broker.take()))
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(key.api_key, key.max_version) for key in response.api_keys] == [(18, 4)]


@pytest.mark.parametrize("name", ["", "-x", "a b", "x" * 3 + "\n"])
def test_a_client_that_does_not_say_who_it_is_is_refused(name: str) -> None:
    broker = FakeBroker()
    request = messages.ApiVersionsRequest(version=3, client_software_name=name, client_software_version="1")
    broker.send(ApiKey.API_VERSIONS, 3, encode_request(ApiKey.API_VERSIONS, 3, request))
    assert broker.take()[:2] == b"\0\x2a"


@pytest.mark.parametrize(
    ("key", "version"),
    [(0, 12), (0, -1), (1, 18), (3, 13), (3, -1), (999, 0), (-5, 0), (ApiKey.ENVELOPE, 0), (ApiKey.LEADER_AND_ISR, 7)],
)
def test_what_is_not_served_closes_the_connection(key: int, version: int) -> None:
    broker = FakeBroker()
    broker.send(key, version, bytes(64))
    assert broker.connection.closed
    assert not broker.connection.answers


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.CREATE_TOPICS])
def test_bytes_that_are_no_request_close_the_connection(key: ApiKey) -> None:
    broker = FakeBroker()
    broker.send(key, SERVED[key].max, b"\x7f\xff\xff")
    assert len(broker.connection.closed) == 1
    assert not broker.connection.answers


def test_an_unexpected_failure_is_answered_without_its_details(caplog: pytest.LogCaptureFixture) -> None:
    broker = FakeBroker()
    with caplog.at_level(logging.ERROR):
        response = broker.call(
            ApiKey.ELECT_LEADERS,
            2,
            election_type=1,
            topic_partitions=[struct(ApiKey.ELECT_LEADERS, "TopicPartitions", 2, topic="t", partitions=[0])],
            timeout_ms=0,
        )
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "secret detail" not in repr(response)
    assert "secret detail" in caplog.text


def test_every_served_key_has_a_handler_and_supported_versions() -> None:
    for key, span in SERVED.items():
        assert span == SUPPORTED[key]
        if key not in HOT:
            assert callable(served()[key].handler), key


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
def test_an_error_has_a_shape_in_every_version(key: ApiKey, version: int) -> None:
    response = error_response(key, version, None, ErrorCode.NOT_CONTROLLER, "why")
    assert encode_response(key, version, response) is not None


def topic(key: ApiKey, version: int, name: str, /, **fields: Any) -> Any:
    return struct(key, name, version, **fields)


@pytest.mark.parametrize(
    ("key", "version", "fields", "find"),
    [
        (
            ApiKey.CREATE_TOPICS,
            4,
            {"topics": [topic(ApiKey.CREATE_TOPICS, 4, "CreatableTopic", name="x", assignments=[], configs=[])]},
            lambda r: [(t.name, t.error_code, t.error_message) for t in r.topics] == [("x", 41, "why")],
        ),
        (
            ApiKey.DELETE_TOPICS,
            3,
            {"topic_names": ["x", "y"]},
            lambda r: [(t.name, t.error_code) for t in r.responses] == [("x", 41), ("y", 41)],
        ),
        (
            ApiKey.LIST_OFFSETS,
            5,
            {
                "topics": [
                    topic(
                        ApiKey.LIST_OFFSETS,
                        5,
                        "ListOffsetsTopic",
                        name="x",
                        partitions=[
                            topic(
                                ApiKey.LIST_OFFSETS,
                                5,
                                "ListOffsetsTopic.ListOffsetsPartition",
                                partition_index=3,
                                current_leader_epoch=1,
                                timestamp=-1,
                            )
                        ],
                    )
                ]
            },
            lambda r: (
                [(t.name, p.partition_index, p.error_code) for t in r.topics for p in t.partitions] == [("x", 3, 41)]
            ),
        ),
        (
            ApiKey.ELECT_LEADERS,
            0,
            {"topic_partitions": [topic(ApiKey.ELECT_LEADERS, 0, "TopicPartitions", topic="x", partitions=[1, 2])]},
            lambda r: (
                [
                    (t.topic, p.partition_id, p.error_code)
                    for t in r.replica_election_results
                    for p in t.partition_result
                ]
                == [("x", 1, 41), ("x", 2, 41)]
            ),
        ),
        (
            ApiKey.DESCRIBE_CONFIGS,
            2,
            {
                "resources": [
                    topic(ApiKey.DESCRIBE_CONFIGS, 2, "DescribeConfigsResource", resource_type=2, resource_name="x")
                ]
            },
            lambda r: [(x.resource_type, x.resource_name, x.error_code) for x in r.results] == [(2, "x", 41)],
        ),
    ],
)
def test_where_there_is_no_error_for_the_whole_every_element_has_it(
    key: ApiKey, version: int, fields: dict[str, Any], find: Any
) -> None:
    request = request_class(key)(version=version, **fields)
    decoded = decode_request(key, version, memoryview(encode_request(key, version, request)))
    response = error_response(key, version, decoded, ErrorCode.NOT_CONTROLLER, "why")
    assert find(decode_response(key, version, memoryview(encode_response(key, version, response))))


# trap: kafkalite/apis/sasl_handshake.py: SaslHandshake on a PLAINTEXT listener must answer ILLEGAL_SASL_STATE.
@pytest.mark.parametrize(
    ("key", "fields", "code"),
    [
        (ApiKey.DESCRIBE_ACLS, {}, ErrorCode.SECURITY_DISABLED),
        (ApiKey.SASL_HANDSHAKE, {"mechanism": "PLAIN"}, ErrorCode.ILLEGAL_SASL_STATE),
    ],
)
def test_what_is_not_there_is_answered_with_kafkas_error(key: ApiKey, fields: dict[str, Any], code: ErrorCode) -> None:
    broker = FakeBroker()
    response = broker.call(key, 0, **fields)
    assert response.error_code == code


def test_response_classes_exist_for_all() -> None:
    for key in SERVED:
        assert response_class(key) is not None

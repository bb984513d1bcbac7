"""Requests and responses as values: kafka-python's message classes, checked as Kafka 3.9 checks them.

Answers to: ``org.apache.kafka.common.requests.AbstractRequest.parseRequest`` and the generated messages. Pure.

The library's schemas reach from version 0 to beyond what 3.9 serves and agree with 3.9.1's own message classes
byte for byte (``tests/protocol/data/golden.txt`` holds bytes that those wrote). What the library lacks is
distrust: it takes strings that run past the end, nulls where there may be none and varints of any length.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from kafkalite.protocol.api_keys import ApiKey, is_flexible
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.library import protocol_module

MAX_BODY = 1 << 24
"""Longest body, in bytes, that is decoded here: values take many times the memory of their bytes."""

_MODULES: dict[str, tuple[str, ...]] = {
    "admin.acl": ("CreateAcls", "DeleteAcls", "DescribeAcls"),
    "admin.client_quotas": ("AlterClientQuotas", "DescribeClientQuotas"),
    "admin.cluster": ("AlterReplicaLogDirs", "DescribeCluster", "DescribeLogDirs", "DescribeQuorum", "UpdateFeatures"),
    "admin.configs": ("AlterConfigs", "DescribeConfigs", "IncrementalAlterConfigs"),
    "admin.groups": ("DeleteGroups", "DescribeGroups", "ListGroups"),
    "admin.topics": (
        "AlterPartitionReassignments",
        "CreatePartitions",
        "CreateTopics",
        "DeleteRecords",
        "DeleteTopics",
        "ElectLeaders",
        "ListPartitionReassignments",
    ),
    "admin.transactions": ("DescribeProducers", "DescribeTransactions", "ListTransactions"),
    "admin.users": ("AlterUserScramCredentials", "DescribeUserScramCredentials"),
    "consumer.fetch": ("Fetch",),
    "consumer.group": (
        "Heartbeat",
        "JoinGroup",
        "LeaveGroup",
        "OffsetCommit",
        "OffsetDelete",
        "OffsetFetch",
        "SyncGroup",
    ),
    "consumer.offsets": ("ListOffsets", "OffsetForLeaderEpoch"),
    "metadata.api_versions": ("ApiVersions",),
    "metadata.find_coordinator": ("FindCoordinator",),
    "metadata.metadata": ("Metadata",),
    "producer.produce": ("Produce",),
    "producer.transaction": (
        "AddOffsetsToTxn",
        "AddPartitionsToTxn",
        "EndTxn",
        "InitProducerId",
        "TxnOffsetCommit",
        "WriteTxnMarkers",
    ),
    "sasl": ("SaslAuthenticate", "SaslHandshake"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
_OWN = frozenset(("CreateDelegationToken", "DescribeDelegationToken", "ExpireDelegationToken", "RenewDelegationToken"))
"""Messages that the library lacks; their schemas are ours."""

# The library reads a varint until a byte below 0x80 comes and shifts what it has by seven bits each time: a
# megabyte of 0xff would take minutes. No honest text is that long without one ASCII character.
_ENDLESS = re.compile(rb"[\x80-\xff]{8192}")

_Check = Callable[[Any], None]
_decoders: dict[tuple[str, int], tuple[Callable[[Any, int], tuple[Any, int]], _Check | None]] = {}
_encoders: dict[tuple[str, int], Callable[[Any, Any], None]] = {}


def message_name(api_key: int) -> str:
    """Kafka's name of the request without its suffix: ``ListOffsets``. Raises ``ValueError`` for unknown keys."""
    return ApiKey(api_key).name.title().replace("_", "")


def _message_class(api_key: int, suffix: str) -> Any:
    name = message_name(api_key)
    if name in _OWN:
        return _own_class(name + suffix)
    module = _MODULE_OF.get(name)
    if module is None:
        raise LookupError(f"there is no codec for {name}")
    return getattr(protocol_module(module), name + suffix)


@cache
def _own_class(name: str) -> Any:
    """A class as the library would make it, from our schema."""
    base = protocol_module("api_message").ApiMessage
    return type(base)(name, (base,), {}, load_json="kafkalite.protocol.messages")


def request_class(api_key: int) -> Any:
    """kafka-python's class of the request; fields under the library's names."""
    return _message_class(api_key, "Request")


def response_class(api_key: int) -> Any:
    """kafka-python's class of the response; nested structures are its attributes."""
    return _message_class(api_key, "Response")


def decode_request(api_key: int, version: int, body: memoryview) -> Any:
    """The request in ``body``. A topic id of zero is read as ``None``. Raises :class:`ProtocolError`."""
    return _decode(api_key, "Request", version, body)


def decode_response(api_key: int, version: int, body: memoryview) -> Any:
    """The response in ``body``. Raises :class:`ProtocolError`."""
    if api_key == ApiKey.API_VERSIONS and bytes(body[:2]) != b"\0\0":
        # A broker that does not know the version asked for answers in the oldest one.
        version = 0
    return _decode(api_key, "Response", version, body)


def encode_request(api_key: int, version: int, message: Any) -> bytes:
    """The body of a request. Fields that the version does not have are left out."""
    return _encode(api_key, "Request", version, message)


def encode_response(api_key: int, version: int, message: Any) -> bytes:
    """The body of a response. Fields that the version does not have are left out."""
    return _encode(api_key, "Response", version, message)


def _decode(api_key: int, suffix: str, version: int, body: memoryview) -> Any:
    name = message_name(api_key) + suffix
    size = len(body)
    if size > MAX_BODY:
        raise ProtocolError(f"{name} of {size} bytes (at most {MAX_BODY} are decoded)")
    decoder = _decoders.get((name, version))
    flexible = is_flexible(api_key, version)
    if decoder is None:
        cls = _message_class(api_key, suffix)
        decode = cls._struct.compiled_decode_from(version, compact=flexible, tagged=flexible, data_class=cls[None])
        decoder = _decoders[name, version] = decode, _null_check(cls._struct, version, name)
    if flexible and size > 8192 and _ENDLESS.search(body):
        raise ProtocolError(f"{name} v{version}: an endless varint")
    try:
        message, end = decoder[0](body, 0)
    except (struct.error, IndexError, ValueError, OverflowError, AssertionError) as error:
        raise ProtocolError(f"{name} v{version} cannot be decoded: {error}") from None
    if end > size:
        raise ProtocolError(f"{name} v{version} is cut short")
    if decoder[1] is not None:
        decoder[1](message)
    return message


def _encode(api_key: int, suffix: str, version: int, message: Any) -> bytes:
    name = message_name(api_key) + suffix
    encoder = _encoders.get((name, version))
    if encoder is None:
        flexible = is_flexible(api_key, version)
        cls = _message_class(api_key, suffix)
        encoder = cls._struct.compiled_encode_into(version, compact=flexible, tagged=flexible)
        _encoders[name, version] = encoder
    # Its own buffer each time: the library's shared one stays as large as the largest message ever was.
    out = protocol_module("schemas.fields.codecs").EncodeBuffer(1024)
    encoder(message, out)
    return bytes(memoryview(out.buf)[: out.pos])


def _null_check(fields: Any, version: int, where: str) -> _Check | None:
    """A check of everything under ``fields`` (a structure of the library's) that may not be null."""
    required: list[str] = []
    nested: list[tuple[str, bool, _Check]] = []
    for field in fields.untagged_fields(version):
        many = field.is_array() or field.is_struct_array()
        may_be_null = field.nullable_for_version_q(version)
        if not may_be_null and (many or field.is_struct() or field._type_str in ("string", "bytes")):
            required.append(field.name)
        if field.is_struct_array() or field.is_struct():
            check = _null_check(field, version, f"{where}.{field.name}")
            if check is not None:
                nested.append((field.name, field.is_struct_array(), check))
    if not required and not nested:
        return None

    def check_all(value: Any) -> None:
        for name in required:
            if getattr(value, name) is None:
                raise ProtocolError(f"{where}.{name} must not be null")
        for name, many, check in nested:
            inner = getattr(value, name)
            if inner is None:
                continue
            if not many:
                check(inner)
                continue
            for item in inner:
                check(item)

    return check_all

"""Requests and responses as values: kafka-python's message classes, checked as Kafka 3.9 checks them.

Answers to: ``org.apache.kafka.common.requests.AbstractRequest.parseRequest`` and the generated messages. Pure.

The library's schemas reach from version 0 to beyond what 3.9 serves and agree with 3.9.1's own message classes
byte for byte (``tests/protocol/data/golden.txt`` holds bytes that those wrote). What the library lacks is
distrust: it takes strings that run past the end, nulls where there may be none and varints of any length. Its readers
copy the rest of the message for every structure with tagged fields: ours take their place.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any, Protocol

from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey, is_flexible
from kafkalite.protocol.errors import ProtocolError
from kafkalite.protocol.library import protocol_module
from kafkalite.protocol.wire import read_tags

MAX_BODY = 1 << 24
"""Longest body, in bytes, that is decoded here: values take many times the memory of their bytes."""

# The library reads a varint until a byte below 0x80 comes and shifts what it has by seven bits each time: a
# megabyte of 0xff would take minutes. No honest text is that long without one ASCII character.
_ENDLESS = re.compile(rb"[\x80-\xff]{8192}")


class _EncodeBuffer(Protocol):
    """The library's buffer that a message is written to."""

    buf: bytearray
    pos: int


class _TaggedFields(Protocol):
    """The tagged fields of a structure in one version."""

    _tags: Mapping[int, Any]


class _CodegenContext(Protocol):
    """The library's writer of the source of a reader; ``globs`` are the names that it may use."""

    globs: dict[str, object]

    def next_var(self, prefix: str) -> str: ...
    def emit(self, indent: str, line: str) -> None: ...


_Check = Callable[[object], None]
_decoders: dict[tuple[str, int], tuple[Callable[[memoryview, int], tuple[messages.Message, int]], _Check | None]] = {}
_encoders: dict[tuple[str, int], Callable[[object, _EncodeBuffer], None]] = {}


def request_class(api_key: int) -> type[messages.Message]:
    """kafka-python's class of the request; fields under the library's names."""
    return messages.message_class(messages.message_name(api_key) + "Request")


def response_class(api_key: int) -> type[messages.Message]:
    """kafka-python's class of the response; nested structures are its attributes."""
    return messages.message_class(messages.message_name(api_key) + "Response")


def decode_request(api_key: int, version: int, body: memoryview) -> messages.Message:
    """The request in ``body``. A topic id of zero is read as ``None``. Raises :class:`ProtocolError`."""
    request: messages.Message = _decode(api_key, "Request", version, body)
    return request


def decode_response(api_key: int, version: int, body: memoryview) -> Any:
    """The response in ``body``. Raises :class:`ProtocolError`."""
    if api_key == ApiKey.API_VERSIONS and bytes(body[:2]) != b"\0\0":
        # A broker that does not know the version asked for answers in the oldest one.
        version = 0
    return _decode(api_key, "Response", version, body)


def encode_request(api_key: int, version: int, message: messages.Message) -> bytes:
    """The body of a request. Fields that the version does not have are left out."""
    return _encode(api_key, "Request", version, message)


def encode_response(api_key: int, version: int, message: object) -> bytes:
    """The body of a response. Fields that the version does not have are left out."""
    return _encode(api_key, "Response", version, message)


def _decode(api_key: int, suffix: str, version: int, body: memoryview) -> Any:
    name = messages.message_name(api_key) + suffix
    size = len(body)
    if size > MAX_BODY:
        raise ProtocolError(f"{name} of {size} bytes (at most {MAX_BODY} are decoded)")
    decoder = _decoders.get((name, version))
    flexible = is_flexible(api_key, version)
    if decoder is None:
        cls: Any = messages.message_class(name)
        protocol_module("schemas.fields.struct").StructField._emit_tagged_decode = _emit_tagged_decode
        decode = cls._struct.compiled_decode_from(version, compact=flexible, tagged=flexible, data_class=cls[None])
        decoder = _decoders[name, version] = decode, _null_check(cls._struct, version, name)
    if flexible and size > 8192 and _ENDLESS.search(body):
        raise ProtocolError(f"{name} v{version}: an endless varint")
    try:
        message, end = decoder[0](body, 0)
    except (ProtocolError, struct.error, IndexError, ValueError, OverflowError, AssertionError) as error:
        raise ProtocolError(f"{name} v{version} cannot be decoded: {error}") from None
    if end > size:
        raise ProtocolError(f"{name} v{version} is cut short")
    if decoder[1] is not None:
        decoder[1](message)
    return message


def _encode(api_key: int, suffix: str, version: int, message: object) -> bytes:
    name = messages.message_name(api_key) + suffix
    encoder = _encoders.get((name, version))
    if encoder is None:
        flexible = is_flexible(api_key, version)
        cls: Any = messages.message_class(name)
        encoder = cls._struct.compiled_encode_into(version, compact=flexible, tagged=flexible)
        _encoders[name, version] = encoder
    # Its own buffer each time: the library's shared one stays as large as the largest message ever was.
    out = protocol_module("schemas.fields.codecs").EncodeBuffer(1024)
    encoder(message, out)
    return bytes(memoryview(out.buf)[: out.pos])


def _emit_tagged_decode(field: Any, context: _CodegenContext, into: str, indent: str, version: int) -> None:
    """Write the call of :func:`_read_tagged_fields` into the reader of the structure ``field``."""
    tagged = context.next_var("tf")
    context.globs[tagged] = field.tagged_fields(version)
    context.globs["_read_tagged_fields"] = _read_tagged_fields
    context.emit(indent, f"pos = _read_tagged_fields(data, pos, {tagged}, {version}, {into})")


def _read_tagged_fields(data: memoryview, pos: int, tagged: _TaggedFields, version: int, into: object) -> int:
    """Set the known tagged fields of ``into``, skip the unknown ones; returns the position behind them."""
    values, pos = read_tags(data, pos, tagged._tags)
    for tag, value in values.items():
        field = tagged._tags[tag]
        setattr(into, field.name, field.decode(BytesIO(value), version=version, compact=True, tagged=None))
    return pos


def _null_check(fields: messages.Field, version: int, where: str) -> _Check | None:
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

    def check_all(value: object) -> None:
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

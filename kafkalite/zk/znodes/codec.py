"""JSON as Kafka's znodes have it, and names that clients choose as names of znodes. Errors name the malformed znode.

Answers to: ``kafka.utils.Json`` as ``kafka.zk.ZkData`` uses it. Kafka's ZooKeeper consumers put a group's name into
paths unchanged. Pure.

ZooKeeper's paths have no room for ``/``, for control characters, for what Java keeps in two chars, for empty names and
for ``.`` and ``..``. Such characters are written as ``%`` and two hex digits for each byte of their UTF-8, and so is
a ``%`` that would otherwise be read as such; every other name stays itself, which is what old consumers wrote.
"""

from __future__ import annotations

import json
import re
from typing import Final

_SHOWN = 100
"""Bytes of a malformed znode that are shown."""

JsonObject = dict[str, object]

_encode = json.JSONEncoder(separators=(",", ":")).encode


class MalformedZnodeError(ValueError):
    """The content of a znode is malformed; the text names the znode and the fault."""


def to_json(value: object) -> bytes:
    """``value`` as compact JSON."""
    return _encode(value).encode("utf-8")


def from_json(data: bytes, what: str) -> JsonObject:
    """The JSON object in ``data``. Raises :class:`MalformedZnodeError`, naming ``what``."""
    try:
        value = json.loads(data)
    except ValueError as error:
        raise MalformedZnodeError(f"{what}: not JSON: {error}: {data[:_SHOWN]!r}") from None
    if not isinstance(value, dict):
        raise MalformedZnodeError(f"{what}: not a JSON object: {data[:_SHOWN]!r}")
    return value


def integer(value: object, what: str) -> int:
    """An int that may be written as a string (Kafka's timestamps are). Raises :class:`MalformedZnodeError`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            pass
    raise MalformedZnodeError(f"{what}: not an integer: {value!r}")


def json_object(value: object, what: str) -> JsonObject:
    """A JSON object. Raises :class:`MalformedZnodeError`."""
    if not isinstance(value, dict):
        raise MalformedZnodeError(f"{what}: not an object: {value!r}")
    return value


def json_objects(value: object, what: str) -> list[JsonObject]:
    """A list of JSON objects. Raises :class:`MalformedZnodeError`."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise MalformedZnodeError(f"{what}: not a list of objects: {value!r}")
    return value


def integers(value: object, what: str) -> tuple[int, ...]:
    """A list of ints. Raises :class:`MalformedZnodeError`."""
    if not isinstance(value, list):
        raise MalformedZnodeError(f"{what}: not a list: {value!r}")
    return tuple(integer(item, what) for item in value)


# As org.apache.zookeeper.common.PathUtils.validatePath refuses them, char by char; beyond U+FFFF Java has surrogates.
_REFUSED: Final = "\\x00-\\x1f/\\x7f-\\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff"
_ESCAPED: Final = re.compile(f"[{_REFUSED}]|%(?=[0-9A-Fa-f]{{2}})")
_ESCAPE: Final = re.compile("(?:%[0-9A-F]{2})+")
_WHOLE: Final = {"": "%", "%": "%25", ".": "%2E", "..": "%2E%2E"}
_WHOLE_BACK: Final = {encoded: name for name, encoded in _WHOLE.items()}


def encode_name(name: str) -> str:
    """``name`` as the name of a znode. Different names never become the same."""
    whole = _WHOLE.get(name)
    if whole is not None:
        return whole
    return _ESCAPED.sub(lambda found: _escape(found.group()), name)


def decode_name(encoded: str) -> str:
    """The reverse of :func:`encode_name`; a name that it would not have written is returned unchanged."""
    whole = _WHOLE_BACK.get(encoded)
    if whole is not None:
        return whole
    if "%" not in encoded:
        return encoded
    try:
        name = _ESCAPE.sub(lambda found: bytes.fromhex(found.group().replace("%", "")).decode("utf-8"), encoded)
    except UnicodeDecodeError:
        return encoded
    return name if encode_name(name) == encoded else encoded


def _escape(text: str) -> str:
    # A lone surrogate is no valid text; it is encoded nevertheless, so that a client with such a name can be served.
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))

"""JSON as Kafka's znodes have it: compact, with checks that name the znode at fault.

Answers to: ``kafka.utils.Json`` as ``kafka.zk.ZkData`` uses it. Pure.
"""

from __future__ import annotations

import json
from typing import Any

_SHOWN = 100
"""Bytes of a malformed znode that are shown."""

_encode = json.JSONEncoder(separators=(",", ":")).encode


class MalformedZnodeError(ValueError):
    """A znode holds what its reader cannot understand; the text names the znode and what is wrong."""


def to_json(value: object) -> bytes:
    """``value`` as compact JSON."""
    return _encode(value).encode("utf-8")


def from_json(data: bytes, what: str) -> dict[str, Any]:
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


def integers(value: object, what: str) -> tuple[int, ...]:
    """A list of ints. Raises :class:`MalformedZnodeError`."""
    if not isinstance(value, list):
        raise MalformedZnodeError(f"{what}: not a list: {value!r}")
    return tuple(integer(item, what) for item in value)

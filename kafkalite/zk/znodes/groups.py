"""``/consumers/<group>/generation``: a group's current generation, and its members beneath it.

Answers to: ``org.apache.kafka.coordinator.group.generated.GroupMetadataValue``, which real Kafka keeps in a topic.
Pure.

The number in ``generation`` is the name of the child whose children are the members. A new generation is staged beside
the current one, and the write of its number makes it the current one. Clients choose member ids, so the ids are encoded
as names of znodes.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import NamedTuple

from kafkalite.zk.znodes.codec import (
    JsonObject,
    MalformedZnodeError,
    encode_name,
    from_json,
    integer,
    json_objects,
    to_json,
)
from kafkalite.zk.znodes.consumers import group_path


class MemberRecord(NamedTuple):
    """A member as stored, with all that its next coordinator needs. Timeouts in milliseconds."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation. ``number`` 0: no member ever joined. ``leader`` and ``protocol`` are empty without members."""

    number: int
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    timestamp_ms: int = -1


def generation_path(group: str) -> str:
    """The znode that says which generation is current."""
    return f"{group_path(group)}/generation"


def members_path(group: str, number: int) -> str:
    """The container of one generation's members."""
    return f"{generation_path(group)}/{number}"


def member_path(group: str, number: int, member_id: str) -> str:
    """One member of one generation."""
    return f"{generation_path(group)}/{number}/{encode_name(member_id)}"


def encode_generation(generation: Generation) -> bytes:
    """The current generation (version 1)."""
    return to_json(
        {
            "version": 1,
            "generation": generation.number,
            "protocol_type": generation.protocol_type,
            "protocol": generation.protocol,
            "leader": generation.leader,
            "timestamp": str(generation.timestamp_ms),
        }
    )


def decode_generation(path: str, data: bytes) -> Generation:
    """The reverse. Raises :class:`MalformedZnodeError`."""
    value = from_json(data, path)
    return Generation(
        integer(value.get("generation"), f"{path} generation"),
        _text(value, "protocol_type", path),
        _text(value, "protocol", path),
        _text(value, "leader", path),
        integer(value.get("timestamp", -1), f"{path} timestamp"),
    )


def encode_member(member: MemberRecord) -> bytes:
    """A member (version 1); its id is the znode's name."""
    return to_json(
        {
            "version": 1,
            "instance_id": member.instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "session_timeout_ms": member.session_timeout_ms,
            "rebalance_timeout_ms": member.rebalance_timeout_ms,
            "protocols": [{"name": name, "metadata": _to_base64(data)} for name, data in member.protocols],
            "assignment": _to_base64(member.assignment),
        }
    )


def decode_member(path: str, member_id: str, data: bytes) -> MemberRecord:
    """The reverse. Raises :class:`MalformedZnodeError`."""
    value = from_json(data, path)
    protocols = json_objects(value.get("protocols"), f"{path}: protocols")
    return MemberRecord(
        member_id,
        None if value.get("instance_id") is None else _text(value, "instance_id", path),
        _text(value, "client_id", path),
        _text(value, "client_host", path),
        integer(value.get("session_timeout_ms"), f"{path} session_timeout_ms"),
        integer(value.get("rebalance_timeout_ms"), f"{path} rebalance_timeout_ms"),
        tuple((_text(item, "name", path), _from_base64(item, "metadata", path)) for item in protocols),
        _from_base64(value, "assignment", path),
    )


def _text(value: JsonObject, key: str, path: str) -> str:
    text = value.get(key)
    if not isinstance(text, str):
        raise MalformedZnodeError(f"{path}: {key}: not a text: {text!r}")
    return text


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _from_base64(value: JsonObject, key: str, path: str) -> bytes:
    try:
        return base64.b64decode(_text(value, key, path), validate=True)
    except binascii.Error as error:
        raise MalformedZnodeError(f"{path}: {key}: {error}") from None

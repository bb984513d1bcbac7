"""``/config``: overrides of topics, brokers, clients and users, and the notifications of their changes.

Answers to: ``kafka.zk.{ConfigEntityZNode,ConfigEntityChangeNotificationZNode}``. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkalite.zk.znodes.codec import MalformedZnodeError, from_json, json_object, to_json

CONFIG = "/config"
CHANGES = "/config/changes"
CHANGE_PREFIX = f"{CHANGES}/config_change_"
TOPICS, BROKERS, CLIENTS, USERS, IPS = "topics", "brokers", "clients", "users", "ips"
DEFAULT = "<default>"
"""Name of the entity whose overrides hold for all of its type."""


def config_path(entity_type: str, name: str) -> str:
    """Where the overrides of an entity stand, for example ``/config/topics/NAME``."""
    return f"{CONFIG}/{entity_type}/{name}"


def encode_config(config: Mapping[str, str]) -> bytes:
    """Overrides of one entity; every value is text."""
    return to_json({"version": 1, "config": dict(config)})


def decode_config(path: str, data: bytes) -> dict[str, str]:
    """The reverse; empty data means none. Raises :class:`MalformedZnodeError`."""
    if not data:
        return {}
    config = json_object(from_json(data, path).get("config"), f"{path}: config")
    return {name: str(value) for name, value in config.items()}


def encode_change(entity_path: str) -> bytes:
    """Notification (version 2) that ``entity_path``, for example ``topics/NAME``, was written."""
    return to_json({"version": 2, "entity_path": entity_path})


def decode_change(data: bytes) -> str:
    """The entity path of a notification of version 1 or 2. Raises :class:`MalformedZnodeError`."""
    value = from_json(data, CHANGES)
    path = value.get("entity_path")
    if path is None and "entity_type" in value:
        path = f"{value['entity_type']}/{value.get('entity_name', '')}"
    if not isinstance(path, str) or "/" not in path:
        raise MalformedZnodeError(f"{CHANGES}: not an entity path: {path!r}")
    return path

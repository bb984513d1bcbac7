"""Entities of quotas as requests name them, and where ``/config`` has their overrides.

Answers to: ``ZkAdminManager.{parseAndSanitizeQuotaEntity,sanitizeEntityName,desanitizeEntityName}``. Pure.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

from kafkalite.common.config import ConfigType
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.quota_rates import CONNECTION_CREATION_RATE, QuotaType
from kafkalite.security.sanitizer import desanitize, sanitize
from kafkalite.zk.znodes.config import CLIENTS, DEFAULT, IPS, USERS

USER, CLIENT_ID, IP = "user", "client-id", "ip"
TYPES: Final = (USER, CLIENT_ID, IP)
_OF_CLIENTS: Final = {
    QuotaType.PRODUCE.value: ConfigType.LONG,
    QuotaType.FETCH.value: ConfigType.LONG,
    QuotaType.REQUEST.value: ConfigType.DOUBLE,
    QuotaType.CONTROLLER_MUTATION.value: ConfigType.DOUBLE,
}
_OF_ADDRESSES: Final = {CONNECTION_CREATION_RATE: ConfigType.INT}
_ROUNDING: Final = 1e-6


def keys_of(kind: str) -> dict[str, ConfigType]:
    """The quotas that an entity of ``kind`` (``users``, ``clients``, ``ips``) may have, by name, with their types."""
    return _OF_ADDRESSES if kind == IPS else _OF_CLIENTS


def path_of(entity: Iterable[tuple[str, str | None]]) -> tuple[str, str]:
    """Kind and name in ``/config`` of an entity; ``None`` is the default. Raises :class:`ApiError` INVALID_REQUEST."""
    names: dict[str, str | None] = {}
    for entity_type, name in entity:
        if entity_type not in TYPES:
            raise _invalid(f"Unhandled client quota entity type: {entity_type}")
        if name == "":
            raise _invalid(f"Empty {entity_type} not supported")
        names[entity_type] = name
    if not names:
        raise _invalid("Invalid empty client quota entity")
    if IP in names:
        if len(names) > 1:
            raise _invalid("Invalid quota entity combination, IP entity should not be used with user/client ID entity.")
        return IPS, _address(names[IP])
    if USER not in names:
        return CLIENTS, _sanitized(names[CLIENT_ID])
    user = _sanitized(names[USER])
    return USERS, f"{user}/{CLIENTS}/{_sanitized(names[CLIENT_ID])}" if CLIENT_ID in names else user


def entity_at(kind: str, name: str) -> dict[str, str | None]:
    """The reverse: type → name, ``None`` for the default."""
    if kind == IPS:
        return {IP: _name(name)}
    if kind == CLIENTS:
        return {CLIENT_ID: _name(name)}
    user, _, rest = name.partition("/")
    if not rest:
        return {USER: _name(user)}
    return {USER: _name(user), CLIENT_ID: _name(rest.removeprefix(f"{CLIENTS}/"))}


def value_text(kind: str, key: str, value: float) -> str:
    """A value of a request as ``/config`` has it. Raises :class:`ApiError` INVALID_REQUEST."""
    config_type = keys_of(kind).get(key)
    if config_type is None:
        raise _invalid(f"Invalid configuration key {key}")
    if config_type is ConfigType.DOUBLE:
        return repr(value)
    if not abs(value) < 2**63 or abs(int(value + _ROUNDING) - value) > _ROUNDING:
        raise _invalid(f"Configuration {key} must be a {config_type.name} value")
    return str(int(value + _ROUNDING))


def _sanitized(name: str | None) -> str:
    return DEFAULT if name is None else sanitize(name)


def _name(sanitized: str) -> str | None:
    return None if sanitized == DEFAULT else desanitize(sanitized)


def _address(text: str | None) -> str:
    if text is None:
        return DEFAULT
    try:
        ipaddress.ip_address(text)
    except ValueError:
        raise _invalid(f"{text} is not a valid IP or resolvable host.") from None
    return text


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)

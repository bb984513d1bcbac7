"""Single changes of configurations: set, delete, append to a list, subtract from one (KIP-339).

Answers to: ``kafka.server.ConfigAdminManager.prepareIncrementalConfigs``. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from kafkalite.common.config import ConfigDef, ConfigType
from kafkalite.common.errors import ApiError, ErrorCode


class OpType(IntEnum):
    """Kafka's ``AlterConfigOp.OpType``."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class AlterOp(NamedTuple):
    """One change of one key."""

    name: str
    op: int
    value: str | None


def apply_ops(
    current: Mapping[str, str], ops: Sequence[AlterOp], keys: ConfigDef, defaults: Mapping[str, Any]
) -> dict[str, str]:
    """The overrides after ``ops`` on ``current``; a list without an override begins with its value in ``defaults``.

    Raises :class:`ApiError` INVALID_REQUEST or INVALID_CONFIG.
    """
    names = [op.name for op in ops]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Error due to duplicate config keys : {','.join(twice)}")
    nulls = [op.name for op in ops if op.value is None and op.op != OpType.DELETE]
    if nulls:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(nulls)}")
    overrides = dict(current)
    for name, op, value in ops:
        if op == OpType.DELETE:
            overrides.pop(name, None)
        elif op == OpType.SET:
            overrides[name] = value or ""
        elif op in (OpType.APPEND, OpType.SUBTRACT):
            overrides[name] = _changed_list(name, op, value or "", overrides, keys, defaults)
        else:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation {op} for the config {name}")
    return overrides


def _changed_list(
    name: str, op: int, value: str, overrides: Mapping[str, str], keys: ConfigDef, defaults: Mapping[str, Any]
) -> str:
    key = keys.keys.get(name)
    if key is None or key.type is not ConfigType.LIST:
        what = "append" if op == OpType.APPEND else "subtract"
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Config value {what} is not allowed for config key: {name}")
    text = overrides.get(name)
    now = list(defaults.get(name) or ()) if text is None else _parts(text)
    given = _parts(value)
    if op == OpType.APPEND:
        now += [part for part in given if part not in now]
    else:
        now = [part for part in now if part not in given]
    return ",".join(now)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]

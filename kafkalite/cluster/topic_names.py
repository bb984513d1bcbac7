"""Valid topic names.

Answers to: ``org.apache.kafka.common.internals.Topic``. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kafkalite.common.errors import ApiError, ErrorCode

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
_LEGAL = re.compile(r"[a-zA-Z0-9._\-]+")
_MAX_LENGTH: Final = 249


def topic_fault(name: str) -> str | None:
    """Why ``name`` is no valid topic name; ``None`` if it is valid."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > _MAX_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {_MAX_LENGTH}"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def check_topic(name: str) -> None:
    """Raises :class:`ApiError` INVALID_TOPIC_EXCEPTION saying what is wrong with ``name``."""
    fault = topic_fault(name)
    if fault is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {fault}")


def is_valid_topic(name: str) -> bool:
    """Whether a topic may have that name."""
    return 0 < len(name) <= _MAX_LENGTH and name not in (".", "..") and _LEGAL.fullmatch(name) is not None


def colliding_topic(name: str, existing: Iterable[str]) -> str | None:
    """An existing topic whose metrics would have the same name as those of ``name``, because they write '.' as '_'."""
    if "." not in name and "_" not in name:
        return None
    unified = name.replace(".", "_")
    return next((other for other in existing if other != name and other.replace(".", "_") == unified), None)

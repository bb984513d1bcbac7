"""Lengths of time as Spark writes them: ``"10 seconds"``. Pure.

Answers to: nothing in Kafka; Spark's ``CalendarInterval``.
"""

from __future__ import annotations

import re

_UNITS = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}
_DURATION = re.compile(rf"\s*(\d+(?:\.\d+)?)\s*({'|'.join(_UNITS)})s?\s*")


def seconds(text: str) -> float:
    """``"2 minutes"`` → 120. Raises ValueError where it is no such text."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is no length of time such as '10 seconds' or '5 minutes'")
    return float(match[1]) * _UNITS[match[2]]

"""Which live broker shall coordinate a group or state partition without a coordinator; all brokers compute the same.

Answers to: ``GroupCoordinator.partitionFor`` and the leadership of ``__consumer_offsets`` and ``__transaction_state``,
which decide this in Kafka. Pure.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final

_MASK: Final = (1 << 64) - 1


def preferred(name: str, brokers: Iterable[int]) -> int | None:
    """The broker of ``brokers`` with the highest rendezvous hash for ``name``; ``None`` if ``brokers`` is empty.

    When a broker dies, only the names that it held move, and they spread over all other brokers.
    """
    seed = _mix(zlib.crc32(name.encode("utf-8", "surrogatepass")))
    return max(brokers, key=lambda broker: (_mix(seed ^ _mix(broker & _MASK)), broker), default=None)


def _mix(value: int) -> int:
    """Spread ``value`` over 64 bits (the finalizer of SplitMix64), because plain sums are too regular."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)

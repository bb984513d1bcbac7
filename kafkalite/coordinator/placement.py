"""Which live broker coordinates what nobody coordinates yet: every broker works out the same answer by itself.

Answers to: ``GroupCoordinator.partitionFor`` and the leadership of ``__consumer_offsets`` and ``__transaction_state``,
which decide it in Kafka. Pure.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final

_MASK: Final = (1 << 64) - 1


def preferred(name: str, brokers: Iterable[int]) -> int | None:
    """The broker of ``brokers`` with the highest rendezvous hash for ``name``; ``None`` where there is none.

    When a broker goes, only what was its own moves, and spreads over all the others.
    """
    seed = _mix(zlib.crc32(name.encode("utf-8", "surrogatepass")))
    return max(brokers, key=lambda broker: (_mix(seed ^ _mix(broker & _MASK)), broker), default=None)


def _mix(value: int) -> int:
    """Spread ``value`` over 64 bits (the finalizer of SplitMix64): sums alone are too regular to be compared."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)

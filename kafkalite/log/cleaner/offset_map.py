"""The last offset of every key in the part of a log that is being compacted.

Answers to: ``org.apache.kafka.storage.internals.log.SkimpyOffsetMap``. Pure.

Kafka keeps 16 bytes of MD5 and an offset a key in one array, and probes it by hand. Here that would cost an interpreted
loop a record, so it is a dictionary: six times the memory a key for a tenth of the time. Short keys are kept as they
are, longer ones as a BLAKE2 digest of a length that no short key has: two keys are never taken for one.
"""

from __future__ import annotations

from hashlib import blake2b

BYTES_PER_KEY = 160
"""Memory that one key takes at most, also while the dictionary grows (a test measures it)."""
SHORT_KEY = 30
"""Longest key that is kept as it is: longer ones take no less memory as a digest."""


def digest(key: bytes) -> bytes:
    """What stands for a key longer than :data:`SHORT_KEY`: 31 bytes."""
    return blake2b(key, digest_size=SHORT_KEY + 1).digest()


class OffsetMap:
    """Key → last offset, within ``memory`` bytes filled to at most ``load_factor``.

    ``offsets`` is filled by ``cleaner.records``; every record up to ``latest_offset`` has been seen.
    """

    __slots__ = ("capacity", "latest_offset", "offsets")

    def __init__(self, memory: int, load_factor: float = 1.0) -> None:
        self.offsets: dict[bytes, int] = {}
        self.capacity = max(1, int(memory * load_factor) // BYTES_PER_KEY)
        self.latest_offset = -1

    def __len__(self) -> int:
        return len(self.offsets)

    def has_room(self, records: int) -> bool:
        """Whether ``records`` more keys may be put in. One batch always fits: a round that takes none never ends."""
        return not self.offsets or len(self.offsets) + records <= self.capacity

    def update_latest(self, offset: int) -> None:
        """Everything up to ``offset`` is in the map, or has no key."""
        self.latest_offset = max(self.latest_offset, offset)

    def get(self, key: bytes) -> int:
        """The last offset of ``key``; -1 where it is not in the map."""
        return self.offsets.get(key if len(key) <= SHORT_KEY else digest(key), -1)

    def put(self, key: bytes, offset: int) -> None:
        """Note the last offset of ``key``: offsets come ascending."""
        self.offsets[key if len(key) <= SHORT_KEY else digest(key)] = offset

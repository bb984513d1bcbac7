"""The password of a ZooKeeper session, from its id: with both, a session can be ended from outside.

Answers to: ``org.apache.zookeeper.server.ZooKeeperServer.generatePasswd``. Pure.
"""

from __future__ import annotations

import struct

SUPER_SECRET = 0xB3415C00
"""Constant of ZooKeeper's sources, unchanged since the first release."""
_MULTIPLIER, _INCREMENT, _MASK = 0x5DEECE66D, 0xB, (1 << 48) - 1


def session_password(session: int) -> bytes:
    """The 16 bytes that a server gives to the client of ``session``, and requires from a client that takes it over."""
    seed = ((session ^ SUPER_SECRET) ^ _MULTIPLIER) & _MASK
    words = []
    for _ in range(4):
        seed = (seed * _MULTIPLIER + _INCREMENT) & _MASK
        words.append(seed >> 16)
    return struct.pack("<4I", *words)

"""``coordinator`` and ``coordinator_epoch``: who coordinates what lies beside them.

Answers to: nothing in Kafka; ``/controller`` and ``/controller_epoch`` once more, for groups and transactions. Pure.
"""

from __future__ import annotations

from typing import Final

from kafkalite.zk.znodes.codec import MalformedZnodeError, from_json, integer, to_json

INITIAL_EPOCH: Final = 0


def coordinator_path(base: str) -> str:
    """The ephemeral claim of the broker that coordinates ``base``."""
    return f"{base}/coordinator"


def epoch_path(base: str) -> str:
    """How often ``base`` was claimed; every write of its coordinator checks the version of this znode."""
    return f"{base}/coordinator_epoch"


def encode_claim(broker_id: int, timestamp_ms: int) -> bytes:
    """What a coordinator writes (version 1)."""
    return to_json({"version": 1, "brokerid": broker_id, "timestamp": str(timestamp_ms)})


def decode_claim(path: str, data: bytes) -> int:
    """Id of the broker that coordinates. Raises :class:`MalformedZnodeError`."""
    return integer(from_json(data, path).get("brokerid"), f"{path} brokerid")


def encode_epoch(epoch: int) -> bytes:
    """An epoch as plain digits."""
    return str(epoch).encode("ascii")


def decode_epoch(path: str, data: bytes) -> int:
    """The reverse. Raises :class:`MalformedZnodeError`."""
    try:
        return int(data)
    except ValueError:
        raise MalformedZnodeError(f"{path}: not an epoch: {data!r}") from None

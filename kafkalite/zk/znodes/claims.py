"""Claims: the ephemeral znode of the broker that controls or coordinates, and the epoch that each claim raises.

Answers to: ``kafka.zk.{ControllerZNode,ControllerEpochZNode}``; each group and each state partition of the transactions
has such a pair of its own, which Kafka does not know. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kafkalite.zk.znodes.codec import MalformedZnodeError, from_json, integer, to_json

INITIAL_EPOCH: Final = 0


@dataclass(frozen=True, slots=True)
class ClaimZnodes:
    """The pair below a base path: ``<base>/<name>``, ephemeral, and ``<base>/<name>_epoch``, persistent.

    ``version`` and ``more`` stand in the claim beside the broker's id and the time.
    """

    name: str
    version: int
    more: tuple[tuple[str, int], ...] = ()

    def claim_path(self, base: str) -> str:
        """The ephemeral claim on ``base``."""
        return f"{base}/{self.name}"

    def epoch_path(self, base: str) -> str:
        """How often ``base`` was claimed; every write under a claim checks the version of this znode."""
        return f"{base}/{self.name}_epoch"

    def encode_claim(self, broker_id: int, timestamp_ms: int) -> bytes:
        """The content of a claim."""
        value = {"version": self.version, "brokerid": broker_id, "timestamp": str(timestamp_ms), **dict(self.more)}
        return to_json(value)


COORDINATOR_CLAIM: Final = ClaimZnodes("coordinator", 1)
"""Stands below the group or the state partition of transactions that it claims."""

CONTROLLER_CLAIM: Final = ClaimZnodes("controller", 2, (("kraftControllerEpoch", -1),))
CLUSTER: Final = ""
"""The base of the controller's claim, which stands at the root."""
CONTROLLER: Final = CONTROLLER_CLAIM.claim_path(CLUSTER)
CONTROLLER_EPOCH: Final = CONTROLLER_CLAIM.epoch_path(CLUSTER)


def decode_claim(path: str, data: bytes) -> int:
    """Id of the broker that claimed, from any version. Raises :class:`MalformedZnodeError`."""
    return integer(from_json(data, path).get("brokerid"), f"{path} brokerid")


def encode_epoch(epoch: int) -> bytes:
    """An epoch as plain digits."""
    return str(epoch).encode("ascii")


def decode_epoch(path: str, data: bytes) -> int:
    """The reverse. Raises :class:`MalformedZnodeError`."""
    try:
        return int(data)
    except ValueError:
        raise MalformedZnodeError(f"{path}: not a number: {data[:100]!r}") from None

"""``/controller`` and ``/controller_epoch``: who decides, and how often that changed.

Answers to: ``kafka.zk.{ControllerZNode,ControllerEpochZNode}``. Pure.
"""

from __future__ import annotations

from kafkalite.zk.znodes.codec import MalformedZnodeError, from_json, integer, to_json

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
INITIAL_EPOCH = 0


def encode_controller(broker_id: int, timestamp_ms: int) -> bytes:
    """The claim (version 2)."""
    value = {"version": 2, "brokerid": broker_id, "timestamp": str(timestamp_ms), "kraftControllerEpoch": -1}
    return to_json(value)


def decode_controller(data: bytes) -> int:
    """Id of the controller, from version 1 or 2. Raises :class:`MalformedZnodeError`."""
    return integer(from_json(data, CONTROLLER).get("brokerid"), f"{CONTROLLER} brokerid")


def encode_epoch(epoch: int) -> bytes:
    """The epoch as plain digits."""
    return str(epoch).encode("ascii")


def decode_epoch(data: bytes) -> int:
    """The reverse. Raises :class:`MalformedZnodeError`."""
    try:
        return int(data)
    except ValueError:
        raise MalformedZnodeError(f"{CONTROLLER_EPOCH}: not a number: {data[:100]!r}") from None

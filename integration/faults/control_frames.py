"""Seeded bad input for the control plane: old controllers, other lives of the broker, and what is no message at all."""

from __future__ import annotations

import random
import struct
import uuid
from collections.abc import Iterator

import msgpack  # type: ignore[import-untyped]

from integration.faults.frames import Piece
from kafkalite.cluster.control import (
    ControlledShutdownRequest,
    ControlRequest,
    LeaderAndIsrRequest,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from kafkalite.cluster.model import Broker, Endpoint, LeaderAndIsr, PartitionAssignment
from kafkalite.common.types import TopicPartition
from kafkalite.network.control_codec import MAX_FRAME, encode

BROKER_NOT_AVAILABLE, STALE_CONTROLLER_EPOCH, NOT_CONTROLLER, STALE_BROKER_EPOCH = 8, 11, 41, 77
CONTROL = -2
"""Stands for the API key in pieces of the control plane."""


class ControlFrames:
    """Bursts by a seed. ``topic`` exists: an old controller's word about it must change nothing."""

    def __init__(self, seed: int, topic: str) -> None:
        self.chance = random.Random(seed)
        self.topic = topic
        self._number = 0

    def bursts(self, count: int) -> Iterator[list[Piece]]:
        """Bursts of ``count`` pieces in all."""
        chance = self.chance
        while count > 0:
            # Apart: garbage closes the connection at once, with what is under way there.
            burst = [self._garbage()]
            if chance.random() < 0.2:
                burst = [self._stale() for _ in range(min(chance.randrange(1, 12), count))]
            count -= len(burst)
            yield burst

    def _stale(self) -> Piece:
        chance = self.chance
        self._number += 1
        # An old controller; or a new one that means an earlier, or a later, life of this broker.
        old = chance.random() < 0.5
        controller_epoch = chance.choice((0, -1, -(1 << 31))) if old else chance.choice((1 << 20, 1 << 31, 1 << 62))
        broker_epoch = chance.choice((-1, 0, 1, 1 << 60))
        head = (chance.randrange(9), controller_epoch, broker_epoch)
        state = LeaderAndIsr(
            self.topic, 0, uuid.UUID(int=chance.getrandbits(128)), 77, 1000, (77,), 1000, 99, 1 << 60,
            PartitionAssignment((77,), (), ()),
        )  # fmt: skip
        broker = Broker(77, (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 1),), None, 1 << 60)
        stop = StopReplicaPartitionState(TopicPartition(self.topic, 0), -2, True, uuid.UUID(int=0))
        request: ControlRequest = chance.choice(
            (
                LeaderAndIsrRequest(*head, (state,), (broker,)),
                UpdateMetadataRequest(*head, (state,), (broker,)),
                StopReplicaRequest(*head, (stop,)),
                ControlledShutdownRequest(chance.choice((1, 2, 3, 77)), broker_epoch),
            )
        )
        errors = {STALE_CONTROLLER_EPOCH if old else STALE_BROKER_EPOCH}
        if isinstance(request, ControlledShutdownRequest):
            errors = {STALE_BROKER_EPOCH, NOT_CONTROLLER, BROKER_NOT_AVAILABLE}
        return Piece("stale", encode(self._number, request), CONTROL, 0, self._number, frozenset(errors))

    def _garbage(self) -> Piece:
        chance = self.chance
        kind = chance.randrange(7)
        if kind == 0:
            return Piece("control: random", _framed(chance.randbytes(chance.randrange(200))), closes=True)
        if kind == 1:
            size = chance.choice((-1, -(1 << 31), MAX_FRAME + 1, (1 << 31) - 1))
            return Piece("control: absurd length", struct.pack(">i", size) + chance.randbytes(30), closes=True)
        if kind == 2:
            whole = self._stale().data
            return Piece("control: truncated", whole[: chance.randrange(1, len(whole))], ends=True)
        if kind == 3:
            # Arrays and strings of four billion elements, and nesting without end.
            body = chance.choice(
                (b"\xdd\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\x91" * 5000, b"\xdf\xff\xff\xff\xff")
            )
            return Piece("control: lying lengths", _framed(body), closes=True)
        if kind == 4:
            return Piece(
                "control: unknown kind",
                _framed(msgpack.packb((1, chance.choice((5, 99, -1, "x", None)), ()))),
                closes=True,
            )
        if kind == 5:
            # The answer to a question that nobody asked.
            return Piece("control: an answer", _framed(msgpack.packb((1, 0, (0, ())))), closes=True)
        wrong: tuple[object, ...] = (None, "x", 1.5, b"\0", [1], {}, True)
        fields = [chance.choice(wrong) for _ in range(chance.choice((2, 4, 5, 6)))]
        return Piece("control: wrong types", _framed(msgpack.packb((1, chance.randrange(1, 5), fields))), closes=True)


def _framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body

"""Seeded bad control requests: of old controllers, of other broker epochs, and with bodies that are wrong."""

from __future__ import annotations

import random
import struct
import uuid
from collections.abc import Iterator

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
from kafkalite.network.control_codec import control_versions, encode_control_request
from kafkalite.protocol.api_keys import SUPPORTED, ApiKey
from kafkalite.protocol.frames import request_header

BROKER_NOT_AVAILABLE, STALE_CONTROLLER_EPOCH, INVALID_REQUEST, STALE_BROKER_EPOCH = 8, 11, 42, 77
CONTROL_KEYS = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN)


class ControlFrames:
    """Bursts by a seed. ``topic`` exists: an old controller's requests about it must change nothing."""

    def __init__(self, seed: int, topic: str) -> None:
        self.rng = random.Random(seed)
        self.topic = topic
        self._number = 0

    def bursts(self, count: int) -> Iterator[list[Piece]]:
        """Bursts of ``count`` pieces in all."""
        rng = self.rng
        while count > 0:
            # In a burst of its own, because such bytes close the connection at once, with its outstanding requests.
            burst = [self._garbage()]
            if rng.random() < 0.2:
                burst = [self._stale() for _ in range(min(rng.randrange(1, 12), count))]
            count -= len(burst)
            yield burst

    def _stale(self) -> Piece:
        rng = self.rng
        self._number += 1
        # A request of an old controller, or of a new controller for an earlier or a later broker epoch.
        old = rng.random() < 0.5
        controller_epoch = rng.choice((0, -1, -(1 << 31))) if old else rng.choice((1 << 20, (1 << 31) - 1))
        broker_epoch = rng.choice((-1, 0, 1, 1 << 60))
        head = (rng.randrange(9), controller_epoch, broker_epoch)
        state = LeaderAndIsr(
            self.topic, 0, uuid.UUID(int=rng.getrandbits(128)), 77, 1000, (77,), 1000, 99, 1 << 60,
            PartitionAssignment((77,), (), ()),
        )  # fmt: skip
        broker = Broker(77, (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 1),), None, 1 << 60)
        stop = StopReplicaPartitionState(TopicPartition(self.topic, 0), -2, True, uuid.UUID(int=0))
        request: ControlRequest = rng.choice(
            (
                LeaderAndIsrRequest(*head, (state,), (broker,)),
                UpdateMetadataRequest(*head, (state,), (broker,)),
                StopReplicaRequest(*head, (stop,)),
                ControlledShutdownRequest(rng.choice((1, 2, 3, 77)), broker_epoch),
            )
        )
        errors = {STALE_CONTROLLER_EPOCH if old else STALE_BROKER_EPOCH}
        if isinstance(request, ControlledShutdownRequest):
            # A broker that is not the controller answers STALE_CONTROLLER_EPOCH, as in Kafka.
            errors = {STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH, BROKER_NOT_AVAILABLE}
        versions = control_versions(rng.choice(("2.8", "3.2", "3.9")))
        key, version, body = encode_control_request(request, versions, "PLAINTEXT")
        return Piece("stale", self._frame(key, version, body), key, version, self._number, frozenset(errors))

    def _garbage(self) -> Piece:
        rng = self.rng
        kind = rng.randrange(5)
        key = rng.choice(CONTROL_KEYS)
        self._number += 1
        if kind == 0:
            version = rng.randint(0, SUPPORTED[key].max)
            body = rng.randbytes(rng.randrange(200))
            # Random bytes may happen to be a request, which the fences then refuse.
            return Piece("control: random", self._frame(key, version, body), key, version, self._number, ends=True)
        if kind == 1:
            version = rng.choice((-1, SUPPORTED[key].max + 1, (1 << 15) - 1))
            return Piece("control: unknown version", self._frame(key, version, rng.randbytes(30)), closes=True)
        whole = self._stale()
        if kind == 2:
            return Piece("control: truncated", whole.data[: rng.randrange(1, len(whole.data))], ends=True)
        if kind == 3:
            body = whole.data[4:]
            cut = body[: rng.randrange(len(body) // 2, len(body) - 1)]
            return Piece("control: cut short", struct.pack(">i", len(cut)) + cut, closes=True)
        # Arrays of two billion elements, after controller id, kind of controller, epochs and type.
        body = bytes(18 if key is ApiKey.LEADER_AND_ISR else 17) + b"\xff\xff\xff\xff\x07"
        if key is ApiKey.CONTROLLED_SHUTDOWN:
            body = bytes(3)
        return Piece("control: lying lengths", self._frame(key, SUPPORTED[key].max, body), closes=True)

    def _frame(self, key: int, version: int, body: bytes) -> bytes:
        head = request_header(key, version, self._number, "frames")
        return struct.pack(">i", len(head) + len(body)) + head + body

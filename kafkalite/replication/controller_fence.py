"""What requests and states are held against before they count.

Answers to: ``kafka.server.ReplicaManager`` (its checks of controller epoch, broker epoch and topic id). Pure.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import ZERO_UUID

_MAX_RETIRED = 10_000

UNREGISTERED = 1 << 62
"""Broker epoch while this broker has no znode: newer than any request or state, so that all are too old."""


@dataclass(slots=True)
class ControllerFence:
    """What requests and states are held against."""

    broker_epoch: int = UNREGISTERED
    controller_epoch: int = -1
    retired: dict[uuid.UUID, None] = field(default_factory=dict)

    def check(self, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        """Whether a request is from the newest controller and meant for this life of the broker."""
        if broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = controller_epoch
        return ErrorCode.NONE

    def retire(self, topic_id: uuid.UUID | None) -> None:
        """Nothing said of this topic id counts from now on."""
        if topic_id is not None and topic_id != ZERO_UUID:
            self.retired[topic_id] = None
            if len(self.retired) > _MAX_RETIRED:
                del self.retired[next(iter(self.retired))]


def differs(one: uuid.UUID | None, other: uuid.UUID | None) -> bool:
    """Whether two topic ids are both known and not the same."""
    return one is not None and other is not None and one != other and one.int != 0 and other.int != 0

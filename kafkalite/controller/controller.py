"""The controller: one broker of the cluster decides who leads what.

Answers to: ``kafka.controller.KafkaController``. Reactor shell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from kafkalite.cluster.control import ControlledShutdown, ControlResponse
from kafkalite.cluster.model import PartitionAssignment
from kafkalite.common.clock import Clock
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition
from kafkalite.controller.ports import BrokerChannel, ControllerConfig, ControllerStores
from kafkalite.zk.port import SessionState

ElectionType = Literal["preferred", "unclean"]

__all__ = ["BrokerChannel", "Controller", "ControllerConfig", "ControllerStores", "ElectionType"]


class Controller:
    """Runs in every broker; active in one. ``on_change`` is told the id of whoever is active (-1: nobody)."""

    def __init__(
        self,
        broker_id: int,
        stores: ControllerStores,
        channel: BrokerChannel,
        clock: Clock,
        config: ControllerConfig,
    ) -> None:
        self.broker_id = broker_id
        self.on_change: Callable[[int], None] = lambda controller_id: None

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        raise NotImplementedError

    @property
    def epoch(self) -> int:
        """The controller epoch of our last claim, 0 before the first."""
        raise NotImplementedError

    def start(self) -> None:
        """Stand for election; returns at once."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Give the controllership up (where we have it) and stop."""
        raise NotImplementedError

    def on_session(self, state: SessionState) -> None:
        """The ZooKeeper client's session changed."""
        raise NotImplementedError

    async def controlled_shutdown(self, request: ControlledShutdown) -> ControlResponse:
        """Move leaderships off a broker that wants to stop; the answer lists what it still leads."""
        raise NotImplementedError

    async def elect_leaders(
        self, election: ElectionType, partitions: Sequence[TopicPartition] | None
    ) -> dict[TopicPartition, tuple[ErrorCode, str]]:
        """Elect leaders (of every partition where ``partitions`` is ``None``). ``ApiError`` NOT_CONTROLLER elsewhere."""
        raise NotImplementedError

    async def alter_reassignments(
        self, reassignments: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, tuple[ErrorCode, str]]:
        """Begin, change or (``None``) cancel reassignments. Raises ``ApiError`` NOT_CONTROLLER elsewhere."""
        raise NotImplementedError

    def list_reassignments(
        self, partitions: Sequence[TopicPartition] | None
    ) -> dict[TopicPartition, PartitionAssignment]:
        """The reassignments under way. Raises ``ApiError`` NOT_CONTROLLER elsewhere."""
        raise NotImplementedError

"""This broker's registration, and the fence that the controller's requests have to pass.

Answers to: ``kafka.server.KafkaApis.isBrokerEpochStale`` and ``kafka.server.ReplicaManager.controllerEpoch``. Pure.
"""

from __future__ import annotations

from typing import Final

from kafkalite.common.errors import ErrorCode

UNREGISTERED: Final = 1 << 62
"""Broker epoch while this broker has no znode: newer than any request or state, so that all are too old."""


class BrokerEpoch:
    """The one place of the broker's epoch: the control plane, replication and the fetchers read it here.

    ``epoch`` is the czxid of the newest registration, -1 before the first one; it stays when the session ends, and
    ``current`` does not. ``session`` is the ZooKeeper session of that registration, 0 before the first one.
    ``unclean_start`` is ``Broker.unclean_start_epoch`` of that registration, -1 before the first one.
    ``controller_epoch`` is the newest one of the requests that passed.
    """

    __slots__ = ("controller_epoch", "current", "epoch", "session", "unclean_start")

    def __init__(self) -> None:
        self.epoch = -1
        self.session = 0
        self.unclean_start = -1
        self.controller_epoch = -1
        self.current = UNREGISTERED

    def registered(self, epoch: int, session: int, unclean_start: int) -> None:
        """This broker's znode was made in ``session``; its czxid is ``epoch``."""
        self.epoch = self.current = epoch
        self.session = session
        self.unclean_start = unclean_start

    def ended(self) -> None:
        """The session, or the registration, is over: what is decided about replicas was meant for the life that ended.

        :meth:`check` still accepts the epoch of that life, because an UpdateMetadataRequest stays true.
        """
        self.current = UNREGISTERED

    def is_over(self, broker_epoch: int) -> bool:
        """Whether the life of the broker with that epoch is over, and what is decided about its replicas is void."""
        return broker_epoch < self.current

    def check(self, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        """Whether a request is from the newest controller and meant for this life of the broker."""
        if controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if broker_epoch != self.epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        self.controller_epoch = controller_epoch
        return ErrorCode.NONE

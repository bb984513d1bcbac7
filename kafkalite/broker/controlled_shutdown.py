"""Before a broker stops, it asks the controller to move its leaderships to other brokers.

Answers to: ``kafka.server.KafkaServer.controlledShutdown``. Deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kafkalite.cluster.control import ControlledShutdownRequest
from kafkalite.cluster.metadata import MetadataCache
from kafkalite.common.clock import Clock
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import sleep
from kafkalite.controller.channel_manager import BrokerChannel

log = logging.getLogger(__name__)

FAREWELL = 0.5
"""Seconds for which a broker still answers after it has handed its leaderships over. A client that asks in that time
is answered NOT_LEADER_OR_FOLLOWER and looks up the new leader at once; after a connection that merely ends it takes a
second or two."""


async def say_farewell(clock: Clock) -> None:
    """Answer NOT_LEADER_OR_FOLLOWER for a moment, so that clients look up the new leaders."""
    await sleep(clock, FAREWELL)


async def hand_over_leaderships(
    request: Callable[[], ControlledShutdownRequest],
    metadata: MetadataCache,
    channel: BrokerChannel,
    clock: Clock,
    retries: int,
    backoff: float,
) -> bool:
    """Ask up to ``1 + retries`` times, ``backoff`` seconds apart; returns whether this broker leads no partition now.

    Each attempt calls ``request``, because the broker epoch may change between attempts.
    """
    for attempt in range(1 + retries):
        if attempt:
            await sleep(clock, backoff)
        controller = metadata.broker(metadata.controller_id)
        if controller is None:
            log.info("controlled shutdown: no controller is known")
            continue
        try:
            answer = await channel.send(controller, request())
        except Exception as error:
            log.info("controlled shutdown: controller %d could not be asked: %s", controller.id, error)
            continue
        if answer.error is ErrorCode.NONE and not answer.partitions:
            log.info("controlled shutdown: controller %d has moved all leaderships away", controller.id)
            return True
        log.info(
            "controlled shutdown: controller %d answers %s, still leading %d partitions",
            controller.id, answer.error.name, len(answer.partitions),
        )  # fmt: skip
    log.warning("controlled shutdown failed; stopping all the same: leaders are elected when the broker's session ends")
    return False

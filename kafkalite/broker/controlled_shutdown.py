"""A broker that is told to stop first asks the controller to move its leaderships away.

Answers to: ``kafka.server.KafkaServer.controlledShutdown``. Deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kafkalite.cluster.control import ControlledShutdownRequest
from kafkalite.cluster.metadata import MetadataCache
from kafkalite.common.clock import Clock
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future
from kafkalite.controller.ports import BrokerChannel

log = logging.getLogger(__name__)

FAREWELL = 0.5
"""Seconds for which a broker that handed its leaderships over goes on answering. Whoever asks in that time is told
NOT_LEADER_OR_FOLLOWER and looks up the new leader at once; a connection that just ends is no news, and clients take a
second or two to find out."""


async def say_farewell(clock: Clock) -> None:
    """Let clients hear where the leaders have gone."""
    await _pause(clock, FAREWELL)


async def _pause(clock: Clock, seconds: float) -> None:
    over: Future[None] = Future()
    clock.call_later(seconds, over.callback, None)
    await over


async def hand_over_leaderships(
    request: Callable[[], ControlledShutdownRequest],
    metadata: MetadataCache,
    channel: BrokerChannel,
    clock: Clock,
    retries: int,
    backoff: float,
) -> bool:
    """Ask up to ``1 + retries`` times, ``backoff`` seconds apart; whether this broker leads nothing any more.

    ``request`` is made anew for each attempt: the broker epoch may change in between.
    """
    for attempt in range(1 + retries):
        if attempt:
            await _pause(clock, backoff)
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
    log.warning("controlled shutdown did not succeed; stopping all the same, leaders are elected once we are gone")
    return False

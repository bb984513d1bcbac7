"""A broker that is told to stop first asks the controller to move its leaderships away.

Answers to: ``kafka.server.KafkaServer.controlledShutdown``. Deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kafkalite.cluster.control import ControlledShutdown
from kafkalite.cluster.metadata import MetadataCache
from kafkalite.common.clock import Clock
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future
from kafkalite.controller.ports import BrokerChannel

log = logging.getLogger(__name__)


async def hand_over_leaderships(
    request: Callable[[], ControlledShutdown],
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
            pause: Future[None] = Future()
            clock.call_later(backoff, pause.callback, None)
            await pause
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

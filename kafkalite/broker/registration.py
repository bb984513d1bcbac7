"""The registration of this broker in ``/brokers/ids``, again in each session.

Answers to: ``kafka.server.KafkaServer`` (registration) and its ``StateChangeHandler``. Deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from kafkalite.cluster.model import Broker, Endpoint
from kafkalite.common.clock import Clock
from kafkalite.common.errors import StartupError
from kafkalite.common.tasks import Lane
from kafkalite.zk.stores.brokers import BrokerStore
from kafkalite.zk.zk_client import SessionState, ZkClient, ZkError

log = logging.getLogger(__name__)

_RETRY = 1.0
"""Seconds until a registration that failed is tried again."""


class Registration:
    """Registers ``broker`` in each new session, and writes its znode again after :meth:`update` changed its endpoints.

    A ``broker`` without an unclean start epoch (its process started uncleanly) gets the epoch of its first
    registration. ``on_registered(epoch, session)`` is awaited after each registration. ``on_refused(error)`` is called
    when another live session holds this broker's id.
    """

    def __init__(
        self,
        client: ZkClient,
        store: BrokerStore,
        clock: Clock,
        broker: Broker,
        on_registered: Callable[[int, int], Awaitable[None]],
        on_refused: Callable[[StartupError], None],
    ) -> None:
        self._client = client
        self._store = store
        self._clock = clock
        self._broker = broker
        self._on_registered = on_registered
        self._on_refused = on_refused
        self._session = 0
        self._announced: tuple[Endpoint, ...] = ()
        self._lane = Lane("registration", self._announce)

    @property
    def unclean_start_epoch(self) -> int:
        """``Broker.unclean_start_epoch`` of this broker, -1 where it never registered after an unclean start."""
        return self._broker.unclean_start_epoch

    def describe(self, endpoints: tuple[Endpoint, ...], unclean_start_epoch: int) -> None:
        """What :meth:`start` registers; known once the ports are bound and the logs are loaded."""
        self._broker = replace(self._broker, endpoints=endpoints, unclean_start_epoch=unclean_start_epoch)

    async def start(self) -> None:
        """Register for the first time. Raises :class:`StartupError` where the id is taken."""
        await self._register()
        self._client.add_listener(self._on_session)

    def update(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Register ``endpoints`` as the addresses of this broker from now on."""
        self._broker = replace(self._broker, endpoints=endpoints)
        self._lane.put(self._client.session)

    async def stop(self) -> None:
        """Withdraw the registration for good."""
        self._lane.close()
        try:
            await self._store.unregister()
        except ZkError as error:
            log.warning("the registration could not be withdrawn, the end of the session will do it: %s", error)

    def _on_session(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED and not self._is_announced(self._client.session):
            self._lane.put(self._client.session)

    def _is_announced(self, session: int) -> bool:
        return session == self._session and self._announced == self._broker.endpoints

    async def _announce(self, session: int) -> None:
        if session != self._client.session or self._is_announced(session):
            return
        try:
            if session != self._session:
                await self._register()
            if not self._is_announced(self._session):
                await self._write_again()
        except StartupError as error:
            self._on_refused(error)
        except Exception as error:
            # Retry, because an unregistered broker never leads a partition.
            trace = None if isinstance(error, ZkError) else error
            log.warning("registration in session 0x%x failed: %s", session & (2**64 - 1), error, exc_info=trace)
            self._clock.call_later(_RETRY, self._on_session, SessionState.CONNECTED)

    async def _write_again(self) -> None:
        broker = self._broker
        await self._store.update(broker)
        self._announced = broker.endpoints
        addresses = (f"{each.listener}://{each.host}:{each.port}" for each in broker.endpoints)
        log.info("broker %d is now reached at %s", broker.id, ", ".join(addresses))

    async def _register(self) -> None:
        while self._session != self._client.session or not self._session:
            # The session may change while this broker waits for its former znode to go. The guardian and the fence of
            # ISR writes use the session in which the znode was made, so it must be the present one.
            endpoints = self._broker.endpoints
            epoch, session = await self._store.register(self._broker)
            if self._broker.unclean_start_epoch < 0:
                self._broker = replace(self._broker, unclean_start_epoch=epoch)
            if session != self._client.session:
                continue
            log.info(
                "registered as broker %d with broker epoch %d, last unclean start with broker epoch %d",
                self._broker.id,
                epoch,
                self._broker.unclean_start_epoch,
            )
            await self._on_registered(epoch, session)
            self._session, self._announced = session, endpoints

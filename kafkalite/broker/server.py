"""One broker, put together, started and stopped.

Answers to: ``kafka.server.KafkaServer``. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from kafkalite.admin.config_admin import ConfigAdmin
from kafkalite.admin.producer_ids import ProducerIdManager
from kafkalite.admin.topic_admin import TopicAdmin
from kafkalite.apis.dispatch import Dispatcher
from kafkalite.apis.services import BrokerServices
from kafkalite.broker.config import BrokerConfig
from kafkalite.broker.config_watcher import ConfigWatcher
from kafkalite.broker.control_plane import ControllerChannel, ControlPlane
from kafkalite.broker.controlled_shutdown import hand_over_leaderships, say_farewell
from kafkalite.broker.coordinators import Coordinators
from kafkalite.broker.dynamic_listeners import DynamicListeners
from kafkalite.broker.edges import Edges
from kafkalite.broker.identity import choose_broker_id
from kafkalite.broker.metadata_watcher import MetadataWatcher
from kafkalite.broker.registration import Registration
from kafkalite.broker.settings import controller_config, network_limits, replication_config
from kafkalite.broker.startup import StartSteps
from kafkalite.cluster.control import ControlledShutdownRequest
from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import Broker
from kafkalite.common.errors import StartupError
from kafkalite.common.types import TopicPartition
from kafkalite.controller.controller import Controller
from kafkalite.log.log_manager import LogManager
from kafkalite.network.client import BrokerConnection
from kafkalite.network.control import ControlClient, ControlServer
from kafkalite.network.server import KafkaServer
from kafkalite.replication.broker_epoch import BrokerEpoch
from kafkalite.replication.leader_endpoint import RemoteLeaderEndPoint
from kafkalite.replication.replica_manager import ReplicaManager
from kafkalite.zk.stores.stores import Stores
from kafkalite.zk.zk_client import SessionState

log = logging.getLogger(__name__)


class BrokerServer:
    """One broker: makes its parts, connects them, and starts and stops them in order. The parts decide.

    :meth:`start` returns when the broker serves, :meth:`stop` when it has handed its leaderships over and closed its
    logs. ``on_fatal`` is called with the reason when the broker cannot go on. The broker reaches sockets, files,
    ZooKeeper and clocks through ``edges``.
    """

    def __init__(self, config: BrokerConfig, edges: Edges) -> None:
        values = config.values
        self.on_fatal: Callable[[Exception], None] = lambda error: log.critical("%s", error)
        self._edges = edges
        self._config = config
        self._clock = edges.clock
        self._executor = edges.executor
        self._zk = edges.zk
        self._stores = Stores.on(edges.zk, edges.clock, values["zookeeper.session.timeout.ms"] / 1000, edges.rng)
        self._metadata = MetadataCache(self._clock.monotonic)
        self._broker_epoch = BrokerEpoch()
        self._control_client = ControlClient(edges.reactor, now=edges.clock.monotonic)
        self._channel = ControllerChannel(self._control_client, values["controller.socket.timeout.ms"] / 1000)
        self.services: BrokerServices | None = None

    async def start(self) -> None:
        """Raises :class:`kafkalite.common.errors.StartupError` with one line that says what to do."""
        config, stores, edges = self._config, self._stores, self._edges
        await self._zk.start()
        steps = StartSteps(self._clock, config.zookeeper_connection_timeout_ms / 1000)
        await steps.run("creating the persistent znodes", stores.prepare)
        cluster_id = await steps.run("reading the cluster's id", stores.brokers.cluster_id)
        self.broker_id = await steps.run(
            "choosing the broker's id", lambda: choose_broker_id(config, edges.fs, stores.brokers)
        )
        log.info("starting broker %d of cluster %s", self.broker_id, cluster_id)

        self._logs = LogManager(
            config.log_dirs,
            config.values,
            edges.fs,
            self._clock,
            self._executor,
            self.broker_id,
            cluster_id,
            rng=edges.rng,
            cleaner_pool=edges.cleaners,
            boot_id=edges.boot_id,
        )
        self._config_watcher = ConfigWatcher(self.broker_id, stores.config, config.dynamic, self._logs)
        self._replicas = ReplicaManager(
            replication_config(config, self.broker_id),
            self._logs,
            self._metadata,
            stores.isr,
            self._connect_to_leader,
            self._config_watcher.topic_config,
            self._broker_epoch,
            self._clock,
        )
        self._replicas.on_offline = self._partitions_offline
        self._replicas.on_refused = lambda: stores.tell_log_dir_event(self.broker_id, self._clock)
        self._replicas.quotas.update_rates(config.dynamic.values)
        config.dynamic.on_change(lambda _: self._replicas.quotas.update_rates(config.dynamic.values))
        self._metadata.on_brokers.append(self._replicas.brokers_changed)
        self._controller = Controller(
            self.broker_id,
            stores,
            self._channel,
            self._clock,
            controller_config(config.values),
            self._controller_changed,
            edges.rng,
        )
        config.dynamic.on_change(lambda _: self._controller.reconfigure(controller_config(config.dynamic.values)))
        self._config_watcher.on_unclean_allowed = self._controller.unclean_election_allowed
        self._topics = TopicAdmin(stores.topics, stores.admin, self._metadata, config.dynamic, self._clock, edges.rng)
        producer_ids = ProducerIdManager(self.broker_id, stores.producer_ids)
        self._coordinators = Coordinators(
            self.broker_id,
            stores,
            self._metadata,
            producer_ids,
            lambda broker: self._connector(broker, "transaction-markers")(),
            self._clock,
            config.dynamic,
            edges.rng,
        )
        self._metadata.on_brokers.append(self._coordinators.brokers_changed)
        services = self.services = BrokerServices(
            broker_id=self.broker_id,
            cluster_id=cluster_id,
            config=config.dynamic,
            metadata=self._metadata,
            replicas=self._replicas,
            partitions=self._replicas.replicas,
            offset_queries=self._replicas.offset_queries,
            logs=self._logs,
            controller=self._controller,
            topics=self._topics,
            configs=ConfigAdmin(self.broker_id, stores.config, self._metadata, config.dynamic),
            producer_ids=producer_ids,
            offsets=self._coordinators.offsets,
            groups=self._coordinators.groups,
            transactions=self._coordinators.transactions,
            clock=self._clock,
            rng=edges.rng,
        )
        self._control_plane = ControlPlane(
            self._metadata,
            self._replicas,
            self._controller,
            self._topics.metadata_changed,
            self._broker_epoch,
            self._clock.monotonic,
        )
        self._watcher = MetadataWatcher(
            stores.brokers,
            stores.topics,
            self._metadata,
            self._replicas,
            self._clock,
            self._topics.metadata_changed,
        )
        self._control_plane.on_request = self._watcher.controller_spoke
        await steps.run("reading the broker's configuration", self._config_watcher.start)
        topic_configs = await steps.run("reading the topics' configurations", self._config_watcher.topic_configs)
        await self._logs.start(topic_configs)
        self._listen(Dispatcher(services))
        self._registration = Registration(
            self._zk, stores.brokers, self._clock, self._broker(), self._registered, self.on_fatal
        )
        self._zk.add_listener(self._session_changed)
        try:
            await steps.run("registering", self._registration.start)
        except StartupError:
            # The logs are unchanged since the last shutdown. Close them, because otherwise the next start is unclean.
            await self._logs.shutdown(unclean_start_epoch=self._logs.unclean_start_epoch)
            raise
        await steps.run("reading the cluster's metadata", self._watcher.start)
        self._controller.start()
        self._coordinators.start()
        # Open last: before, a client would get metadata without brokers and topics, and would believe it.
        self._listeners.open()
        log.info("broker %d serves on %s", self.broker_id, {e.listener: e.port for e in self._listeners.advertised})

    async def stop(self) -> None:
        """Controlled shutdown: hand over, stop serving, close the logs, end the session."""
        values = self._config.values
        log.info("broker %d is stopping", self.broker_id)
        # Stop watching ZooKeeper: during shutdown the states still say "follow" while the controller says "stop".
        self._watcher.close()
        handed_over = False
        if values["controlled.shutdown.enable"]:
            led = bool(self._replicas.replicas.leaders())
            handed_over = await hand_over_leaderships(
                lambda: ControlledShutdownRequest(self.broker_id, self._broker_epoch.epoch),
                self._metadata,
                self._channel,
                self._clock,
                values["controlled.shutdown.max.retries"],
                values["controlled.shutdown.retry.backoff.ms"] / 1000,
            )
            if led and handed_over and self._server.connections:
                await say_farewell(self._clock)
        if handed_over:
            await self._replicas.withdraw()
            # Before the coordinators give up their claims, because FindCoordinator would still name this broker.
            await self._registration.stop()
        await self._coordinators.stop()
        self._config_watcher.close()
        await self._server.stop()
        await self._controller.stop()
        self._topics.shutdown()
        await self._replicas.shutdown()
        await self._logs.shutdown(self._broker_epoch.epoch, self._registration.unclean_start_epoch)
        await self._registration.stop()
        await self._control_server.stop()
        self._control_client.close()
        self._edges.watchdog.stop()
        if self._edges.guardian is not None:
            self._edges.guardian.release()
        await self._zk.close()
        self._executor.close()
        log.info("broker %d has stopped", self.broker_id)

    # Wiring

    def _listen(self, dispatcher: Dispatcher) -> None:
        edges, now = self._edges, self._clock.monotonic
        self._control_server = ControlServer(edges.reactor, self._control_plane.handle, now)
        self._server = KafkaServer(
            edges.reactor, dispatcher, network_limits(self._config), self._executor, now, edges.sockets
        )
        self._config.dynamic.on_change(self._configuration_changed)
        # Take the values of /config/brokers over now, because they were read before this listener was added.
        self._configuration_changed(frozenset(self._config.dynamic.values))
        self._listeners = DynamicListeners(
            self._config.listening,
            self._config.dynamic,
            self._server,
            self._control_server,
            lambda: self._registration.update(self._listeners.advertised),
        )
        self._listeners.bind()

    def _configuration_changed(self, names: frozenset[str]) -> None:
        self._server.limits = network_limits(self._config)
        if "background.threads" in names:
            self._executor.resize(self._config.dynamic["background.threads"])
        if "num.replica.fetchers" in names:
            self._replicas.fetchers.resize(self._config.dynamic["num.replica.fetchers"])

    def _broker(self) -> Broker:
        endpoints = self._listeners.advertised
        return Broker(self.broker_id, endpoints, self._config.rack, unclean_start_epoch=self._logs.unclean_start_epoch)

    def _connect_to_leader(self, leader: Broker, number: int) -> RemoteLeaderEndPoint:
        return RemoteLeaderEndPoint(
            self._connector(leader, f"fetcher-{number}"), self._config.values["replica.socket.timeout.ms"] / 1000
        )

    def _connector(self, broker: Broker, purpose: str) -> Callable[[], BrokerConnection]:
        listener = self._config.listening.inter_broker
        endpoint = broker.endpoint(listener)
        if endpoint is None:
            raise LookupError(f"broker {broker.id} has no listener {listener}")
        client_id = f"broker-{self.broker_id}-{purpose}"
        edges = self._edges
        return lambda: BrokerConnection(edges.reactor, endpoint.host, endpoint.port, client_id, sockets=edges.sockets)

    # What happens to a broker

    async def _registered(self, epoch: int, session: int) -> None:
        if self._edges.guardian is not None:
            self._edges.guardian.watch(session, self._zk.password, self._zk.session_timeout_ms)
        self._edges.watchdog.watch(session, self._zk.password, self._zk.session_timeout_ms)
        self._replicas.registered(epoch, session, self._registration.unclean_start_epoch)
        self._watcher.resync()
        await self._logs.registered(self._registration.unclean_start_epoch)

    def _session_changed(self, state: SessionState) -> None:
        log.info("ZooKeeper session 0x%x: %s", self._zk.session & (2**64 - 1), state.value)
        self._replicas.on_zk_state(state)
        self._controller.on_session(state)
        self._coordinators.on_session(state)

    def _controller_changed(self, controller_id: int) -> None:
        if self._metadata.set_controller(controller_id):
            log.info("the controller is now broker %d", controller_id)

    def _partitions_offline(self, partitions: Iterable[TopicPartition]) -> None:
        listed = list(partitions)
        log.error("partitions offline after the failure of a log directory: %s", ", ".join(map(str, listed)))
        self._stores.tell_log_dir_event(self.broker_id, self._clock)

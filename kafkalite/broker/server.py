"""One broker, put together, started and stopped.

Answers to: ``kafka.server.KafkaServer``. Reactor shell.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from kafkalite.admin.config_admin import ConfigAdmin
from kafkalite.admin.producer_ids import ProducerIdManager
from kafkalite.admin.topic_admin import TopicAdmin
from kafkalite.apis.dispatch import Dispatcher
from kafkalite.apis.registry import served
from kafkalite.apis.services import BrokerServices
from kafkalite.broker.broker_security import BrokerSecurity
from kafkalite.broker.config import BrokerConfig
from kafkalite.broker.config_watcher import ConfigWatcher
from kafkalite.broker.control_plane import ControlPlane
from kafkalite.broker.controlled_shutdown import hand_over_leaderships, say_farewell
from kafkalite.broker.controller_channel import ControllerChannel
from kafkalite.broker.coordinators import Coordinators
from kafkalite.broker.dynamic_listeners import DynamicListeners
from kafkalite.broker.edges import Edges
from kafkalite.broker.identity import choose_broker_id
from kafkalite.broker.metadata_watcher import MetadataWatcher
from kafkalite.broker.registration import Registration
from kafkalite.broker.settings import (
    announced_events,
    api_config,
    client_quotas,
    controller_config,
    network_limits,
    replication_config,
    replication_rates,
    topic_defaults,
)
from kafkalite.broker.startup import StartSteps
from kafkalite.cluster.control import ControlledShutdownRequest
from kafkalite.cluster.metadata import MetadataCache
from kafkalite.cluster.model import Broker
from kafkalite.common.errors import StartupError
from kafkalite.common.events import EventKind, EventLog
from kafkalite.controller.controller import Controller
from kafkalite.log.log_config import log_manager_config
from kafkalite.log.log_manager import LogManager
from kafkalite.metrics.collectors import collectors_of
from kafkalite.metrics.consumer_group_sampler import ConsumerGroupSampler
from kafkalite.metrics.definitions import Collector
from kafkalite.metrics.page_security import PageSecurity
from kafkalite.metrics.server_metrics import BrokerState
from kafkalite.network.client import BrokerConnection
from kafkalite.network.control_codec import control_versions
from kafkalite.network.request import RequestHandler
from kafkalite.network.request_metrics import MeasuredHandler, RequestChannelMetrics
from kafkalite.network.server import KafkaServer
from kafkalite.replication.broker_epoch import BrokerEpoch
from kafkalite.replication.leader_endpoint import RemoteLeaderEndPoint
from kafkalite.replication.record_traces import RecordTraces
from kafkalite.replication.replica_manager import ReplicaManager
from kafkalite.zk.session_stats import SessionStats
from kafkalite.zk.stores.paths import ensure_paths
from kafkalite.zk.stores.stores import Stores
from kafkalite.zk.stores.tree_protection import warn_of_open_root
from kafkalite.zk.zk_client import SessionState
from kafkalite.zk.znodes.config import CLIENTS, IPS, USERS

log = logging.getLogger(__name__)


class BrokerServer:
    """One broker: makes its parts, connects them, and starts and stops them in order. The parts decide.

    :meth:`connect` makes one; :meth:`start` returns when it serves, :meth:`stop` when it has handed its leaderships
    over and closed its logs. ``on_fatal`` is called with the reason when the broker cannot go on. The broker reaches
    sockets, files, ZooKeeper and clocks through ``edges``; ``steps`` runs the parts of the start that need ZooKeeper.
    """

    @classmethod
    async def connect(cls, config: BrokerConfig, edges: Edges, on_fatal: Callable[[Exception], None]) -> BrokerServer:
        """The broker of ``config``, whose id and cluster are read from ZooKeeper.

        Raises :class:`StartupError` with one line that says what to do.
        """
        session_timeout = config.values["zookeeper.session.timeout.ms"] / 1000
        stores = Stores(edges.zk, edges.clock, session_timeout, edges.rng, edges.znode_acls)
        await edges.zk.start()
        steps = StartSteps(edges.clock, config.zookeeper_connection_timeout_ms / 1000)
        await steps.run("creating the persistent znodes", lambda: ensure_paths(stores.client))
        acls = edges.znode_acls
        if acls is not None:
            await steps.run("reading the ACL of the tree's root", lambda: warn_of_open_root(acls))
        cluster_id = await steps.run("reading the cluster's id", stores.brokers.cluster_id)
        broker_id = await steps.run(
            "choosing the broker's id", lambda: choose_broker_id(config, edges.fs, stores.brokers)
        )
        log.info("starting broker %d of cluster %s", broker_id, cluster_id)
        return cls(config, edges, on_fatal, stores, steps, broker_id, cluster_id)

    def __init__(
        self,
        config: BrokerConfig,
        edges: Edges,
        on_fatal: Callable[[Exception], None],
        stores: Stores,
        steps: StartSteps,
        broker_id: int,
        cluster_id: str,
    ) -> None:
        self.broker_id = broker_id
        self._cluster_id = cluster_id
        self._edges = edges
        self._config = config
        self._stores = stores
        self._clock = edges.clock
        self._executor = edges.executor
        self._zk = edges.zk
        self._session_stats = SessionStats()
        self._state = BrokerState.STARTING
        self._steps = steps
        self._metadata = MetadataCache(self._clock.monotonic)
        self._broker_epoch = BrokerEpoch()
        self.events = EventLog(broker_id, self._clock.time_ms)
        """What this broker decided and noticed."""
        self._live: frozenset[int] = frozenset()
        self._channel = self._make_controller_channel()
        self._logs = self._make_log_manager()
        self._controller = self._make_controller()
        self._config_watcher = self._make_config_watcher()
        self._security = BrokerSecurity(
            config, edges, stores, self._config_watcher.entities, lambda: self._controller.is_active
        )
        self._replicas = self._make_replica_manager()
        self._topics = self._make_topic_admin()
        self._producer_ids = ProducerIdManager(broker_id, stores.producer_ids.allocate)
        self._coordinators = self._make_coordinators()
        self._watcher = self._make_metadata_watcher()
        self._control_plane = self._make_control_plane()
        self.services = self._make_services()
        """The parts that requests are served from."""
        self._group_sampler = self._make_group_sampler()
        dispatcher = Dispatcher(self.services)
        self._fetch_sessions = dispatcher.fetch.sessions
        self._server = self._make_server(dispatcher)
        self._listeners = DynamicListeners(
            config.listening,
            config.dynamic,
            self._server,
            self._security.of_listener,
            lambda: self._registration.update(self._listeners.advertised),
        )
        self._registration = self._make_registration(on_fatal)
        self._follow_entities()
        self._metadata.on_brokers += (
            self._replicas.brokers_changed,
            self._control_plane.brokers_changed,
            self._coordinators.brokers_changed,
            self._live_brokers_changed,
        )
        self._apply_dynamic_values()
        config.dynamic.on_change(self._configuration_changed)

    async def start(self) -> None:
        """Load the logs, register, and serve.

        Raises :class:`StartupError` with one line that says what to do.
        """
        steps = self._steps
        await steps.run("reading the broker's configuration", self._config_watcher.start)
        # Before the logs are opened, because a wrong store ends the start; ZooKeeper may name newer stores.
        await self._security.start(steps, self._config.listening.bound)
        topic_configs = await steps.run("reading the topics' configurations", self._config_watcher.topic_configs)
        await self._logs.start(topic_configs)
        self._listeners.bind()
        self._registration.describe(self._listeners.advertised, self._logs.unclean_start_epoch)
        self._zk.add_listener(self._session_changed)
        try:
            # From here on, because the controller sends requests as soon as it sees the registration.
            self._listeners.queue()
            await steps.run("registering", self._registration.start)
        except StartupError:
            # The logs are unchanged since the last shutdown. Close them, because otherwise the next start is unclean.
            await self._logs.shutdown(unclean_start_epoch=self._logs.unclean_start_epoch)
            raise
        await steps.run("reading the cluster's metadata", self._watcher.start)
        self._controller.start()
        self._coordinators.start()
        # Serve last: before, a client would get metadata without brokers and topics, and would believe it.
        self._listeners.open()
        self._state = BrokerState.RUNNING
        log.info("broker %d serves on %s", self.broker_id, {e.listener: e.port for e in self._listeners.advertised})

    async def stop(self) -> None:
        """Controlled shutdown: hand over, stop serving, close the logs, end the session."""
        values = self._config.values
        log.info("broker %d is stopping", self.broker_id)
        self._state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
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
        self._state = BrokerState.SHUTTING_DOWN
        self._group_sampler.close()
        await self._coordinators.stop()
        self._config_watcher.close()
        await self._server.stop()
        self._security.close()
        await self._controller.stop()
        self._topics.shutdown()
        await self._replicas.shutdown()
        await self._logs.shutdown(self._broker_epoch.epoch, self._registration.unclean_start_epoch)
        await self._registration.stop()
        self._channel.close()
        self._edges.watchdog.stop()
        if self._edges.guardian is not None:
            self._edges.guardian.release()
        await self._zk.close()
        self._executor.close()
        self._edges.logins.close()
        log.info("broker %d has stopped", self.broker_id)

    @property
    def traces(self) -> RecordTraces:
        """The traces of single records. Call on the thread of the reactor."""
        return self._replicas.traces

    def collectors(self) -> tuple[Collector, ...]:
        """What reads the metrics of this broker's parts. Call on the thread of the reactor."""
        return collectors_of(
            self.services,
            self._server,
            self._group_sampler,
            self._session_stats,
            self._edges.zk_latency,
            lambda: self._state,
            self._edges.guardian,
            self._edges.watchdog,
            self._fetch_sessions,
        )

    async def prepare_metrics(self) -> None:
        """Call before each scrape: reads what the collectors cannot wait for."""
        await self._group_sampler.refresh()

    def page_security(self, host: str, port: int, on_reactor: Callable[[Callable[[], bool]], bool]) -> PageSecurity:
        """The security of a page at ``https://host:port``: see :meth:`BrokerSecurity.of_metrics`."""
        return self._security.of_metrics(host, port, on_reactor)

    # The parts, in the order in which they are made

    def _make_controller_channel(self) -> ControllerChannel:
        config, listening = self._config, self._config.listening
        return ControllerChannel(
            lambda broker, listener: self._connector(broker, str(self.broker_id), listener)(),
            control_versions(config.values["inter.broker.protocol.version"]),
            listening.control_plane or listening.inter_broker,
            listening.inter_broker,
            config.values["controller.socket.timeout.ms"] / 1000,
        )

    def _make_log_manager(self) -> LogManager:
        edges = self._edges
        return LogManager(
            self._config.log_dirs,
            log_manager_config(self._config.values),
            edges.fs,
            self._clock,
            self._executor,
            self.broker_id,
            self._cluster_id,
            on_dir_failure=self._log_dir_failed,
            rng=edges.rng,
            cleaner_pool=edges.cleaners,
            boot_id=edges.boot_id,
            record=self.events.record,
        )

    def _make_controller(self) -> Controller:
        return Controller(
            self.broker_id,
            self._stores,
            self._channel,
            self._clock,
            controller_config(self._config.values),
            self._controller_changed,
            self._edges.rng,
            self.events.record,
        )

    def _make_config_watcher(self) -> ConfigWatcher:
        return ConfigWatcher(
            self.broker_id,
            self._stores.config,
            self._config.dynamic,
            self._logs,
            self._controller.unclean_election_allowed,
            self.events.record,
        )

    def _make_replica_manager(self) -> ReplicaManager:
        return ReplicaManager(
            replication_config(self._config, self.broker_id),
            self._logs,
            self._metadata,
            self._stores.isr,
            self._connect_to_leader,
            self._config_watcher.topic_config,
            self._stores.admin.is_being_deleted,
            self._broker_epoch,
            self._clock,
            lambda: self._stores.tell_log_dir_event(self.broker_id),
            self.events.record,
        )

    def _make_topic_admin(self) -> TopicAdmin:
        return TopicAdmin(
            self._stores.topics,
            self._stores.admin,
            self._metadata,
            self._config.dynamic,
            topic_defaults(self._config.values),
            self._clock,
            self._edges.rng,
        )

    def _make_coordinators(self) -> Coordinators:
        return Coordinators(
            self.broker_id,
            self._stores,
            self._metadata,
            self._producer_ids,
            lambda broker: self._connector(broker, f"broker-{self.broker_id}-transaction-markers")(),
            self._clock,
            self._config.values,
            self._edges.rng,
            self.events.record,
        )

    def _make_metadata_watcher(self) -> MetadataWatcher:
        return MetadataWatcher(
            self._stores.brokers,
            self._stores.topics,
            self._metadata,
            self._replicas,
            self._clock,
            self._topics.metadata_changed,
        )

    def _make_control_plane(self) -> ControlPlane:
        listening = self._config.listening
        return ControlPlane(
            self._metadata,
            self._replicas,
            self._controller,
            self._metadata_changed,
            self._broker_epoch,
            self._clock.monotonic,
            self._watcher.controller_spoke,
            listening.inter_broker,
            listening.control_plane,
        )

    def _make_services(self) -> BrokerServices:
        config, stores = self._config, self._stores
        return BrokerServices(
            broker_id=self.broker_id,
            cluster_id=self._cluster_id,
            api_config=api_config(config.values),
            metadata=self._metadata,
            replicas=self._replicas,
            partitions=self._replicas.replicas,
            offset_queries=self._replicas.offset_queries,
            logs=self._logs,
            controller=self._controller,
            control=self._control_plane,
            topics=self._topics,
            configs=ConfigAdmin(self.broker_id, stores.config, self._metadata, config.dynamic),
            config_store=stores.config,
            tokens=self._security.tokens,
            producer_ids=self._producer_ids,
            offsets=self._coordinators.offsets,
            groups=self._coordinators.groups,
            transactions=self._coordinators.transactions,
            clock=self._clock,
            rng=self._edges.rng,
            quotas=client_quotas(config.values),
            authorizer=self._security.authorizer,
            request_metrics=(
                RequestChannelMetrics((key, api.versions.max) for key, api in served().items())
                if config.values["metrics.listener"]
                else None
            ),
        )

    def _make_group_sampler(self) -> ConsumerGroupSampler:
        return ConsumerGroupSampler(
            self.broker_id,
            self._coordinators.groups.admin,
            self._coordinators.offsets,
            self._replicas.offset_queries,
            self._metadata,
            lambda broker: self._connector(broker, f"broker-{self.broker_id}-metrics")(),
            self._clock,
        )

    def _make_server(self, dispatcher: Dispatcher) -> KafkaServer:
        handler: RequestHandler = dispatcher
        if self.services.request_metrics is not None:
            handler = MeasuredHandler(handler, self.services.request_metrics, self._clock.monotonic)
        return KafkaServer(
            self._edges.reactor,
            handler,
            network_limits(self._config),
            self._executor,
            self._edges.logins,
            self._clock.monotonic,
            self._edges.sockets,
            self._clock.time_ms,
            self.events.record,
            self._edges.login_reactor,
        )

    def _make_registration(self, on_fatal: Callable[[Exception], None]) -> Registration:
        return Registration(
            self._zk,
            self._stores.brokers,
            self._clock,
            Broker(self.broker_id, (), self._config.rack, events=announced_events(self._config)),
            self._registered,
            on_fatal,
        )

    def _follow_entities(self) -> None:
        entities = self._config_watcher.entities
        for kind in (USERS, CLIENTS):
            entities.follow(kind, partial(self._quotas_changed, kind))
        entities.follow(IPS, self._server.quotas.update_ip)

    # How parts reach one another

    def _metadata_changed(self, topics: Sequence[str]) -> None:
        self._topics.metadata_changed(topics)
        self._watcher.controller_named(topics)

    def _configuration_changed(self, names: frozenset[str]) -> None:
        values = self._config.dynamic
        self._apply_dynamic_values()
        self._controller.reconfigure(controller_config(values.values))
        self._server.reconfigure(network_limits(self._config))
        if "background.threads" in names:
            self._executor.resize(values["background.threads"])
        if "num.replica.fetchers" in names:
            self._replicas.fetchers.resize(values["num.replica.fetchers"])

    def _apply_dynamic_values(self) -> None:
        values = self._config.dynamic.values
        self._replicas.quotas.update_rates(replication_rates(values))
        verifier = self._coordinators.transactions.verifier
        verifier.is_enabled = bool(values["transaction.partition.verification.enable"])

    def _quotas_changed(self, kind: str, name: str, overrides: Mapping[str, str]) -> None:
        self.services.quotas.update(f"{kind}/{name}", overrides)

    def _connect_to_leader(self, leader: Broker, number: int) -> RemoteLeaderEndPoint:
        return RemoteLeaderEndPoint(
            self._connector(leader, f"broker-{self.broker_id}-fetcher-{number}"),
            self._config.values["replica.socket.timeout.ms"] / 1000,
        )

    def _connector(self, broker: Broker, client_id: str, listener: str | None = None) -> Callable[[], BrokerConnection]:
        listener = listener or self._config.listening.inter_broker
        endpoint = broker.endpoint(listener)
        if endpoint is None:
            raise LookupError(f"broker {broker.id} has no listener {listener}")
        edges = self._edges
        security = self._security.of_connections(endpoint)
        return lambda: BrokerConnection(
            edges.reactor,
            endpoint.host,
            endpoint.port,
            client_id,
            sockets=edges.sockets,
            security=security(),
        )

    # What happens to a broker

    async def _registered(self, epoch: int, session: int) -> None:
        if self._edges.guardian is not None:
            self._edges.guardian.watch(session, self._zk.password, self._zk.session_timeout_ms)
        self._edges.watchdog.watch(session, self._zk.password, self._zk.session_timeout_ms)
        self.events.record(
            EventKind.REGISTRATION,
            f"broker {self.broker_id} is registered in session 0x{session & (2**64 - 1):x}",
            zxid=epoch,
        )
        self._replicas.registered(epoch, session, self._registration.unclean_start_epoch)
        self._watcher.resync()
        await self._logs.registered(self._registration.unclean_start_epoch)

    def _session_changed(self, state: SessionState) -> None:
        log.info("ZooKeeper session 0x%x: %s", self._zk.session & (2**64 - 1), state.value)
        self.events.record(EventKind.SESSION, f"ZooKeeper session 0x{self._zk.session & (2**64 - 1):x}: {state.value}")
        self._session_stats.changed(state)
        self._replicas.on_zk_state(state)
        self._controller.on_session(state)
        self._coordinators.on_session(state)

    def _log_dir_failed(self, log_dir: str) -> None:
        self._replicas.directory_failed(log_dir)

    def _controller_changed(self, controller_id: int) -> None:
        if self._metadata.set_controller(controller_id):
            log.info("the controller is now broker %d", controller_id)
            if controller_id not in (-1, self.broker_id):
                self.events.record(
                    EventKind.CONTROLLER, f"broker {self.broker_id} sees the controller: {controller_id}"
                )

    def _live_brokers_changed(self) -> None:
        live = frozenset(self._metadata.brokers)
        for broker in sorted(self._live - live):
            self.events.record(EventKind.SESSION, f"broker {broker} is no longer registered: its session closed")
        for broker in sorted(live - self._live - {self.broker_id}):
            self.events.record(
                EventKind.REGISTRATION, f"broker {broker} is registered", cause=self._metadata.brokers[broker].epoch
            )
        self._live = live

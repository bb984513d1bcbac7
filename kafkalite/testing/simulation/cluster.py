"""Whole brokers on simulated machines, with their starts, stops and kills. Deterministic.

Answers to: :class:`kafkalite.embedded.cluster.LocalCluster`, on virtual time.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import TracebackType

from kafkalite.apis.services import BrokerServices
from kafkalite.broker.config import BrokerConfig
from kafkalite.broker.edges import Edges
from kafkalite.broker.server import BrokerServer
from kafkalite.common.clock import Clock
from kafkalite.common.errors import ConfigError, StartupError
from kafkalite.common.tasks import deferred
from kafkalite.common.types import TopicPartition
from kafkalite.network.client import BrokerConnection
from kafkalite.replication.partition import Partition
from kafkalite.testing.ensemble import Ensemble, EnsembleClient, Timing
from kafkalite.testing.simulation.disk import SimDisk
from kafkalite.testing.simulation.edges import SimCleaners, SimExecutor, SimGuardian, SimWatchdog
from kafkalite.testing.simulation.reactor import SimReactor
from kafkalite.testing.simulation.wires import Network, SimSockets
from kafkalite.testing.simulation.world import Life, World

log = logging.getLogger(__name__)

PORT = 9092
"""The port of every broker on its own host, for clients and for other brokers."""
_ZOOKEEPER_SERVERS = 3
_ZOOKEEPER_TIMING = Timing(tick=1.0)
"""A shorter tick than the usual 2 s, because the shortest session that ZooKeeper grants is two ticks."""
_RAM_DISK = Path("/dev/shm")

SETTINGS = {
    "zookeeper.connect": "zookeeper:2181",
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "3000",
    "replica.socket.timeout.ms": "3000",
    "replica.fetch.wait.max.ms": "500",
    "controller.socket.timeout.ms": "3000",
    "request.timeout.ms": "3000",
    "controlled.shutdown.max.retries": "2",
    "controlled.shutdown.retry.backoff.ms": "1000",
    "log.segment.bytes": "8192",
    "log.retention.check.interval.ms": "5000",
    "log.flush.offset.checkpoint.interval.ms": "2000",
    "log.cleaner.backoff.ms": "2000",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": "1048576",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "100",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "auto.create.topics.enable": "false",
    "leader.imbalance.check.interval.seconds": "10",
}
"""Small intervals and sizes, so that many events happen in little virtual time."""


class BrokerStatus(Enum):
    """The state of a broker's process."""

    DOWN = "down"
    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"


@dataclass(frozen=True)
class ClientNode:
    """A machine with a client's process: ``connect`` returns a connection that is not open yet."""

    life: Life
    clock: Clock
    rng: random.Random
    reactor: SimReactor
    sockets: SimSockets

    def connect(self, host: str, port: int, client_id: str | None) -> BrokerConnection:
        """A connection to a broker."""
        return BrokerConnection(self.reactor, host, port, client_id, sockets=self.sockets)

    def spawn(self, work: Callable[[], Awaitable[object]], what: str) -> None:
        """Run a coroutine in this process; its failure is logged, and thereby a violation."""

        def begin() -> None:
            deferred(work()).addErrback(
                lambda failure: log.error("%s failed: %s", what, failure.value, exc_info=failure.value)
            )

        self.life.run(begin)


class SimBroker:
    """One broker's machine: its configuration and files, and its processes, one after the other."""

    def __init__(self, cluster: SimCluster, number: int, overrides: Mapping[str, str]) -> None:
        self.id = number
        self.host = f"broker-{number}"
        self.status = BrokerStatus.DOWN
        self.life: Life | None = None
        self.server: BrokerServer | None = None
        self.zk: EnsembleClient | None = None
        self.fatal: str = ""
        self._cluster = cluster
        self._node = cluster.world.node(self.host)
        self._watchdog: SimWatchdog | None = None
        self._guardian: SimGuardian | None = None
        self._power_is_off = False
        self._boot = 1
        self.folder = cluster.folder / self.host
        self.folder.mkdir()
        self.texts = {
            **SETTINGS,
            "broker.id": str(number),
            "listeners": f"PLAINTEXT://{self.host}:{PORT}",
            "log.dirs": f"{self.host}/logs",
            **overrides,
        }
        clock = cluster.world.time_ms
        self.disk = cluster.make_disk(lambda: clock() + self._node.clock_offset_ms)

    @property
    def services(self) -> BrokerServices | None:
        """The broker's parts (its logs, its metadata, …), read only; ``None`` if it does not serve."""
        return self.server.services if self.server is not None and self.status is BrokerStatus.SERVING else None

    def last_partition(self, tp: TopicPartition) -> Partition | None:
        """The partition in the current process, or its last state in the process before."""
        services = self.server.services if self.server is not None else None
        return None if services is None else services.replicas.replicas.partitions.get(tp)

    @property
    def is_alive(self) -> bool:
        """Whether there is a process, paused or not."""
        return self.life is not None and self.life.alive

    def start(self, overrides: Mapping[str, str] | None = None) -> None:
        """Start the process; it and later ones have ``overrides``."""
        cluster, world = self._cluster, self._cluster.world
        if self.is_alive:
            raise RuntimeError(f"{self.host} runs already")
        self.texts.update(overrides or {})
        world.note("starts", self.host)
        life = self.life = self._node.start()
        life.at_end.append(self._ended)
        self.fatal = ""
        config = BrokerConfig.parse(self.texts)
        sockets = SimSockets(cluster.network, life)
        zk = self.zk = cluster.zookeeper.client(
            life.clock,
            self.host,
            config.values["zookeeper.session.timeout.ms"],
            config.zookeeper_connection_timeout_ms,
            life.threads.clock,
        )
        life.keep.append(zk)
        life.at_end.append(lambda: zk.kill(silent=self._power_is_off))
        files = self.disk.mount()
        guarded = config.values["zookeeper.session.guardian.enable"]
        guardian = self._guardian = SimGuardian(life, cluster.zookeeper.expire) if guarded else None
        watchdog = self._watchdog = SimWatchdog(life, cluster.zookeeper.expire)
        executor = SimExecutor(life, lambda: self.disk.slowness)
        edges = Edges(
            reactor=SimReactor(life, sockets),
            clock=life.clock,
            sockets=sockets,
            zk=zk,
            fs=files,
            executor=executor,
            logins=executor,
            guardian=guardian,
            watchdog=watchdog,
            cleaners=SimCleaners(life, files),
            rng=world.rng(f"broker {self.id}"),
            secrets=world.rng(f"secrets of broker {self.id}"),
            boot_id=f"boot {self._boot} of {self.host}",
        )
        self.server = None
        self.status = BrokerStatus.STARTING
        life.run(lambda: deferred(self._start(config, edges, life)).addErrback(self._start_failed))

    async def _start(self, config: BrokerConfig, edges: Edges, life: Life) -> None:
        server = self.server = await BrokerServer.connect(config, edges, self._fatal)
        life.keep.append(server)
        await server.start()
        self._serves(life)

    def stop(self) -> None:
        """Begin a controlled shutdown; a broker that does not serve yet is killed."""
        life, server = self.life, self.server
        if life is None or not life.alive:
            return
        if self.status is BrokerStatus.STARTING:
            self.kill()
            return
        if self.status is not BrokerStatus.SERVING or server is None:
            return
        self.status = BrokerStatus.STOPPING
        self._cluster.world.note("stops", self.host)
        life.run(lambda: deferred(server.stop()).addCallbacks(lambda _: self._exit(), self._stop_failed))

    def kill(self, guardian_dies_too: bool = False) -> None:
        """``kill -9``: all writes to files stay, and the guardian ends the session.

        With ``guardian_dies_too`` (like a killed container) the session ends by its timeout.
        """
        life = self.life
        if life is None or not life.alive:
            return
        if guardian_dies_too and self._guardian is not None:
            self._guardian.release()
        self._end("killed")

    def lose_power(self) -> None:
        """The machine loses power: its peers get no reset, and data that were not synced may be lost.

        This also works if the process has ended before, because its writes may be only in the page cache.
        """
        self._power_is_off = True
        if self.life is not None:
            self.life.lose_power()
        self._power_is_off = False
        self._boot += 1
        self._cluster.network.lose_power(self.host)
        self.disk.power_lost(self._cluster.world.rng(f"power {self.host}"))

    def pause(self) -> None:
        """Pause the process (SIGSTOP). The session ends by its timeout."""
        if self.life is not None and self.life.alive:
            self.life.pause()

    def hang(self) -> None:
        """Make the reactor hang while kazoo's thread runs, so that the watchdog must end the session."""
        if self.life is not None and self.life.alive and self._watchdog is not None:
            self.life.hang()
            self._watchdog.hung()

    def resume(self) -> None:
        """Undo :meth:`pause` or :meth:`hang`."""
        if self.life is not None and self.life.alive:
            if self._watchdog is not None:
                self._watchdog.back()
            self.life.resume()

    def _serves(self, life: Life) -> None:
        if life is self.life and self.status is BrokerStatus.STARTING:
            self.status = BrokerStatus.SERVING
            self._cluster.world.note("serves", self.host)

    def _start_failed(self, failure: object) -> None:
        error = getattr(failure, "value", failure)
        if isinstance(error, StartupError | ConfigError):
            self._fatal(error)
            return
        log.critical("the broker could not start: %s", error, exc_info=error if isinstance(error, Exception) else None)
        self._exit(str(error))

    def _stop_failed(self, failure: object) -> None:
        error = getattr(failure, "value", failure)
        log.critical("the shutdown failed: %s", error, exc_info=error if isinstance(error, Exception) else None)
        self._exit(str(error))

    def _fatal(self, error: Exception) -> None:
        log.critical("%s", error)
        self.fatal = str(error)
        if self.status is BrokerStatus.SERVING:
            self.stop()
        else:
            self._exit(str(error))

    def _exit(self, why: str = "") -> None:
        """The process ends by itself, at the end of the current event."""
        self.fatal = why or self.fatal
        life = self.life
        if life is not None:
            self._cluster.world.call_later(0, self._exited, life)

    def _exited(self, life: Life) -> None:
        if life is self.life and life.alive:
            self._end("ended")

    def _end(self, how: str) -> None:
        assert self.life is not None
        self.life.kill(how)
        self.disk.process_died()

    def _ended(self) -> None:
        self.status = BrokerStatus.DOWN


class SimCluster:
    """Brokers 1 to ``brokers`` and the ZooKeeper that they share, on one network.

    Use it as a context manager inside its world's. Inside, its folder is the process's working directory, so that paths
    (also in messages) are the same in every run; the folder is deleted at the end. ``make_disk`` makes the disk of a
    machine; its argument returns the machine's time of day in milliseconds.
    """

    def __init__(
        self,
        world: World,
        brokers: int = 3,
        overrides: Mapping[str, str] | None = None,
        make_disk: Callable[[Callable[[], int]], SimDisk] = SimDisk,
    ) -> None:
        self.world = world
        self.network = Network(world)
        self.zookeeper = Ensemble(world.clock, world.rng("zookeeper"), _ZOOKEEPER_SERVERS, _ZOOKEEPER_TIMING)
        self.make_disk = make_disk
        self.folder = Path(tempfile.mkdtemp(prefix="kafkalite-", dir=_RAM_DISK if _RAM_DISK.is_dir() else None))
        self.brokers = {number: SimBroker(self, number, overrides or {}) for number in range(1, brokers + 1)}
        self._clients: dict[str, ClientNode] = {}
        self._outside = Path.cwd()

    @property
    def bootstrap(self) -> tuple[tuple[str, int], ...]:
        """Host and port of every broker."""
        return tuple((broker.host, PORT) for broker in self.brokers.values())

    def start_all(self, limit: float = 30.0) -> None:
        """Start every broker and let time pass until all serve. Raises ``TimeoutError`` after ``limit`` seconds."""
        for broker in self.brokers.values():
            broker.start()
        end = self.world.now + limit
        if not self.world.run_until(lambda: all(b.status is BrokerStatus.SERVING for b in self.brokers.values()), end):
            raise TimeoutError(f"not all brokers serve within {limit:g} s")

    def start(self, broker: int, overrides: Mapping[str, str] | None = None) -> None:
        """See :meth:`SimBroker.start`."""
        self.brokers[broker].start(overrides)

    def stop(self, broker: int) -> None:
        """See :meth:`SimBroker.stop`."""
        self.brokers[broker].stop()

    def kill(self, broker: int) -> None:
        """See :meth:`SimBroker.kill`."""
        self.brokers[broker].kill()

    def restart(self, broker: int) -> None:
        """Kill the process, if it runs, and start another."""
        self.brokers[broker].kill()
        self.brokers[broker].start()

    def lose_power(self, broker: int) -> None:
        """See :meth:`SimBroker.lose_power`."""
        self.brokers[broker].lose_power()

    def pause(self, broker: int) -> None:
        """See :meth:`SimBroker.pause`."""
        self.brokers[broker].pause()

    def hang(self, broker: int) -> None:
        """See :meth:`SimBroker.hang`."""
        self.brokers[broker].hang()

    def resume(self, broker: int) -> None:
        """See :meth:`SimBroker.resume`."""
        self.brokers[broker].resume()

    @property
    def clients(self) -> dict[str, Life]:
        """The running processes of clients, by name."""
        return {name: node.life for name, node in self._clients.items() if node.life.alive}

    def client_node(self, name: str) -> ClientNode:
        """Start the process of a client on a new machine."""
        found = self._clients.get(name)
        if found is None or not found.life.alive:
            life = self.world.node(name).start()
            sockets = SimSockets(self.network, life)
            reactor = SimReactor(life, sockets)
            found = self._clients[name] = ClientNode(
                life, life.clock, self.world.rng(f"client {name}"), reactor, sockets
            )
        return found

    def __enter__(self) -> SimCluster:
        self._outside = Path.cwd()
        os.chdir(self.folder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.world.nodes.values():
            if node.life is not None:
                node.life.end_world()
        os.chdir(self._outside)
        shutil.rmtree(self.folder, ignore_errors=True)

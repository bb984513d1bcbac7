"""One history, from its plan to its outcome.

Answers to: nothing in Kafka; a test of Jepsen. Deterministic.

A history has four parts: the brokers start and topics are created; clients work while faults are injected; all faults
are healed and the cluster has :data:`~kafkalite.testing.simulation.plan.HEALING` virtual seconds to converge, while the
clients continue; at the end all records are read again and compared with the answers to the clients.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import spawn
from kafkalite.common.types import TopicPartition
from kafkalite.log.log import Log
from kafkalite.network.client import ConnectionLost
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.testing.ensemble import NodeTransaction
from kafkalite.testing.history.checker import check
from kafkalite.testing.history.events import (
    Acked,
    Compacted,
    Event,
    GroupRemoved,
    Isolation,
    OffsetCommitted,
    OffsetFetched,
    Replica,
)
from kafkalite.testing.simulation.beliefs import Beliefs
from kafkalite.testing.simulation.clients.cluster import ClusterClient
from kafkalite.testing.simulation.clients.fetcher import FetchSettings
from kafkalite.testing.simulation.clients.host import ClientHost
from kafkalite.testing.simulation.clients.producer import Producer, ProducerSettings
from kafkalite.testing.simulation.clients.reader import Reader, ReaderSettings
from kafkalite.testing.simulation.cluster import SETTINGS, SimCluster
from kafkalite.testing.simulation.compaction import checked_compactions
from kafkalite.testing.simulation.convergence import differences, entries, leftovers
from kafkalite.testing.simulation.disk import SimDisk
from kafkalite.testing.simulation.durability import Durability, synced_end
from kafkalite.testing.simulation.injector import FaultInjector
from kafkalite.testing.simulation.invariants import (
    GENERATION_PATH,
    Kind,
    ZnodeInvariants,
    is_state,
    znode_change,
)
from kafkalite.testing.simulation.joining import checked_joining
from kafkalite.testing.simulation.keepers import Keepers
from kafkalite.testing.simulation.laggards import Laggards
from kafkalite.testing.simulation.leader_epochs import checked_leader_epochs
from kafkalite.testing.simulation.loaded_log import check_loaded_log, checked_logs
from kafkalite.testing.simulation.plan import ACTIVE, HEALING, ClientStep, Plan, Step
from kafkalite.testing.simulation.promises import Promises, Surroundings
from kafkalite.testing.simulation.registrations import Registrations
from kafkalite.testing.simulation.scenarios import SCENARIOS
from kafkalite.testing.simulation.told_high_watermarks import ToldHighWatermarks
from kafkalite.testing.simulation.topology import Topology
from kafkalite.testing.simulation.workload import CLIENTS, Client
from kafkalite.testing.simulation.world import World
from kafkalite.testing.simulation.writers import Writers
from kafkalite.zk.zk_client import Check
from kafkalite.zk.znodes import brokers

_WORK_ON = 3.0
"""Virtual seconds for which the clients continue after the healing."""
_LOOK = 0.1
"""Virtual seconds between two checks of all replicas."""
_LAST_SESSION = 15.0
"""Virtual seconds after the end of the clients after which no group has a member; longer than any session."""
_PROBE = "probe"
"""Name of the producer that checks after the healing that every partition accepts records."""


@dataclass
class HistoryOutcome:
    """The outcome of one history. ``violations`` is empty if all rules held."""

    seed: int
    violations: list[str] = field(default_factory=list)
    events: int = 0
    acknowledged: int = 0
    operations: int = 0
    faults: int = 0
    seconds: float = 0.0
    """Virtual seconds."""
    digest: str = ""
    story: list[str] = field(default_factory=list)


def run_history(
    plan: Plan, trace: Callable[[float, str, str], None] | None = None, story: bool = False
) -> HistoryOutcome:
    """Run the history of ``plan``; with ``story`` the outcome has its events as readable lines."""
    with World(plan.seed, trace) as world, SimCluster(world, plan.brokers, plan.settings) as cluster:
        history = _History(plan, world, cluster)
        tell = history.log_is_wrong
        durability = Durability(_disks(cluster), tell)
        with (
            checked_logs(tell, durability),
            checked_leader_epochs(history.breach),
            checked_joining(cluster, Topology(cluster), history.breach),
            checked_compactions(tell),
            history.told.counting(),
        ):
            return history.run(story)


def _disks(cluster: SimCluster) -> dict[str, SimDisk]:
    return {broker.texts["log.dirs"]: broker.disk for broker in cluster.brokers.values()}


class _History:
    def __init__(self, plan: Plan, world: World, cluster: SimCluster) -> None:
        self._plan = plan
        self._world = world
        self._cluster = cluster
        self._topology = Topology(cluster)
        self._injector = FaultInjector(cluster)
        self._events: list[Event] = []
        self._violations: list[str] = []
        self._keepers = Keepers(cluster, self._injector.data_losses, synced_end, self._violations.append)
        settings = {**SETTINGS, **plan.settings}
        max_lag = int(settings["replica.lag.time.max.ms"]) / 1000
        self._laggards = Laggards(cluster, max_lag, self._injector.is_cut_off, self._violations.append)
        self._registrations = Registrations(cluster, self._injector.is_cut_off, self._violations.append)
        self.told = ToldHighWatermarks(cluster, self._violations.append)
        self._promises = Promises(
            Surroundings(
                cluster.zookeeper.tree.nodes,
                self._keepers.where_open,
                lambda: world.now,
                self._injector.unaware,
                int(settings["zookeeper.session.timeout.ms"]) / 1000,
                self._injector.without_zookeeper_since,
            ),
            self._violations.append,
        )
        self._clients: list[Client] = []
        self._working: dict[str, None] = {}

    def log_is_wrong(self, fault: str) -> None:
        """A log violates the rules for a single log, or its recovery point is wrong."""
        if not self._injector.reads_wrong_bits:
            self.breach(fault)

    def breach(self, line: str) -> None:
        """A rule is violated; violations of a process that has just died do not count."""
        if not self._world.is_past_death:
            self._violations.append(line)

    def run(self, story: bool) -> HistoryOutcome:
        """The whole history."""
        world = self._world
        invariants, writers = ZnodeInvariants(self._injector.shortened), Writers()
        beliefs = Beliefs(
            self._cluster.brokers, self._topology.registration, self._injector.power_losses, self._violations.append
        )

        def committed(transaction: NodeTransaction) -> None:
            changes = [znode_change(change.op) for change in transaction.changes if not isinstance(change.op, Check)]
            self._violations.extend(invariants.committed(transaction.zxid, transaction.session, changes))
            self._violations.extend(writers.committed(transaction.zxid, transaction.session, changes))
            self._promises.committed(transaction.zxid, changes)
            for change in changes:
                group = GENERATION_PATH.match(change.path)
                if group is not None and change.kind is Kind.DELETED:
                    self._events.append(GroupRemoved(group[1]))
            if any(change.path.startswith(f"{brokers.IDS}/") for change in changes):
                for broker in self._topology.brokers():
                    self._keepers.registered(broker)
            if any(is_state(change.path) for change in changes):
                self._keepers.states_changed(self._topology.states())
            beliefs.committed(changes)

        self._cluster.zookeeper.on_commit(committed)
        try:
            self._cluster.start_all()
            self._make_topics()
            self._look()
            self._disturb()
            self._heal()
        except TimeoutError as error:
            self._violations.append(str(error))
        else:
            self._judge()
        for line in world.failures:
            self._violations.append(f"logged: {line}")
        return HistoryOutcome(
            self._plan.seed,
            list(dict.fromkeys(self._violations)),
            world.events,
            sum(isinstance(event, Acked) for event in self._events),
            sum(isinstance(event, Acked | OffsetCommitted) for event in self._events),
            self._injector.count,
            world.now,
            world.digest(),
            [str(line) for line in world.lines] if story else [],
        )

    def _look(self) -> None:
        """Check all replicas, now and every :data:`_LOOK` seconds."""
        self._keepers.look()
        self._laggards.look(self._topology.states())
        self._registrations.look()
        self.told.look(self._topology.states())
        self._world.call_later(_LOOK, self._look)

    # The parts

    def _make_topics(self) -> None:
        """Create the topics. Raises ``TimeoutError`` if the brokers do not create them."""
        made: list[bool] = []

        async def make() -> None:
            await self._create(ClusterClient(self._host("admin"), "admin"))
            made.append(True)

        self._cluster.client_node("admin").spawn(make, "making topics")
        states = self._topology.states
        count = sum(topic.partitions for topic in self._plan.topics)
        if not self._world.run_until(lambda: bool(made) and len(states()) == count, self._world.now + 30):
            raise TimeoutError("the topics were not made within 30 s")
        for topic in self._plan.topics:
            if ("cleanup.policy", "compact") in topic.configs:
                self._events.append(Compacted(topic.name))

    async def _create(self, cluster: ClusterClient) -> None:
        make = messages.CreateTopicsRequest
        topics = [
            make.CreatableTopic(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=3,
                configs=[
                    make.CreatableTopic.CreatableTopicConfig(name=key, value=value) for key, value in topic.configs
                ],
            )
            for topic in self._plan.topics
        ]
        cluster.request_update()
        while True:
            try:
                answer = await cluster.ask_node(
                    cluster.controller, ApiKey.CREATE_TOPICS, 5, topics=topics, timeout_ms=3000, validate_only=False
                )
            except ConnectionLost:
                pass
            else:
                if all(topic.error_code in (0, ErrorCode.TOPIC_ALREADY_EXISTS) for topic in answer.topics):
                    break
            cluster.request_update()
            await cluster.host.sleep(0.2)
        cluster.close()

    def _disturb(self) -> None:
        world = self._world
        begin = world.now
        for client in self._plan.clients:
            world.call_later(client.at, self._begin_client, client)
        for step in self._plan.steps:
            world.call_later(step.at, self._begin_scenario, step)
        world.run_until(begin + ACTIVE)

    def _heal(self) -> None:
        """Heal all faults and wait until the cluster has converged. Raises ``TimeoutError`` with the differences.

        The clients stop before the wait, because new records would bring the followers a high watermark that they must
        get without them.
        """
        world = self._world
        self._injector.heal()
        end = world.now + HEALING
        world.run_until(world.now + _WORK_ON)
        for client in self._clients:
            client.stop()
        self._wait_until_done(end)
        stopped = world.now
        self._wait_until_converged(end)
        probe = Producer(
            self._host(_PROBE),
            ProducerSettings(_PROBE, tuple(topic.name for topic in self._plan.topics), most=30, rate=50, keys=5),
        )
        self._begin(probe, _PROBE)
        end = world.now + HEALING
        self._wait_until_done(end)
        if not probe.acknowledged:
            raise TimeoutError("after the healing no record was acknowledged")
        self._wait_until_converged(end)
        end = max(world.now, stopped + _LAST_SESSION)
        nodes = self._cluster.zookeeper.tree.nodes
        self._wait_for_none(lambda: leftovers(nodes), end, f"{_LAST_SESSION:g} s after the last client has ended")
        self._restart_all()
        self._wait_until_converged(world.now + HEALING)

    def _restart_all(self) -> None:
        """Stop one broker in order, kill the others, and start all.

        Every history ends so, because few random faults come after a history's last aborts, commits and compactions,
        and only the load of a log shows what an end of a process leaves. Raises ``TimeoutError``.
        """
        world = self._world
        first, *others = world.rng("the last restart").sample(list(self._cluster.brokers.values()), self._plan.brokers)
        life = first.life
        first.stop()
        if not world.run_until(lambda: first.life is not life or not first.is_alive, world.now + HEALING):
            raise TimeoutError(f"{first.host} did not stop within {HEALING:g} s")
        for other in others:
            other.kill()
        for broker in self._cluster.brokers:
            self._injector.start(broker)

    def _wait_until_done(self, end: float) -> None:
        if not self._world.run_until(lambda: not self._working, end):
            raise TimeoutError(f"not done {HEALING:g} s after the healing: {', '.join(self._working)}")

    def _wait_until_converged(self, end: float) -> None:
        self._wait_for_none(self._differences, end, f"not as it should be {HEALING:g} s after the healing")

    def _wait_for_none(self, look: Callable[[], list[str]], end: float, what: str) -> None:
        world = self._world
        while found := look():
            if world.now >= end:
                raise TimeoutError(f"{what}: {'; '.join(found)}")
            world.run_until(min(end, world.now + 0.25))

    def _judge(self) -> None:
        """Read all records again, compare the replicas, and check the history."""
        world, states = self._world, self._topology.states()
        topics = {topic.name for topic in self._plan.topics}
        ends = {tp: self._end(state.leader, tp) for tp, state in states.items() if tp.topic in topics}
        readers = [self._final_reader(isolation) for isolation in Isolation]
        done: list[bool] = []
        for reader in readers:
            self._begin(reader, reader.settings.name)
            self._spawn(self._read_to(reader, ends, done), "the last reading")
        world.run_until(lambda: len(done) == len(readers), world.now + 15)
        if len(done) < len(readers) or not all(done):
            self._violations.append(f"the last readers did not reach the ends {ends}")
        for reader in readers:
            reader.stop()
        for tp, state in states.items():
            for broker in state.replicas:
                self._note_replica(tp, broker)
        self._violations += [str(breach) for breach in check(self._events)]

    async def _read_to(self, reader: Reader, ends: dict[TopicPartition, int], done: list[bool]) -> None:
        done.append(await reader.read_to(ends, 12))

    def _final_reader(self, isolation: Isolation) -> Reader:
        name = f"last-{isolation.value}"
        topics = tuple(topic.name for topic in self._plan.topics)
        return Reader(self._host(name), ReaderSettings(name, topics, FetchSettings(isolation)))

    def _end(self, broker: int, tp: TopicPartition) -> int:
        partition = self._cluster.brokers[broker].last_partition(tp)
        return 0 if partition is None else int(partition.log.high_watermark)

    def _note_replica(self, tp: TopicPartition, broker: int) -> None:
        partition = self._cluster.brokers[broker].last_partition(tp)
        if partition is None or not isinstance(partition.log, Log):
            return
        self._violations += [f"at the end: {fault}" for fault in check_loaded_log(partition.log)]
        try:
            start = partition.log.log_start_offset
            self._events.append(Replica(str(tp), broker, entries(Path(partition.log.dir)), start))
        except LookupError as error:
            self._violations.append(str(error))

    def _differences(self) -> list[str]:
        brokers = self._cluster.brokers
        known = {number: broker.services for number, broker in brokers.items() if broker.services is not None}
        if len(known) < len(brokers):
            return [f"only the brokers {sorted(known)} serve"]
        return differences(self._topology.states(), self._topology.controller(), known)

    # Clients and scenarios

    def _begin_client(self, step: ClientStep) -> None:
        name = f"{step.kind}-{step.stream}"
        client = CLIENTS[step.kind].make(self._host(name), name, self._world.rng(f"settings of {name}"))
        self._clients.append(client)
        self._begin(client, name)

    def _begin(self, client: Client, name: str) -> None:
        self._working[name] = None

        async def run() -> None:
            try:
                await client.run()
            finally:
                del self._working[name]

        self._cluster.client_node(name).spawn(run, name)

    def _begin_scenario(self, step: Step) -> None:
        self._world.note(f"scenario {step.scenario}")
        rng = self._world.rng(f"scenario {step.stream}")
        self._spawn(SCENARIOS[step.scenario].play(self._injector, rng), step.scenario)

    def _spawn(self, work: Awaitable[None], what: str) -> None:
        spawn(work, what, lambda error: self._violations.append(f"the simulation itself failed in {what}: {error!r}"))

    def _host(self, name: str) -> ClientHost:
        node = self._cluster.client_node(name)
        return ClientHost(
            node.clock,
            node.rng,
            node.connect,
            self._note,
            lambda text: self._violations.append(f"client: {text}"),
            self._cluster.bootstrap,
            self._injector.tolerated,
        )

    def _note(self, event: Event) -> None:
        if isinstance(event, OffsetFetched) and not self._promises.is_coordinator(event.group, event.broker):
            # Skipped, because a broker that does not know yet that its claim has ended answers with old offsets; no
            # member continues from them, because it is fenced when it joins.
            return
        self._events.append(event)
        if isinstance(event, Acked):
            self._keepers.acked(event)
        else:
            self._promises.note(event)

"""All faults of a history go through this module: counted, recorded in the story, and healed at the end.

Answers to: nothing in Kafka; the nemesis of Jepsen's tests. Deterministic.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import Future
from kafkalite.common.types import NO_LEADER, TopicPartition
from kafkalite.log.flushing import FlushWork
from kafkalite.log.log import Log
from kafkalite.log.partition_folder import CLEANED_SUFFIX, SWAP_SUFFIX
from kafkalite.record.batch import HEADER_SIZE, CorruptRecordError, check_crc, iter_headers, read_any_header
from kafkalite.testing.ensemble import EnsembleClient
from kafkalite.testing.ensemble.server import ServerRole
from kafkalite.testing.simulation.cluster import BrokerStatus, SimBroker, SimCluster
from kafkalite.testing.simulation.disk import SimDisk
from kafkalite.testing.simulation.durability import checkpointed_recovery_point
from kafkalite.testing.simulation.topology import Topology
from kafkalite.testing.simulation.wires import WINDOW
from kafkalite.testing.simulation.world import Life
from kafkalite.zk.znodes.claims import CONTROLLER

_LOOK = 0.05
"""Virtual seconds between two looks at a condition."""
_LOOK_AT_DISK = 0.002
"""The same for conditions that pass quickly."""
_SHUTDOWN = 8.0
"""Virtual seconds that a controlled shutdown may take before the process is killed."""


class LossBudget:
    """The machines that may lose records by a power failure or a failing disk: none while another one lacks records.

    acks=all promises a record as long as one member of the ISR keeps it. So a machine may lose records if each
    of its partitions has another member that lives and whose machine lost nothing since it was last known to be in
    sync, and if no other machine still lacks records. The content of a disk that failed to sync is unknown, so
    the broker starts uncleanly after it. Processes may be killed at any time, because their machines keep their writes.
    """

    def __init__(self, cluster: SimCluster, topology: Topology) -> None:
        self._cluster = cluster
        self._topology = topology
        self._broker = 0
        self._needed: dict[TopicPartition, int] = {}
        self._failing_disk: int | None = None
        self._losers: set[int] = set()

    def allows_loss(self, broker: int) -> bool:
        """Whether the machine of ``broker`` may lose power now, or its disk begin to fail."""
        return self.is_whole() and all(
            self._is_kept_without(broker, state) for state in self._topology.states().values() if broker in state.isr
        )

    def spend(self, broker: int) -> None:
        """``broker`` loses power, or its disk has failed: remember how far its partitions were acknowledged."""
        self._broker = broker
        self._losers.add(broker)
        self._needed = {
            tp: max(self._high_watermark(other, tp) for other in state.replicas)
            for tp, state in self._topology.states().items()
            if broker in state.replicas
        }

    def begin_disk_failure(self, broker: int) -> None:
        """The disk of ``broker`` fails until :meth:`end_disk_failure`, and may lose what it is given until then."""
        self._failing_disk = broker

    def end_disk_failure(self, broker: int) -> None:
        """The disk of ``broker`` works again."""
        if self._failing_disk == broker:
            self._failing_disk = None
            self.spend(broker)

    def is_whole(self) -> bool:
        """Whether no disk fails, and the machine that lost records last holds again all that was acknowledged then."""
        if self._failing_disk is not None:
            return False
        if not self._needed:
            return True
        machine = self._cluster.brokers[self._broker]
        if machine.services is None:
            return False
        states = self._topology.states()
        for tp, offset in self._needed.items():
            partition = machine.services.replicas.replicas.partitions.get(tp)
            if tp not in states or self._broker not in states[tp].replicas:
                continue
            if partition is None or partition.log is None or partition.log.log_end_offset < offset:
                return False
        self._needed = {}
        return True

    def _is_kept_without(self, broker: int, state: LeaderAndIsr) -> bool:
        """Whether a member of the ISR other than ``broker`` lives and did not start uncleanly since it was in sync.

        A machine that never lost anything keeps all records, even if the state does not say so: a broker that writes
        wrong states must not protect the machines from losses.
        """
        recorded = dict(state.unclean_start_epochs)
        for other in self._staying(state):
            started = None if other == broker else self._unclean_start_epoch(other)
            if started is not None and (recorded.get(other) == started or other not in self._losers):
                return True
        return False

    def _staying(self, state: LeaderAndIsr) -> list[int]:
        """The members of the ISR that its leader is not about to remove: such a write may be under way."""
        machine = self._cluster.brokers.get(state.leader)
        leader = None if machine is None else machine.last_partition(state.topic_partition)
        if leader is None or not leader.isr.is_pending:
            return list(state.isr)
        return [member for member in state.isr if member in leader.isr.proposed]

    def _unclean_start_epoch(self, broker: int) -> int | None:
        """What the present process of ``broker`` is registered with, ``None`` where there is none."""
        machine = self._cluster.brokers[broker]
        if not machine.is_alive or machine.zk is None:
            return None
        registered = self._topology.registration(broker, machine.zk.session)
        return None if registered is None else registered.unclean_start_epoch

    def _high_watermark(self, broker: int, tp: TopicPartition) -> int:
        partition = self._cluster.brokers[broker].last_partition(tp)
        return 0 if partition is None or partition.log is None else int(partition.log.high_watermark)


@dataclass(frozen=True)
class _FlippedBit:
    """One bit of a record that a disk gives wrong; ``base_offset`` and ``start`` are those of its batch."""

    disk: SimDisk
    path: str
    base_offset: int
    start: int
    position: int
    bit: int

    @classmethod
    def draw(cls, disk: SimDisk, path: str, rng: random.Random) -> _FlippedBit | None:
        """A bit behind the header of some data batch: what the CRC protects, and no header tells."""
        data = Path(path).read_bytes() if os.path.exists(path) else b""
        batches = [
            (start, header)
            for start, header in iter_headers(data)
            if not header.is_control and header.size > HEADER_SIZE
        ]
        if not batches:
            return None
        start, header = rng.choice(batches)
        position = rng.randrange(start + HEADER_SIZE, start + header.size)
        return cls(disk, path, header.base_offset, start, position, rng.randrange(8))

    def flip(self) -> None:
        """Change the bit, or change it back."""
        self.disk.flip_bit(self.path, self.position, self.bit)

    def mend(self) -> None:
        """Change the bit back, where its batch is still there."""
        if not os.path.exists(self.path):
            return
        data = Path(self.path).read_bytes()[self.start :]
        try:
            header = read_any_header(data, 0)
        except CorruptRecordError:
            return
        if header.base_offset == self.base_offset and not check_crc(data, 0, header):
            self.flip()


class SlowFlush(NamedTuple):
    """A flush that the disk has completed, and of which the process learns in :meth:`finish`."""

    log: Log
    work: FlushWork
    life: Life | None

    @property
    def is_overtaken(self) -> bool:
        """Whether the log was truncated since, and appended to."""
        return self.log.cuts > self.work.cuts and self.log.log_end_offset >= self.work.end

    def finish(self) -> None:
        """The process learns of the outcome, where it lives."""
        if self.life is not None and self.life.alive:
            self.log.flushed(self.work)


class FaultInjector:
    """The faults and views of a scenario. Methods have no effect if another scenario was faster.

    ``count`` is the number of faults so far, ``power_losses`` how often each machine lost power, ``shortened`` the
    brokers that lost power while they served and have not registered since, each with its last ZooKeeper session,
    ``tolerated`` which errors of clients the faults explain. :meth:`heal` undoes all that lasts.
    """

    def __init__(self, cluster: SimCluster) -> None:
        self.count = 0
        self.power_losses: dict[int, int] = {}
        self.tolerated: set[ErrorCode] = set()
        self.shortened: dict[int, int] = {}
        self.healed = False
        self.unaware: dict[str, float] = {}
        """Host of each broker → when it last was given cause to find out that its session is over: it woke up, it was
        cut off from ZooKeeper, its server died, or its session ended although it was well."""
        self._woken: dict[str, float] = {}
        self._cluster = cluster
        self._world = cluster.world
        self._topology = Topology(cluster)
        self._losses = LossBudget(cluster, self._topology)
        self._cut: dict[int, EnsembleClient] = {}
        self._flipped: list[_FlippedBit] = []
        self._slowed: dict[int, EnsembleClient] = {}

    # Looking

    @property
    def brokers(self) -> list[int]:
        """Ids of all brokers."""
        return list(self._cluster.brokers)

    @property
    def zookeeper_servers(self) -> int:
        """How many servers ZooKeeper has."""
        return len(self._cluster.zookeeper.servers)

    def partitions(self) -> list[TopicPartition]:
        """Every partition that has a state in ZooKeeper."""
        return sorted(self._topology.states())

    def leader(self, tp: TopicPartition) -> int:
        """Its leader as ZooKeeper says, or ``NO_LEADER``."""
        state = self._state(tp)
        return NO_LEADER if state is None else state.leader

    def leader_epoch(self, tp: TopicPartition) -> int:
        """Its leader epoch as ZooKeeper says, -1 where it has no state."""
        state = self._state(tp)
        return -1 if state is None else state.leader_epoch

    def isr(self, tp: TopicPartition) -> tuple[int, ...]:
        """Its ISR as ZooKeeper says."""
        state = self._state(tp)
        return () if state is None else state.isr

    def replicas(self, tp: TopicPartition) -> tuple[int, ...]:
        """Its replicas."""
        state = self._state(tp)
        return () if state is None else state.replicas

    def ends(self, tp: TopicPartition) -> dict[int, int]:
        """Where the log ends of each replica whose process lives."""
        return {broker: log.log_end_offset for broker, log in self._logs(tp)}

    def high_watermarks(self, tp: TopicPartition) -> dict[int, int]:
        """The high watermark that each replica knows whose process lives."""
        return {broker: log.high_watermark for broker, log in self._logs(tp)}

    def _logs(self, tp: TopicPartition) -> Iterator[tuple[int, Log]]:
        for broker in self.replicas(tp):
            machine = self._cluster.brokers[broker]
            partition = machine.last_partition(tp) if machine.is_alive else None
            if partition is not None and partition.log is not None:
                yield broker, partition.log

    def known_end(self, tp: TopicPartition, follower: int) -> int:
        """Where the follower's log ends, as the leader knows; -1 where there is no leader."""
        machine = self._cluster.brokers.get(self.leader(tp))
        partition = machine.last_partition(tp) if machine is not None and machine.is_alive else None
        known = None if partition is None else partition.followers.get(follower)
        return -1 if known is None else known.log_end_offset

    def controller(self) -> int | None:
        """Id of the controller as ZooKeeper says."""
        return self._topology.controller()

    def coordinators(self) -> list[int]:
        """Brokers that hold the claim on a group or on transactions."""
        return self._topology.coordinators()

    def group_coordinators(self) -> list[int]:
        """Brokers that hold the claim on a group."""
        return self._topology.group_coordinators()

    def without_zookeeper_since(self, host: str) -> float | None:
        """Since when the broker there runs and knows that it has no connection to ZooKeeper; ``None``: it has one."""
        machine = next((each for each in self._cluster.brokers.values() if each.host == host), None)
        zk = None if machine is None or not machine.is_alive else machine.zk
        if zk is None or zk.suspended_at is None:
            return None
        return max(zk.suspended_at, self._woken.get(host, 0.0))

    def staging_clients(self) -> list[str]:
        """Clients whose open transactions have staged offsets of a group."""
        return [name for name in self._topology.staging_clients() if name in self._cluster.clients]

    def power_may_fail(self) -> bool:
        """Whether any machine may lose power now."""
        return self._losses.is_whole()

    def _state(self, tp: TopicPartition) -> LeaderAndIsr | None:
        return self._topology.state(tp)

    # Time

    async def sleep(self, seconds: float) -> None:
        """Return ``seconds`` later."""
        future: Future[None] = Future()
        self._world.call_later(seconds, future.callback, None)
        await future

    async def wait_until(self, condition: Callable[[], bool], limit: float, look: float = _LOOK) -> bool:
        """Return once ``condition`` holds, after ``limit`` seconds at the latest; whether it does. ``look``: seconds
        between two looks."""
        end = self._world.now + limit
        while not condition():
            if self._world.now >= end:
                return False
            await self.sleep(look)
        return True

    # Processes and machines

    def kill(self, broker: int, guardian_dies_too: bool = False) -> None:
        """``kill -9``; with ``guardian_dies_too`` ZooKeeper learns of it by the session's timeout."""
        machine = self._cluster.brokers.get(broker)
        if machine is None or not machine.is_alive or self.healed:
            return
        self.count += 1
        machine.kill(guardian_dies_too=guardian_dies_too)

    def start(self, broker: int) -> None:
        """Start the broker's process where there is none; one that is paused goes on."""
        machine = self._cluster.brokers.get(broker)
        if machine is None:
            return
        self._wake(machine)
        if not machine.is_alive:
            machine.start()

    async def stop(self, broker: int) -> None:
        """A controlled shutdown, to its end; a process that does not end is killed."""
        machine = self._cluster.brokers[broker]
        if not machine.is_alive or self.healed:
            return
        self.count += 1
        self._wake(machine)
        life = machine.life
        machine.stop()
        if not await self.wait_until(lambda: machine.life is not life or not machine.is_alive, _SHUTDOWN):
            machine.kill()

    def lose_power(self, broker: int) -> bool:
        """The machine loses power; ``False`` where it may not: then its process is killed."""
        machine = self._cluster.brokers[broker]
        if not machine.is_alive or self.healed:
            return False
        if not self._losses.allows_loss(broker):
            self.kill(broker)
            return False
        self.count += 1
        self._losses.spend(broker)
        self.power_losses[broker] = self.power_losses.get(broker, 0) + 1
        if machine.status is BrokerStatus.SERVING and machine.zk is not None:
            self.shortened[broker] = machine.zk.session
        machine.lose_power()
        return True

    def pause(self, broker: int) -> None:
        """SIGSTOP."""
        if not self.healed and self._cluster.brokers[broker].is_alive:
            self.count += 1
            self._cluster.pause(broker)

    def resume(self, broker: int) -> None:
        """SIGCONT."""
        self._wake(self._cluster.brokers[broker])

    def _wake(self, machine: SimBroker) -> None:
        self.unaware[machine.host] = self._woken[machine.host] = self._world.now
        machine.resume()

    # Clients

    def clients(self) -> list[str]:
        """Names of all clients."""
        return list(self._cluster.clients)

    def pause_client(self, name: str) -> None:
        """SIGSTOP."""
        if not self.healed:
            self.count += 1
            self._cluster.clients[name].pause()

    def resume_client(self, name: str) -> None:
        """SIGCONT."""
        self._cluster.clients[name].resume()

    def hold_answers(self, broker: int) -> None:
        """What the broker says to clients does not arrive before :meth:`release_answers`."""
        if not self.healed:
            self.count += 1
            for client in self.clients():
                self._cluster.network.hold(self._host(broker), client, one_way=True)

    def release_answers(self, broker: int) -> None:
        """Undo :meth:`hold_answers`: what is still connected is answered."""
        for client in self.clients():
            self._cluster.network.release(self._host(broker), client)

    # Network

    def hold(self, broker: int, other: int, one_way: bool = False) -> None:
        """What ``broker`` sends to ``other`` does not arrive before :meth:`release`; both ways, unless ``one_way``."""
        if broker != other and not self.healed:
            self.count += 1
            self._cluster.network.hold(self._host(broker), self._host(other), one_way=one_way)

    def release(self, broker: int, other: int) -> None:
        """Undo :meth:`hold`, both ways: what was held arrives."""
        if broker != other:
            self._cluster.network.release(self._host(broker), self._host(other))

    def reset(self, broker: int) -> None:
        """Break every connection of the broker."""
        if not self.healed:
            self.count += 1
            for name in self._hosts():
                if name != self._host(broker):
                    self._cluster.network.reset(self._host(broker), name)

    def slow(self, broker: int, seconds: float) -> None:
        """Everything to and from the broker takes up to ``seconds``."""
        if not self.healed:
            self.count += 1
            self._delay(broker, (seconds / 4, seconds))

    def unslow(self, broker: int) -> None:
        """Undo :meth:`slow`."""
        self._delay(broker, self._cluster.network.delay)

    def slow_readers(self, broker: int, size: int) -> None:
        """No more than ``size`` bytes that the broker sends to a client are under way before the client has read."""
        if not self.healed:
            self.count += 1
            self._window(broker, size)

    def quick_readers(self, broker: int) -> None:
        """Undo :meth:`slow_readers`."""
        self._window(broker, WINDOW)

    def _window(self, broker: int, size: int) -> None:
        for client in self.clients():
            self._cluster.network.set_window(self._host(broker), client, size, one_way=True)

    def _delay(self, broker: int, delay: tuple[float, float]) -> None:
        for name in self._hosts():
            if name != self._host(broker):
                self._cluster.network.set_delay(self._host(broker), name, delay)

    def _host(self, broker: int) -> str:
        return self._cluster.brokers[broker].host

    def _hosts(self) -> list[str]:
        return list(self._world.nodes)

    # ZooKeeper

    def cut_zookeeper(self, broker: int) -> None:
        """Nothing travels between the broker and ZooKeeper; a process that is started meanwhile reaches it."""
        self._cut_zookeeper(broker, requests=True)

    def swallow_zookeeper_answers(self, broker: int) -> None:
        """The broker's requests arrive and take effect, and no answer comes back."""
        self._cut_zookeeper(broker, requests=False)

    def _cut_zookeeper(self, broker: int, requests: bool) -> None:
        machine = self._cluster.brokers[broker]
        if machine.zk is None or not machine.is_alive or self.healed:
            return
        self.mend_zookeeper(broker)
        self.count += 1
        self._world.note(f"cut off from ZooKeeper{'' if requests else ', answers only'}", machine.host)
        self._cut[broker] = machine.zk
        self.unaware[machine.host] = self._world.now
        self._cluster.zookeeper.cut(machine.zk, requests=requests)

    def mend_zookeeper(self, broker: int) -> None:
        """Undo :meth:`cut_zookeeper` and :meth:`swallow_zookeeper_answers`."""
        client = self._cut.pop(broker, None)
        if client is not None:
            self._world.note("reaches ZooKeeper again", self._host(broker))
            self._cluster.zookeeper.heal(client)

    def slow_zookeeper(self, broker: int, seconds: float) -> None:
        """Each message between the broker and ZooKeeper takes so much longer, until :meth:`unslow_zookeeper`."""
        machine = self._cluster.brokers[broker]
        if machine.zk is not None and machine.is_alive and not self.healed:
            self.unslow_zookeeper(broker)
            self.count += 1
            self._world.note(f"ZooKeeper is {seconds:.2f} s away", machine.host)
            self._slowed[broker] = machine.zk
            self._cluster.zookeeper.delay(machine.zk, seconds)

    def unslow_zookeeper(self, broker: int) -> None:
        """Undo :meth:`slow_zookeeper`."""
        client = self._slowed.pop(broker, None)
        if client is not None:
            self._cluster.zookeeper.delay(client, 0)

    def reset_zookeeper_connection(self, broker: int) -> None:
        """Break the broker's connection to ZooKeeper; it finds a server again, in the same session."""
        machine = self._cluster.brokers[broker]
        if machine.zk is not None and machine.is_alive and not self.healed:
            self.count += 1
            self._world.note("connection to ZooKeeper reset", machine.host)
            self._cluster.zookeeper.drop_connection(machine.zk)

    def depose_controller(self) -> None:
        """An operator deletes ``/controller``, as Kafka's manuals advise, so that another broker is elected."""
        if not self.healed:
            self.count += 1
            self._world.note("/controller is deleted by hand")
            self._cluster.zookeeper.remove(CONTROLLER)

    def is_registered(self, broker: int) -> bool:
        """Whether the broker's present process has a znode in its present session."""
        machine = self._cluster.brokers[broker]
        registered = None if machine.zk is None else self._topology.registration(broker, machine.zk.session)
        return machine.is_alive and registered is not None

    def is_cut_off(self, broker: int) -> bool:
        """Whether a fault stands between its process and ZooKeeper."""
        return broker in self._cut or broker in self._slowed

    def expire_session(self, broker: int) -> None:
        """ZooKeeper ends the broker's session."""
        machine = self._cluster.brokers[broker]
        if machine.zk is not None and machine.zk.session and not self.healed:
            self.count += 1
            self._world.note("session expired", machine.host)
            self.unaware[machine.host] = self._world.now
            self._cluster.zookeeper.expire(machine.zk.session)

    def zookeeper_session(self, broker: int) -> int:
        """The session that the broker knows it has; 0 where it has none."""
        zk = self._cluster.brokers[broker].zk
        return 0 if zk is None else zk.session

    def zookeeper_leader(self) -> int:
        """Number of the server that leads, or that led last."""
        leader = self._cluster.zookeeper.leader
        return 0 if leader is None else leader.number

    def zookeeper_server_of(self, broker: int) -> int | None:
        """Number of the server that the broker is connected to."""
        zk = self._cluster.brokers[broker].zk
        return None if zk is None else zk.server

    def kill_zookeeper_server(self, number: int) -> None:
        """End one server, where the others are a majority."""
        servers = self._cluster.zookeeper.servers
        if self.healed or any(server.role is ServerRole.DOWN for server in servers):
            return
        self.count += 1
        self._world.note("killed", f"zookeeper-{number}")
        self.unaware.update((machine.host, self._world.now) for machine in self._cluster.brokers.values())
        self._cluster.zookeeper.kill(number)

    def start_zookeeper_server(self, number: int) -> None:
        """Start it again."""
        self._cluster.zookeeper.restart(number)

    def lag_zookeeper_server(self, number: int, seconds: float) -> None:
        """The server applies every commit so much later."""
        if not self.healed or not seconds:
            self.count += bool(seconds)
            self._cluster.zookeeper.lag(number, seconds)

    # Disks

    async def compacts(self, broker: int, limit: float) -> bool:
        """Return while the broker puts a compacted segment in, after ``limit`` seconds at the latest; whether it
        does."""
        disk = self._cluster.brokers[broker].disk
        seen: list[str] = []
        disk.on_rename = lambda path: seen.append(path) if path.endswith(CLEANED_SUFFIX) else None
        found = await self.wait_until(lambda: bool(seen), limit, look=_LOOK_AT_DISK)
        disk.on_rename = lambda _: None
        return found

    async def kill_in_a_swap(self, after: int, limit: float) -> int | None:
        """Kill the first process that puts a compacted segment in the place of others, when it has given ``after``
        files another name, and one. Its broker; ``None``: there was none for ``limit`` seconds."""
        machines = self._cluster.brokers
        left = dict.fromkeys(machines, after)
        killed: list[int] = []

        def renamed(broker: int, path: str) -> None:
            swaps = machines[broker].disk.has_names(os.path.dirname(path), (CLEANED_SUFFIX, SWAP_SUFFIX))
            if killed or not swaps:
                return
            left[broker] -= 1
            if left[broker] < 0:
                killed.append(broker)
                self.kill(broker)

        for broker, machine in machines.items():
            machine.disk.on_rename = partial(renamed, broker)
        await self.wait_until(lambda: bool(killed), limit)
        for machine in machines.values():
            machine.disk.on_rename = lambda _: None
        return killed[0] if killed else None

    def fill_disk(self, broker: int, room: int) -> None:
        """Only ``room`` bytes more fit on the broker's disk."""
        if not self.healed:
            self.count += 1
            self._world.note(f"disk full but for {room} bytes", self._host(broker))
            self._cluster.brokers[broker].disk.fill(room)

    def free_disk(self, broker: int) -> None:
        """There is room again."""
        self._world.note("disk has room again", self._host(broker))
        self._cluster.brokers[broker].disk.free()

    def break_disk(self, broker: int, kind: str, after: int) -> None:
        """Every ``kind`` (``read``, ``write`` or ``fsync``) after the next ``after`` of them fails with EIO.

        Nothing happens while the machine may not lose records.
        """
        if not self.healed and self._losses.allows_loss(broker):
            self.count += 1
            self._losses.begin_disk_failure(broker)
            self._world.note(f"disk fails to {kind}", self._host(broker))
            self._cluster.brokers[broker].disk.break_io(kind, after)

    def slow_disk(self, broker: int, seconds: float) -> None:
        """What other threads do with the broker's disk takes up to ``seconds`` longer; 0: no longer."""
        if not self.healed or not seconds:
            self.count += bool(seconds)
            self._cluster.brokers[broker].disk.slowness = seconds

    def begin_flush(self, broker: int, tp: TopicPartition) -> SlowFlush | None:
        """A flush of the log is due by its time, and the disk has done it; the broker does not know yet.

        ``None``: all is on the disk, or the broker does not hold the partition.
        """
        machine = self._cluster.brokers[broker]
        partition = machine.last_partition(tp) if machine.is_alive and not self.healed else None
        log = None if partition is None else partition.log
        work = log.prepare_flush() if isinstance(log, Log) else None
        if work is None or not isinstance(log, Log):
            return None
        self.count += 1
        self._world.note(f"a flush of {tp} to {work.end} takes long", machine.host)
        try:
            work.run()
        except OSError:
            return None
        return SlowFlush(log, work, machine.life)

    def mend_disk(self, broker: int) -> None:
        """Undo :meth:`break_disk`."""
        self._world.note("disk mended", self._host(broker))
        self._cluster.brokers[broker].disk.mend_io()
        self._losses.end_disk_failure(broker)

    def flip_a_bit(self, broker: int, rng: random.Random) -> bool:
        """The disk gives one bit of a record wrong, in a segment that is closed and synced; ``False``: there is none.

        A start reads no segment that lies below the checkpoint of the recovery point, so the broker's log stays as long
        as it was. Nothing happens while the machine may not lose records.
        """
        machine = self._cluster.brokers[broker]
        if self.healed or machine.server is None or not self._losses.allows_loss(broker):
            return False
        logs = [machine.last_partition(tp) for tp in self.partitions()]
        segments = [
            segment.path
            for log in (partition.log for partition in logs if partition is not None)
            if isinstance(log, Log)
            for segment, following in pairwise(log.segments)
            if following.base_offset <= checkpointed_recovery_point(log)
        ]
        found = _FlippedBit.draw(machine.disk, rng.choice(segments), rng) if segments else None
        if found is None:
            return False
        self.count += 1
        self.tolerated.add(ErrorCode.CORRUPT_MESSAGE)
        self._losses.begin_disk_failure(broker)
        self._world.note(f"a bit of {found.path} flips", machine.host)
        self._flipped.append(found)
        found.flip()
        return True

    def mend_bits(self, broker: int) -> None:
        """Undo :meth:`flip_a_bit`: the disk gives again what was written."""
        machine = self._cluster.brokers[broker]
        mine = [found for found in self._flipped if found.disk is machine.disk]
        for found in mine:
            self._flipped.remove(found)
            found.mend()
        if mine:
            self._world.note("its disk reads all bits as they were written", machine.host)
            self._losses.end_disk_failure(broker)

    @property
    def reads_wrong_bits(self) -> bool:
        """Whether some disk gives a bit otherwise than it was written."""
        return bool(self._flipped)

    # Healing

    def heal(self) -> None:
        """Undo every fault; from now on there are no new ones. Processes that are down start."""
        self.healed = True
        cluster = self._cluster
        self._world.note("everything is healed")
        cluster.network.heal()
        for life in cluster.clients.values():
            life.resume()
        for broker in list(self._cut):
            self.mend_zookeeper(broker)
        for broker in list(self._slowed):
            self.unslow_zookeeper(broker)
        for number in range(self.zookeeper_servers):
            cluster.zookeeper.restart(number)
            cluster.zookeeper.lag(number, 0)
        for broker, machine in cluster.brokers.items():
            self.mend_bits(broker)
            machine.disk.free()
            machine.disk.slowness = 0.0
            machine.disk.mend_io()
            if self._lost_a_directory(machine):
                machine.kill()
        self._supervise()

    def _lost_a_directory(self, machine: SimBroker) -> bool:
        """Whether the process serves without one of its log directories, which only a restart brings back."""
        return machine.services is not None and bool(machine.services.logs.offline_dirs)

    def _supervise(self) -> None:
        """An operator starts what ended by itself."""
        for broker in self.brokers:
            self.start(broker)
        self._world.call_later(1.0, self._supervise)

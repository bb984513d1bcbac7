"""All faults of a history: this module counts them, records them in the story, and heals them at the end.

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
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import Future
from kafkalite.common.types import NO_LEADER, TopicPartition
from kafkalite.log.log import FlushWork, Log
from kafkalite.log.partition_folder import CLEANED_SUFFIX, SWAP_SUFFIX
from kafkalite.record.batch import HEADER_SIZE, CorruptRecordError, check_crc, iter_headers, read_any_header
from kafkalite.testing.ensemble import EnsembleClient
from kafkalite.testing.ensemble.server import ServerRole
from kafkalite.testing.simulation.cluster import BrokerStatus, SimBroker, SimCluster
from kafkalite.testing.simulation.disk import SimDisk
from kafkalite.testing.simulation.durability import checkpointed_recovery_point, synced_end
from kafkalite.testing.simulation.topology import Topology
from kafkalite.testing.simulation.wires import WINDOW
from kafkalite.testing.simulation.world import Life
from kafkalite.zk.znodes.claims import CONTROLLER

_LOOK = 0.05
"""Virtual seconds between two checks of a condition."""
_LOOK_AT_DISK = 0.002
"""Virtual seconds between two checks of a condition that holds for a short time only."""
_SHUTDOWN = 8.0
"""Virtual seconds that a controlled shutdown may take before the process is killed."""


class LossBudget:
    """Decides which machines may lose records by a power failure or a failing disk: one at a time.

    acks=all promises a record as long as one member of the ISR keeps it. Therefore a machine may lose records only if
    no other machine lacks records, and if each of its partitions has another member in the ISR whose machine has lost
    nothing since it was last known to be in sync, or is led by it alone with nothing visible that is not synced. The
    content of a disk is unknown after a failed sync, so the broker starts uncleanly after it. Processes may be killed
    at any time, because their machines keep their writes.
    """

    def __init__(self, cluster: SimCluster, topology: Topology) -> None:
        self._cluster = cluster
        self._topology = topology
        self._broker = 0
        self._needed: dict[TopicPartition, int] = {}
        self._failing_disk: int | None = None
        self._losers: set[int] = set()

    def allows_loss(self, broker: int) -> bool:
        """Whether the machine of ``broker`` may lose power now, or its disk may begin to fail."""
        return self.is_whole() and all(
            self._is_kept_without(broker, state) for state in self._topology.states().values() if broker in state.isr
        )

    def spend(self, broker: int) -> None:
        """``broker`` loses power, or its disk has failed: remember the high watermarks of its partitions."""
        self._broker = broker
        self._losers.add(broker)
        self._needed = {
            tp: max(self._high_watermark(other, tp) for other in state.replicas)
            for tp, state in self._topology.states().items()
            if broker in state.replicas
        }

    def begin_disk_failure(self, broker: int) -> None:
        """The disk of ``broker`` fails until :meth:`end_disk_failure`, and may lose the writes until then."""
        self._failing_disk = broker

    def end_disk_failure(self, broker: int) -> None:
        """The disk of ``broker`` works again."""
        if self._failing_disk == broker:
            self._failing_disk = None
            self.spend(broker)

    def is_whole(self) -> bool:
        """Whether no disk fails, and the last machine that lost records has all records again that were acknowledged
        at its loss."""
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
        """Whether a member of the ISR other than ``broker`` did not start uncleanly since it was in sync.

        A machine that never lost anything keeps all records, even if the state does not say so: a broker that writes
        wrong states must not protect the machines from losses.
        """
        staying = self._staying(state)
        if staying == [broker]:
            return self._is_synced(broker, state.topic_partition)
        recorded = dict(state.unclean_start_epochs)
        for other in staying:
            if other == broker:
                continue
            started = self._unclean_start_epoch(other)
            if other not in self._losers or (started is not None and recorded.get(other) == started):
                return True
        return False

    def _is_synced(self, broker: int, tp: TopicPartition) -> bool:
        """Whether the disk of ``broker`` has what readers may have seen of a partition that it leads alone."""
        machine = self._cluster.brokers[broker]
        partition = machine.last_partition(tp)
        if partition is None or partition.log is None:
            return False
        return partition.log.high_watermark <= synced_end(machine.disk, partition.log)

    def _staying(self, state: LeaderAndIsr) -> list[int]:
        """The members of the ISR without those that an outstanding write of the leader removes."""
        machine = self._cluster.brokers.get(state.leader)
        leader = None if machine is None else machine.last_partition(state.topic_partition)
        if leader is None or not leader.isr.is_pending:
            return list(state.isr)
        return [member for member in state.isr if member in leader.isr.proposed]

    def _unclean_start_epoch(self, broker: int) -> int | None:
        """The unclean start epoch in the registration of the current process of ``broker``; ``None`` if the process is
        not registered."""
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
    """One bit of a record that a disk reads wrong; ``base_offset`` and ``start`` are those of its batch."""

    disk: SimDisk
    path: str
    base_offset: int
    start: int
    position: int
    bit: int

    @classmethod
    def draw(cls, disk: SimDisk, path: str, rng: random.Random) -> _FlippedBit | None:
        """A bit behind the header of a random data batch, so that only the CRC detects the change."""
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
        """Change the bit back, if the file still has its batch."""
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
    """A flush that the disk has completed; the process learns its outcome in :meth:`finish`."""

    log: Log
    work: FlushWork
    life: Life | None

    @property
    def is_overtaken(self) -> bool:
        """Whether the log was truncated and appended to since the flush began."""
        return self.log.cuts > self.work.cuts and self.log.log_end_offset >= self.work.end

    def finish(self) -> None:
        """Report the outcome to the process, if it is alive."""
        if self.life is not None and self.life.alive:
            self.log.flushed(self.work)


class FaultInjector:
    """The faults and views of a scenario. A method has no effect if another scenario has changed its target before.

    ``count`` is the number of faults so far; ``power_losses`` the number of power losses of each machine;
    ``shortened`` the brokers that lost power while they served and have not registered since, with their last
    ZooKeeper sessions; ``tolerated`` the errors of clients that the faults explain. :meth:`heal` undoes all lasting
    faults.
    """

    def __init__(self, cluster: SimCluster) -> None:
        self.count = 0
        self.power_losses: dict[int, int] = {}
        self.tolerated: set[ErrorCode] = set()
        self.shortened: dict[int, int] = {}
        self.healed = False
        self.unaware: dict[str, float] = {}
        """Host of each broker → time of the last event after which it may hold an ended session: it was resumed, it was
        cut off from ZooKeeper, its ZooKeeper server died, or its session was expired."""
        self._woken: dict[str, float] = {}
        self._cluster = cluster
        self._world = cluster.world
        self._topology = Topology(cluster)
        self._losses = LossBudget(cluster, self._topology)
        self._cut: dict[int, EnsembleClient] = {}
        self._flipped: list[_FlippedBit] = []
        self._slowed: dict[int, EnsembleClient] = {}

    # State

    @property
    def brokers(self) -> list[int]:
        """Ids of all brokers."""
        return list(self._cluster.brokers)

    @property
    def zookeeper_servers(self) -> int:
        """Number of ZooKeeper servers."""
        return len(self._cluster.zookeeper.servers)

    def partitions(self) -> list[TopicPartition]:
        """Every partition that has a state in ZooKeeper."""
        return sorted(self._topology.states())

    def leader(self, tp: TopicPartition) -> int:
        """The partition's leader in ZooKeeper, or ``NO_LEADER``."""
        state = self._state(tp)
        return NO_LEADER if state is None else state.leader

    def leader_epoch(self, tp: TopicPartition) -> int:
        """The partition's leader epoch in ZooKeeper, -1 if it has no state."""
        state = self._state(tp)
        return -1 if state is None else state.leader_epoch

    def isr(self, tp: TopicPartition) -> tuple[int, ...]:
        """The partition's ISR in ZooKeeper."""
        state = self._state(tp)
        return () if state is None else state.isr

    def is_isr_pending(self, tp: TopicPartition) -> bool:
        """Whether the partition's leader has requested a change of the ISR and does not know its outcome."""
        machine = self._cluster.brokers.get(self.leader(tp))
        partition = machine.last_partition(tp) if machine is not None and machine.is_alive else None
        return partition is not None and partition.isr.is_pending

    def replicas(self, tp: TopicPartition) -> tuple[int, ...]:
        """The partition's replicas."""
        state = self._state(tp)
        return () if state is None else state.replicas

    def ends(self, tp: TopicPartition) -> dict[int, int]:
        """The log end offset of each replica whose process lives."""
        return {broker: log.log_end_offset for broker, log in self._logs(tp)}

    def high_watermarks(self, tp: TopicPartition) -> dict[int, int]:
        """The high watermark of each replica whose process lives."""
        return {broker: log.high_watermark for broker, log in self._logs(tp)}

    def _logs(self, tp: TopicPartition) -> Iterator[tuple[int, Log]]:
        for broker in self.replicas(tp):
            machine = self._cluster.brokers[broker]
            partition = machine.last_partition(tp) if machine.is_alive else None
            if partition is not None and partition.log is not None:
                yield broker, partition.log

    def known_end(self, tp: TopicPartition, follower: int) -> int:
        """The follower's log end offset that the leader knows; -1 without a leader."""
        machine = self._cluster.brokers.get(self.leader(tp))
        partition = machine.last_partition(tp) if machine is not None and machine.is_alive else None
        known = None if partition is None else partition.followers.get(follower)
        return -1 if known is None else known.log_end_offset

    def controller(self) -> int | None:
        """Broker id of the controller in ZooKeeper."""
        return self._topology.controller()

    def coordinators(self) -> list[int]:
        """Brokers that hold the claim on a group or on transactions."""
        return self._topology.coordinators()

    def group_coordinators(self) -> list[int]:
        """Brokers that hold the claim on a group."""
        return self._topology.group_coordinators()

    def without_zookeeper_since(self, host: str) -> float | None:
        """Time since which the broker on ``host`` runs and knows that it has no connection to ZooKeeper; ``None`` if it
        has a connection or is dead."""
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
        """Wait until ``condition`` holds, at most ``limit`` seconds; returns whether it holds.

        ``look``: seconds between two checks.
        """
        end = self._world.now + limit
        while not condition():
            if self._world.now >= end:
                return False
            await self.sleep(look)
        return True

    # Processes and machines

    def kill(self, broker: int, guardian_dies_too: bool = False) -> None:
        """``kill -9``; with ``guardian_dies_too`` the session ends by its timeout."""
        machine = self._cluster.brokers.get(broker)
        if machine is None or not machine.is_alive or self.healed:
            return
        self.count += 1
        machine.kill(guardian_dies_too=guardian_dies_too)

    def start(self, broker: int) -> None:
        """Start the broker's process if it is dead; resume it if it is paused."""
        machine = self._cluster.brokers.get(broker)
        if machine is None:
            return
        self._wake(machine)
        if not machine.is_alive:
            machine.start()

    async def stop(self, broker: int) -> None:
        """A controlled shutdown; a process that does not end within :data:`_SHUTDOWN` seconds is killed."""
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
        """The machine loses power. Returns ``False`` if it may not lose records now; then its process is killed."""
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

    def data_losses(self, broker: int) -> int:
        """How often the machine has lost unsynced data, by a power loss or after an fsync that failed."""
        machine = self._cluster.brokers.get(broker)
        return self.power_losses.get(broker, 0) + (0 if machine is None else machine.disk.drops)

    def pause(self, broker: int) -> None:
        """Pause the broker's process (SIGSTOP)."""
        if not self.healed and self._cluster.brokers[broker].is_alive:
            self.count += 1
            self._cluster.pause(broker)

    def resume(self, broker: int) -> None:
        """Resume the broker's process (SIGCONT)."""
        self._wake(self._cluster.brokers[broker])

    def _wake(self, machine: SimBroker) -> None:
        self.unaware[machine.host] = self._woken[machine.host] = self._world.now
        machine.resume()

    # Clients

    def clients(self) -> list[str]:
        """Names of all clients."""
        return list(self._cluster.clients)

    def pause_client(self, name: str) -> None:
        """Pause a client's process (SIGSTOP)."""
        if not self.healed:
            self.count += 1
            self._cluster.clients[name].pause()

    def resume_client(self, name: str) -> None:
        """Resume a client's process (SIGCONT)."""
        self._cluster.clients[name].resume()

    def hold_answers(self, broker: int) -> None:
        """The broker's answers to clients do not arrive before :meth:`release_answers`."""
        if not self.healed:
            self.count += 1
            for client in self.clients():
                self._cluster.network.hold(self._host(broker), client, one_way=True)

    def release_answers(self, broker: int) -> None:
        """Undo :meth:`hold_answers`: clients that are still connected get the answers."""
        for client in self.clients():
            self._cluster.network.release(self._host(broker), client)

    # Network

    def hold(self, broker: int, other: int, one_way: bool = False) -> None:
        """Bytes from ``broker`` to ``other``, and back unless ``one_way``, do not arrive before :meth:`release`."""
        if broker != other and not self.healed:
            self.count += 1
            self._cluster.network.hold(self._host(broker), self._host(other), one_way=one_way)

    def release(self, broker: int, other: int) -> None:
        """Undo :meth:`hold` in both directions: the held bytes arrive."""
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
        """All bytes to and from the broker arrive after up to ``seconds``."""
        if not self.healed:
            self.count += 1
            self._delay(broker, (seconds / 4, seconds))

    def unslow(self, broker: int) -> None:
        """Undo :meth:`slow`."""
        self._delay(broker, self._cluster.network.delay)

    def slow_readers(self, broker: int, size: int) -> None:
        """At most ``size`` bytes of the broker are in flight to a client before the client reads."""
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
        """Cut the broker's process off from ZooKeeper; a process that starts meanwhile is not affected."""
        self._cut_zookeeper(broker, requests=True)

    def swallow_zookeeper_answers(self, broker: int) -> None:
        """The broker's requests to ZooKeeper take effect, and their answers do not arrive."""
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
        """Delay each message between the broker and ZooKeeper by ``seconds``, until :meth:`unslow_zookeeper`."""
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
        """Break the broker's connection to ZooKeeper; the broker reconnects in the same session."""
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
        """Whether the broker's current process has a znode of its current session."""
        machine = self._cluster.brokers[broker]
        registered = None if machine.zk is None else self._topology.registration(broker, machine.zk.session)
        return machine.is_alive and registered is not None

    def is_cut_off(self, broker: int) -> bool:
        """Whether a fault cuts off or delays the broker's connection to ZooKeeper."""
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
        """The ZooKeeper session that the broker knows; 0 without a session."""
        zk = self._cluster.brokers[broker].zk
        return 0 if zk is None else zk.session

    def zookeeper_leader(self) -> int | None:
        """Number of the ZooKeeper server that leads; ``None`` without a leader."""
        leader = self._cluster.zookeeper.leader
        return None if leader is None else leader.number

    def zookeeper_server_of(self, broker: int) -> int | None:
        """Number of the ZooKeeper server to which the broker is connected."""
        zk = self._cluster.brokers[broker].zk
        return None if zk is None else zk.server

    def kill_zookeeper_server(self, number: int) -> None:
        """End one server, if all servers run, so that the others are a majority."""
        servers = self._cluster.zookeeper.servers
        if self.healed or any(server.role is ServerRole.DOWN for server in servers):
            return
        self.count += 1
        self._world.note("killed", f"zookeeper-{number}")
        self.unaware.update((machine.host, self._world.now) for machine in self._cluster.brokers.values())
        self._cluster.zookeeper.kill(number)

    def start_zookeeper_server(self, number: int) -> None:
        """Start a server after :meth:`kill_zookeeper_server`."""
        self._cluster.zookeeper.restart(number)

    def lag_zookeeper_server(self, number: int, seconds: float) -> None:
        """The server applies every commit ``seconds`` later."""
        if not self.healed or not seconds:
            self.count += bool(seconds)
            self._cluster.zookeeper.lag(number, seconds)

    # Disks

    async def compacts(self, broker: int, limit: float) -> bool:
        """Wait until the broker swaps in a compacted segment, at most ``limit`` seconds; returns whether it does."""
        disk = self._cluster.brokers[broker].disk
        seen: list[str] = []
        disk.on_rename = lambda path: seen.append(path) if path.endswith(CLEANED_SUFFIX) else None
        found = await self.wait_until(lambda: bool(seen), limit, look=_LOOK_AT_DISK)
        disk.on_rename = lambda _: None
        return found

    async def kill_in_a_swap(self, after: int, limit: float) -> int | None:
        """Kill the first process that swaps in a compacted segment, at its rename number ``after`` + 1 of the swap.

        Returns its broker; ``None`` if no broker swaps in a segment for ``limit`` seconds.
        """
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
        """Limit the free space of the broker's disk to ``room`` bytes."""
        if not self.healed:
            self.count += 1
            self._world.note(f"disk full but for {room} bytes", self._host(broker))
            self._cluster.brokers[broker].disk.fill(room)

    def free_disk(self, broker: int) -> None:
        """Undo :meth:`fill_disk`."""
        self._world.note("disk has room again", self._host(broker))
        self._cluster.brokers[broker].disk.free()

    def break_disk(self, broker: int, kind: str, after: int) -> None:
        """Every ``kind`` (``read``, ``write`` or ``fsync``) after the next ``after`` of them fails with EIO.

        The method does nothing while the machine may not lose records.
        """
        if not self.healed and self._losses.allows_loss(broker):
            self.count += 1
            self._losses.begin_disk_failure(broker)
            self._world.note(f"disk fails to {kind}", self._host(broker))
            self._cluster.brokers[broker].disk.break_io(kind, after)

    def slow_disk(self, broker: int, seconds: float) -> None:
        """Delay the broker's disk operations on other threads by up to ``seconds``; 0 ends the delay."""
        if not self.healed or not seconds:
            self.count += bool(seconds)
            self._cluster.brokers[broker].disk.slowness = seconds

    def begin_flush(self, broker: int, tp: TopicPartition) -> SlowFlush | None:
        """Flush the log on the disk, as if its interval had passed; the broker does not know the outcome yet.

        Returns ``None`` if the whole log is flushed already, the broker has no log of it, or the disk is full.
        """
        machine = self._cluster.brokers[broker]
        partition = machine.last_partition(tp) if machine.is_alive and not self.healed else None
        log = None if partition is None else partition.log
        if not isinstance(log, Log):
            return None
        try:
            work = log.prepare_flush()
        except ApiError:
            return None
        if work is None:
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
        """Make the disk read one bit of a record wrong, in a closed and flushed segment; ``False`` if there is none.

        A start does not read segments below the checkpointed recovery point, so the broker's log keeps its length.
        The method does nothing while the machine may not lose records.
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
        """Undo :meth:`flip_a_bit`: the disk reads the written bits again."""
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
        """Whether a disk currently reads a bit wrong."""
        return bool(self._flipped)

    # Healing

    def heal(self) -> None:
        """Undo every fault, start dead processes, and inject no further faults."""
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
        """Whether a log directory of the process is offline, which only a restart ends."""
        return machine.services is not None and bool(machine.services.logs.offline_dirs)

    def _supervise(self) -> None:
        """Restart brokers whose processes ended by themselves, every second, like an operator."""
        for broker in self.brokers:
            self.start(broker)
        self._world.call_later(1.0, self._supervise)

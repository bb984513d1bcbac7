"""Faults in containers: each function injects a fault under load, waits until it shows an effect, and heals it.

It returns one line that says what was done to which container, and which effect was seen.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from integration.containers.network import Namespace
from integration.containers.system import READY, SERVERS, System
from integration.containers.workload import Load
from integration.faults.cluster import controller, states
from integration.faults.disk import fill
from integration.harness.wait import wait_for

STORAGE_ERROR = "KAFKA_STORAGE_ERROR"
NO_SPACE = "No space left on device"
DELAY_MS, JITTER_MS, LOSS_PERCENT = 40, 20, 1.0
FULL = 3
"""Id of the broker with the small disk."""


class Reign(NamedTuple):
    """The leader of a partition and its leader epoch."""

    partition: int
    leader: int
    epoch: int


@dataclass
class Stage:
    """The system, its load and the random numbers that a fault uses."""

    system: System
    load: Load
    rng: random.Random
    records: int
    """Number of records that must be acknowledged during the fault."""
    disk: Path
    """Folder with the disk of broker :data:`FULL`."""

    def reign(self, partition: int | None = None) -> Reign:
        """Leader and epoch of ``partition``, or of a random partition."""
        if partition is None:
            partition = self.rng.randrange(self.load.partitions)
        state = states(self.system, self.load.topic, self.load.partitions)[partition]
        return Reign(partition, state["leader"], state["leader_epoch"])

    def isr(self, partition: int) -> list[int]:
        """The ISR of a partition."""
        return list(states(self.system, self.load.topic, self.load.partitions)[partition]["isr"])

    def go_on(self) -> None:
        """Wait until the load has progressed during the fault."""
        self.load.wait_more(self.records)

    def overthrown(self, before: Reign) -> str:
        """Wait until the broker's session has expired and another broker leads in a later epoch."""
        wait_for(
            lambda: self.system.registration(before.leader) is None,
            f"the session of broker {before.leader} expires",
            READY,
        )

        def by_another() -> Reign:
            now = self.reign(before.partition)
            if now.leader in (-1, before.leader) or now.epoch <= before.epoch:
                raise LookupError(f"{now}")
            return now

        now = wait_for(by_another, f"another than broker {before.leader} leads partition {before.partition}", READY)
        return (
            f"session expired, partition {before.partition} led by broker {now.leader}, "
            f"leader epoch {before.epoch} -> {now.epoch}"
        )

    def back(self, broker: int) -> None:
        """Wait until the broker is registered again."""
        wait_for(lambda: self.system.registration(broker) is not None, f"broker {broker} registers again", READY)

    def refusal(self, former: Reign, before: Counter[str]) -> str:
        """Wait until the former leader refuses a record that a probe sent to it; returns the error."""

        def refused() -> Counter[str]:
            return self.load.refused(former.leader, former.partition) - before

        self.load.wait_until(refused, f"broker {former.leader} refuses records of partition {former.partition}")
        said = ", ".join(f"{error} x{count}" for error, count in refused().items())
        return f"records sent to broker {former.leader} were refused: {said}"

    @contextmanager
    def cut(self, container: str, peers: list[str]) -> Iterator[Namespace]:
        """Drop all packets between a container and some addresses."""
        network = self.system.network_of(container)
        network.drop(peers)
        try:
            yield network
        finally:
            network.heal()


def kill_leader(stage: Stage) -> str:
    """``docker kill`` of a leader together with its guardian, so that its session must expire."""
    before, system = stage.reign(), stage.system
    system.kill(system.broker(before.leader))
    try:
        seen = stage.overthrown(before)
        stage.go_on()
    finally:
        system.start_again(system.broker(before.leader))
    stage.back(before.leader)
    return f"broker {before.leader} killed: {seen}"


def pause_leader(stage: Stage) -> str:
    """Pause a leader past its session timeout, and resume it."""
    return _pause(stage, stage.reign())


def pause_controller(stage: Stage) -> str:
    """Pause the controller past its session timeout while it leads a partition, and resume it."""
    system = stage.system
    epoch, first = stage.system.controller_epoch(), controller(system)
    reigns = [stage.reign(partition) for partition in range(stage.load.partitions)]
    seen = _pause(stage, next(reign for reign in reigns if reign.leader == first))
    now = wait_for(lambda: controller(system), "there is a controller", READY)
    assert now != first
    assert system.controller_epoch() > epoch
    mark = f"broker {first} is no longer the controller (epoch {epoch})"

    def farewell() -> str:
        lines = system.logs(system.broker(first)).splitlines()
        return next((line[line.index(mark) :] for line in lines if mark in line), "")

    said = wait_for(farewell, "the old controller resigns", READY)
    return f"{seen}; controller epoch {epoch} -> {system.controller_epoch()}: '{said}'"


def _pause(stage: Stage, before: Reign) -> str:
    system = stage.system
    said = stage.load.refused(before.leader, before.partition)
    system.pause(system.broker(before.leader))
    try:
        seen = stage.overthrown(before)
        stage.go_on()
    finally:
        system.resume(system.broker(before.leader))
    refused = stage.refusal(before, said)
    stage.back(before.leader)
    return f"broker {before.leader} paused: {seen}; {refused}"


def disconnect_leader(stage: Stage) -> str:
    """Disconnect a leader from all others by ``docker network disconnect``."""
    before, system = stage.reign(), stage.system
    system.disconnect(before.leader)
    try:
        seen = stage.overthrown(before)
        stage.go_on()
    finally:
        system.connect(before.leader)
    stage.back(before.leader)
    return f"broker {before.leader} disconnected: {seen}"


def cut_broker_from_broker(stage: Stage) -> str:
    """Drop the packets between a leader and one of its followers; all other connections work."""
    reign, system = stage.reign(), stage.system
    other = stage.rng.choice([broker for broker in system.broker_ids if broker != reign.leader])
    with stage.cut(system.broker(reign.leader), [system.broker_ip(other)]) as network:

        def shrunk() -> bool:
            return other not in stage.isr(reign.partition)

        wait_for(shrunk, f"broker {other} leaves the ISR of partition {reign.partition}", READY)
        stage.go_on()
        dropped = network.dropped()
    assert dropped > 0
    return (
        f"broker {reign.leader} cut from broker {other}: {dropped} packets dropped, {other} left the ISR of "
        f"partition {reign.partition}"
    )


def cut_leader_from_zookeeper(stage: Stage) -> str:
    """Cut a leader off from ZooKeeper; its clients and the other brokers reach it."""
    before, system = stage.reign(), stage.system
    said = stage.load.refused(before.leader, before.partition)
    with stage.cut(system.broker(before.leader), [system.server_ip(server) for server in SERVERS]) as network:
        seen = stage.overthrown(before)
        alone = stage.refusal(before, said)
        stage.go_on()
        dropped = network.dropped()
    assert dropped > 0
    said = stage.load.refused(before.leader, before.partition)
    stage.back(before.leader)
    return (
        f"broker {before.leader} cut from ZooKeeper: {dropped} packets dropped, {seen}; meanwhile {alone}; "
        f"afterwards {stage.refusal(before, said)}"
    )


def cut_zookeeper_leader(stage: Stage) -> str:
    """Cut the ensemble's leader off from its followers: they elect another, and the old leader serves no client."""
    system = stage.system
    old = system.zookeeper_leader()
    epoch = system.zookeeper_epoch(old)
    followers = [system.server_ip(server) for server in SERVERS if server != old]
    with stage.cut(system.server(old), followers) as network:
        now = _next_zookeeper_leader(system, old)
        wait_for(lambda: "Mode" not in system.server_state(old), "the old leader serves no client", READY)
        stage.go_on()
        dropped, later = network.dropped(), system.zookeeper_epoch(now)
    assert dropped > 0
    assert later > epoch
    _all_serve(system)
    return (
        f"ZooKeeper's leader {old} cut from its followers: {dropped} packets dropped, {now} leads, "
        f"epoch {epoch} -> {later}"
    )


def kill_zookeeper_leader(stage: Stage) -> str:
    """``docker kill`` of the ensemble's leader."""
    system = stage.system
    old = system.zookeeper_leader()
    epoch = system.zookeeper_epoch(old)
    system.kill(system.server(old))
    try:
        now = _next_zookeeper_leader(system, old)
        stage.go_on()
        later = system.zookeeper_epoch(now)
    finally:
        system.start_again(system.server(old))
    assert later > epoch
    _all_serve(system)
    return f"ZooKeeper's leader {old} killed: {now} leads, epoch {epoch} -> {later}"


def _next_zookeeper_leader(system: System, old: int) -> int:
    return wait_for(lambda: system.zookeeper_leader(but=old), f"another server than {old} leads", READY, 0.2)


def _all_serve(system: System) -> None:
    def serve() -> bool:
        return all("Mode" in system.server_state(server) for server in SERVERS)

    wait_for(serve, "all ZooKeeper servers serve", READY, 0.2)


def slow_leader(stage: Stage) -> str:
    """Delay all packets that a leader sends, and drop some of them."""
    reign = stage.reign()
    network = stage.system.network_of(stage.system.broker(reign.leader))
    with network.slow_down(DELAY_MS, JITTER_MS, LOSS_PERCENT):
        stage.go_on()
        round_trip = stage.system.round_trip(reign.leader)
        delayed, lost = network.delayed(), network.dropped()
    assert delayed > 0
    assert round_trip >= DELAY_MS / 1000
    return (
        f"broker {reign.leader} slowed down by {DELAY_MS} to {DELAY_MS + JITTER_MS} ms and a loss of "
        f"{LOSS_PERCENT:g} %: {delayed} packets late, {lost} lost, round trip {round_trip * 1000:.0f} ms"
    )


def full_disk(stage: Stage) -> str:
    """Fill a broker's disk, and free it again."""
    system = stage.system
    complaints = system.logs(system.broker(FULL)).count(NO_SPACE)
    led = [r.partition for r in map(stage.reign, range(stage.load.partitions)) if r.leader == FULL]
    ballast = fill(stage.disk)
    try:
        stage.load.wait_until(lambda: stage.load.refused(FULL)[STORAGE_ERROR], f"broker {FULL} refuses records")
        stage.go_on()
        complaints = system.logs(system.broker(FULL)).count(NO_SPACE) - complaints
    finally:
        ballast.unlink()
    assert complaints > 0
    refused = stage.load.refused(FULL)[STORAGE_ERROR]
    return (
        f"disk of broker {FULL} full (leads {led}): {complaints} x '{NO_SPACE}' in its log, {STORAGE_ERROR} x{refused}"
    )


FAULTS: tuple[Callable[[Stage], str], ...] = (
    kill_leader,
    pause_leader,
    pause_controller,
    disconnect_leader,
    cut_broker_from_broker,
    cut_leader_from_zookeeper,
    cut_zookeeper_leader,
    kill_zookeeper_leader,
    slow_leader,
    full_disk,
)

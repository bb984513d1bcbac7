"""Exactly once: an application that consumes, transforms and produces is killed, brokers too; each result is once.

``KAFKALITE_SEED`` repeats the plan of an earlier run; ``KAFKALITE_SOAK=1`` (``make soak``) runs the long form too.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from integration.conftest import AGAINST_KAFKA, SOAK, ClusterFactory
from integration.faults.applications import Application, ResultReader
from integration.faults.cluster import create_topic, is_registered, states, wait_in_sync
from integration.faults.groups import GROUP as GROUP_KIND
from integration.faults.groups import TRANSACTION, ask_coordinator, describe, find_coordinator
from integration.faults.members import SteadyProducer
from integration.faults.transformer import BEGUN, COMMITTED, FENCED, PRODUCED, READY, STAGED, STARTED, Task
from integration.harness.wait import wait_for
from kafkalite.embedded.cluster import LocalCluster

SOURCE, TARGET, GROUP = "inputs", "results", "transformers"
PARTITIONS = 4
APPLICATIONS = 2
RATE = 300
SHORT = 3000
"""Milliseconds of a member's session, where its end is waited for."""
LEADER, GROUP_COORDINATOR, TRANSACTION_COORDINATOR = "leader", "group coordinator", "transaction coordinator"
ROLES = (LEADER, GROUP_COORDINATOR, TRANSACTION_COORDINATOR)
OVERRIDES = {
    "zookeeper.session.timeout.ms": "6000" if AGAINST_KAFKA else "2000",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "1",
}
INTERNAL = {"__consumer_offsets": 1, "__transaction_state": 3}


class Round(NamedTuple):
    """What is done: an application is killed ``delay`` seconds after what it said next, or a broker, or both."""

    number: int
    application: int
    """Which; -1: none."""
    after: str
    delay: float
    role: str
    """Of the broker; empty: none."""
    pause: bool
    """Whether the broker is not killed, but stopped past its session."""
    hold: float
    """Seconds before the broker is back."""


def make_plan(seed: int, kills: int) -> list[Round]:
    """``kills`` of applications, three of ten with a broker; and two brokers of ten alone, one killed, one stopped."""
    chance = random.Random(seed)
    with_brokers, alone = kills * 3 // 10, kills * 2 // 10
    roles = [ROLES[number % len(ROLES)] for number in range(with_brokers + alone)]
    chance.shuffle(roles)
    kinds = ["both"] * with_brokers + ["broker"] * alone + ["application"] * (kills - with_brokers)
    chance.shuffle(kinds)
    plan = []
    pause = False
    for number, kind in enumerate(kinds):
        pause ^= kind == "broker"
        after = chance.choice((STARTED, READY, PRODUCED, STAGED, COMMITTED))
        plan.append(
            Round(
                number + 1,
                -1 if kind == "broker" else chance.randrange(APPLICATIONS),
                after,
                # within a transaction things take milliseconds
                chance.uniform(0.0, 0.05 if after in (PRODUCED, STAGED) else 0.6),
                "" if kind == "application" else roles.pop(),
                kind == "broker" and pause,
                chance.choice((0.0, 0.5, 1.5)),
            )
        )
    return plan


class Pipeline:
    """Inputs, the applications, and an eye on the results."""

    def __init__(self, cluster: LocalCluster, folder: Path, seed: int) -> None:
        self.cluster = cluster
        self._folder = folder
        self._chance = random.Random(seed)
        create_topic(cluster, SOURCE, PARTITIONS)
        create_topic(cluster, TARGET, PARTITIONS)
        self._inputs = SteadyProducer(cluster.bootstrap, SOURCE, PARTITIONS, RATE, keep=True)
        self._results = self._reader("reader beside it")
        self.applications: list[Application] = []

    def __enter__(self) -> Pipeline:
        self._inputs.start()
        self._results.start()
        return self

    def __exit__(self, *_: object) -> None:
        for worker in (self._inputs, self._results):
            worker._stopping.set()
        for application in self.applications:
            application.kill()

    def start(self, name: int, **more: object) -> Application:
        """An application; those of one ``name`` take one another's place."""
        task = Task(
            self.cluster.bootstrap,
            SOURCE,
            TARGET,
            GROUP,
            f"transformer-{name}",
            **{"instance": f"instance-{name}", "seed": self._chance.randrange(1 << 30), **more},  # type: ignore[arg-type]
        )
        application = Application(task, self._folder / f"application-{name}.log")
        self.applications.append(application)
        return application

    def wait_results(self, more: int, timeout: float = 60.0) -> None:
        """Wait until so many more results have been read."""
        target = len(self._results.seen) + more
        wait_for(lambda: len(self._results.seen) >= target, f"{more} more results", timeout)

    def finish(self, timeout: float = 120.0) -> int:
        """No more inputs; every one's result is to be there exactly once, and every offset committed. How many."""
        self._inputs.stop()
        inputs = self._inputs.kept
        self._results.wait_all(inputs, timeout)
        ends = {p: max(offset for q, offset in inputs if q == p) + 1 for p in range(PARTITIONS)}

        def all_committed() -> bool:
            with ask_coordinator(self.cluster, GROUP) as client:
                found = client.offsets(GROUP, SOURCE, range(PARTITIONS))
            if found != ends:
                raise LookupError(f"{found}, not {ends}")
            return True

        wait_for(all_committed, "all inputs are committed", 60)
        for application in self.applications:
            application.kill()
        # Whoever comes later sees the same.
        again = self._reader("reader from the beginning")
        again.start()
        again.wait_all(inputs, timeout)
        for reader in (self._results, again):
            reader.stop()
            assert not reader.breaches, "\n".join(reader.breaches)
        return len(inputs)

    def broker_of(self, role: str) -> int:
        """Who has that role just now."""
        if role == LEADER:
            partition = self._chance.randrange(PARTITIONS)
            return wait_for(lambda: max(int(states(self.cluster, TARGET, PARTITIONS)[partition]["leader"]), 0), "led")
        if role == GROUP_COORDINATOR:
            return find_coordinator(self.cluster, GROUP, GROUP_KIND)
        return find_coordinator(self.cluster, "transformer-0", TRANSACTION)

    def take_away(self, broker: int, pause: bool) -> None:
        """Kill it, or stop it."""
        if pause:
            self.cluster.pause_broker(broker)
        else:
            self.cluster.kill_broker(broker)

    def bring_back(self, broker: int, paused: bool, hold: float) -> None:
        """Once its session is over and others have its offices."""
        wait_for(lambda: not is_registered(self.cluster, broker), f"the session of broker {broker} ends")
        time.sleep(hold)
        if paused:
            self.cluster.resume_broker(broker)
            wait_for(lambda: is_registered(self.cluster, broker), f"broker {broker} registers again")
        else:
            self.cluster.start_broker(broker)

    def wait_in_sync(self) -> None:
        """Nobody may be killed who is the last to know something."""
        for topic, partitions in {
            SOURCE: PARTITIONS,
            TARGET: PARTITIONS,
            **(INTERNAL if AGAINST_KAFKA else {}),
        }.items():
            wait_in_sync(self.cluster, topic, partitions)

    def _reader(self, name: str) -> ResultReader:
        return ResultReader(name, self.cluster.bootstrap, TARGET, PARTITIONS)


def run_kills(make_cluster: ClusterFactory, folder: Path, kills: int) -> None:
    """Carry out a plan."""
    seed = int(os.environ.get("KAFKALITE_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30)
    print(f"\nKAFKALITE_SEED={seed}: {kills} kills", flush=True)
    with Pipeline(make_cluster(3, OVERRIDES), folder, seed) as pipeline:
        running = [pipeline.start(number) for number in range(APPLICATIONS)]
        pipeline.wait_results(1)
        cut_off = 0
        for this in make_plan(seed, kills):
            begun = time.monotonic()
            done = []
            victim = running[max(this.application, 0)]
            if this.role:
                pipeline.wait_in_sync()
                broker = pipeline.broker_of(this.role)
            victim.wait_next(this.after)
            time.sleep(this.delay)
            if this.role:
                done.append(f"broker {broker} ({this.role}) {'stopped' if this.pause else 'killed'}")
                pipeline.take_away(broker, this.pause)
            if this.application >= 0:
                last = victim.said[-1][0]
                done.append(f"application {this.application} killed after it had {last}")
                cut_off += last in (BEGUN, PRODUCED, STAGED)
                victim.kill()
                running[this.application] = pipeline.start(this.application)
            if this.role:
                pipeline.bring_back(broker, this.pause, this.hold)
            print(f"{this.number:2}: {', '.join(done)}; {time.monotonic() - begun:.1f} s", flush=True)
        count = pipeline.finish()
    print(f"{count:,} inputs, each result exactly once; {cut_off} transactions were cut off", flush=True)


def test_few(make_cluster: ClusterFactory, tmp_path: Path) -> None:
    """Four kills of the application, one of them with a broker."""
    run_kills(make_cluster, tmp_path, 4)


@pytest.mark.full
def test_short(make_cluster: ClusterFactory, tmp_path: Path) -> None:
    """Ten kills of the application, three of them with a broker, and two brokers alone."""
    run_kills(make_cluster, tmp_path, 10)


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="make soak, or KAFKALITE_SOAK=1")
def test_long(make_cluster: ClusterFactory, tmp_path: Path) -> None:
    """Fifty kills of the application, fifteen of them with a broker, and ten brokers alone."""
    run_kills(make_cluster, tmp_path, 50)


# trap: kafkalite/coordinator/offsets/committed_offset_reader.py: A successor reads its offsets before the transaction
# of its predecessor is decided.
@pytest.mark.full
def test_zombies(make_cluster: ClusterFactory, tmp_path: Path) -> None:
    """An application is stopped within a transaction, its successor does its work, it wakes up: it is fenced."""
    seed = int(os.environ.get("KAFKALITE_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30)
    print(f"\nKAFKALITE_SEED={seed}", flush=True)
    chance = random.Random(seed)
    cluster = make_cluster(3, {**OVERRIDES, "group.min.session.timeout.ms": str(SHORT)})
    patient = {"session_timeout_ms": SHORT, "transaction_timeout_ms": 60_000}
    with Pipeline(cluster, tmp_path, seed) as pipeline:
        stop = int(signal.SIGSTOP)
        for moment in (BEGUN, PRODUCED, STAGED):
            number = chance.randrange(1, 6)
            zombie = pipeline.start(0, at=moment, number=number, signal=stop, session_timeout_ms=SHORT)
            zombie.wait_stopped()
            successor = pipeline.start(0, session_timeout_ms=SHORT)
            successor.wait(COMMITTED, 2)
            zombie.signal(signal.SIGCONT)
            assert zombie.wait_end() == FENCED, zombie.said[-5:]
            print(f"stopped when it had {moment}: {zombie.said[-1]}", flush=True)
            successor.end()
        # By the group alone: the successor has another transactional id, and takes the partitions once they are free.
        zombie = pipeline.start(1, at=PRODUCED, number=2, signal=stop, instance="", session_timeout_ms=SHORT)
        zombie.wait_stopped()
        successor = pipeline.start(2, instance="", session_timeout_ms=SHORT)
        successor.wait(COMMITTED, 2)
        zombie.signal(signal.SIGCONT)
        zombie.wait("aborting")
        print(f"whose partitions were given to another: {zombie.said[-1]}", flush=True)
        zombie.end()
        successor.end()
        # What is with the coordinator may still be committed: until it is decided nobody may begin there.
        zombie = pipeline.start(3, at=STAGED, number=2, last=2, signal=stop, instance="", **patient)
        zombie.wait_stopped()
        successor = pipeline.start(4, instance="", **patient)
        wait_for(lambda: has_all(cluster, "4"), "the successor has the partitions", 60)
        time.sleep(1.0)
        assert not successor.count(BEGUN), "offsets are staged of which nobody knows yet whether they count"
        zombie.signal(signal.SIGCONT)
        assert zombie.wait_end() == 0
        successor.wait(COMMITTED, 2)
        print(f"whose transaction was waited for: {zombie.said[-1]}", flush=True)
        count = pipeline.finish()
    print(f"{count:,} inputs, each result exactly once", flush=True)


def has_all(cluster: LocalCluster, name: str) -> bool:
    """Whether the application of this name is the only member of the group, and has been given its share."""
    found = describe(cluster, GROUP)
    return found.state == "Stable" and [member.client_id for member in found.members] == [f"transformer-{name}"]

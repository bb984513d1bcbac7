"""Each result of an exactly-once application is visible once though the application and brokers are killed.

``KAFKALITE_SEED`` repeats the plan of an earlier run; ``KAFKALITE_SOAK=1`` (``make soak``) runs the long test, too.
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
from integration.harness.wait import PATIENCE, wait_for
from kafkalite.embedded.cluster import LocalCluster

SOURCE, TARGET, GROUP = "inputs", "results", "transformers"
PARTITIONS = 4
APPLICATIONS = 2
RATE = 300
SHORT = 3000
"""Session timeout in milliseconds of members whose session expires in a test."""
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
    """A round: an application is killed ``delay`` seconds after its next report, or a broker, or both."""

    number: int
    application: int
    """Number of the killed application; -1: none."""
    after: str
    delay: float
    role: str
    """Role of the killed broker; empty: none."""
    pause: bool
    """Whether the broker is stopped past its session timeout instead of being killed."""
    hold: float
    """Seconds until the broker is restarted."""


def make_plan(seed: int, kills: int) -> list[Round]:
    """Rounds with ``kills`` of applications, three of ten together with a broker, and for each ten kills two rounds of
    brokers only, one killed and one stopped."""
    rng = random.Random(seed)
    with_brokers, alone = kills * 3 // 10, kills * 2 // 10
    roles = [ROLES[number % len(ROLES)] for number in range(with_brokers + alone)]
    rng.shuffle(roles)
    kinds = ["both"] * with_brokers + ["broker"] * alone + ["application"] * (kills - with_brokers)
    rng.shuffle(kinds)
    plan = []
    pause = False
    for number, kind in enumerate(kinds):
        pause ^= kind == "broker"
        after = rng.choice((STARTED, READY, PRODUCED, STAGED, COMMITTED))
        plan.append(
            Round(
                number + 1,
                -1 if kind == "broker" else rng.randrange(APPLICATIONS),
                after,
                # Short within a transaction, whose steps take milliseconds.
                rng.uniform(0.0, 0.05 if after in (PRODUCED, STAGED) else 0.6),
                "" if kind == "application" else roles.pop(),
                kind == "broker" and pause,
                rng.choice((0.0, 0.5, 1.5)),
            )
        )
    return plan


class Pipeline:
    """The inputs, the applications, and a reader of the results."""

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
        """Start an application; a later one with the same ``name`` replaces it."""
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

    def wait_results(self, more: int, timeout: float = PATIENCE) -> None:
        """Wait until ``more`` further results have been read."""
        target = len(self._results.seen) + more
        wait_for(lambda: len(self._results.seen) >= target, f"{more} more results", timeout)

    def finish(self, timeout: float = 120.0) -> int:
        """Stop the inputs; check that each has one result and that all offsets are committed. Returns their number."""
        self._inputs.stop()
        inputs = self._inputs.kept
        try:
            self._results.wait_all(inputs, timeout)
        except AssertionError as error:
            reports = [f"{each.task.transactional_id}: {each.said[-3:]}" for each in self.applications if each.alive()]
            raise AssertionError(f"{error}; last reports of {'; '.join(reports) or 'none: all have ended'}") from None
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
        # A later reader sees the same results.
        again = self._reader("reader from the beginning")
        again.start()
        again.wait_all(inputs, timeout)
        for reader in (self._results, again):
            reader.stop()
            assert not reader.breaches, "\n".join(reader.breaches)
        return len(inputs)

    def broker_of(self, role: str) -> int:
        """Id of the broker that has a role now."""
        if role == LEADER:
            partition = self._chance.randrange(PARTITIONS)
            return wait_for(lambda: max(int(states(self.cluster, TARGET, PARTITIONS)[partition]["leader"]), 0), "led")
        if role == GROUP_COORDINATOR:
            return find_coordinator(self.cluster, GROUP, GROUP_KIND)
        return find_coordinator(self.cluster, "transformer-0", TRANSACTION)

    def take_away(self, broker: int, pause: bool) -> None:
        """Kill or stop a broker."""
        if pause:
            self.cluster.pause_broker(broker)
        else:
            self.cluster.kill_broker(broker)

    def bring_back(self, broker: int, paused: bool, hold: float) -> None:
        """Restart or resume a broker, after its session has ended and other brokers have its roles."""
        wait_for(lambda: not is_registered(self.cluster, broker), f"the session of broker {broker} ends")
        time.sleep(hold)
        if paused:
            self.cluster.resume_broker(broker)
            wait_for(lambda: is_registered(self.cluster, broker), f"broker {broker} registers again")
        else:
            self.cluster.start_broker(broker)

    def wait_in_sync(self) -> None:
        """Wait until all replicas are in sync, because a kill of the only one in the ISR would lose records."""
        for topic, partitions in {
            SOURCE: PARTITIONS,
            TARGET: PARTITIONS,
            **(INTERNAL if AGAINST_KAFKA else {}),
        }.items():
            wait_in_sync(self.cluster, topic, partitions)

    def _reader(self, name: str) -> ResultReader:
        return ResultReader(name, self.cluster.bootstrap, TARGET, PARTITIONS)


def run_kills(make_cluster: ClusterFactory, folder: Path, kills: int) -> None:
    """Run a plan with ``kills`` kills of applications."""
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


@pytest.mark.short
def test_results_survive_few_kills(make_cluster: ClusterFactory, tmp_path: Path) -> None:
    """Four kills of the application, one of them with a broker."""
    run_kills(make_cluster, tmp_path, 4)


@pytest.mark.full
def test_results_survive_ten_kills(make_cluster: ClusterFactory, tmp_path: Path) -> None:
    """Ten kills of the application, three of them with a broker, and two brokers alone."""
    run_kills(make_cluster, tmp_path, 10)


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="make soak, or KAFKALITE_SOAK=1")
def test_results_survive_fifty_kills(make_cluster: ClusterFactory, tmp_path: Path) -> None:
    """Fifty kills of the application, fifteen of them with a broker, and ten brokers alone."""
    run_kills(make_cluster, tmp_path, 50)


# trap: kafkalite/coordinator/offsets/committed_offset_reader.py: A successor reads its offsets before the transaction
# of its predecessor is decided.
@pytest.mark.full
def test_a_zombie_is_fenced(make_cluster: ClusterFactory, tmp_path: Path) -> None:
    """An application is stopped within a transaction, its successor processes the inputs, and it continues."""
    seed = int(os.environ.get("KAFKALITE_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30)
    print(f"\nKAFKALITE_SEED={seed}", flush=True)
    rng = random.Random(seed)
    cluster = make_cluster(3, {**OVERRIDES, "group.min.session.timeout.ms": str(SHORT)})
    patient = {"session_timeout_ms": SHORT, "transaction_timeout_ms": 60_000}
    with Pipeline(cluster, tmp_path, seed) as pipeline:
        stop = int(signal.SIGSTOP)
        for moment in (BEGUN, PRODUCED, STAGED):
            number = rng.randrange(1, 6)
            zombie = pipeline.start(0, at=moment, number=number, signal=stop, session_timeout_ms=SHORT)
            zombie.wait_stopped()
            successor = pipeline.start(0, session_timeout_ms=SHORT)
            successor.wait(COMMITTED, 2)
            zombie.signal(signal.SIGCONT)
            assert zombie.wait_end() == FENCED, zombie.said[-5:]
            print(f"stopped when it had {moment}: {zombie.said[-1]}", flush=True)
            successor.end()
        # Fenced by the group only, because the successor has another transactional id. It owns the partitions after the
        # zombie's session.
        zombie = pipeline.start(1, at=PRODUCED, number=2, signal=stop, instance="", session_timeout_ms=SHORT)
        zombie.wait_stopped()
        successor = pipeline.start(2, instance="", session_timeout_ms=SHORT)
        successor.wait(COMMITTED, 2)
        zombie.signal(signal.SIGCONT)
        zombie.wait("aborting")
        print(f"whose partitions were given to another: {zombie.said[-1]}", flush=True)
        zombie.end()
        successor.end()
        # The staged offsets may still be committed, so no application may begin before the transaction is decided.
        zombie = pipeline.start(3, at=STAGED, number=2, last=2, signal=stop, instance="", **patient)
        zombie.wait_stopped()
        successor = pipeline.start(4, instance="", **patient)
        wait_for(lambda: has_all(cluster, "4"), "the successor has the partitions", 60)
        time.sleep(1.0)
        assert not successor.count(BEGUN), "offsets are staged whose transaction is not decided"
        zombie.signal(signal.SIGCONT)
        assert zombie.wait_end() == 0
        successor.wait(COMMITTED, 2)
        print(f"whose transaction was waited for: {zombie.said[-1]}", flush=True)
        count = pipeline.finish()
    print(f"{count:,} inputs, each result exactly once", flush=True)


def has_all(cluster: LocalCluster, name: str) -> bool:
    """Whether the application of this name is the only member of the group, and owns all partitions."""
    found = describe(cluster, GROUP)
    return found.state == "Stable" and [member.client_id for member in found.members] == [f"transformer-{name}"]

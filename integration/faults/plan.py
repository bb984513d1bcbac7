"""The faults, a seeded plan of rounds, and the injection of a fault into a cluster of real processes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from integration.faults.cluster import controller, guardian, is_registered, states
from integration.harness.wait import wait_for
from kafkalite.embedded.cluster import LocalCluster


class Fault(Enum):
    """A kind of fault."""

    KILL_LEADER = "kill -9 of a leader"
    KILL_CONTROLLER = "kill -9 of the controller"
    PAUSE_LEADER = "SIGSTOP of a leader past the session timeout, SIGCONT"
    PAUSE_CONTROLLER = "SIGSTOP of the controller past the session timeout, SIGCONT"
    RESTART_LEADER = "restart of a leader"
    RESTART_CONTROLLER = "restart of the controller"
    KILL_ALL_BUT_ONE = "kill -9 of a leader and all other replicas but one"
    KILL_ALL = "kill -9 of all brokers"
    KILL_WITH_GUARDIAN = "kill -9 of a leader and of its guardian"


class Round(NamedTuple):
    """One round. ``before``: the part of its records that comes before the fault; ``hold``: seconds that a dead broker
    stays down."""

    number: int
    fault: Fault
    partition: int
    before: float
    hold: float
    seed: int


def make_plan(seed: int, faults: Sequence[Fault], times: int, partitions: int) -> list[Round]:
    """Rounds with each of ``faults`` ``times`` times, in random order."""
    rng = random.Random(seed)
    order = [fault for fault in faults for _ in range(times)]
    rng.shuffle(order)
    return [
        Round(
            number,
            fault,
            rng.randrange(partitions),
            rng.uniform(0.1, 0.6),
            rng.choice((0.0, 0.3, 1.0, 2.5)),
            rng.randrange(1 << 30),
        )
        for number, fault in enumerate(order)
    ]


def inject(cluster: LocalCluster, topic: str, partitions: int, this: Round) -> str:
    """Inject the fault and restart its victims; returns a description. The replicas may not be in sync yet."""
    rng = random.Random(this.seed)
    if this.fault in (Fault.KILL_CONTROLLER, Fault.PAUSE_CONTROLLER, Fault.RESTART_CONTROLLER):
        victim: int = wait_for(lambda: controller(cluster), "there is a controller")
    else:
        victim = wait_for(lambda: max(states(cluster, topic, partitions)[this.partition]["leader"], 0), "a leader")
    others = [broker_id for broker_id in cluster.broker_ids if broker_id != victim]
    rng.shuffle(others)
    match this.fault:
        case Fault.KILL_LEADER | Fault.KILL_CONTROLLER:
            _kill(cluster, [victim], this.hold)
        case Fault.KILL_WITH_GUARDIAN:
            guardian(cluster, victim).kill()
            _kill(cluster, [victim], this.hold)
        case Fault.KILL_ALL_BUT_ONE:
            dead = [victim, *others[1:]]
            rng.shuffle(dead)
            _kill(cluster, dead, this.hold, lambda: rng.choice((0.0, 0.0, 0.02, 0.2, 1.0)))
            return f"brokers {dead}, leaving {others[0]}"
        case Fault.KILL_ALL:
            dead = [victim, *others]
            rng.shuffle(dead)
            _kill(cluster, dead, this.hold, lambda: rng.choice((0.0, 0.0, 0.1)))
            return f"brokers {dead}"
        case Fault.PAUSE_LEADER | Fault.PAUSE_CONTROLLER:
            cluster.pause_broker(victim)
            try:
                wait_for(lambda: not is_registered(cluster, victim), f"the session of broker {victim} ends")
                time.sleep(this.hold)
            finally:
                cluster.resume_broker(victim)
            wait_for(lambda: is_registered(cluster, victim), f"broker {victim} registers again")
        case Fault.RESTART_LEADER | Fault.RESTART_CONTROLLER:
            assert cluster.stop_broker(victim), f"broker {victim} did not stop on SIGTERM"
            time.sleep(this.hold)
            cluster.start_broker(victim, wait=False)
    return f"broker {victim}"


def _kill(cluster: LocalCluster, brokers: list[int], hold: float, pause: Callable[[], float] = lambda: 0.0) -> None:
    for number, broker_id in enumerate(brokers):
        if number:
            time.sleep(pause())
        cluster.kill_broker(broker_id)
    time.sleep(hold)
    for broker_id in brokers:
        cluster.start_broker(broker_id, wait=False)

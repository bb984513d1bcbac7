"""Seeded disorder: crashes, cuts, zombies, lost sessions. What was acknowledged or read stays as it was."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kafkalite.common.errors import ErrorCode
from kafkalite.common.tasks import deferred
from kafkalite.replication.replication_quotas import UNLIMITED
from kafkalite.replication.results import ProduceResult
from kafkalite.zk.zk_client import SessionState

from .simulation import TP, SimCluster, values_of

BROKERS = (1, 2, 3)


class Disorder:
    def __init__(self, path: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.cluster = SimCluster(path, replica_lag_time_max_ms=2_000)
        self.cluster.create()
        self.produced: list[tuple[str, list[ProduceResult]]] = []
        self.read: dict[int, str] = {}

    def live(self) -> list[int]:
        return [n for n in BROKERS if not self.cluster[n].dead]

    def produce(self) -> None:
        for _ in range(self.rng.randrange(1, 5)):
            broker = self.cluster[self.rng.choice(self.live())]
            value = f"v{len(self.produced)}"
            self.produced.append((value, broker.produce(value)))
            self.cluster.run(self.rng.choice((0.0, 0.0004, 0.002, 0.01)))

    def consume(self) -> None:
        """Nothing that a consumer has seen may ever change."""
        for broker_id in self.live():
            (result,) = self.cluster[broker_id].consume(only_leader=True)
            if result.error or result.records is None:
                continue
            for offset, value in enumerate(values_of(result.records.read())):
                assert self.read.setdefault(offset, value) == value

    def cut(self) -> None:
        one, other = self.rng.sample(BROKERS, 2)
        self.cluster.network.cut.add((one, other))

    def heal(self) -> None:
        self.cluster.network.cut.clear()

    def elect(self) -> None:
        """The controller moves the leadership within the ISR; some brokers hear of it late."""
        state = self.cluster.read()
        candidates = [n for n in state.isr if n in self.live()]
        if not candidates:
            return
        # Kafka's controller drops the dead from the ISR, but never the last one.
        self.cluster.elect(self.rng.choice(candidates), isr=candidates, send=False)
        hear = [n for n in self.live() if self.rng.random() < 0.8]
        self.cluster.send(TP, to=hear)
        self.cluster.run(0.01)

    def crash(self) -> None:
        live = self.live()
        if len(live) == 1:
            return
        victim = self.rng.choice(live)
        in_sync = [n for n in self.cluster.read().isr if n in live]
        self.cluster[victim].crash()
        if in_sync != [victim]:
            self.elect()

    def restart(self) -> None:
        for broker_id in BROKERS:
            if self.cluster[broker_id].dead:
                self.cluster[broker_id].start()
                # Elect, because the controller takes a changed broker epoch for a failure and a start.
                self.elect()
                self.cluster.send(TP)
                return

    def suspend(self) -> None:
        self.cluster[self.rng.choice(self.live())].zk.lose_connection()

    def expire(self) -> None:
        """A session ends; the broker registers again, and the controller takes that for a failure and a start."""
        broker = self.cluster[self.rng.choice(self.live())]
        broker.zk.expire_session()
        broker.zk.reconnect()
        self.cluster.run(self.rng.choice((0.002, 0.5)))
        self.cluster.register(broker)
        self.elect()

    def swallow(self) -> None:
        """Writes to ZooKeeper take effect or do not, and their answers are lost."""
        zk = self.cluster[self.rng.choice(self.live())].zk
        if zk.state is SessionState.CONNECTED:
            zk.black_hole(apply=self.rng.random() < 0.7)

    def resume(self) -> None:
        for broker_id in self.live():
            self.cluster[broker_id].zk.lose_connection()
            self.cluster[broker_id].zk.reconnect()

    def late_news(self) -> None:
        """A broker reads the state from ZooKeeper, perhaps long after."""
        for broker_id in self.live():
            deferred(self.cluster[broker_id].manager.apply_states([self.cluster.read()]))

    def move(self) -> None:
        """Move a replica to the other log directory of its broker, or cancel a running move."""
        broker = self.cluster[self.rng.choice(self.live())]
        log_dir = self.rng.choice(broker.logs.log_dirs)
        broker.manager.quotas.alter_log_dirs.update_rate(self.rng.choice((30, 100, UNLIMITED)))
        deferred(broker.manager.alter_log_dirs({TP: log_dir}))

    def run(self, steps: int) -> None:
        actions = [
            (self.produce, 12),
            (self.consume, 4),
            (self.cut, 3),
            (self.heal, 3),
            (self.elect, 2),
            (self.crash, 2),
            (self.restart, 3),
            (self.suspend, 1),
            (self.swallow, 2),
            (self.resume, 2),
            (self.expire, 1),
            (self.late_news, 1),
            (self.move, 5),
        ]
        for _ in range(steps):
            (action,) = self.rng.choices([a for a, _ in actions], [w for _, w in actions])
            action()
            self.cluster.run(self.rng.choice((0.001, 0.01, 0.3, 1.5)))

    def settle(self) -> None:
        self.heal()
        self.resume()
        for _ in BROKERS:
            self.restart()
        self.elect()
        for broker_id in BROKERS:
            self.cluster[broker_id].manager.quotas.alter_log_dirs.update_rate(UNLIMITED)
        self.cluster.send(TP)
        self.cluster.run(20)
        self.consume()


# In the last one a replica is truncated while it moves to another log directory.
@pytest.mark.parametrize("seed", [*range(8), 56])
def test_nothing_acknowledged_is_lost(tmp_path: Path, seed: int) -> None:
    disorder = Disorder(tmp_path, seed)
    disorder.run(120)
    disorder.settle()
    cluster = disorder.cluster
    final = cluster[cluster.read().leader].values()
    acknowledged = [value for value, answers in disorder.produced if answers and answers[0].error == ErrorCode.NONE]
    assert acknowledged
    kept = set(final)
    assert [value for value in acknowledged if value not in kept] == []
    in_order = [value for value in final if value in set(acknowledged)]
    assert in_order == acknowledged
    for value, answers in disorder.produced:
        if answers and answers[0].error == ErrorCode.NONE:
            assert final[answers[0].base_offset] == value
    assert [cluster[n].values() for n in BROKERS] == [final] * 3
    assert [cluster[n].logs.future_logs.logs for n in BROKERS] == [{}] * 3
    assert sorted(cluster.read().isr) == [1, 2, 3]
    assert [value for offset, value in sorted(disorder.read.items())] == final[: len(disorder.read)]

"""One endurance run: cluster, load, faults, samples and results."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path
from statistics import median

from integration.endurance.faults import MORTALS, VETERAN, EnduranceCluster, EnduranceFault
from integration.endurance.load import PARTITIONS, PATIENCE, SteadyLoad, create_topics
from integration.endurance.plot import Panel, draw
from integration.endurance.samples import BrokerSample, Sample, take
from integration.endurance.trend import Bound, Point, Verdict, judge, markdown
from integration.faults.cluster import wait_in_sync
from kafkalite.embedded.zookeeper import EmbeddedZooKeeper
from kafkalite.testing.cluster import KafkaliteCluster
from kafkalite.testing.properties import ZOOKEEPER_DEFAULTS

FAULT_INTERVAL = 60.0
RATE = 200
WARM_UP_SHARE = 0.25
LEAST_WARM_UP = 75.0
RETAINED_SECONDS = 45
"""Retention of a partition in seconds of the load: longer than the longest fault, and reached soon after the start."""
YOUNG = (15.0, 45.0)
"""Age in seconds at which the processes of killed brokers are compared."""
FEWEST_LIVES = 4
"""Least number of processes of a broker after the warm-up that have a trend."""

BROKER_MEASURES: dict[str, tuple[str, Callable[[BrokerSample], float], Bound]] = {
    # The bound allows the pages that Python's allocator keeps after a fault's load; a leak of 40 bytes a record exceeds
    # it.
    "RSS": ("MiB", lambda sample: sample.rss, Bound(8, 0.10)),
    # A segment has three, and segments are rolled and deleted in batches; a leak of one a minute exceeds the bound.
    "file descriptors": ("", lambda sample: sample.descriptors, Bound(20, 0.10)),
    # Faults close connections, and clients open them again when they need them. A leak of one for every fourth of an
    # hour's faults exceeds the bound.
    "descriptors of other than log files": ("", lambda sample: sample.others, Bound(10)),
    "threads": ("", lambda sample: sample.threads, Bound(2)),
    "child processes": ("", lambda sample: sample.children, Bound(1)),
}
"""Measures of each broker process: name → unit, value and bound."""
CLUSTER_MEASURES: dict[str, tuple[str, Callable[[Sample], float | None], Bound]] = {
    # A topic has a dozen znodes while it exists. A leak of one for each deleted topic would be 135 in three quarters of
    # an hour.
    "znodes": ("", lambda sample: sample.zookeeper.get("znodes"), Bound(40)),
    "watches": ("", lambda sample: sample.zookeeper.get("watches"), Bound(40)),
    "ZooKeeper connections": ("", lambda sample: sample.zookeeper.get("connections"), Bound(2)),
    # Retention deletes whole segments, and a fault delays it.
    "log directories": ("MiB", lambda sample: sample.log_mib, Bound(1, 0.15)),
    "log files": ("", lambda sample: sample.log_files, Bound(20, 0.10)),
}
"""Measures of the whole cluster: name → unit, value and bound."""


@dataclass
class Result:
    """Samples and faults of a run."""

    minutes: float
    samples: list[Sample] = field(default_factory=list)
    faults: list[tuple[float, str]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Length of the run in seconds, by its last sample."""
        return self.samples[-1].at if self.samples else 0.0

    def verdicts(self) -> list[Verdict]:
        """The verdict on every measure after the warm-up."""
        end = self.seconds
        warm_up = min(max(LEAST_WARM_UP, WARM_UP_SHARE * end), end / 2)
        verdicts = []
        for name, (unit, value, bound) in BROKER_MEASURES.items():
            points = [(each.at, value(each.brokers[VETERAN])) for each in self.samples if VETERAN in each.brokers]
            verdicts.append(judge(f"{name} of broker {VETERAN}", unit, points, warm_up, end, bound))
        for broker_id in MORTALS:
            for name, (unit, value, bound) in BROKER_MEASURES.items():
                points = self._young(broker_id, value)
                if sum(warm_up <= at <= end for at, _ in points) >= FEWEST_LIVES:
                    title = f"{name} of broker {broker_id} at the age of {YOUNG[0]:.0f} to {YOUNG[1]:.0f} s"
                    verdicts.append(judge(title, unit, points, warm_up, end, bound))
        for name, (unit, count, bound) in CLUSTER_MEASURES.items():
            found = [(each.at, count(each)) for each in self.samples]
            known = [(at, number) for at, number in found if number is not None]
            verdicts.append(judge(name, unit, known, warm_up, end, bound))
        return verdicts

    def _young(self, broker_id: int, value: Callable[[BrokerSample], float]) -> list[Point]:
        """One point for each process of the broker: the median at the ages of :data:`YOUNG`."""
        lives: dict[int, list[Point]] = {}
        for each in self.samples:
            sample = each.brokers.get(broker_id)
            if sample is not None and YOUNG[0] <= sample.age <= YOUNG[1]:
                lives.setdefault(sample.pid, []).append((each.at, value(sample)))
        return [(life[0][0], median(number for _, number in life)) for life in lives.values()]

    def svg(self) -> str:
        """The plot."""
        panels = []
        for name, (unit, value, _) in BROKER_MEASURES.items():
            lines = {f"broker {broker_id}": self._lives(broker_id, value) for broker_id in (*MORTALS, VETERAN)}
            panels.append(Panel(f"{name}, {unit}" if unit else name, lines))
        for name, (unit, count, _) in CLUSTER_MEASURES.items():
            points = [(each.at, number) for each in self.samples if (number := count(each)) is not None]
            panels.append(Panel(f"{name}, {unit}" if unit else name, {"cluster": points}))
        title = f"{self.seconds / 60:.0f} minutes, {len(self.faults)} faults"
        return draw(title, panels, [at for at, _ in self.faults], self.seconds)

    def _lives(self, broker_id: int, value: Callable[[BrokerSample], float]) -> list[Point | None]:
        line: list[Point | None] = []
        pid = 0
        for each in self.samples:
            sample = each.brokers.get(broker_id)
            if sample is None:
                continue
            if pid not in (0, sample.pid):
                line.append(None)
            pid = sample.pid
            line.append((each.at, value(sample)))
        return line

    def markdown(self) -> str:
        """The figures as a fragment of a page."""
        faults = {fault: sum(each == fault for _, each in self.faults) for _, fault in self.faults}
        done = "; ".join(f"{count} × {fault}" for fault, count in faults.items())
        counts = "; ".join(f"{count:,} {what}" for what, count in self.counts.items())
        text = f"{self.seconds / 60:.0f} minutes, {len(self.faults)} faults: {done}.\n\nLoad: {counts}.\n\n"
        return text + markdown(self.verdicts())

    def json(self) -> str:
        """All samples."""
        return json.dumps({**asdict(self), "verdicts": [asdict(each) for each in self.verdicts()]}, indent=1)


class Endurance:
    """A run of ``minutes`` in ``directory``, with a fault every ``fault_interval`` seconds."""

    def __init__(self, directory: Path, minutes: float, fault_interval: float = FAULT_INTERVAL) -> None:
        self.result = Result(minutes)
        self._directory = directory
        self._interval = fault_interval
        self._sample_interval = 2.0 if minutes < 20 else 5.0
        self._ended = threading.Event()
        self._begun = 0.0
        self._failure: BaseException | None = None

    def run(self) -> Result:
        """Run it. Raises ``AssertionError`` if an acknowledged record is lost or the cluster does not recover."""
        server = EmbeddedZooKeeper(self._directory / "zookeeper", properties=ZOOKEEPER_DEFAULTS).start(PATIENCE)
        cluster = KafkaliteCluster(self._directory, 3, zookeeper=server.connect_string, overrides=OVERRIDES)
        try:
            cluster.start(PATIENCE)
            self._run(EnduranceCluster(cluster, server))
        finally:
            self._ended.set()
            cluster.stop()
            server.kill()
        return self.result

    def _run(self, endurance: EnduranceCluster) -> None:
        create_topics(endurance.bootstrap, RATE, RETAINED_SECONDS)
        load = SteadyLoad(endurance, RATE)
        self._begun = time.monotonic()
        sampler = threading.Thread(target=self._sample, args=(endurance.zookeeper,), name="sampler", daemon=True)
        try:
            load.start()
            sampler.start()
            self._throw(endurance, load)
            self._ended.set()
            sampler.join()
            if self._failure is not None:
                raise self._failure
            for topic, partitions in PARTITIONS.items():
                wait_in_sync(endurance, topic, partitions, timeout=PATIENCE)
            load.stop()
        finally:
            self.result.counts = load.counts()
            load.close()

    def _throw(self, endurance: EnduranceCluster, load: SteadyLoad) -> None:
        end = self._begun + 60 * self.result.minutes
        due = self._begun + self._interval
        for fault in cycle(EnduranceFault):
            # Start no fault near the end, so that the last fault is over and its broker is in sync.
            while time.monotonic() < min(due, end):
                load.raise_failure()
                time.sleep(0.5)
            if due > end - self._interval / 2:
                break
            at = time.monotonic() - self._begun
            done = endurance.inject(fault, load)
            self.result.faults.append((at, done))
            for topic, partitions in PARTITIONS.items():
                wait_in_sync(endurance, topic, partitions, timeout=PATIENCE)
            took = time.monotonic() - self._begun - at
            acknowledged = load.record.history.acknowledged
            refused = f"; refused: {load.refused}" if load.refused else ""
            print(
                f"{at:6.0f} s: {done}; in sync {took:.1f} s later; {acknowledged:,} acknowledged{refused}", flush=True
            )
            due = max(due + self._interval, time.monotonic() + self._interval / 3)
        while time.monotonic() < end:
            load.raise_failure()
            time.sleep(0.5)

    def _sample(self, zookeeper: str) -> None:
        try:
            while not self._ended.wait(self._sample_interval):
                self.result.samples.append(take(self._directory, zookeeper, time.monotonic() - self._begun))
        except BaseException as error:
            self._failure = error


OVERRIDES = {
    # Off, because a client that still knows a deleted topic would create it by its metadata request.
    "auto.create.topics.enable": "false",
    # Few, so that all of them run before the end of the warm-up and a further thread is a leak.
    "background.threads": "4",
    "group.min.session.timeout.ms": "1000",
    "log.retention.check.interval.ms": "3000",
    "log.segment.delete.delay.ms": "2000",
    "log.cleaner.backoff.ms": "3000",
    "offsets.topic.num.partitions": "6",
    "offsets.topic.segment.bytes": str(256 << 10),
    "transaction.state.log.num.partitions": "6",
    "transaction.state.log.segment.bytes": str(256 << 10),
    "leader.imbalance.check.interval.seconds": "10",
    "replica.lag.time.max.ms": "5000",
}
"""Intervals of seconds instead of hours or days, so that the measures reach their plateau."""

"""Cells of a broker's life: memory, start, many partitions, many connections, death and shutdown."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from integration.bench.cell import ClusterCell, FreshCell, Metric, fresh_topic
from integration.bench.clients import run_clients
from integration.bench.raw import RawConnection
from integration.bench.side import Maker, Side
from integration.bench.view import all_in_sync, controller
from integration.harness.wait import wait_for
from kafkalite.embedded.cluster import LocalCluster
from kafkalite.embedded.probe import ask
from kafkalite.embedded.processes import ServerProcess, free_ports
from kafkalite.embedded.zookeeper import EmbeddedZooKeeper

LIFE = "Coming and going"
MEMORY = "Resident memory of a broker, mean of three"
FIFTH = 0.2


class StartCell(FreshCell):
    """Time from the start of a broker with an empty directory to its first Metadata answer; ZooKeeper runs already."""

    name, title, group = "start", "start of one broker to its first metadata answer", LIFE
    metrics = (Metric("seconds", "s", at_most=0.25),)

    def run(self, maker: Maker, directory: Path) -> dict[str, float]:
        """Start the broker, and send Metadata every 5 ms."""
        with_zookeeper = EmbeddedZooKeeper(directory / "zookeeper").start()
        try:
            (port,) = free_ports(1)
            config = directory / "server.properties"
            config.write_text(
                f"broker.id=1\nlisteners=PLAINTEXT://127.0.0.1:{port}\n"
                f"log.dirs={directory / 'data'}\nzookeeper.connect={with_zookeeper.connect_string}\n"
            )
            start = time.monotonic()
            process = ServerProcess.spawn(maker.launcher(config), directory / "broker.log", mark=str(config))
            try:
                wait_for(lambda: ask("127.0.0.1", port).brokers, "the broker answers", interval=0.005)
                return {"seconds": time.monotonic() - start}
            finally:
                process.kill()
        finally:
            with_zookeeper.kill()


class PartitionsCell(FreshCell):
    """A topic of many partitions on a fresh cluster: time until all are led and in sync, and the memory for them."""

    group = LIFE
    rounds = 2

    def __init__(self, name: str, partitions: int, metrics: tuple[Metric, ...]) -> None:
        self.name, self.title = name, f"topic of {partitions:,} partitions, RF 3"
        self.partitions = partitions
        self.metrics = metrics

    def run(self, maker: Maker, directory: Path) -> dict[str, float]:
        """Measure the idle memory, the creation of the topic, and the memory with its partitions."""
        side = Side(maker, directory).start()
        try:
            time.sleep(5.0)
            idle = side.rss_mb()
            topic = fresh_topic(self.name)
            before = side.cpu()
            start = time.monotonic()
            side.request_topic(topic, self.partitions, 3)
            wait_for(lambda: all_in_sync(side, topic, self.partitions), "all lead and are in sync", timeout=120)
            seconds = time.monotonic() - start
            cpu = side.cpu() - before
            run_clients(side, [self._one_each(side, topic)])
            acknowledged = time.monotonic() - start
            time.sleep(3.0)
            return {
                "seconds": seconds,
                "cpu": cpu,
                "acknowledged": acknowledged,
                "idle": idle,
                "with": side.rss_mb(),
            }
        finally:
            side.close()

    def _one_each(self, side: Side, topic: str) -> tuple[str, dict[str, object]]:
        return "produce", {
            "bootstrap": side.bootstrap,
            "topic": topic,
            "partitions": self.partitions,
            "count": self.partitions,
            "size": 100,
            "settings": {"acks": "all"},
        }


class LoadedMemoryCell(ClusterCell):
    """Memory after the loads of the cells before, without an idle time between."""

    name, title, group = "memory-loaded", "after the loads of this run", MEMORY
    metrics = (Metric("rss", "MB", at_most=FIFTH),)
    rounds = 1

    def run(self, side: Side) -> dict[str, float]:
        """Read the memory."""
        return {"rss": side.rss_mb()}


class ConnectionsCell(ClusterCell):
    """2,000 connections held open to one broker, each having asked once, and a producer beside them."""

    name, title, group = "connections", "2,000 connections held", LIFE
    metrics = (
        Metric("per_s", "connections answered/s"),
        Metric("kb", "KB of memory each"),
        Metric("rate", "msg/s of 1 KB produced beside them"),
    )
    rounds = 2
    count = 2000

    def run(self, side: Side) -> dict[str, float]:
        """Open the connections, send a request on each, produce meanwhile, and close them."""
        topic = fresh_topic(self.name)
        side.create_topic(topic)
        host, port = side.leader(topic, 0)
        before = side.rss_mb()
        start = time.monotonic()
        with contextlib.ExitStack() as held:
            for _ in range(self.count):
                held.enter_context(RawConnection(host, port)).metadata_of_nothing()
            seconds = time.monotonic() - start
            memory = side.rss_mb() - before
            results, _ = run_clients(
                side,
                [
                    (
                        "produce",
                        {
                            "bootstrap": side.bootstrap,
                            "topic": topic,
                            "partitions": 1,
                            "count": 300_000,
                            "size": 1000,
                            "settings": {"acks": "1"},
                        },
                    )
                ],
            )
        side.delete_topic(topic)
        return {
            "per_s": self.count / seconds,
            "kb": memory * len(side.cluster.broker_ids) * 1000 / self.count,
            "rate": results[0]["count"] / results[0]["seconds"],
        }


class GapCell(ClusterCell):
    """The longest gap between acknowledgements while the partition's leader ends. acks=all, RF 3, 1,000 messages/s."""

    group = LIFE

    def __init__(self, name: str, title: str, *, kill: bool, at_most: float) -> None:
        self.name, self.title, self.kill = name, title, kill
        self.metrics = (Metric("gap", "s", at_most=at_most),)

    def run(self, side: Side) -> dict[str, float]:
        """Make the controller the leader, end it 2 s after the first message, and start it again."""
        cluster = side.cluster
        victim = controller(side)
        others = [broker_id for broker_id in cluster.broker_ids if broker_id != victim]
        topic = fresh_topic(self.name)
        side.create_topic(topic, assignment=[[victim, *others]])
        wait_for(lambda: all_in_sync(side, topic, 1), "the topic is in sync")
        order = {"bootstrap": side.bootstrap, "topic": topic, "seconds": 18.0 if self.kill else 6.0}
        try:
            results, _ = run_clients(side, [("gap", order)], meanwhile=lambda: self._let_go(cluster, victim))
        finally:
            if cluster.is_alive(victim):
                cluster.kill_broker(victim)
            cluster.start_broker(victim)
            side.reconnect()
            wait_for(lambda: all_in_sync(side, topic, 1), "the broker is back", timeout=60)
            side.delete_topic(topic)
        if results[0]["lost"]:
            raise RuntimeError(f"{self.name}: {results[0]['lost']:.0f} messages were not acknowledged")
        return {"gap": results[0]["gap"]}

    def _let_go(self, cluster: LocalCluster, victim: int) -> None:
        time.sleep(2.0)
        if self.kill:
            cluster.kill_broker(victim)
        else:
            cluster.stop_broker(victim)


FRESH_CELLS: list[FreshCell] = [
    StartCell(),
    PartitionsCell(
        "partitions-1000",
        1000,
        (
            Metric("seconds", "s until all lead and are in sync", at_most=0.5),
            Metric("acknowledged", "s until each has acknowledged a message with acks=all"),
            Metric("cpu", "CPU s of all brokers"),
            Metric("idle", "MB of a broker before", at_most=FIFTH),
            Metric("with", "MB of a broker after", at_most=FIFTH),
        ),
    ),
]
LIFE_CELLS: list[ClusterCell] = [
    ConnectionsCell(),
    LoadedMemoryCell(),
    GapCell("gap-term", "SIGTERM of a leader, longest gap", kill=False, at_most=1.0),
    GapCell("gap-kill", "kill -9 of leader and controller, longest gap", kill=True, at_most=0.1),
]

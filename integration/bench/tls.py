"""A cell with TLS everywhere: between clients and brokers, and between brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from integration.bench.cell import FreshCell, Metric
from integration.bench.clients import run_clients
from integration.bench.side import Maker, Side
from integration.security.stores import Stores, add_listeners

TLS = "TLS"


class TlsCell(FreshCell):
    """Produce with acks=1, consume, and produce with acks=all to three replicas, by librdkafka over TLS 1.3.

    Every part runs twice and counts the second time, because a JVM is slow until it has compiled.
    """

    name, title, group = "tls-1k", "1 KB over TLS, also between brokers", TLS
    metrics = (
        Metric("produced, acks=1", "msg/s", at_least=2.0),
        Metric("produce cpu", "CPU s/GB"),
        Metric("producer's cpu", "CPU s/GB of the client"),
        Metric("consumed", "msg/s", at_least=1.0),
        Metric("consume cpu", "CPU s/GB", at_most=1.0),
        Metric("produced, acks=all", "msg/s", at_least=2.0),
    )
    count, size = 600_000, 1000
    replicated = 250_000

    def run(self, maker: Maker, directory: Path) -> dict[str, float]:
        """Start three brokers, and measure one part after the other."""
        stores = Stores(directory / "stores")
        stores.issue("broker")
        overrides = stores.properties("broker", "PEM") | {"inter.broker.listener.name": "SSL"}
        side = Side(maker, directory, overrides=overrides)
        try:
            ports = add_listeners(side.cluster, ("SSL",))
            side.start()
            self._bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports.values())
            self._settings = {"security.protocol": "SSL", "ssl.ca.location": str(stores.path("ca.pem"))}
            found: dict[str, float] = {}
            for round_ in range(2):
                topic = f"tls-{round_}"
                side.create_topic(topic)
                rate, cpu, client_cpu = self._client(side, "produce", topic, self.count, acks="1")
                found |= {"produced, acks=1": rate, "produce cpu": cpu, "producer's cpu": client_cpu}
                rate, cpu, _ = self._client(side, "consume", topic, self.count)
                found |= {"consumed": rate, "consume cpu": cpu}
                side.create_topic(f"{topic}-replicated", factor=3)
                rate, *_ = self._client(side, "produce", f"{topic}-replicated", self.replicated, acks="all")
                found["produced, acks=all"] = rate
            return found
        finally:
            side.close()

    def _client(self, side: Side, what: str, topic: str, count: int, **settings: str) -> tuple[float, float, float]:
        """Messages a second, CPU seconds of all brokers a GB, and those of the client."""
        order: dict[str, Any] = {"bootstrap": self._bootstrap, "topic": topic, "partitions": 1, "count": count}
        if what == "produce":
            order["size"] = self.size
        else:
            settings["check.crcs"] = "false"
        (result,), cpu = run_clients(side, [(what, order | {"settings": self._settings | settings})])
        if result["count"] < count:
            raise RuntimeError(f"{self.name}: {side.name} served {result['count']} of {count} messages")
        gigabytes = count * self.size / 1e9
        return count / result["seconds"], cpu / gigabytes, result["cpu"] / gigabytes


TLS_CELLS = [TlsCell()]

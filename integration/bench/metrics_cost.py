"""A cell of what the metrics cost: the same load on a broker with and without ``metrics.listener``, in turn."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from integration.bench.cell import FreshCell, Metric
from integration.bench.guards import SINGLE, produce_to
from integration.bench.side import Maker, Side

METRICS = "What metrics cost, on / off"


class MetricsCell(FreshCell):
    """Produce to two clusters of one broker in turn: one has a page of metrics, which is not read, the other has none.

    Each figure is the median of the ratios of :attr:`pairs` pairs.
    """

    name, title, group = "metrics", "produce with acks=1", METRICS
    metrics = (
        Metric("cpu, 1 KB", "CPU a GB, 1 KB", limit=1.02),
        Metric("cpu, single", "CPU a request, 100 B, one message a request", limit=1.02),
    )
    rounds = 1
    pairs = 7
    large, single = 600_000, 40_000

    def run(self, maker: Maker, directory: Path) -> dict[str, float]:
        """Start both clusters, warm them up, and measure one pair after the other."""
        off = Side(maker, directory / "off", brokers=1)
        page = {"metrics.listener": "http://127.0.0.1:0"}
        on = Side(maker, directory / "on", brokers=1, overrides=page)
        try:
            off.start()
            on.start()
            found: dict[str, list[float]] = {metric.name: [] for metric in self.metrics}
            for pair in range(self.pairs + 1):
                # The order changes, because what runs second finds a warmer machine.
                order = (off, on) if pair % 2 else (on, off)
                large = {side: produce_to(side, count=self.large, size=1000)[1] for side in order}
                single = {side: produce_to(side, count=self.single, size=100, **SINGLE)[1] for side in order}
                if pair:
                    found["cpu, 1 KB"].append(large[on] / large[off])
                    found["cpu, single"].append(single[on] / single[off])
            return {name: median(ratios) for name, ratios in found.items()}
        finally:
            off.close()
            on.close()


METRICS_CELLS = [MetricsCell()]

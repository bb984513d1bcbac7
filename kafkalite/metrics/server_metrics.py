"""The broker as a whole: its state, the bytes of its disks, and what guards its ZooKeeper session.

Answers to: the beans of ``kafka.server.KafkaServer`` and ``kafka.server.BrokerState``. Deterministic, but for the
counts of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from pathlib import Path
from typing import Final, Protocol

from kafkalite.metrics.definitions import MetricDefinition, MetricKind, MetricSample


class BrokerState(IntEnum):
    """The values of ``org.apache.kafka.metadata.BrokerState`` that a broker with a page can be in."""

    STARTING = 1
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class GuardianState(Protocol):
    """What ends the session of a broker whose process died."""

    @property
    def is_running(self) -> bool:
        """Whether the session is guarded now."""


class WatchdogState(Protocol):
    """What ends the session of a broker whose reactor hangs."""

    @property
    def hangs(self) -> int:
        """How often the session was given up."""


def _gauge(bean: str, meaning: str, unit: str = "", remedy: str = "", labels: tuple[str, ...] = ()) -> MetricDefinition:
    return MetricDefinition(
        f"kafka_server_kafkaserver_{bean.lower().replace('-', '_')}",
        MetricKind.GAUGE,
        meaning,
        labels,
        unit,
        f"kafka.server:type=KafkaServer,name={bean}",
        remedy,
    )


STATE: Final = _gauge(
    "BrokerState",
    "1 starting, 3 running, 6 handing its leaderships over, 7 stopping. A broker that loads its logs has no page.",
)
CLUSTER: Final = _gauge("ClusterId", "1, with the id of the cluster as a label.", labels=("clusterid",))
READ: Final = _gauge("linux-disk-read-bytes", "Bytes that the process read from disks.", "bytes")
WRITTEN: Final = _gauge("linux-disk-write-bytes", "Bytes that the process wrote to disks.", "bytes")
GUARDIAN: Final = MetricDefinition(
    "kafkalite_session_guardian_running",
    MetricKind.GAUGE,
    "1 if a guardian process would end the ZooKeeper session of a broker that dies; 0 also where it is switched off.",
    remedy="With zookeeper.session.guardian.enable=true the broker starts another within 5 s: see its log.",
)
HANGS: Final = MetricDefinition(
    "kafkalite_watchdog_hangs",
    MetricKind.COUNTER,
    "Times for which the reactor hung longer than the session timeout, so that the watchdog gave the session up.",
    remedy="The machine is overloaded or a disk does not answer: see the broker's log at that time.",
)


class ServerMetricsCollector:
    """Reads the state of the broker, and the counts of the process from ``io``, a file as ``/proc/self/io``."""

    DEFINITIONS = (STATE, CLUSTER, READ, WRITTEN, GUARDIAN, HANGS)

    def __init__(
        self,
        cluster_id: str,
        state: Callable[[], BrokerState],
        guardian: GuardianState | None,
        watchdog: WatchdogState,
        io: Path = Path("/proc/self/io"),
    ) -> None:
        self._cluster_id = cluster_id
        self._state = state
        self._guardian = guardian
        self._watchdog = watchdog
        self._io = io

    def collect(self) -> Iterator[list[MetricSample]]:
        """See :class:`kafkalite.metrics.definitions.Collector`."""
        counts = self._counts()
        yield [
            MetricSample(STATE, (), self._state()),
            MetricSample(CLUSTER, (self._cluster_id,), 1),
            *(
                MetricSample(metric, (), counts[name])
                for metric, name in ((READ, "read_bytes"), (WRITTEN, "write_bytes"))
                if name in counts
            ),
            MetricSample(GUARDIAN, (), self._guardian is not None and self._guardian.is_running),
            MetricSample(HANGS, (), self._watchdog.hangs),
        ]

    def _counts(self) -> dict[str, int]:
        try:
            lines = self._io.read_text(encoding="ascii").splitlines()
        except OSError:
            # Another system than Linux, or a container that hides it: Kafka leaves the beans out, too.
            return {}
        return {name: int(value) for name, _, value in (line.partition(": ") for line in lines)}

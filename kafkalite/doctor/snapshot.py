"""A cluster as ZooKeeper and the brokers described it within a few seconds: what the checks of the doctor judge. Pure.

Answers to: nothing in Kafka. ``cli/doctor_reader.py`` fills it from a live cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkalite.cluster.model import Broker, LeaderAndIsr
from kafkalite.common.types import TopicPartition
from kafkalite.doctor.broker_process import BrokerProcess
from kafkalite.doctor.commands import Commands
from kafkalite.zk.verify import Fault


@dataclass(frozen=True, slots=True)
class ZooKeeperServer:
    """One server of the connection string, ``host:port``.

    ``mode`` is its answer to ``srvr``: ``leader``, ``follower``, ``standalone``; empty where it did not say.
    """

    address: str
    accepts: bool = True
    """Whether it accepts connections."""
    serves: bool = True
    """``False`` if it said that it serves no requests, because it has no quorum."""
    mode: str = ""


@dataclass(frozen=True, slots=True)
class ZooKeeperView:
    """ZooKeeper. ``error``: why no session could be opened; empty if one was.

    ``latency_ms``: median time of a read. ``session_limits_ms``: least and greatest session timeout that it grants;
    ``None`` where they are not known.
    """

    servers: tuple[ZooKeeperServer, ...] = ()
    error: str = ""
    latency_ms: float = 0.0
    session_limits_ms: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class BrokerView:
    """A broker that is registered, or is a replica of a partition.

    ``registered``: its znode, ``None`` if it has none. ``registered_ms`` is the time by the broker's clock at its
    registration, ``znode_made_ms`` the same moment by ZooKeeper's clock; -1 where not known. ``error``: why it did not
    answer; empty if it did. ``configs``: all values in force. ``api_versions``: least and greatest version by API key.
    ``config``: its file of properties, on this machine; empty where not known.
    """

    id: int
    registered: Broker | None = None
    registered_ms: int = -1
    znode_made_ms: int = -1
    error: str = ""
    configs: Mapping[str, str] = field(default_factory=dict)
    api_versions: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    process: BrokerProcess | None = None
    config: str = ""

    def integer(self, name: str, default: int) -> int:
        """A configuration that is a whole number; ``default`` if the broker did not say."""
        try:
            return int(self.configs.get(name, default))
        except ValueError:
            return default


@dataclass(frozen=True, slots=True)
class LogDirUsage:
    """A log directory. Sizes in bytes; -1: not known. ``error``: Kafka's name of the error, empty for none."""

    path: str
    error: str = ""
    total_bytes: int = -1
    usable_bytes: int = -1
    log_bytes: int = 0
    """Size of all logs in it."""


@dataclass(frozen=True, slots=True)
class GroupLag:
    """A group with offsets: number of its members, and by how many records it is behind, in both samples."""

    name: str
    members: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction in a partition that no coordinator is going to end. ``idle_ms``: since its last write."""

    partition: TopicPartition
    producer_id: int
    start_offset: int
    idle_ms: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that the checks see. ``interval``: seconds between the two samples of ``log_dirs`` and ``groups``.

    ``states`` have their assignments. ``topic_configs``: all values in force, by topic. ``unread``: what could not be
    read, and why. ``controller``: the broker in ``/controller``, -1 for none.
    """

    commands: Commands
    zookeeper: ZooKeeperView = ZooKeeperView()
    znode_faults: tuple[Fault, ...] = ()
    controller: int = -1
    brokers: Mapping[int, BrokerView] = field(default_factory=dict)
    states: tuple[LeaderAndIsr, ...] = ()
    topic_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    interval: float = 1.0
    log_dirs_before: Mapping[int, tuple[LogDirUsage, ...]] = field(default_factory=dict)
    log_dirs: Mapping[int, tuple[LogDirUsage, ...]] = field(default_factory=dict)
    groups: tuple[GroupLag, ...] = ()
    hanging: tuple[HangingTransaction, ...] = ()
    max_map_count: int = -1
    """``vm.max_map_count`` of this machine; -1 where not known."""
    unread: tuple[tuple[str, str], ...] = ()

    @property
    def live(self) -> dict[int, BrokerView]:
        """The registered brokers."""
        return {broker_id: broker for broker_id, broker in self.brokers.items() if broker.registered is not None}

    @property
    def answering(self) -> dict[int, BrokerView]:
        """The registered brokers that answered."""
        return {broker_id: broker for broker_id, broker in self.live.items() if not broker.error}

    def topic_integer(self, topic: str, name: str, default: int) -> int:
        """A configuration of a topic that is a whole number; ``default`` if no broker said."""
        try:
            return int(self.topic_configs.get(topic, {}).get(name, default))
        except ValueError:
            return default

"""The doctor's snapshot of a live cluster: ZooKeeper's tree, what the brokers say, two samples of what grows.

Answers to: nothing in Kafka. Reactor shell (client library). It changes nothing in the cluster.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from kafkalite.cli.clients import admin_client, broker_configs, read_properties, send
from kafkalite.cli.doctor_processes import broker_processes, config_beside, max_map_count
from kafkalite.cli.doctor_zookeeper import read_zookeeper
from kafkalite.cli.groups_source import GroupSource
from kafkalite.cli.groups_view import EMPTY, GroupView
from kafkalite.cli.probe_login import probe_login
from kafkalite.cli.topics import topic_configs
from kafkalite.cli.transaction_queries import TransactionAdmin, hanging, open_since
from kafkalite.cli.zk import CONFIG_DEFINITIONS
from kafkalite.cli.zookeeper_security import read_zookeeper_security
from kafkalite.cluster.model import Broker, Endpoint, LeaderAndIsr, PartitionAssignment
from kafkalite.common.errors import ApiError, ErrorCode, StartupError
from kafkalite.common.types import TopicPartition
from kafkalite.doctor.commands import Commands
from kafkalite.doctor.snapshot import (
    BrokerView,
    GroupLag,
    HangingTransaction,
    LogDirUsage,
    Snapshot,
    ZooKeeperView,
)
from kafkalite.embedded.probe import ask
from kafkalite.zk.verify import Fault, Tree, verify
from kafkalite.zk.znodes import brokers, topics
from kafkalite.zk.znodes.claims import CONTROLLER, decode_claim
from kafkalite.zk.znodes.codec import MalformedZnodeError, from_json
from kafkalite.zk.znodes.config import TOPICS, config_path

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

_PROBE_SECONDS = 3.0
_REQUEST_TIMEOUT_MS = 10_000
Address = tuple[str, int]


class DoctorReader:
    """Reads one :class:`Snapshot` as the flags in ``args`` say. A part that cannot be read is noted in it."""

    def __init__(self, args: argparse.Namespace, sleep: Callable[[float], None] = time.sleep) -> None:
        self._args = args
        self._sleep = sleep
        properties = read_properties(args.command_config)
        self._protocol = properties.get("security.protocol", "PLAINTEXT").upper()
        self._login = probe_login(properties)
        self._unread: list[tuple[str, str]] = []

    def read(self) -> Snapshot:
        """The snapshot; raises ``ConfigError`` and ``UsageError`` for flags and files that are of no use."""
        args = self._args
        known = self._ask_bootstrap(args.bootstrap_server) if args.bootstrap_server else {}
        connect = args.zookeeper or (self._zookeeper_of(known) if known else "")
        view = ZooKeeperView()
        tree: Tree = {}
        if connect:
            view, tree = read_zookeeper(connect, read_zookeeper_security(args.zk_tls_config_file))
        elif known:
            self._unread.append(("ZooKeeper", "no broker told zookeeper.connect; give --zookeeper"))
        found = _registered(tree) if tree else _from_metadata(known, self._protocol)
        reached = {**{i: a for i, b in found.items() if (a := self._address(b))}, **known}
        found = {i: self._probed(broker, reached.get(i)) for i, broker in found.items()}
        usable = {i: reached[i] for i, broker in found.items() if broker.registered and not broker.error}
        addresses = ",".join(f"{host}:{port}" for host, port in usable.values())
        commands = Commands(
            args.bootstrap_server or addresses or "<host:port of a broker>",
            connect or "<host:port of ZooKeeper>",
            str(args.command_config or ""),
            str(args.zk_tls_config_file or ""),
        )
        snapshot = Snapshot(commands, view, brokers=found, controller=_controller(tree))
        if tree:
            snapshot = replace(snapshot, znode_faults=tuple(self._faults(tree)), states=tuple(_states(tree)))
        if usable:
            snapshot = self._with_brokers(snapshot, argparse.Namespace(**{**vars(args), "bootstrap_server": addresses}))
        snapshot = _with_replicas(snapshot)
        ports = [port for _, port in reached.values()]
        processes = broker_processes(connect, ports)
        configs = {i: process.config for i, process in processes.items()}
        return replace(
            snapshot,
            brokers={
                i: replace(broker, process=processes.get(i), config=configs.get(i) or config_beside(i, configs))
                for i, broker in sorted(snapshot.brokers.items())
            },
            max_map_count=max_map_count(),
            unread=tuple(self._unread),
        )

    # Which brokers there are

    def _ask_bootstrap(self, servers: str) -> dict[int, Address]:
        for server in servers.split(","):
            host, _, port = server.strip().rpartition(":")
            try:
                return dict(ask(host.strip("[]"), int(port), _PROBE_SECONDS, self._login).brokers)
            except (OSError, ValueError) as error:
                last = str(error)
        self._unread.append((f"brokers at {servers}", last))
        return {}

    def _zookeeper_of(self, known: Mapping[int, Address]) -> str:
        servers = ",".join(f"{host}:{port}" for host, port in known.values())
        for broker_id in sorted(known):
            with self._noted(f"zookeeper.connect of broker {broker_id}"), self._admin(servers) as admin:
                connect = _broker_configs(admin, broker_id).get("zookeeper.connect", "")
                if connect:
                    return connect
        return ""

    def _address(self, broker: BrokerView) -> Address | None:
        endpoints = broker.registered.endpoints if broker.registered else ()
        return next(((e.host, e.port) for e in endpoints if e.security_protocol == self._protocol), None)

    def _probed(self, broker: BrokerView, address: Address | None) -> BrokerView:
        if address is None:
            return replace(broker, error=f"no {self._protocol} listener, by which this client comes (--command-config)")
        try:
            ask(*address, _PROBE_SECONDS, self._login)
        except OSError as error:
            return replace(broker, error=str(error) or type(error).__name__)
        return broker

    # What the brokers say

    def _with_brokers(self, snapshot: Snapshot, args: argparse.Namespace) -> Snapshot:
        with self._noted("the brokers"), self._admin(args.bootstrap_server) as admin:
            snapshot = self._with_settings(snapshot, admin)
            snapshot = self._with_samples(snapshot, admin, args)
        silent = sorted(set(snapshot.live) - set(snapshot.answering))
        if silent:
            self._unread.append(("groups and transactions", f"broker {silent[0]} does not answer"))
        return snapshot

    def _with_samples(self, snapshot: Snapshot, admin: KafkaAdminClient, args: argparse.Namespace) -> Snapshot:
        # Clients wait for the leaders of all partitions, so one silent broker would hold up each of these requests.
        all_answer = set(snapshot.live) == set(snapshot.answering)
        if all_answer:
            with self._noted("transactions"):
                snapshot = replace(snapshot, hanging=tuple(self._hanging(admin, snapshot.states)))
        before, began = self._log_dirs(admin, snapshot), time.monotonic()
        groups = self._empty_groups(args, None) if all_answer else []
        self._sleep(max(0.0, self._args.interval - (time.monotonic() - began)))
        after, interval = self._log_dirs(admin, snapshot), time.monotonic() - began
        later = {group.name: group for group in self._empty_groups(args, [group.name for group in groups])}
        lags = tuple(
            GroupLag(group.name, len(later[group.name].members), _lag(group), _lag(later[group.name]))
            for group in groups
            if group.name in later
        )
        interval = max(interval, 0.001)
        return replace(snapshot, log_dirs_before=before, log_dirs=after, interval=interval, groups=lags)

    def _with_settings(self, snapshot: Snapshot, admin: KafkaAdminClient) -> Snapshot:
        found = dict(snapshot.brokers)
        for broker_id in snapshot.answering:
            with self._noted(f"configuration of broker {broker_id}"):
                found[broker_id] = replace(
                    found[broker_id],
                    configs=_broker_configs(admin, broker_id),
                    api_versions=dict(admin.get_broker_version_data(broker_id).api_versions),
                )
        described = admin.describe_topics(None)
        states = snapshot.states or tuple(
            LeaderAndIsr(
                topic["name"],
                one["partition_index"],
                leader=one["leader_id"],
                isr=tuple(one["isr_nodes"]),
                assignment=PartitionAssignment(tuple(one["replica_nodes"])),
            )
            for topic in described
            for one in topic["partitions"]
        )
        # A broker refuses the whole request where it cannot read one of the znodes; their faults are findings.
        faulted = {fault.path for fault in snapshot.znode_faults}
        listed = {topic["name"] for topic in described if not topic["error_code"]}
        names = sorted(name for name in listed if config_path(TOPICS, name) not in faulted)
        configs: dict[str, dict[str, str]] = {}
        if names:
            with self._noted("configurations of topics"):
                configs = {
                    topic: {name: str(entry["value"]) for name, entry in entries.items()}
                    for topic, entries in topic_configs(admin, names).items()
                }
        missing = [name for name in names if name not in configs]
        if missing:
            self._unread.append((f"configurations of {len(missing)} topics", f"no broker described {missing[0]}"))
        return replace(snapshot, brokers=found, states=states, topic_configs=configs)

    def _hanging(self, admin: KafkaAdminClient, states: Sequence[LeaderAndIsr]) -> Iterator[HangingTransaction]:
        transactions, now_ms = TransactionAdmin(admin), int(time.time() * 1000)
        led = [state.topic_partition for state in states if state.leader >= 0]
        candidates = open_since(transactions.producers(led), self._args.max_transaction_timeout * 60_000, now_ms)
        if not candidates:
            return
        wanted = {producer.producer_id for _, producer in candidates}
        ids = {one.producer_id: one.transactional_id for one in transactions.listings(producer_ids=wanted)}
        for tp, one in hanging(candidates, ids, {name: transactions.describe(name) for name in ids.values()}):
            yield HangingTransaction(tp, one.producer_id, one.start_offset, now_ms - one.last_timestamp)

    def _log_dirs(self, admin: KafkaAdminClient, snapshot: Snapshot) -> dict[int, tuple[LogDirUsage, ...]]:
        from kafka.protocol.admin import DescribeLogDirsRequest

        found = {}
        for broker_id in snapshot.answering:
            with self._noted(f"log directories of broker {broker_id}"):
                answer = send(admin, DescribeLogDirsRequest(topics=None), broker_id)
                found[broker_id] = tuple(
                    LogDirUsage(
                        one.log_dir,
                        ErrorCode(one.error_code).name if one.error_code else "",
                        -1 if one.total_bytes is None else one.total_bytes,
                        -1 if one.usable_bytes is None else one.usable_bytes,
                        sum(p.partition_size for topic in one.topics for p in topic.partitions),
                    )
                    for one in answer.results
                )
        return found

    def _empty_groups(self, args: argparse.Namespace, names: Sequence[str] | None) -> list[GroupView]:
        """Groups without members, with their offsets and the ends of the logs; all that there are, or ``names``."""
        if names is not None and not names:
            return []
        found: list[GroupView] = []
        with self._noted("groups"):
            source = GroupSource(argparse.Namespace(**{**vars(args), "zookeeper": args.zookeeper, "timeout": 5000}))
            try:
                if names is None:
                    names = [name for name, _, state in source.listing() if state == EMPTY]
                found = source.describe(names)
            finally:
                source.close()
        return found

    def _faults(self, tree: Tree) -> Iterator[Fault]:
        with self._noted("the schemas of znodes"):
            yield from verify(tree, CONFIG_DEFINITIONS)

    # Edges

    @contextmanager
    def _admin(self, servers: str) -> Iterator[KafkaAdminClient]:
        values = {**vars(self._args), "bootstrap_server": servers, "request_timeout_ms": _REQUEST_TIMEOUT_MS}
        with admin_client(argparse.Namespace(**values)) as admin:
            yield admin

    @contextmanager
    def _noted(self, what: str) -> Iterator[None]:
        """Note in the snapshot that ``what`` could not be read, instead of failing."""
        from kafka.errors import KafkaError

        try:
            yield
        except (ApiError, KafkaError, OSError, ValueError, StartupError) as error:
            self._unread.append((what, " ".join(str(error).split()).rstrip(".") or type(error).__name__))


def _broker_configs(admin: KafkaAdminClient, broker_id: int) -> dict[str, str]:
    described = broker_configs(admin, broker_id)
    return {name: str(entry["value"]) for name, entry in described.items() if entry["value"] is not None}


def _registered(tree: Tree) -> dict[int, BrokerView]:
    found = {}
    for path, (data, stat) in tree.items():
        name = path.removeprefix(f"{brokers.IDS}/")
        if name == path or not name.isdigit():
            continue
        broker_id = int(name)
        try:
            broker = brokers.decode_broker(broker_id, data, stat.czxid)
            stamp = str(from_json(data, path).get("timestamp", ""))
        except MalformedZnodeError:
            broker, stamp = Broker(broker_id, ()), ""
        found[broker_id] = BrokerView(broker_id, broker, int(stamp) if stamp.isdigit() else -1, stat.mtime_ms or -1)
    return found


def _from_metadata(known: Mapping[int, Address], protocol: str) -> dict[int, BrokerView]:
    return {
        broker_id: BrokerView(broker_id, Broker(broker_id, (Endpoint(protocol, protocol, *address),)))
        for broker_id, address in known.items()
    }


def _controller(tree: Tree) -> int:
    try:
        return decode_claim(CONTROLLER, tree[CONTROLLER][0]) if CONTROLLER in tree else -1
    except MalformedZnodeError:
        return -1


def _states(tree: Tree) -> Iterator[LeaderAndIsr]:
    for path, (data, _) in sorted(tree.items()):
        if not path.startswith(f"{topics.TOPICS}/") or path.count("/") != 3:
            continue
        topic = path.rpartition("/")[2]
        try:
            assignment = topics.decode_topic(topic, data)
        except MalformedZnodeError:
            continue
        for index, replicas in assignment.partitions.items():
            tp = TopicPartition(topic, index)
            entry = tree.get(topics.state_path(tp))
            try:
                if entry is None:
                    yield LeaderAndIsr(topic, index, assignment=replicas)
                else:
                    yield topics.decode_state(tp, *entry, assignment=replicas)
            except MalformedZnodeError:
                continue  # A fault of the schema.


def _with_replicas(snapshot: Snapshot) -> Snapshot:
    """``snapshot`` with a view of each broker that is a replica and is not registered."""
    replicas = {broker_id for state in snapshot.states for broker_id in state.replicas}
    gone = {broker_id: BrokerView(broker_id) for broker_id in replicas - set(snapshot.brokers)}
    return replace(snapshot, brokers={**snapshot.brokers, **gone})


def _lag(group: GroupView) -> int:
    return sum(max(0, group.ends[tp] - offset) for tp, offset in group.committed.items() if tp in group.ends)

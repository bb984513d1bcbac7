"""Checks of ZooKeeper: its servers, its speed, the limits of its sessions, and the znodes in it. Pure.

Answers to: nothing in Kafka.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from kafkalite.doctor.finding import Finding, Severity
from kafkalite.doctor.health_check import HealthCheck
from kafkalite.doctor.snapshot import BrokerView, Snapshot
from kafkalite.zk.verify import Fault
from kafkalite.zk.znodes.brokers import IDS
from kafkalite.zk.znodes.claims import CONTROLLER
from kafkalite.zk.znodes.config import CONFIG
from kafkalite.zk.znodes.topics import TOPICS

SLOW = 30
"""ZooKeeper is slow if a read takes more than this part of a session timeout: a session needs several in time."""
_SESSION_TIMEOUT_MS = 18_000
_INVALID = re.compile(r"Invalid value .* for configuration ([\w.\-]+): ", re.DOTALL)


def _unreachable(snapshot: Snapshot) -> Iterator[Finding]:
    view = snapshot.zookeeper
    if view.error and not any(server.accepts and not server.serves for server in view.servers):
        yield Finding(
            "zookeeper-unreachable",
            Severity.ERROR,
            f"ZooKeeper {snapshot.commands.zookeeper}",
            f"No ZooKeeper session can be opened: {view.error}.",
            "Without ZooKeeper no leader is elected, no ISR changes, no offset is committed and no broker can start.",
            ("kafkalite zookeeper start --port <client port> --dir <its data>",),
        )


def _no_quorum(snapshot: Snapshot) -> Iterator[Finding]:
    servers = snapshot.zookeeper.servers
    waiting = [server.address for server in servers if server.accepts and not server.serves]
    if waiting and len(waiting) == sum(server.accepts for server in servers):
        down = [server.address for server in servers if not server.accepts]
        yield Finding(
            "zookeeper-no-quorum",
            Severity.ERROR,
            f"ZooKeeper {', '.join(waiting)}",
            f"{len(waiting)} ZooKeeper servers are up and serve no request, because they have no quorum.",
            f"An ensemble serves while most of its servers run; down: {', '.join(down) or 'not in the list'}.",
            tuple(f"ssh {address.rpartition(':')[0]} bin/zkServer.sh start" for address in down)
            or ("bin/zkServer.sh start    # on each server of the ensemble that is down",),
        )


def _server_down(snapshot: Snapshot) -> Iterator[Finding]:
    servers = snapshot.zookeeper.servers
    if not any(server.serves and server.accepts for server in servers):
        return
    for server in servers:
        if server.accepts and server.serves:
            continue
        state = "is up and serves no request" if server.accepts else "does not accept connections"
        yield Finding(
            "zookeeper-server-down",
            Severity.WARNING,
            f"ZooKeeper server {server.address}",
            f"ZooKeeper server {server.address} {state}, while others of the ensemble serve.",
            "The ensemble survives fewer further failures, and clients lose time by trying this server.",
            (f"ssh {server.address.rpartition(':')[0]} bin/zkServer.sh restart",),
        )


def _split(snapshot: Snapshot) -> Iterator[Finding]:
    alone = [server.address for server in snapshot.zookeeper.servers if server.mode == "standalone"]
    if alone and len(snapshot.zookeeper.servers) > 1:
        yield Finding(
            "zookeeper-not-one-ensemble",
            Severity.ERROR,
            f"ZooKeeper {', '.join(alone)}",
            f"{', '.join(alone)}: standalone, although the connection string names "
            f"{len(snapshot.zookeeper.servers)} servers.",
            "Servers without each other in zoo.cfg hold different trees: brokers would form several clusters with "
            "the same ids.",
            tuple(
                f"ssh {address.rpartition(':')[0]} 'bin/zkServer.sh stop'    # then list all servers as server.N=… in "
                "zoo.cfg and start it"
                for address in alone
            ),
        )


def _slow(snapshot: Snapshot) -> Iterator[Finding]:
    view = snapshot.zookeeper
    timeouts = [b.integer("zookeeper.session.timeout.ms", _SESSION_TIMEOUT_MS) for b in snapshot.live.values()]
    granted = view.session_limits_ms[0] if view.session_limits_ms else 0
    limit = max(granted, min(timeouts, default=_SESSION_TIMEOUT_MS)) / SLOW
    if not view.error and view.latency_ms > limit:
        yield Finding(
            "zookeeper-slow",
            Severity.ERROR if view.latency_ms > 5 * limit else Severity.WARNING,
            f"ZooKeeper {snapshot.commands.zookeeper}",
            f"A read of one znode takes {view.latency_ms:.0f} ms (median); more than {limit:.0f} ms is slow.",
            "Brokers lose their sessions when a heartbeat is late, and every election and commit waits for ZooKeeper. "
            "Its usual cause is a slow disk under dataLogDir.",
            ("echo mntr | nc <server> <client port> | grep -E 'latency|fsync|outstanding'",),
        )


def _session_limits(snapshot: Snapshot) -> Iterator[Finding]:
    limits = snapshot.zookeeper.session_limits_ms
    if limits is None:
        return
    least, greatest = limits
    for broker_id, broker in snapshot.answering.items():
        asked = broker.integer("zookeeper.session.timeout.ms", least)
        if least <= asked <= greatest:
            continue
        granted = least if asked < least else greatest
        yield Finding(
            "session-timeout-limits",
            Severity.WARNING,
            f"broker {broker_id}",
            f"zookeeper.session.timeout.ms={asked} of broker {broker_id} is outside of what ZooKeeper grants: "
            f"{least} to {greatest} ms.",
            f"ZooKeeper gives the broker {granted} ms, so a dead broker is noticed at another time than configured.",
            snapshot.commands.set_properties(broker, {"zookeeper.session.timeout.ms": granted}),
        )


def _connect_strings(snapshot: Snapshot) -> Iterator[Finding]:
    texts = {
        broker_id: broker.configs["zookeeper.connect"]
        for broker_id, broker in snapshot.answering.items()
        if broker.configs.get("zookeeper.connect")
    }
    if not texts:
        return
    often = Counter(map(_servers, texts.values())).most_common(1)[0][0]
    usual = next(text for text in texts.values() if _servers(text) == often)
    for broker_id, text in texts.items():
        if _servers(text) != often:
            yield Finding(
                "zookeeper-connect-differs",
                Severity.WARNING,
                f"broker {broker_id}",
                f"zookeeper.connect of broker {broker_id} is {text}; that of other brokers is {usual}.",
                "The brokers depend on different servers: they do not survive the failure of the same ones.",
                snapshot.commands.set_properties(snapshot.brokers[broker_id], {"zookeeper.connect": usual}),
            )


def _servers(connect: str) -> tuple[frozenset[str], str]:
    """The servers, in any order, and the chroot."""
    servers, _, chroot = connect.partition("/")
    return frozenset(server.strip() for server in servers.split(",")), chroot.strip("/")


def _schema(snapshot: Snapshot) -> Iterator[Finding]:
    for fault in snapshot.znode_faults:
        why, mend = _znode_mend(snapshot, fault)
        yield Finding(
            "znode-schema", Severity.ERROR, f"znode {fault.path}", f"{fault.path}: {fault.problem}.", why, mend
        )


def _znode_mend(snapshot: Snapshot, fault: Fault) -> tuple[str, tuple[str, ...]]:
    commands, parts = snapshot.commands, fault.path.split("/")[1:]
    delete = commands.zk("delete", "--path", fault.path)
    if fault.path.startswith(f"{IDS}/") and parts[-1].isdigit():
        broker_id = int(parts[-1])
        broker = snapshot.brokers.get(broker_id)
        if fault.problem.startswith("is persistent"):
            return "Brokers take it for a live broker, and it never goes.", (delete,)
        return (
            f"Clients and brokers read from it where broker {broker_id} listens; the broker writes it at its start.",
            commands.restart(broker or BrokerView(broker_id)),
        )
    if fault.path.startswith(f"{CONFIG}/") and len(parts) == 3:
        key = _INVALID.match(fault.problem)
        reset = commands.reset_config(parts[1], parts[2], key[1]) if key else delete
        return "Brokers ignore what they cannot read, and use the default.", (reset,)
    if fault.path == CONTROLLER:
        return "Without a valid claim no broker is the controller; its removal makes the brokers elect one.", (delete,)
    if fault.path.startswith(f"{TOPICS}/") and parts[-1] == "state" and "no such partition" not in fault.problem:
        return (
            "The controller cannot elect a leader from it. Compare the logs of the replicas first: without it, a new "
            "controller makes the first live replica the leader.",
            (commands.zk("tree", "--path", fault.path), delete, commands.zk("delete", "--path", CONTROLLER)),
        )
    if fault.path.startswith(f"{TOPICS}/") and len(parts) == 3 and "delete the znode" not in fault.problem:
        return (
            "No broker can tell which replicas the topic has. Write the assignment again from the folders of the logs.",
            (
                commands.zk("tree", "--path", fault.path),
                f"kafkalite log-dirs --describe --topic-list {parts[2]} --bootstrap-server {commands.bootstrap}",
            ),
        )
    return "No broker uses it as it is: an unknown program, or a mistake by hand, has written it.", (delete,)


def _no_controller(snapshot: Snapshot) -> Iterator[Finding]:
    # Without a server /controller was not read: the brokers did not tell their ZooKeeper.
    if snapshot.zookeeper.error or not snapshot.zookeeper.servers or not snapshot.live:
        return
    if snapshot.controller not in snapshot.live:
        named = (
            f"names broker {snapshot.controller}, which is not registered" if snapshot.controller >= 0 else "is missing"
        )
        yield Finding(
            "no-controller",
            Severity.ERROR,
            f"znode {CONTROLLER}",
            f"The cluster has no controller: {CONTROLLER} {named}.",
            "No leader is elected, no topic is created or deleted. A live broker normally claims it within a second.",
            (snapshot.commands.zk("delete", "--path", CONTROLLER),)
            if snapshot.controller >= 0
            else snapshot.commands.restart(snapshot.live[min(snapshot.live)]),
        )


CHECKS = (
    HealthCheck(
        "zookeeper-unreachable",
        "error",
        "No server of the connection string gives a session.",
        "Start ZooKeeper; check the address and the network.",
        _unreachable,
    ),
    HealthCheck(
        "zookeeper-no-quorum",
        "error",
        "Servers accept connections and answer that they serve no request.",
        "Start the servers of the ensemble that are down.",
        _no_quorum,
    ),
    HealthCheck(
        "zookeeper-server-down",
        "warning",
        "One server of the connection string does not serve while others do.",
        "Restart that server.",
        _server_down,
    ),
    HealthCheck(
        "zookeeper-not-one-ensemble",
        "error",
        "A server is standalone although the connection string names several.",
        "List all servers in each zoo.cfg.",
        _split,
    ),
    HealthCheck(
        "zookeeper-slow",
        "warning, error",
        f"The median of nine reads is above 1/{SLOW} of the least session timeout of a broker; an error above five "
        "times that.",
        "Find the slow disk or the load by mntr.",
        _slow,
    ),
    HealthCheck(
        "session-timeout-limits",
        "warning",
        "zookeeper.session.timeout.ms is outside of ZooKeeper's minSessionTimeout and maxSessionTimeout, which two "
        "short sessions ask for.",
        "Configure what ZooKeeper grants, or change its limits.",
        _session_limits,
    ),
    HealthCheck(
        "zookeeper-connect-differs",
        "warning",
        "Brokers have different servers or chroots in zookeeper.connect.",
        "Give all brokers the same one.",
        _connect_strings,
    ),
    HealthCheck(
        "znode-schema",
        "error",
        "A znode that `kafkalite zk verify` faults: unknown, malformed, or in contradiction to another one.",
        "Delete it, reset its configuration, or restart the broker that writes it.",
        _schema,
    ),
    HealthCheck(
        "no-controller",
        "error",
        "/controller is missing, or names a broker that is not registered.",
        "Remove the claim, so that the brokers elect a controller.",
        _no_controller,
    ),
)

"""Checks of the brokers: registration, answers, clocks, listeners, versions, limits of the machine. Pure.

Answers to: nothing in Kafka.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from kafkalite.cluster.model import Endpoint
from kafkalite.doctor.finding import Finding, Severity
from kafkalite.doctor.health_check import HealthCheck
from kafkalite.doctor.snapshot import BrokerView, Snapshot

CLOCK_LIMIT_MS = 2000
"""Clocks of brokers may differ by this much, because a slow registration looks the same."""
HEADROOM = 1.5
"""A broker that takes over the leaderships of another one needs that many times what it uses now."""
RESERVE = 100
"""Descriptors and maps for connections that come at once when clients move."""
_WILDCARDS = ("", "0.0.0.0", "::", "None")
_PROTOCOL = "inter.broker.protocol.version"


def _down(snapshot: Snapshot) -> Iterator[Finding]:
    for broker_id, broker in snapshot.brokers.items():
        if broker.registered is not None or snapshot.zookeeper.error:
            continue
        held = [str(state.topic_partition) for state in snapshot.states if broker_id in state.replicas]
        what = f"Broker {broker_id} is not registered in /brokers/ids"
        process = broker.process
        if process is not None and process.is_stopped:
            yield Finding(
                "broker-down",
                Severity.ERROR,
                f"broker {broker_id}",
                f"{what}: its process {process.pid} is stopped (SIGSTOP), and its session has ended.",
                f"It is a replica of {_some(held)}.",
                (f"kill -CONT {process.pid}",),
            )
        elif process is not None:
            yield Finding(
                "broker-down",
                Severity.ERROR,
                f"broker {broker_id}",
                f"{what}, although its process {process.pid} runs.",
                f"It cannot reach ZooKeeper, or it is starting; its log says which. It is a replica of {_some(held)}.",
                snapshot.commands.restart(broker),
            )
        else:
            yield Finding(
                "broker-down",
                Severity.ERROR,
                f"broker {broker_id}",
                f"{what}: it is down, or its ZooKeeper session has ended.",
                f"It is a replica of {_some(held)}. The end of its log says why it ended.",
                (snapshot.commands.start(broker),),
            )


def _silent(snapshot: Snapshot) -> Iterator[Finding]:
    for broker_id, broker in snapshot.live.items():
        if not broker.error:
            continue
        process = broker.process
        mend: tuple[str, ...]
        if process is not None and process.is_stopped:
            why, mend = f"Its process {process.pid} is stopped (SIGSTOP).", (f"kill -CONT {process.pid}",)
        else:
            why = "It hangs, or the network between here and its listener is cut, or its advertised address is wrong."
            mend = snapshot.commands.restart(broker)
        yield Finding(
            "broker-silent",
            Severity.ERROR,
            f"broker {broker_id}",
            f"Broker {broker_id} is registered and does not answer: {broker.error}.",
            f"{why} Its partitions keep it as leader until its ZooKeeper session ends.",
            mend,
        )


def _clocks(snapshot: Snapshot) -> Iterator[Finding]:
    offsets = {
        broker_id: broker.registered_ms - broker.znode_made_ms
        for broker_id, broker in snapshot.live.items()
        if broker.registered_ms >= 0 and broker.znode_made_ms >= 0
    }
    if len(offsets) < 2:
        return
    middle = sorted(offsets.values())[(len(offsets) - 1) // 2]
    for broker_id, offset in offsets.items():
        difference = offset - middle
        if abs(difference) <= CLOCK_LIMIT_MS:
            continue
        yield Finding(
            "clocks-differ",
            Severity.WARNING,
            f"broker {broker_id}",
            f"At its registration the clock of broker {broker_id} was {abs(difference) / 1000:.1f} s "
            f"{'before' if difference > 0 else 'behind'} that of the other brokers.",
            "Retention by time, timestamps of the log and the order of log lines follow the clock of each broker.",
            (
                "chronyc makestep    # on the host of the broker; a restart registers the corrected time",
                *snapshot.commands.restart(snapshot.brokers[broker_id]),
            ),
        )


def _missing_listeners(snapshot: Snapshot) -> Iterator[Finding]:
    listeners = {broker_id: _listeners(broker) for broker_id, broker in snapshot.live.items()}
    known = Counter(name for names in listeners.values() for name in names)
    # A broker does not start with a listener whose protocol it cannot tell.
    protocols = {
        f"{endpoint.listener}:{endpoint.security_protocol}"
        for broker in snapshot.live.values()
        for endpoint in (broker.registered.endpoints if broker.registered else ())
    }
    for broker_id, names in listeners.items():
        inside = snapshot.brokers[broker_id].configs.get("inter.broker.listener.name", "")
        missing = sorted(set(known) - set(names))
        if names and not missing:
            continue
        what = f"has no listener {', '.join(missing)}, which other brokers have" if names else "has no listener at all"
        yield Finding(
            "listener-missing",
            Severity.ERROR,
            f"broker {broker_id}",
            f"Broker {broker_id} {what}.",
            f"Clients and brokers that came by such a listener elsewhere cannot reach the partitions that broker "
            f"{broker_id} leads{f'; brokers use {inside}' if inside else ''}.",
            snapshot.commands.set_properties(
                snapshot.brokers[broker_id],
                {
                    "listeners": f"<all of {', '.join(sorted(known)) or 'the listeners'}>",
                    "listener.security.protocol.map": ",".join(sorted(protocols)) or "PLAINTEXT:PLAINTEXT",
                },
            ),
        )


def _duplicate_listeners(snapshot: Snapshot) -> Iterator[Finding]:
    users: defaultdict[tuple[str, int], list[tuple[int, Endpoint]]] = defaultdict(list)
    for broker_id, broker in sorted(snapshot.live.items()):
        for endpoint in broker.registered.endpoints if broker.registered else ():
            users[endpoint.host, endpoint.port].append((broker_id, endpoint))
    for (host, port), found in users.items():
        if len(found) < 2:
            continue
        named = " and ".join(f"{endpoint.listener} of broker {broker_id}" for broker_id, endpoint in found)
        broker_id = found[-1][0]
        yield Finding(
            "listener-duplicate",
            Severity.ERROR,
            f"listener {host}:{port}",
            f"{host}:{port} is advertised more than once: {named}.",
            "Only one of them listens there: clients of the others reach the wrong broker or speak the wrong protocol.",
            snapshot.commands.set_properties(
                snapshot.brokers[broker_id], {"advertised.listeners": "<the address at which it is reached>"}
            ),
        )


def _unreachable_hosts(snapshot: Snapshot) -> Iterator[Finding]:
    hosts = {
        broker_id: {endpoint.host for endpoint in broker.registered.endpoints} if broker.registered else set()
        for broker_id, broker in snapshot.live.items()
    }
    everywhere_local = all(_is_loopback(host) for names in hosts.values() for host in names)
    for broker_id, names in hosts.items():
        bad = sorted(h for h in names if h in _WILDCARDS or (_is_loopback(h) and not everywhere_local))
        if not bad:
            continue
        yield Finding(
            "listener-host",
            Severity.ERROR,
            f"broker {broker_id}",
            f"Broker {broker_id} advertises {', '.join(host or 'an empty host' for host in bad)}.",
            "Clients on other machines connect to themselves, or to no machine, instead of this broker.",
            snapshot.commands.set_properties(
                snapshot.brokers[broker_id], {"advertised.listeners": "<the name of its machine>"}
            ),
        )


def _versions(snapshot: Snapshot) -> Iterator[Finding]:
    answering = snapshot.answering
    for broker_id, what in _odd({i: b.configs.get(_PROTOCOL, "") for i, b in answering.items()}):
        yield Finding(
            "versions-differ",
            Severity.WARNING,
            f"broker {broker_id}",
            f"{_PROTOCOL} of broker {broker_id} is {answering[broker_id].configs[_PROTOCOL]}; others have {what}.",
            "Brokers talk in different versions: an upgrade was begun and not ended.",
            snapshot.commands.set_properties(answering[broker_id], {_PROTOCOL: what}),
        )
    tables = {i: repr(sorted(b.api_versions.items())) if b.api_versions else "" for i, b in answering.items()}
    for broker_id, _ in _odd(tables):
        other = next(b for i, b in answering.items() if tables[i] not in ("", tables[broker_id]))
        own = answering[broker_id].api_versions
        keys = sorted(k for k in {*own, *other.api_versions} if own.get(k) != other.api_versions.get(k))
        yield Finding(
            "versions-differ",
            Severity.WARNING,
            f"broker {broker_id}",
            f"Broker {broker_id} serves other API versions than broker {other.id}: keys {', '.join(map(str, keys[:8]))}"
            f"{' …' if len(keys) > 8 else ''}.",
            "It runs another release: clients that learned their versions from one broker are refused by another.",
            (
                "pip install --upgrade kafkalite    # the release of the other brokers",
                *snapshot.commands.restart(answering[broker_id]),
            ),
        )


def _odd(values: dict[int, str]) -> Iterator[tuple[int, str]]:
    """The brokers whose value is not the usual one, with the usual one. Empty values do not count."""
    known = {broker_id: value for broker_id, value in values.items() if value}
    if not known:
        return
    usual = Counter(known.values()).most_common(1)[0][0]
    for broker_id, value in sorted(known.items()):
        if value != usual:
            yield broker_id, usual


def _open_files(snapshot: Snapshot) -> Iterator[Finding]:
    for broker_id, broker in snapshot.brokers.items():
        process = broker.process
        if process is None or process.max_open_files < 0:
            continue
        needed = round(process.open_files * HEADROOM) + RESERVE
        if needed <= process.max_open_files:
            continue
        limit = max(65536, needed)
        if 0 <= process.hard_open_files < needed:
            raised = f"sudo prlimit --pid {process.pid} --nofile={limit}:{limit}"
        else:
            # Up to the hard limit the user of the process may raise the soft one.
            limit = limit if process.hard_open_files < 0 else min(limit, process.hard_open_files)
            raised = f"prlimit --pid {process.pid} --nofile={limit}:"
        yield Finding(
            "open-files",
            Severity.ERROR if process.open_files >= 0.95 * process.max_open_files else Severity.WARNING,
            f"broker {broker_id}",
            f"Broker {broker_id} (pid {process.pid}) has {process.open_files} files open and may open "
            f"{process.max_open_files}; it needs {needed}.",
            "At the limit it refuses connections, and cannot roll segments or take over partitions.",
            (
                raised,
                f"echo 'LimitNOFILE={limit}'    # in its systemd unit, for the next start",
            ),
        )


def _memory_maps(snapshot: Snapshot) -> Iterator[Finding]:
    for broker_id, broker in snapshot.brokers.items():
        process = broker.process
        if process is None or snapshot.max_map_count < 0:
            continue
        needed = round(process.memory_maps * HEADROOM) + RESERVE
        if needed > snapshot.max_map_count:
            yield Finding(
                "memory-maps",
                Severity.ERROR if process.memory_maps >= 0.95 * snapshot.max_map_count else Severity.WARNING,
                f"broker {broker_id}",
                f"Broker {broker_id} (pid {process.pid}) has {process.memory_maps} memory maps; vm.max_map_count is "
                f"{snapshot.max_map_count}, and it needs {needed}.",
                "At the limit memory cannot be allocated, and the process ends.",
                (f"sysctl -w vm.max_map_count={max(262144, needed)}",),
            )


def _listeners(broker: BrokerView) -> list[str]:
    return [endpoint.listener for endpoint in broker.registered.endpoints] if broker.registered else []


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _some(names: list[str]) -> str:
    if not names:
        return "no partition"
    shown = ", ".join(names[:5])
    return f"{len(names)} partition{'s' if len(names) > 1 else ''} ({shown}{', …' if len(names) > 5 else ''})"


CHECKS = (
    HealthCheck(
        "broker-down",
        "error",
        "A broker is a replica of a partition and is not registered.",
        "Start it, or continue its stopped process.",
        _down,
    ),
    HealthCheck(
        "broker-silent",
        "error",
        "A registered broker does not answer at its listener within three seconds.",
        "Continue its stopped process, mend the network, or restart it.",
        _silent,
    ),
    HealthCheck(
        "clocks-differ",
        "warning",
        f"The time in a registration differs from ZooKeeper's time of the znode by {CLOCK_LIMIT_MS} ms more or less "
        "than for the other brokers.",
        "Set the clock, and restart the broker.",
        _clocks,
    ),
    HealthCheck(
        "listener-missing",
        "error",
        "A broker lacks a listener that other brokers have, or has none.",
        "Add it to its listeners.",
        _missing_listeners,
    ),
    HealthCheck(
        "listener-duplicate",
        "error",
        "Two listeners, of one broker or of two, advertise the same host and port.",
        "Correct advertised.listeners.",
        _duplicate_listeners,
    ),
    HealthCheck(
        "listener-host",
        "error",
        "A broker advertises 0.0.0.0 or no host, or a loopback address while other brokers have real ones.",
        "Advertise the name of its machine.",
        _unreachable_hosts,
    ),
    HealthCheck(
        "versions-differ",
        "warning",
        f"Brokers differ in {_PROTOCOL}, or in the API versions that they serve.",
        "Bring all brokers to one release and one protocol version.",
        _versions,
    ),
    HealthCheck(
        "open-files",
        "warning, error",
        f"A broker on this machine may open fewer files than {HEADROOM} times its present ones and {RESERVE}; an error "
        "at 95 % of the limit.",
        "Raise the limit by prlimit, and in its service.",
        _open_files,
    ),
    HealthCheck(
        "memory-maps",
        "warning, error",
        f"vm.max_map_count of this machine is below {HEADROOM} times the maps of a broker and {RESERVE}; an error at "
        "95 % of the limit.",
        "Raise it by sysctl.",
        _memory_maps,
    ),
)

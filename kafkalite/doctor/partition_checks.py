"""Checks of partitions: leaders, ISRs, replicas. One finding names all partitions with one cause. Pure.

Answers to: nothing in Kafka.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from kafkalite.cluster.model import LeaderAndIsr
from kafkalite.doctor.finding import Finding, Severity
from kafkalite.doctor.health_check import HealthCheck
from kafkalite.doctor.snapshot import BrokerView, Snapshot

IMBALANCE = 0.1
"""The part of a broker's preferred partitions that other brokers may lead: ``leader.imbalance.per.broker.percentage``.
"""
_SHOWN = 5


def _offline(snapshot: Snapshot) -> Iterator[Finding]:
    causes: defaultdict[tuple[int, ...], list[LeaderAndIsr]] = defaultdict(list)
    for state in snapshot.states:
        if state.leader not in snapshot.live:
            causes[tuple(sorted(set(state.isr) - set(snapshot.live)))].append(state)
    for gone, states in causes.items():
        brokers = ", ".join(map(str, gone))
        if gone:
            why = f"The last replicas in sync were on broker {brokers}, which is not registered."
            mend = tuple(line for broker_id in gone for line in _bring_back(snapshot, broker_id))
        else:
            why = "A replica in sync is registered, and the controller has not elected it: the controller hangs."
            mend = (snapshot.commands.zk("delete", "--path", "/controller"),)
        yield Finding(
            "partition-offline",
            Severity.ERROR,
            _names(states),
            f"{_count(states)} without a leader: {_names(states)}. No client can read or write there.",
            why,
            mend,
        )


def _under_min_isr(snapshot: Snapshot) -> Iterator[Finding]:
    causes: defaultdict[tuple[int, ...], list[LeaderAndIsr]] = defaultdict(list)
    for state in snapshot.states:
        least = snapshot.topic_integer(state.topic, "min.insync.replicas", 1)
        # A topic with fewer replicas than that is a contradiction of its configuration, which is another finding.
        if state.leader in snapshot.live and len(state.isr) < least <= len(state.replicas):
            causes[_missing(state)].append(state)
    for gone, states in causes.items():
        brokers = ", ".join(map(str, gone))
        yield Finding(
            "under-min-isr",
            Severity.ERROR,
            _names(states),
            f"{_count(states)} with fewer replicas in sync than min.insync.replicas: {_names(states)}. "
            "Producers with acks=all are refused.",
            f"Not in sync: broker {brokers}. {_reason(snapshot, gone)}",
            tuple(line for broker_id in gone for line in _bring_back(snapshot, broker_id)),
        )


def _under_replicated(snapshot: Snapshot) -> Iterator[Finding]:
    causes: defaultdict[int, list[LeaderAndIsr]] = defaultdict(list)
    for state in snapshot.states:
        for broker_id in _missing(state):
            causes[broker_id].append(state)
    for broker_id, states in sorted(causes.items()):
        yield Finding(
            "under-replicated",
            Severity.WARNING,
            f"broker {broker_id}",
            f"The replica on broker {broker_id} is not in sync in {_count(states)}: {_names(states)}.",
            f"{_reason(snapshot, (broker_id,))} Each further failure may make these partitions unavailable.",
            _bring_back(snapshot, broker_id),
        )


def _unbalanced(snapshot: Snapshot) -> Iterator[Finding]:
    preferred: defaultdict[int, list[LeaderAndIsr]] = defaultdict(list)
    for state in snapshot.states:
        if state.replicas and not state.assignment.is_being_reassigned:
            preferred[state.replicas[0]].append(state)
    for broker_id, states in sorted(preferred.items()):
        elsewhere = [s for s in states if s.leader != broker_id and broker_id in s.isr and s.leader in snapshot.live]
        if broker_id in snapshot.answering and len(elsewhere) > IMBALANCE * len(states):
            yield Finding(
                "leaders-unbalanced",
                Severity.WARNING,
                f"broker {broker_id}",
                f"Broker {broker_id} leads {len(states) - len(elsewhere)} of the {len(states)} partitions that prefer "
                f"it; other brokers lead {_names(elsewhere)}.",
                "Leadership moved away when the broker was down, or by a reassignment: the others carry its load.",
                (snapshot.commands.elect_preferred(),),
            )


def _one_replica(snapshot: Snapshot) -> Iterator[Finding]:
    topics: defaultdict[str, list[LeaderAndIsr]] = defaultdict(list)
    for state in snapshot.states:
        if len(state.assignment.target) == 1:
            topics[state.topic].append(state)
    for topic, states in sorted(topics.items()):
        plan = {}
        for state in states:
            [only] = state.assignment.target
            others = [broker_id for broker_id in sorted(snapshot.live) if broker_id != only]
            # Brokers after the present one, so that the new replicas of many partitions spread over all brokers.
            turned = [b for b in others if b > only] + [b for b in others if b < only]
            plan[state.topic_partition] = (only, *turned[:2])
        if len(snapshot.live) > 1:
            mend = (snapshot.commands.reassign(plan),)
        else:
            mend = ("kafkalite broker start --config <server.properties of a second broker>",)
        yield Finding(
            "one-replica",
            Severity.WARNING,
            f"topic {topic}",
            f"Topic {topic} has one replica of {_count(states)}.",
            "When that broker is down the partition is offline, and when its disk is lost the records are.",
            mend,
        )


def _missing(state: LeaderAndIsr) -> tuple[int, ...]:
    """Replicas that should be in the ISR: those that are being added are not yet."""
    if state.leader < 0:
        return ()
    return tuple(r for r in state.replicas if r not in state.isr and r not in state.assignment.adding)


def _reason(snapshot: Snapshot, brokers: Sequence[int]) -> str:
    reasons = []
    for broker_id in brokers:
        broker = snapshot.brokers.get(broker_id)
        if broker is None or broker.registered is None:
            reasons.append(f"Broker {broker_id} is not registered.")
        elif broker.error:
            reasons.append(f"Broker {broker_id} is registered and does not answer.")
        else:
            reasons.append(f"Broker {broker_id} answers, and its fetches are behind or fail: see its log.")
    return " ".join(reasons)


def _bring_back(snapshot: Snapshot, broker_id: int) -> tuple[str, ...]:
    broker = snapshot.brokers.get(broker_id) or BrokerView(broker_id)
    if broker.process is not None and broker.process.is_stopped:
        return (f"kill -CONT {broker.process.pid}",)
    if broker.registered is None and broker.process is None:
        return (snapshot.commands.start(broker),)
    return snapshot.commands.restart(broker)


def _names(states: Sequence[LeaderAndIsr]) -> str:
    shown = ", ".join(str(state.topic_partition) for state in states[:_SHOWN])
    return f"{shown} and {len(states) - _SHOWN} more" if len(states) > _SHOWN else shown


def _count(states: Sequence[LeaderAndIsr]) -> str:
    return "1 partition" if len(states) == 1 else f"{len(states)} partitions"


CHECKS = (
    HealthCheck(
        "partition-offline",
        "error",
        "A partition has no leader that is registered.",
        "Bring back the brokers of its last ISR; the finding names them.",
        _offline,
    ),
    HealthCheck(
        "under-min-isr",
        "error",
        "A partition has fewer replicas in sync than min.insync.replicas.",
        "Bring back the brokers that are not in sync; the finding names them.",
        _under_min_isr,
    ),
    HealthCheck(
        "under-replicated",
        "warning",
        "Replicas, other than those that are being added, are not in the ISR; one finding for each broker at fault.",
        "Start, continue or restart that broker.",
        _under_replicated,
    ),
    HealthCheck(
        "leaders-unbalanced",
        "warning",
        f"More than {IMBALANCE:.0%} of the partitions that prefer a broker are led by others, while it is in sync.",
        "Elect the preferred leaders.",
        _unbalanced,
    ),
    HealthCheck(
        "one-replica",
        "warning",
        "A topic has partitions with one replica.",
        "Reassign them to more brokers.",
        _one_replica,
    ),
)

"""All checks of the doctor, in the order in which they are run. Pure.

Answers to: nothing in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkalite.doctor import broker_checks, config_checks, load_checks, partition_checks, zookeeper_checks
from kafkalite.doctor.finding import Finding, Severity
from kafkalite.doctor.health_check import HealthCheck
from kafkalite.doctor.snapshot import Snapshot


def _unread(snapshot: Snapshot) -> Iterator[Finding]:
    for what, error in snapshot.unread:
        yield Finding(
            "not-examined",
            Severity.WARNING,
            what,
            f"{what} could not be read: {error}.",
            "The checks that need it were left out. Other findings may be the cause: mend them first.",
            ("kafkalite doctor <the same flags>    # after the other findings are mended",),
        )


def _no_broker(snapshot: Snapshot) -> Iterator[Finding]:
    if not snapshot.live and not snapshot.zookeeper.error:
        yield Finding(
            "no-broker",
            Severity.ERROR,
            "the cluster",
            "No broker answers or is registered.",
            "All brokers are down, or the address or the chroot is that of another cluster.",
            ("kafkalite broker start --config <server.properties of each broker>",),
        )


CHECKS: tuple[HealthCheck, ...] = (
    *zookeeper_checks.CHECKS,
    *broker_checks.CHECKS,
    HealthCheck(
        "no-broker",
        "error",
        "No broker is registered, or none of --bootstrap-server answers.",
        "Start the brokers; check address and chroot.",
        _no_broker,
    ),
    *partition_checks.CHECKS,
    *config_checks.CHECKS,
    *load_checks.CHECKS,
    HealthCheck(
        "not-examined",
        "warning",
        "A part of the cluster could not be read, so its checks were left out.",
        "Mend the other findings, give the flags of a secured cluster, and run the doctor again.",
        _unread,
    ),
)


def examine(snapshot: Snapshot) -> list[Finding]:
    """The findings of all checks, errors first."""
    found = [finding for check in CHECKS for finding in check.find(snapshot)]
    return sorted(found, key=lambda finding: -finding.severity)

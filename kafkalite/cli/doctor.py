"""``kafkalite doctor``: what is wrong with a live cluster, how bad it is, and the commands that mend it.

Answers to: nothing in Kafka. Reactor shell (client library); the checks are in ``kafkalite/doctor``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from kafkalite.cli.clients import add_json, print_json
from kafkalite.cli.doctor_reader import DoctorReader
from kafkalite.cli.main import UsageError
from kafkalite.cli.zookeeper_security import add_zookeeper_security
from kafkalite.doctor.checks import examine
from kafkalite.doctor.finding import Finding

EXAMPLES = (
    "kafkalite doctor --bootstrap-server localhost:9092",
    "kafkalite doctor --zookeeper localhost:2181/kafka --interval 30 --json",
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``doctor``."""
    text = "Look at a live cluster, change nothing, and print findings: exit code 0 none, 1 warnings, 2 errors."
    parser = subparsers.add_parser(
        "doctor", help="find what is wrong with a cluster, and the commands that mend it", description=text
    )
    parser.add_argument("--zookeeper", metavar="CONNECT", help="host:port[,host:port…][/chroot]; this or the next")
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT,…", help="brokers; they tell their ZooKeeper")
    parser.add_argument("--command-config", type=Path, metavar="FILE", help="client properties")
    add_zookeeper_security(parser)
    parser.add_argument(
        "--interval",
        type=float,
        default=2.0,
        metavar="SECONDS",
        help="between the two samples of disks and lags (default: %(default)s)",
    )
    parser.add_argument(
        "--max-transaction-timeout",
        type=int,
        default=15,
        metavar="MINUTES",
        help="a transaction with a younger write does not hang (default: %(default)s)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Examine the cluster; returns 0, 1 for warnings, 2 for errors."""
    if not args.zookeeper and not args.bootstrap_server:
        raise UsageError("--zookeeper or --bootstrap-server is required")
    snapshot = DoctorReader(args).read()
    findings = examine(snapshot)
    worst = max((finding.severity for finding in findings), default=0)
    if args.json:
        listed = [asdict(finding) | {"severity": finding.severity.name.lower()} for finding in findings]
        print_json({"brokers": sorted(snapshot.brokers), "partitions": len(snapshot.states), "findings": listed})
        return int(worst)
    print(text_of(findings))
    print(f"{len(snapshot.brokers)} brokers, {len(snapshot.states)} partitions, {len(findings)} findings")
    return int(worst)


def text_of(findings: Sequence[Finding]) -> str:
    """Findings for a terminal; the commands stand on lines of their own."""
    lines = []
    for finding in findings:
        lines += [f"{finding.severity.name} {finding.check}: {finding.where}", f"  what: {finding.what}"]
        lines += [f"  why:  {finding.why}", "  mend:", *(f"    {command}" for command in finding.mend), ""]
    return "\n".join(lines) if lines else "Nothing is wrong."

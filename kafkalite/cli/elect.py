"""``kafkalite elect``: elect preferred or unclean leaders.

Answers to: ``bin/kafka-leader-election.sh``, ``org.apache.kafka.tools.LeaderElectionCommand`` (3.9).
Reactor shell (client library).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from kafkalite.cli.clients import add_bootstrap, add_json, admin_client, file_is, kafka_error, print_json
from kafkalite.cli.main import UsageError
from kafkalite.common.errors import ApiError, ErrorCode

EXAMPLES = ("kafkalite elect --bootstrap-server localhost:9092 --election-type preferred --all-topic-partitions",)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``elect`` with LeaderElectionCommand's flags."""
    parser = subparsers.add_parser("elect", help="elect preferred or unclean leaders")
    add_bootstrap(parser, config_flag="--admin.config")
    parser.add_argument("--election-type", required=True, type=str.lower, choices=["preferred", "unclean"])
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--all-topic-partitions", action="store_true", help="all partitions that need it")
    which.add_argument("--topic", help="with --partition: this one")
    which.add_argument(
        "--path-to-json-file", type=Path, metavar="FILE", help='{"partitions": [{"topic": "t", "partition": 0}]}'
    )
    parser.add_argument("--partition", type=int)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Ask the controller; exit code 0 if every partition now has the requested leader."""
    wanted = partitions(args)
    with admin_client(args) as admin:
        every = (
            wanted
            if wanted is not None
            else {t["name"]: [p["partition_index"] for p in t["partitions"]] for t in admin.describe_topics(None)}
        )
        response = admin.elect_leaders(0 if args.election_type == "preferred" else 1, every, raise_errors=False)
    if response.error_code:
        raise ApiError(ErrorCode(response.error_code), "")
    outcome = {
        f"{result.topic}-{partition.partition_id}": (partition.error_code, partition.error_message)
        for result in response.replica_election_results
        for partition in result.partition_result
    }
    done = sorted(name for name, (code, _) in outcome.items() if code == 0)
    unneeded = sorted(name for name, (code, _) in outcome.items() if code == ErrorCode.ELECTION_NOT_NEEDED)
    failed = {
        name: kafka_error(*error)
        for name, error in sorted(outcome.items())
        if name not in done and name not in unneeded
    }
    if args.json:
        print_json({"elected": done, "not_needed": unneeded, "failed": failed})
        return 1 if failed else 0
    if done:
        print(f"Successfully completed leader election ({args.election_type.upper()}) for partitions {', '.join(done)}")
    if unneeded and wanted is not None:
        print(f"Valid replica already elected for partitions {', '.join(unneeded)}")
    for name, error in failed.items():
        print(f"Error completing leader election ({args.election_type.upper()}) for partition: {name}: {error}")
    return 1 if failed else 0


def partitions(args: argparse.Namespace) -> dict[str, list[int]] | None:
    """The partitions that the flags name; ``None`` for all."""
    if args.all_topic_partitions:
        return None
    if args.topic:
        if args.partition is None:
            raise UsageError("--topic needs --partition")
        return {args.topic: [args.partition]}
    named: dict[str, list[int]] = {}
    with file_is(args.path_to_json_file, "a list of partitions"):
        for entry in json.loads(args.path_to_json_file.read_text())["partitions"]:
            named.setdefault(entry["topic"], []).append(int(entry["partition"]))
    return named

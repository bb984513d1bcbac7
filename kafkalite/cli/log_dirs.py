"""``kafkalite log-dirs``: the log directories of brokers and their replicas.

Answers to: ``bin/kafka-log-dirs.sh``, ``org.apache.kafka.tools.LogDirsCommand`` (3.9). Reactor shell (client library).
"""

from __future__ import annotations

import argparse
import json
from typing import TypedDict

from kafkalite.cli.clients import add_bootstrap, admin_client
from kafkalite.cli.main import UsageError
from kafkalite.common.errors import ApiError, ErrorCode

EXAMPLES = ("kafkalite log-dirs --bootstrap-server localhost:9092 --describe --topic-list flights",)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``log-dirs`` with LogDirsCommand's flags; its output is always JSON."""
    parser = subparsers.add_parser("log-dirs", help="show the log directories of brokers")
    add_bootstrap(parser)
    parser.add_argument("--describe", action="store_true", required=True, help="show them")
    parser.add_argument("--broker-list", metavar="1,2", help="only these brokers")
    parser.add_argument("--topic-list", metavar="t1,t2", help="only these topics")
    parser.add_argument("--json", action="store_true", help="only the JSON, without the words before it")


def run(args: argparse.Namespace) -> int:
    """Describe the log directories."""
    with admin_client(args) as admin:
        known = sorted(broker["broker_id"] for broker in admin.describe_cluster()["brokers"])
        wanted = [int(broker) for broker in args.broker_list.split(",")] if args.broker_list else known
        missing = sorted(set(wanted) - set(known))
        if missing:
            raise UsageError(f"--broker-list: there is no broker {missing[0]} (there are {known})")
        topics = args.topic_list.split(",") if args.topic_list else None
        if topics is not None:
            for topic in admin.describe_topics(topics):
                if topic["error_code"]:
                    raise ApiError(ErrorCode(topic["error_code"]), f"topic {topic['name']!r}")
        described = admin.describe_log_dirs(topics, wanted)
    if not args.json:
        print("Querying brokers for log directories information")
        print(f"Received log directory information from brokers {','.join(map(str, wanted))}")
    brokers = [
        {"broker": entry["broker"], "logDirs": [directory(each) for each in entry["log_dirs"]]} for entry in described
    ]
    print(json.dumps({"version": 1, "brokers": brokers}, separators=(",", ":")))
    return 0


class LogDirPartition(TypedDict):
    """A replica in a log directory, as kafka-python's admin client describes it."""

    partition_index: int
    partition_size: int
    offset_lag: int
    is_future_key: bool


class LogDirTopic(TypedDict):
    """The replicas of a topic in a log directory."""

    name: str
    partitions: list[LogDirPartition]


class LibraryLogDir(TypedDict):
    """A log directory, as kafka-python's admin client describes it."""

    error_code: int
    log_dir: str
    topics: list[LogDirTopic]


def directory(entry: LibraryLogDir) -> dict[str, object]:
    """One log directory, in LogDirsCommand's form."""
    return {
        "partitions": [
            {
                "partition": f"{topic['name']}-{partition['partition_index']}",
                "size": partition["partition_size"],
                "offsetLag": partition["offset_lag"],
                "isFuture": partition["is_future_key"],
            }
            for topic in entry["topics"]
            for partition in topic["partitions"]
        ],
        "error": ErrorCode(entry["error_code"]).name if entry["error_code"] else None,
        "logDir": entry["log_dir"],
    }

"""``kafkalite delete-records``: delete the records of partitions below given offsets.

Answers to: ``bin/kafka-delete-records.sh``, ``org.apache.kafka.tools.DeleteRecordsCommand`` (3.9).
Reactor shell (client library).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from kafkalite.cli.clients import add_bootstrap, add_json, admin_client, file_is, print_json
from kafkalite.cli.main import UsageError

EXAMPLES = ("kafkalite delete-records --bootstrap-server localhost:9092 --offset-json-file offsets.json",)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``delete-records`` with DeleteRecordsCommand's flags."""
    parser = subparsers.add_parser("delete-records", help="delete records below given offsets")
    add_bootstrap(parser)
    parser.add_argument(
        "--offset-json-file",
        type=Path,
        required=True,
        metavar="FILE",
        help='{"partitions": [{"topic": "t", "partition": 0, "offset": 5}]}',
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Delete; offset -1 means all records that consumers can read."""
    from kafka import TopicPartition

    targets: dict[TopicPartition, int] = {}
    with file_is(args.offset_json_file, "a list of offsets"):
        for entry in json.loads(args.offset_json_file.read_text())["partitions"]:
            tp = TopicPartition(entry["topic"], int(entry["partition"]))
            if tp in targets:
                raise UsageError(f"{args.offset_json_file}: {tp.topic}-{tp.partition} stands twice")
            targets[tp] = int(entry["offset"])
    if not args.json:
        print("Executing records delete operation")
    with admin_client(args) as admin:
        results = admin.delete_records(targets)
    marks = {tp: result["low_watermark"] for tp, result in sorted(results.items())}
    if args.json:
        print_json(
            [{"topic": tp.topic, "partition": tp.partition, "low_watermark": mark} for tp, mark in marks.items()]
        )
        return 0
    print("Records delete operation completed:")
    for tp, mark in marks.items():
        print(f"partition: {tp.topic}-{tp.partition}\tlow_watermark: {mark}")
    return 0

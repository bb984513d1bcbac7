"""``kafkalite get-offsets``: the first, last or other offsets of partitions.

Answers to: ``bin/kafka-get-offsets.sh``, ``org.apache.kafka.tools.GetOffsetShell`` (3.9).
Reactor shell (client library).
"""

from __future__ import annotations

import argparse
import re

from kafkalite.cli.clients import add_bootstrap, add_json, admin_client, print_json
from kafkalite.cli.main import UsageError
from kafkalite.cluster.model import INTERNAL_TOPICS
from kafkalite.common.types import TopicPartition

TIMES = {"latest": -1, "earliest": -2, "max-timestamp": -3}
EXAMPLES = ("kafkalite get-offsets --bootstrap-server localhost:9092 --topic-partitions flights:0-2 --time latest",)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``get-offsets`` with GetOffsetShell's flags."""
    parser = subparsers.add_parser("get-offsets", help="show the offsets of partitions")
    add_bootstrap(parser, aliases=("--broker-list",))
    parser.add_argument("--topic", help="regular expression of topics")
    parser.add_argument("--partitions", metavar="0,2", help="only these partitions")
    parser.add_argument(
        "--topic-partitions",
        metavar="t:0,u:1-3",
        help="topics with partitions or ranges of them, instead of the two before",
    )
    parser.add_argument(
        "--time",
        default="latest",
        metavar="MS|latest|earliest|max-timestamp",
        help="first offset at or after this time",
    )
    parser.add_argument("--exclude-internal-topics", action="store_true", help="leave internal topics out")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print ``topic:partition:offset`` lines; a partition without such an offset is left out, and has none in JSON."""
    from kafka import TopicPartition as LibraryPartition

    if args.topic_partitions and (args.topic or args.partitions):
        raise UsageError("--topic-partitions stands instead of --topic and --partitions")
    time = parse_time(args.time)
    with admin_client(args) as admin:
        found = [
            TopicPartition(topic["name"], partition["partition_index"])
            for topic in admin.describe_topics(None)
            if not (args.exclude_internal_topics and (topic["is_internal"] or topic["name"] in INTERNAL_TOPICS))
            for partition in topic["partitions"]
            if partition["leader_id"] >= 0
        ]
        wanted = sorted(tp for tp in found if matches(tp, args))
        if not wanted:
            raise UsageError("could not match any topic-partitions with the given flags")
        offsets = admin.list_partition_offsets({LibraryPartition(*tp): time for tp in wanted})
    values = {tp: offsets[LibraryPartition(*tp)].offset for tp in wanted}
    if args.json:
        print_json(
            [
                {"topic": tp.topic, "partition": tp.partition, "offset": None if offset < 0 else offset}
                for tp, offset in values.items()
            ]
        )
        return 0
    for tp, offset in values.items():
        if offset >= 0:
            print(f"{tp.topic}:{tp.partition}:{offset}")
    return 0


def parse_time(text: str) -> int:
    """``--time`` as in ListOffsets: milliseconds, or one of the negative specials."""
    if text in TIMES:
        return TIMES[text]
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--time {text!r}: expected milliseconds, {', '.join(TIMES)}") from None


def matches(tp: TopicPartition, args: argparse.Namespace) -> bool:
    """Whether the flags ask for ``tp``."""
    if args.topic_partitions:
        return any(matches_pattern(tp, pattern) for pattern in args.topic_partitions.split(","))
    if args.topic and not re.fullmatch(args.topic, tp.topic):
        return False
    return not args.partitions or str(tp.partition) in args.partitions.split(",")


def matches_pattern(tp: TopicPartition, pattern: str) -> bool:
    """``topic``, ``topic:3``, ``:3``, ``topic:3-5`` (3 and 4), ``topic:-5``, ``topic:3-``."""
    topic, _, span = pattern.partition(":")
    if topic and not re.fullmatch(topic, tp.topic):
        return False
    if not span:
        return True
    match = re.fullmatch(r"(\d*)(-?)(\d*)", span)
    if match is None:
        raise UsageError(f"--topic-partitions {pattern!r}: expected topic:partition or topic:from-to")
    low, dash, high = match.groups()
    if not dash:
        return tp.partition == int(low)
    return (not low or tp.partition >= int(low)) and (not high or tp.partition < int(high))

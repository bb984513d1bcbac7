"""``kafkalite topics``: create, list, describe, alter and delete topics.

Answers to: ``bin/kafka-topics.sh``, ``org.apache.kafka.tools.TopicCommand`` (3.9). Reactor shell (client library).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sized
from typing import TYPE_CHECKING, TypedDict

from kafkalite.cli.clients import (
    ConfigDescription,
    PartitionDescription,
    TopicDescription,
    add_bootstrap,
    add_json,
    admin_client,
    check_error,
    id_text,
    kafka_error,
    parse_pairs,
    print_json,
)
from kafkalite.cli.main import UsageError
from kafkalite.cluster.model import INTERNAL_TOPICS
from kafkalite.common.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

_MOST_REPLICAS = (1 << 15) - 1
FILTERS = ("under_replicated_partitions", "unavailable_partitions", "at_min_isr_partitions", "under_min_isr_partitions")
EXAMPLES = (
    "kafkalite topics --bootstrap-server localhost:9092 --create --topic flights --partitions 3 --replication-factor 3",
    "kafkalite topics --bootstrap-server localhost:9092 --describe --under-replicated-partitions",
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``topics`` with TopicCommand's flags."""
    parser = subparsers.add_parser("topics", help="create, list, describe, alter or delete topics")
    add_bootstrap(parser)
    action = parser.add_mutually_exclusive_group(required=True)
    for name, text in (
        ("create", "create a topic"),
        ("list", "list topics"),
        ("describe", "show leaders, replicas and configurations"),
        ("alter", "add partitions"),
        ("delete", "delete topics"),
    ):
        action.add_argument(f"--{name}", dest="action", action="store_const", const=name, help=text)
    parser.add_argument("--topic", help="a topic; for --list, --describe and --delete a regular expression")
    parser.add_argument("--topic-id", help="for --describe: the id of a topic")
    parser.add_argument("--partitions", type=int, help="number of partitions")
    parser.add_argument("--replication-factor", type=int, help="replicas of each partition")
    parser.add_argument(
        "--replica-assignment", metavar="1:2,2:3", help="brokers of each partition, preferred leader first"
    )
    parser.add_argument(
        "--config", action="append", default=[], metavar="NAME=VALUE", help="a configuration of the new topic"
    )
    parser.add_argument("--if-not-exists", action="store_true", help="for --create: an existing topic is no error")
    parser.add_argument(
        "--if-exists", action="store_true", help="for --alter, --delete, --describe: a missing topic is no error"
    )
    parser.add_argument("--exclude-internal", action="store_true", help="leave internal topics out")
    parser.add_argument(
        "--topics-with-overrides", action="store_true", help="for --describe: only topics with configurations"
    )
    for name in FILTERS:
        parser.add_argument(f"--{name.replace('_', '-')}", action="store_true", help="for --describe: only these")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Run the action of the arguments."""
    if args.action in ("create", "alter", "delete") and not args.topic:
        raise UsageError(f"--{args.action} needs --topic")
    if args.partitions is not None and args.partitions < 1:
        raise UsageError(f"--partitions {args.partitions}: at least 1")
    if args.replication_factor is not None and not 1 <= args.replication_factor <= _MOST_REPLICAS:
        raise UsageError(f"--replication-factor {args.replication_factor}: from 1 to {_MOST_REPLICAS}")
    if args.replica_assignment and (args.replication_factor or (args.partitions and args.action == "create")):
        raise UsageError("--replica-assignment stands instead of --partitions and --replication-factor")
    if args.action == "alter" and not args.partitions:
        raise UsageError("--alter needs --partitions (configurations: kafkalite configs)")
    with admin_client(args) as admin:
        actions = {"create": create, "list": list_topics, "describe": describe, "alter": alter, "delete": delete}
        return actions[args.action](admin, args)


class ShownPartition(TypedDict):
    """A partition in the form of ``--json``."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]


class ShownTopic(TypedDict):
    """A topic in the form of ``--json``."""

    topic: str
    topic_id: str
    partition_count: int
    replication_factor: int
    configs: dict[str, str | None]
    partitions: list[ShownPartition]


def create(admin: KafkaAdminClient, args: argparse.Namespace) -> int:
    """``--create``."""
    settings: dict[str, object] = {"configs": parse_pairs(args.config, "--config")}
    if args.replica_assignment:
        settings["assignments"] = dict(enumerate(parse_assignment(args.replica_assignment)))
    else:
        settings |= {"num_partitions": args.partitions or -1, "replication_factor": args.replication_factor or -1}
    [result] = admin.create_topics({args.topic: settings}, raise_errors=False)["topics"]
    code = result["error_code"]
    if code == ErrorCode.TOPIC_ALREADY_EXISTS and args.if_not_exists:
        return 0
    if code:
        raise ApiError(ErrorCode(code), result.get("error_message") or "")
    print(f"Created topic {args.topic}.")
    return 0


def list_topics(admin: KafkaAdminClient, args: argparse.Namespace) -> int:
    """``--list``."""
    names = sorted(topic["name"] for topic in matching(admin, args))
    if args.json:
        print_json(names)
    else:
        for name in names:
            print(name)
    return 0


def describe(admin: KafkaAdminClient, args: argparse.Namespace) -> int:
    """``--describe``: all partitions, or those that one of the filters selects."""
    topics = sorted(matching(admin, args), key=lambda topic: str(topic["name"]))
    require_some(topics, args)
    configs = topic_configs(admin, [topic["name"] for topic in topics]) if topics else {}
    alive = {broker["broker_id"] for broker in admin.describe_cluster()["brokers"]}
    filtered = any(getattr(args, name) for name in FILTERS)
    shown = []
    for topic in topics:
        config = configs.get(topic["name"], {})
        overrides = {
            name: entry["value"] for name, entry in config.items() if entry["config_source"] == "DYNAMIC_TOPIC_CONFIG"
        }
        if args.topics_with_overrides and not overrides:
            continue
        setting = config.get("min.insync.replicas")
        min_isr = 1 if setting is None else int(setting["value"] or 1)
        partitions = sorted(topic["partitions"], key=lambda partition: int(partition["partition_index"]))
        chosen = [partition for partition in partitions if not filtered or passes(partition, args, alive, min_isr)]
        entry: ShownTopic = {
            "topic": topic["name"],
            "topic_id": id_text(topic.get("topic_id")),
            "partition_count": len(partitions),
            "replication_factor": len(partitions[0]["replica_nodes"]) if partitions else 0,
            "configs": overrides,
            "partitions": [as_json(partition) for partition in chosen],
        }
        shown.append(entry)
        if not args.json:
            print_description(entry, with_header=not filtered, with_partitions=not args.topics_with_overrides)
    if args.json:
        print_json(shown)
    return 0


def alter(admin: KafkaAdminClient, args: argparse.Namespace) -> int:
    """``--alter``: add partitions, on the brokers of ``--replica-assignment`` (for all partitions) if it is given."""
    topics = {topic["name"]: topic for topic in matching(admin, args)}
    require_some(list(topics.values()), args)
    for name, topic in sorted(topics.items()):
        spec: object = args.partitions
        if args.replica_assignment:
            fresh = parse_assignment(args.replica_assignment)[len(topic["partitions"]) :]
            spec = {"count": args.partitions, "assignments": fresh}
        response = admin.create_partitions({name: spec}, raise_errors=False)
        for result in response.results:
            check_error(result)
    return 0


def delete(admin: KafkaAdminClient, args: argparse.Namespace) -> int:
    """``--delete``: every topic that matches the expression."""
    names = sorted(topic["name"] for topic in matching(admin, args))
    require_some(names, args)
    if not names:
        return 0
    failed = [
        f"{result['name']}: {kafka_error(result['error_code'], result.get('error_message'))}"
        for result in admin.delete_topics(names, raise_errors=False)["topics"]
        if result["error_code"]
    ]
    if failed:
        raise OSError("; ".join(failed))
    return 0


def matching(admin: KafkaAdminClient, args: argparse.Namespace) -> list[TopicDescription]:
    """The topics that match ``--topic`` (or ``--topic-id``) and ``--exclude-internal``."""
    topics = [topic for topic in admin.describe_topics(None) if not topic["error_code"] or topic["partitions"]]
    if getattr(args, "topic_id", None):
        topics = [topic for topic in topics if id_text(topic.get("topic_id")) == args.topic_id]
    if args.topic:
        # As in TopicCommand: a comma separates alternatives.
        expression = re.compile(args.topic.strip("\"'").replace(",", "|").replace(" ", ""))
        topics = [topic for topic in topics if topic["name"] == args.topic or expression.fullmatch(topic["name"])]
    if args.exclude_internal:
        topics = [topic for topic in topics if not topic["is_internal"] and topic["name"] not in INTERNAL_TOPICS]
    return topics


def require_some(found: Sized, args: argparse.Namespace) -> None:
    """Raise an error if a topic was named and not found, unless a flag allows that."""
    wanted = args.topic or getattr(args, "topic_id", None)
    if wanted and not found and not args.if_exists:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{wanted}' does not exist as expected")


def topic_configs(admin: KafkaAdminClient, names: list[str]) -> dict[str, dict[str, ConfigDescription]]:
    """All configurations of topics, with the source of each value."""
    from kafka.admin import ConfigResource, ConfigResourceType

    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    described: dict[str, dict[str, ConfigDescription]] = admin.describe_configs(resources, config_filter="all").get(
        "topic", {}
    )
    return described


def passes(partition: PartitionDescription, args: argparse.Namespace, alive: set[int], min_isr: int) -> bool:
    """Whether a partition is selected by a ``--…-partitions`` flag."""
    in_sync = len(partition["isr_nodes"])
    leaderless = partition["leader_id"] < 0 or partition["leader_id"] not in alive
    return bool(
        (args.under_replicated_partitions and in_sync < len(partition["replica_nodes"]))
        or (args.unavailable_partitions and leaderless)
        or (args.at_min_isr_partitions and in_sync == min_isr)
        or (args.under_min_isr_partitions and (in_sync < min_isr or leaderless))
    )


def as_json(partition: PartitionDescription) -> ShownPartition:
    """One partition in the form of ``--json``."""
    return {
        "partition": partition["partition_index"],
        "leader": partition["leader_id"],
        "leader_epoch": partition.get("leader_epoch", -1),
        "replicas": list(partition["replica_nodes"]),
        "isr": list(partition["isr_nodes"]),
        "offline": list(partition.get("offline_replicas") or []),
    }


def print_description(entry: ShownTopic, *, with_header: bool, with_partitions: bool) -> None:
    """Print one topic, in TopicCommand's lines."""
    if with_header:
        configs = ",".join(f"{name}={value}" for name, value in entry["configs"].items())
        print(
            f"Topic: {entry['topic']}\tTopicId: {entry['topic_id']}\tPartitionCount: {entry['partition_count']}"
            f"\tReplicationFactor: {entry['replication_factor']}\tConfigs: {configs}"
        )
    if with_partitions:
        for partition in entry["partitions"]:
            leader = partition["leader"] if partition["leader"] >= 0 else "none"
            print(
                f"\tTopic: {entry['topic']}\tPartition: {partition['partition']}\tLeader: {leader}"
                f"\tReplicas: {commas(partition['replicas'])}\tIsr: {commas(partition['isr'])}"
                "\tElr: N/A\tLastKnownElr: N/A"
            )


def parse_assignment(text: str) -> list[list[int]]:
    """``1:2,2:3`` → the replicas of each partition. Raises :class:`UsageError` for any other form."""
    try:
        assignment = [[int(broker) for broker in partition.split(":")] for partition in text.split(",")]
    except ValueError:
        raise UsageError(f"--replica-assignment {text!r}: expected broker ids as in 1:2,2:3") from None
    for replicas in assignment:
        if len(set(replicas)) != len(replicas):
            raise UsageError(f"--replica-assignment {text!r}: a broker stands twice in {replicas}")
        if len(replicas) != len(assignment[0]):
            raise UsageError(f"--replica-assignment {text!r}: every partition needs the same number of replicas")
    return assignment


def commas(values: list[int]) -> str:
    """``1,2,3``."""
    return ",".join(map(str, values))

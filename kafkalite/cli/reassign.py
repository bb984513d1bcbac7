"""``kafkalite reassign``: generate, execute, verify, cancel and list partition reassignments.

Answers to: ``bin/kafka-reassign-partitions.sh``, ``org.apache.kafka.tools.reassign.ReassignPartitionsCommand`` (3.9).
Reactor shell (client library); the proposals themselves are pure.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalite.cli.clients import add_bootstrap, add_json, admin_client, file_is, print_json
from kafkalite.cli.main import UsageError
from kafkalite.cli.reassign_log_dirs import ANY, ReplicaPlace, cancel_moves, move_states, start_moves
from kafkalite.cli.reassign_throttles import (
    LOG_DIRS_RATE,
    clear_throttles,
    plural,
    set_rates,
    set_throttles,
    throttles_of,
)
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

Assignment = dict[TopicPartition, list[int]]
EXAMPLES = (
    (
        "kafkalite reassign --bootstrap-server localhost:9092 "
        "--generate --topics-to-move-json-file topics.json --broker-list 1,2,3"
    ),
    (
        "kafkalite reassign --bootstrap-server localhost:9092 "
        "--execute --reassignment-json-file plan.json --throttle 50000000"
    ),
    "kafkalite reassign --bootstrap-server localhost:9092 --verify --reassignment-json-file plan.json",
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``reassign`` with ReassignPartitionsCommand's flags."""
    parser = subparsers.add_parser("reassign", help="move partitions between brokers")
    add_bootstrap(parser)
    action = parser.add_mutually_exclusive_group(required=True)
    for name, text in (
        ("generate", "propose an assignment over --broker-list of --topics-to-move-json-file"),
        ("execute", "start --reassignment-json-file"),
        ("verify", "show how far --reassignment-json-file is"),
        ("cancel", "cancel --reassignment-json-file"),
        ("list", "list the running reassignments"),
    ):
        action.add_argument(f"--{name}", dest="action", action="store_const", const=name, help=text)
    parser.add_argument("--reassignment-json-file", type=Path, metavar="FILE")
    parser.add_argument("--topics-to-move-json-file", type=Path, metavar="FILE")
    parser.add_argument("--broker-list", metavar="1,2,3", help="brokers to propose")
    parser.add_argument("--disable-rack-aware", action="store_true", help="for --generate: take no notice of racks")
    parser.add_argument("--additional", action="store_true", help="for --execute: beside the running reassignments")
    parser.add_argument("--throttle", type=int, metavar="B/S", help="for --execute: limit between brokers")
    parser.add_argument(
        "--replica-alter-log-dirs-throttle",
        type=int,
        metavar="B/S",
        help="for --execute: limit between log directories",
    )
    parser.add_argument(
        "--preserve-throttles", action="store_true", help="for --verify and --cancel: do not take limits away"
    )
    parser.add_argument("--timeout", type=int, default=10000, metavar="MS", help="for the request")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Run the action of the arguments."""
    needed = {"generate": ("topics_to_move_json_file", "broker_list"), "list": ()}.get(
        args.action, ("reassignment_json_file",)
    )
    for name in needed:
        if getattr(args, name) is None:
            raise UsageError(f"--{args.action} needs --{name.replace('_', '-')}")
    with admin_client(args) as admin:
        actions = {"generate": generate, "execute": execute, "verify": verify, "cancel": cancel, "list": list_moves}
        return actions[args.action](admin, args)


def generate(admin: KafkaAdminClient, args: argparse.Namespace) -> int:
    """``--generate``: print the current assignment and one that spreads it over ``--broker-list``."""
    topics = read_topics(args.topics_to_move_json_file)
    wanted = [int(broker) for broker in args.broker_list.split(",")]
    if len(set(wanted)) != len(wanted):
        raise UsageError(f"--broker-list {args.broker_list}: a broker stands twice")
    racks = {broker["broker_id"]: broker.get("rack") for broker in admin.describe_cluster()["brokers"]}
    missing = sorted(set(wanted) - set(racks))
    if missing:
        raise UsageError(f"--broker-list {args.broker_list}: there is no broker {missing[0]}")
    current = current_assignment(admin, topics)
    proposed = propose(current, wanted, {} if args.disable_rack_aware else racks, random.Random())
    if args.json:
        print_json({"current": as_document(current), "proposed": as_document(proposed)})
        return 0
    print(f"Current partition replica assignment\n{compact(current)}\n")
    print(f"Proposed partition reassignment configuration\n{compact(proposed)}")
    return 0


def execute(admin: KafkaAdminClient, args: argparse.Namespace) -> int:
    """``--execute``: ask the controller for the new assignment; prints the old one, which is needed to go back."""
    target = read_assignment(args.reassignment_json_file)
    log_dirs = read_log_dirs(args.reassignment_json_file)
    current = current_assignment(admin, sorted({tp.topic for tp in target}))
    unknown = [str(tp) for tp in target if tp not in current]
    if unknown:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ", ".join(unknown))
    moves = list_reassignments(admin)
    if moves and not args.additional:
        raise ApiError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            "another reassignment is running: wait, --cancel it, or use --additional",
        )
    before = {tp: current[tp] for tp in target}
    print(f"Current partition replica assignment\n\n{compact(before)}\n")
    print("Save this to use as the --reassignment-json-file option during rollback")
    limits = (args.throttle, args.replica_alter_log_dirs_throttle)
    if any(limit is not None for limit in limits):
        print("Warning: run --verify until the reassignment has completed: it takes the throttle away.")
    if args.throttle is not None:
        set_throttles(admin, throttles_of(target, current, moves), args.throttle)
        print(f"The inter-broker throttle limit was set to {args.throttle} B/s")
    if args.replica_alter_log_dirs_throttle is not None:
        brokers = {replica.broker for replica in log_dirs}
        set_rates(admin, brokers, (LOG_DIRS_RATE,), args.replica_alter_log_dirs_throttle)
        print(f"The replica-alter-dir throttle limit was set to {args.replica_alter_log_dirs_throttle} B/s")
    alter(admin, target, args.timeout)
    print(f"Successfully started partition reassignment{plural(target)} for {names(target)}")
    start_moves(admin, log_dirs, args.timeout)
    return 0


def verify(admin: KafkaAdminClient, args: argparse.Namespace) -> int:
    """``--verify``: exit code 0 once all moves are complete, 1 if one is in progress or has another target.

    Once no move is in progress it removes the throttles.
    """
    target = read_assignment(args.reassignment_json_file)
    moves = list_reassignments(admin)
    current = current_assignment(admin, sorted({tp.topic for tp in target}))
    status: dict[str, str] = {}
    for tp, replicas in sorted(target.items()):
        if tp in moves:
            status[str(tp)] = "in progress"
        elif current.get(tp) == replicas:
            status[str(tp)] = "completed"
        elif tp not in current:
            status[str(tp)] = "no such partition"
        else:
            status[str(tp)] = f"replicas are {commas(current[tp])} instead of {commas(replicas)}"
    states = move_states(admin, read_log_dirs(args.reassignment_json_file))
    if args.json:
        print_json({**status, **{str(replica): state for replica, state in states.items()}})
    else:
        print("Status of partition reassignment:")
        for name, state in status.items():
            print(f"Reassignment of partition {name} {in_words(state, 'is completed.')}")
        for replica, state in states.items():
            print(f"Reassignment of replica {replica} {in_words(state, 'completed successfully.')}")
    under_way = moves or "in progress" in states.values()
    if not under_way and not args.preserve_throttles:
        with contextlib.redirect_stdout(sys.stderr if args.json else sys.stdout):
            clear_throttles(admin, target)
    return 0 if all(state == "completed" for state in (*status.values(), *states.values())) else 1


def in_words(state: str, completed: str) -> str:
    """The end of a line of ``--verify``."""
    return {"completed": completed, "in progress": "is still in progress."}.get(state, f"failed: {state}.")


def cancel(admin: KafkaAdminClient, args: argparse.Namespace) -> int:
    """``--cancel``: cancel those moves of the file that are in progress."""
    moves = list_reassignments(admin)
    target = read_assignment(args.reassignment_json_file)
    targets = [tp for tp in target if tp in moves]
    if targets:
        alter(admin, dict.fromkeys(targets), args.timeout)
        print(f"Successfully cancelled partition reassignment{plural(targets)} for: {names(targets)}")
    else:
        print("None of the specified partition moves are active.")
    log_dirs = read_log_dirs(args.reassignment_json_file)
    stopped = cancel_moves(admin, log_dirs)
    if stopped:
        print(f"Successfully cancelled log directory move{plural(stopped)} for: {','.join(map(str, stopped))}")
    elif log_dirs:
        print("None of the specified log directory moves are active.")
    if not args.preserve_throttles and (targets or stopped):
        clear_throttles(admin, target)
    return 0


def list_moves(admin: KafkaAdminClient, args: argparse.Namespace) -> int:
    """``--list``."""
    moves = list_reassignments(admin)
    if args.json:
        print_json([{"topic": tp.topic, "partition": tp.partition, **move} for tp, move in sorted(moves.items())])
        return 0
    if not moves:
        print("No partition reassignments found.")
        return 0
    print("Current partition reassignments:")
    for tp, move in sorted(moves.items()):
        changes = "".join(
            f" {word} replicas: {commas(move[field])}."
            for word, field in (("adding", "adding_replicas"), ("removing", "removing_replicas"))
            if move[field]
        )
        print(f"{tp}: replicas: {commas(move['replicas'])}.{changes}")
    return 0


def current_assignment(admin: KafkaAdminClient, topics: Sequence[str]) -> Assignment:
    """The replicas of all partitions of ``topics``. Raises :class:`ApiError` if one does not exist."""
    assignment: Assignment = {}
    for topic in admin.describe_topics(list(topics)):
        if topic["error_code"]:
            raise ApiError(ErrorCode(topic["error_code"]), f"topic {topic['name']!r}")
        for partition in topic["partitions"]:
            assignment[TopicPartition(topic["name"], partition["partition_index"])] = list(partition["replica_nodes"])
    return assignment


def list_reassignments(admin: KafkaAdminClient) -> dict[TopicPartition, dict[str, list[int]]]:
    """The reassignments in progress."""
    return {TopicPartition(tp.topic, tp.partition): move for tp, move in admin.list_partition_reassignments().items()}


def alter(admin: KafkaAdminClient, target: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: int) -> None:
    """Send ``target`` to the controller. Raises :class:`ApiError` with every partition that it refused."""
    from kafka import TopicPartition as LibraryPartition

    request = {LibraryPartition(*tp): None if replicas is None else list(replicas) for tp, replicas in target.items()}
    refused = {
        tp: error
        for tp, error in admin.alter_partition_reassignments(request, timeout_ms=timeout_ms).items()
        if error is not None
    }
    if refused:
        text = "; ".join(f"{tp.topic}-{tp.partition}: {error.__name__}" for tp, error in sorted(refused.items()))
        raise ApiError(ErrorCode(next(iter(refused.values())).errno), text)


def propose(
    current: Assignment, brokers: Sequence[int], racks: Mapping[int, str | None], rng: random.Random
) -> Assignment:
    """A new assignment of ``current``'s partitions over ``brokers``: Kafka's round robin, by racks if all have one.

    Pure except for ``rng``. Raises :class:`UsageError` if there are fewer brokers than replicas.
    """
    ordered = by_rack(brokers, racks) if all(racks.get(broker) for broker in brokers) else sorted(brokers)
    proposed: Assignment = {}
    for topic in sorted({tp.topic for tp in current}):
        partitions = sorted(tp for tp in current if tp.topic == topic)
        factor = len(current[partitions[0]])
        if factor > len(ordered):
            raise UsageError(f"topic {topic} has {factor} replicas, --broker-list only {len(ordered)} brokers")
        start, shift = rng.randrange(len(ordered)), rng.randrange(len(ordered))
        for tp in partitions:
            if tp.partition > 0 and tp.partition % len(ordered) == 0:
                shift += 1
            first = (tp.partition + start) % len(ordered)
            step = [(first + 1 + (shift + index) % (len(ordered) - 1)) % len(ordered) for index in range(factor - 1)]
            proposed[tp] = [ordered[index] for index in (first, *step)]
    return proposed


def by_rack(brokers: Sequence[int], racks: Mapping[int, str | None]) -> list[int]:
    """The brokers in an order in which the racks alternate."""
    groups: dict[str, list[int]] = {}
    for broker in sorted(brokers):
        groups.setdefault(racks[broker] or "", []).append(broker)
    columns = [groups[rack] for rack in sorted(groups)]
    return [column[row] for row in range(max(map(len, columns))) for column in columns if row < len(column)]


def read_topics(path: Path) -> list[str]:
    """Read Kafka's JSON of topics to move. Raises :class:`UsageError` if the file has another content."""
    with file_is(path, "a list of topics"):
        return [str(entry["topic"]) for entry in json.loads(path.read_text())["topics"]]


def read_assignment(path: Path) -> Assignment:
    """Read Kafka's reassignment JSON. Raises :class:`UsageError` if the file has another content."""
    with file_is(path, "a reassignment"):
        assignment = {
            TopicPartition(entry["topic"], int(entry["partition"])): [int(i) for i in entry["replicas"]]
            for entry in json.loads(path.read_text())["partitions"]
        }
    if not assignment:
        raise UsageError(f"{path}: the partitions list is empty")
    return assignment


def read_log_dirs(path: Path) -> dict[ReplicaPlace, str]:
    """The log directories in Kafka's reassignment JSON, except ``any``. Raises :class:`UsageError`."""
    wanted: dict[ReplicaPlace, str] = {}
    for entry in json.loads(path.read_text())["partitions"]:
        log_dirs = entry.get("log_dirs")
        if log_dirs is None:
            continue
        if not isinstance(log_dirs, list):
            raise UsageError(f"{path}: {entry['topic']}-{entry['partition']}: its log_dirs are no list")
        if len(log_dirs) != len(entry["replicas"]):
            raise UsageError(
                f"{path}: {entry['topic']}-{entry['partition']} has {len(entry['replicas'])} replicas, "
                f"but {len(log_dirs)} log_dirs"
            )
        for broker, log_dir in zip(entry["replicas"], log_dirs, strict=True):
            if log_dir != ANY:
                wanted[ReplicaPlace(entry["topic"], int(entry["partition"]), int(broker))] = log_dir
    return wanted


def as_document(assignment: Assignment) -> dict[str, object]:
    """Kafka's reassignment JSON as a value."""
    partitions = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": replicas, "log_dirs": [ANY] * len(replicas)}
        for tp, replicas in sorted(assignment.items())
    ]
    return {"version": 1, "partitions": partitions}


def compact(assignment: Assignment) -> str:
    """Kafka's reassignment JSON in one line."""
    return json.dumps(as_document(assignment), separators=(",", ":"))


def names(partitions: Mapping[TopicPartition, object] | Sequence[TopicPartition]) -> str:
    """``topic-0,topic-1``."""
    return ",".join(str(tp) for tp in sorted(partitions))


def commas(values: Sequence[int]) -> str:
    """``1,2,3``."""
    return ",".join(map(str, values))

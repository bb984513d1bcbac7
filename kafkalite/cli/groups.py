"""``kafkalite groups``: list, describe, reset and delete consumer groups, including those of ZooKeeper consumers.

Answers to: ``bin/kafka-consumer-groups.sh``, ``org.apache.kafka.tools.consumer.group.ConsumerGroupCommand`` (3.9), and
for ``--zookeeper`` to that of 0.10. Reactor shell (client library).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from kafkalite.cli.clients import add_json, print_json
from kafkalite.cli.groups_change import complain, delete, delete_offsets, reset, show, target_of, wanted
from kafkalite.cli.groups_reset import To
from kafkalite.cli.groups_source import GroupSource
from kafkalite.cli.groups_view import (
    DEAD,
    group_json,
    list_table,
    members_table,
    offsets_table,
    state_table,
)
from kafkalite.cli.main import UsageError
from kafkalite.cli.zookeeper_security import add_zookeeper_security

ABOUT = """\
List, describe, reset and delete consumer groups.

Groups of ZooKeeper consumers (Kafka 0.8 to 1.1, kafkalite.consumer) are shown too: their offsets are where everyone's
are, their members stand in ZooKeeper alone. With --bootstrap-server alone a broker is asked for its zookeeper.connect;
where that cannot be reached from here, say --zookeeper. A group with members of both kinds is of the type Mixed."""
STATES = ("Empty", "Stable", "PreparingRebalance", "CompletingRebalance", "Dead", "Unknown")
TYPES = ("Classic", "Consumer", "ZooKeeper", "Mixed")
EXAMPLES = (
    "kafkalite groups --bootstrap-server localhost:9092 --describe --group readers",
    (
        "kafkalite groups --bootstrap-server localhost:9092 "
        "--reset-offsets --group readers --topic flights --to-earliest --execute"
    ),
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``groups`` with ConsumerGroupCommand's flags."""
    parser = subparsers.add_parser(
        "groups",
        help="list, describe, reset or delete consumer groups",
        description=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT,…", help="brokers; this or --zookeeper is needed")
    parser.add_argument("--zookeeper", metavar="CONNECT", help="host:port[,host:port…][/chroot] of the cluster")
    add_zookeeper_security(parser)
    parser.add_argument("--command-config", type=Path, metavar="FILE", help="client properties")
    parser.add_argument("--timeout", type=int, default=5000, metavar="MS", help="how long a coordinator is waited for")
    action = parser.add_mutually_exclusive_group(required=True)
    for name, text in (
        ("list", "list groups"),
        ("describe", "show offsets and lag, members, or the state of groups"),
        ("reset-offsets", "move offsets of groups without members; shows the plan, unless --execute is given"),
        ("delete", "delete groups without members, and their offsets"),
        ("delete-offsets", "forget offsets of topics that a group does not read"),
    ):
        action.add_argument(f"--{name}", dest="action", action="store_const", const=name, help=text)
    parser.add_argument("--group", action="append", default=[], metavar="ID", help="a group; may be given again")
    parser.add_argument("--all-groups", action="store_true", help="every group")
    parser.add_argument("--members", action="store_true", help="for --describe: members and how much they read")
    parser.add_argument("--offsets", action="store_true", help="for --describe: offsets and lag (what is shown anyway)")
    parser.add_argument("--verbose", action="store_true", help="for --members: which partitions they read")
    parser.add_argument(
        "--state", nargs="?", const="", metavar="STATE,…", help="for --list: states, or groups in these; for --describe"
    )
    parser.add_argument("--type", nargs="?", const="", metavar="TYPE,…", help="for --list: types, or groups of these")
    parser.add_argument("--topic", action="append", default=[], metavar="T[:P,…]", help="a topic, or partitions of it")
    parser.add_argument("--all-topics", action="store_true", help="for --reset-offsets: all that the group committed")
    parser.add_argument("--dry-run", action="store_true", help="for --reset-offsets: only show the plan")
    parser.add_argument("--execute", action="store_true", help="for --reset-offsets: carry it out")
    parser.add_argument("--export", action="store_true", help="for --reset-offsets: print the plan as CSV")
    target = parser.add_mutually_exclusive_group()
    for to, metavar, text in (
        (To.EARLIEST, None, "to the first offsets"),
        (To.LATEST, None, "to the ends of the logs"),
        (To.CURRENT, None, "to what is committed; to the end where nothing is"),
        (To.OFFSET, "N", "to one offset"),
        (To.SHIFT, "N", "by so many, forward or (negative) back"),
        (To.DATETIME, "YYYY-MM-DDTHH:mm:SS.sss", "to the first records of that time or later (UTC without a zone)"),
        (To.DURATION, "PnDTnHnMnS", "to the first records of so long ago or later"),
        (To.FILE, "FILE", "as a CSV file says: topic,partition,offset or group,topic,partition,offset"),
    ):
        flag, words = f"--{to.value}", f"for --reset-offsets: {text}"
        if metavar is None:
            target.add_argument(flag, help=words, action="store_true")
        else:
            target.add_argument(flag, help=words, metavar=metavar, type=int if to in (To.OFFSET, To.SHIFT) else str)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Run the action of the arguments; 1 if some group could not be shown or changed."""
    check(args)
    source = GroupSource(args)
    actions = {
        "list": list_groups,
        "describe": describe,
        "reset-offsets": reset,
        "delete": delete,
        "delete-offsets": delete_offsets,
    }
    try:
        return actions[args.action](source, args)
    finally:
        source.close()


def check(args: argparse.Namespace) -> None:
    """Raise :class:`UsageError` for flags that are missing or contradict each other."""
    if not args.bootstrap_server and not args.zookeeper:
        raise UsageError("--bootstrap-server or --zookeeper is needed")
    if args.action != "list" and bool(args.group) == args.all_groups:
        raise UsageError(f"--{args.action} takes one of --group and --all-groups")
    if args.action == "describe" and args.members + args.offsets + (args.state is not None) > 1:
        raise UsageError("--describe takes at most one of --members, --offsets and --state")
    if args.action == "describe" and args.state:
        raise UsageError(f"--describe --state takes no states, as {args.state!r}")
    if args.action == "delete-offsets" and (len(args.group) != 1 or not args.topic):
        raise UsageError("--delete-offsets takes one --group, and --topic")
    if args.action == "reset-offsets":
        to = target_of(args)
        if args.dry_run and args.execute:
            raise UsageError("--reset-offsets takes one of --dry-run and --execute")
        if (to is not To.FILE) != (bool(args.topic) != args.all_topics):
            raise UsageError("--reset-offsets takes one of --topic and --all-topics, and --from-file neither")


def list_groups(source: GroupSource, args: argparse.Namespace) -> int:
    """``--list``."""
    states, types = chosen(args.state, STATES, "--state"), chosen(args.type, TYPES, "--type")
    groups = [
        (name, kind, state)
        for name, kind, state in source.listing()
        if (not states or state in states) and (not types or kind in types)
    ]
    if args.json:
        print_json([{"group": name, "type": kind, "state": state} for name, kind, state in groups])
    else:
        show(list_table(groups, args.type is not None, args.state is not None))
    return 0


def chosen(text: str | None, known: tuple[str, ...], flag: str) -> set[str]:
    """The values in ``a,b``, in upper or lower case; none: all. Raises :class:`UsageError` for unknown ones."""
    names = {name.lower(): name for name in known}
    wanted = [word.strip() for word in (text or "").split(",") if word.strip()]
    unknown = [word for word in wanted if word.lower() not in names]
    if unknown:
        raise UsageError(f"{flag} {','.join(unknown)!r}: there are {', '.join(known)}")
    return {names[word.lower()] for word in wanted}


def describe(source: GroupSource, args: argparse.Namespace) -> int:
    """``--describe``."""
    section = "members" if args.members else "state" if args.state is not None else "offsets"
    groups = source.describe(wanted(source, args), offsets=section == "offsets")
    for group in groups:
        if group.state == DEAD:
            complain(f"Error: Consumer group '{group.name}' does not exist.")
        elif remark := group.remark():
            complain(f"\n{remark}")
        if args.json or group.state == DEAD:
            continue
        if section == "offsets":
            lines = offsets_table(group)
        else:
            lines = members_table(group, args.verbose) if section == "members" else state_table(group)
        show(["", *lines] if lines else [])
    if args.json:
        print_json([group_json(group, section) for group in groups if group.state != DEAD])
    return 1 if any(group.state == DEAD for group in groups) else 0

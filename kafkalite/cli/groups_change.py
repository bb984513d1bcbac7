"""The changes of ``kafkalite groups``: offsets reset or deleted, groups deleted.

Answers to: ``ConsumerGroupCommand.ConsumerGroupService.{resetOffsets,deleteGroups,deleteOffsets}`` (3.9). Reactor shell
(client library).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from kafkalite.cli.clients import print_json
from kafkalite.cli.groups_reset import (
    Facts,
    ResetPlan,
    To,
    choose,
    from_csv,
    make_plan,
    parse_datetime,
    parse_duration,
    parse_scope,
    to_csv,
)
from kafkalite.cli.groups_source import EARLIEST, LATEST, GroupSource
from kafkalite.cli.groups_view import DEAD, EMPTY, GroupView, plan_table, table
from kafkalite.cli.main import UsageError
from kafkalite.common.errors import ErrorCode
from kafkalite.common.types import TopicPartition


def reset(source: GroupSource, args: argparse.Namespace) -> int:
    """``--reset-offsets``."""
    names = wanted(source, args)
    if not (args.execute or args.dry_run or args.export):
        complain("No --execute: this is what would be done (say so with --dry-run).")
    by_file = from_csv(Path(args.from_file).read_text(), names) if args.from_file else {}
    plans: dict[str, ResetPlan] = {}
    failed = False
    for group in source.describe(names):
        if group.state not in (EMPTY, DEAD):
            complain(
                f"Error: Assignments can only be reset if the group '{group.name}' is inactive,"
                f" but the current state is {group.state}."
            )
            failed = True
            continue
        plans[group.name] = plan = plan_of(source, args, group, by_file.get(group.name, {}))
        for warning in plan.warnings:
            complain(f"WARN: {warning}")
        if args.execute:
            failed |= not succeeded(source.commit(group.name, plan.offsets))
    offsets = {name: plan.offsets for name, plan in plans.items()}
    if args.export:
        sys.stdout.write(to_csv(offsets))
    elif args.json:
        print_json([place(name, tp) | {"new_offset": at} for name, plan in offsets.items() for tp, at in plan.items()])
    else:
        show(["", *plan_table(offsets)])
    return 1 if failed else 0


def plan_of(
    source: GroupSource, args: argparse.Namespace, group: GroupView, by_file: Mapping[TopicPartition, int]
) -> ResetPlan:
    """The new offsets of one group."""
    to = target_of(args)
    if to is To.FILE:
        partitions = sorted(by_file)
    elif args.all_topics:
        partitions = sorted(group.committed)
    else:
        partitions = choose(parse_scope(args.topic), source.partitions())
    by_time: dict[TopicPartition, int] = {}
    if to in (To.DATETIME, To.DURATION):
        now = time.time_ns() // 1_000_000
        moment = now - parse_duration(args.by_duration) if args.by_duration else parse_datetime(args.to_datetime)
        by_time = source.log_offsets(partitions, max(moment, 0))  # below zero are names of special offsets
    facts = Facts(
        group.committed,
        source.log_offsets(partitions, EARLIEST),
        source.log_offsets(partitions, LATEST),
        by_time,
    )
    return make_plan(to, partitions, facts, args.to_offset or args.shift_by or 0, by_file)


def delete(source: GroupSource, args: argparse.Namespace) -> int:
    """``--delete``."""
    outcomes: dict[str, ErrorCode] = {}
    for group in source.describe(wanted(source, args), offsets=False):
        # No coordinator knows ZooKeeper consumers: only this command sees in ZooKeeper that they are alive.
        alive = any(member.is_old for member in group.members)
        outcomes[group.name] = ErrorCode.NON_EMPTY_GROUP if alive else source.delete(group.name)
    good = [name for name, code in outcomes.items() if code is ErrorCode.NONE]
    bad = {name: code.name for name, code in outcomes.items() if code is not ErrorCode.NONE}
    if args.json:
        print_json([{"group": name, "error": bad.get(name)} for name in outcomes])
    elif not bad:
        names = "', '".join(good)
        print(f"Deletion of requested consumer groups ('{names}') was successful.")
    else:
        complain("Error: Deletion of some consumer groups failed:")
        for name, error in bad.items():
            complain(f"* Group '{name}' could not be deleted due to: {error}")
        if good:
            names = "', '".join(good)
            print(f"\nThese consumer groups were deleted successfully: '{names}'")
    return 1 if bad else 0


def delete_offsets(source: GroupSource, args: argparse.Namespace) -> int:
    """``--delete-offsets``."""
    [group] = source.describe(args.group, offsets=False)
    partitions = choose(parse_scope(args.topic), source.partitions())
    read = {tp.topic for member in group.members if member.is_old for tp in member.partitions}
    codes = {tp: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC for tp in partitions if tp.topic in read}
    free = [tp for tp in partitions if tp not in codes]
    codes |= source.delete_offsets(group.name, free) if free else {}
    bad = {tp: code.name for tp, code in codes.items() if code is not ErrorCode.NONE}
    if args.json:
        print_json([place(group.name, tp) | {"error": bad.get(tp)} for tp in sorted(codes)])
    else:
        if not bad:
            print(f"Request succeed for deleting offsets with topic {', '.join(args.topic)} group {group.name}")
        status = {tp: f"Error: {bad[tp]}" if tp in bad else "Successful" for tp in sorted(codes)}
        rows = [[tp.topic, tp.partition, text] for tp, text in status.items()]
        show(["", *table(["TOPIC", "PARTITION", "STATUS"], rows, [30, 15, 15])])
    return 1 if bad else 0


def target_of(args: argparse.Namespace) -> To:
    """The one target of ``--reset-offsets``. Raises :class:`UsageError` if there is none."""
    for to in To:
        value = getattr(args, to.value.replace("-", "_"))
        if value is not None and value is not False:
            return to
    raise UsageError(f"--reset-offsets takes one of {', '.join(f'--{to.value}' for to in To)}")


def wanted(source: GroupSource, args: argparse.Namespace) -> list[str]:
    """The groups that the flags name."""
    names = [name for name, _, _ in source.listing()] if args.all_groups else args.group
    return list(dict.fromkeys(names))


def succeeded(codes: Mapping[TopicPartition, ErrorCode]) -> bool:
    """Whether every partition was written; prints those that were not."""
    bad = {tp: code for tp, code in codes.items() if code is not ErrorCode.NONE}
    for tp, code in bad.items():
        complain(f"Error: {tp}: {code.name}")
    return not bad


def place(group: str, tp: TopicPartition) -> dict[str, object]:
    """A group's partition in the form of ``--json``."""
    return {"group": group, "topic": tp.topic, "partition": tp.partition}


def show(lines: list[str]) -> None:
    """Print lines."""
    for line in lines:
        print(line)


def complain(text: str) -> None:
    """Print a remark to the standard error, so that it stays out of the tables."""
    print(text, file=sys.stderr)

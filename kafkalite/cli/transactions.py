"""``kafkalite transactions``: list, describe, end and find transactions.

Answers to: ``bin/kafka-transactions.sh``, ``org.apache.kafka.tools.TransactionsCommand`` (3.9; of later ones,
``forceTerminateTransaction``). Reactor shell (the client library's loop).

In addition to Kafka's: ``commit``, and ``abort`` by transactional id, end a transaction that its producer prepared and
left (the idea of KIP-939). They need transactional id, producer id and epoch, which ``describe`` prints.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalite.cli.clients import admin_client, print_json
from kafkalite.cli.main import UsageError
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition

if TYPE_CHECKING:
    from kafkalite.cli.transaction_queries import (
        ActiveProducer,
        Description,
        Listing,
        OpenTransaction,
        TransactionAdmin,
    )

LISTED = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
DESCRIBED = (
    "CoordinatorId",
    "TransactionalId",
    "ProducerId",
    "ProducerEpoch",
    "TransactionState",
    "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "TopicPartitions",
)
PRODUCERS = (
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
)
HANGING = (
    "Topic",
    "Partition",
    "ProducerId",
    "ProducerEpoch",
    "CoordinatorEpoch",
    "StartOffset",
    "LastTimestamp",
    "Duration(min)",
)
MINUTE_MS = 60000
EXAMPLES = (
    "kafkalite transactions list --bootstrap-server localhost:9092 --duration-filter 60000",
    "kafkalite transactions describe --bootstrap-server localhost:9092 --transactional-id loader",
    "kafkalite transactions describe-producers --bootstrap-server localhost:9092 --topic flights --partition 0",
    "kafkalite transactions abort --bootstrap-server localhost:9092 --topic flights --partition 0 --start-offset 42",
    (
        "kafkalite transactions commit --bootstrap-server localhost:9092 "
        "--transactional-id loader --producer-id 7 --producer-epoch 0"
    ),
    "kafkalite transactions find-hanging --bootstrap-server localhost:9092 --broker-id 1",
    "kafkalite transactions forceTerminateTransaction --bootstrap-server localhost:9092 --transactional-id loader",
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``transactions`` with the commands and flags of ``kafka-transactions.sh``."""
    parser = subparsers.add_parser("transactions", help="list, describe, end and find transactions")
    add_common(parser, None)
    commands = parser.add_subparsers(dest="action", metavar="COMMAND", required=True)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text)
        add_common(added, argparse.SUPPRESS)
        return added

    lister = command("list", "list transactions")
    lister.add_argument(
        "--duration-filter", type=int, default=-1, metavar="MS", help="only transactions running longer (-1: all)"
    )
    describer = command("describe", "describe the state of an active transactional id")
    describer.add_argument("--transactional-id", required=True)
    producers = command("describe-producers", "describe the active producers of a partition")
    producers.add_argument("--broker-id", type=int, help="ask this replica instead of the leader")
    producers.add_argument("--topic", required=True)
    producers.add_argument("--partition", type=int, required=True)
    aborter = command("abort", "abort a hanging transaction, or one that was prepared and left")
    aborter.add_argument("--topic")
    aborter.add_argument("--partition", type=int)
    aborter.add_argument("--start-offset", type=int, help="where the hanging transaction begins")
    aborter.add_argument("--coordinator-epoch", type=int)
    committer = command("commit", "commit a transaction that was prepared and left")
    for each, required in ((aborter, False), (committer, True)):
        each.add_argument("--transactional-id", required=required)
        each.add_argument("--producer-id", type=int, required=required)
        each.add_argument("--producer-epoch", type=int, required=required)
    finder = command("find-hanging", "find hanging transactions")
    finder.add_argument("--broker-id", type=int, help="search what this broker has a replica of")
    finder.add_argument(
        "--max-transaction-timeout", type=int, default=15, metavar="MINUTES", help="what is younger is not hanging (15)"
    )
    finder.add_argument("--topic", help="search this topic (required if --partition is given)")
    finder.add_argument("--partition", type=int)
    forcer = command(
        "forceTerminateTransaction", "abort the open transaction of a transactional id, and fence its producer"
    )
    forcer.add_argument("--transactional-id", "--transactionalId", required=True)


def add_common(parser: argparse.ArgumentParser, default: str | None) -> None:
    """The flags that may stand before the command, as Kafka requires, or after it."""
    parser.add_argument("--bootstrap-server", default=default, metavar="HOST:PORT,…")
    parser.add_argument("--command-config", default=default, type=Path, metavar="FILE", help="client properties")
    parser.add_argument("--json", default=default or False, action="store_true", help="print JSON, for scripts")


def run(args: argparse.Namespace) -> int:
    """Run the command of the arguments."""
    from kafkalite.cli.transaction_queries import TransactionAdmin

    if args.bootstrap_server is None:
        raise UsageError("--bootstrap-server is required")
    if args.action == "find-hanging":
        if args.topic is None and args.broker_id is None:
            raise UsageError("find-hanging needs --topic or --broker-id, which limit the search")
        if args.topic is None and args.partition is not None:
            raise UsageError("--partition needs --topic")
    elif args.action == "abort":
        check_abort(args)
    with admin_client(args) as client:
        return ACTIONS[args.action](TransactionAdmin(client), args)


def check_abort(args: argparse.Namespace) -> None:
    """Raise :class:`UsageError` if the flags of ``abort`` do not identify the transaction."""
    exact = (args.producer_id, args.producer_epoch)
    if args.transactional_id is not None:
        if None in exact:
            raise UsageError("abort --transactional-id needs --producer-id and --producer-epoch")
    elif args.topic is None or args.partition is None:
        raise UsageError("abort needs --topic and --partition, or --transactional-id")
    elif args.start_offset is None and (None in exact or args.coordinator_epoch is None):
        raise UsageError("abort needs --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch")


def print_list(admin: TransactionAdmin, args: argparse.Namespace) -> int:
    """``list``."""
    found: Sequence[Listing] = admin.listings(args.duration_filter)
    if args.json:
        print_json([asdict(one) for one in found])
    else:
        print_rows(LISTED, [[one.transactional_id, one.coordinator, one.producer_id, one.state] for one in found])
    return 0


def print_description(admin: TransactionAdmin, args: argparse.Namespace) -> int:
    """``describe``."""
    found: Description | None = admin.describe(args.transactional_id)
    if found is None:
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"no coordinator knows `{args.transactional_id}`")
    begun = found.start_time_ms >= 0
    if args.json:
        fields = asdict(found) | {"partitions": [str(tp) for tp in found.partitions]}
        print_json(fields | {"start_time_ms": found.start_time_ms if begun else None})
        return 0
    row = [
        found.coordinator,
        found.transactional_id,
        found.producer_id,
        found.producer_epoch,
        found.state,
        found.timeout_ms,
        found.start_time_ms if begun else None,
        int(time.time() * 1000) - found.start_time_ms if begun else None,
        ",".join(map(str, found.partitions)),
    ]
    print_rows(DESCRIBED, [row])
    return 0


def print_producers(admin: TransactionAdmin, args: argparse.Namespace) -> int:
    """``describe-producers``."""
    tp = TopicPartition(args.topic, args.partition)
    rows = [
        [
            one.producer_id,
            one.producer_epoch,
            one.coordinator_epoch,
            one.last_sequence,
            one.last_timestamp,
            one.start_offset if one.start_offset >= 0 else None,
        ]
        for one in admin.producers([tp], args.broker_id)[tp]
    ]
    if args.json:
        names = ("producer_id", "producer_epoch", "coordinator_epoch", "last_sequence", "last_timestamp")
        print_json([dict(zip((*names, "start_offset"), row, strict=True)) for row in rows])
    else:
        print_rows(PRODUCERS, rows)
    return 0


def print_hanging(admin: TransactionAdmin, args: argparse.Namespace) -> int:
    """``find-hanging``."""
    longest_ms = args.max_transaction_timeout * MINUTE_MS
    found: Sequence[OpenTransaction] = admin.find_hanging(args.topic, args.partition, args.broker_id, longest_ms)
    if args.json:
        print_json([tp._asdict() | asdict(one) for tp, one in found])
        return 0
    now_ms = int(time.time() * 1000)
    rows = [
        [
            tp.topic,
            tp.partition,
            one.producer_id,
            one.producer_epoch,
            one.coordinator_epoch,
            one.start_offset,
            one.last_timestamp,
            (now_ms - one.last_timestamp) // MINUTE_MS,
        ]
        for tp, one in found
    ]
    print_rows(HANGING, rows)
    return 0


def abort(admin: TransactionAdmin, args: argparse.Namespace) -> int:
    """``abort``: by transactional id through its coordinator, otherwise by a marker in the partition."""
    if args.transactional_id is not None:
        admin.end(args.transactional_id, args.producer_id, args.producer_epoch, commit=False)
        return done(args)
    tp = TopicPartition(args.topic, args.partition)
    producer_id, producer_epoch, epoch = args.producer_id, args.producer_epoch, args.coordinator_epoch
    if args.start_offset is not None:
        found: list[ActiveProducer] = [
            one for one in admin.producers([tp])[tp] if one.start_offset == args.start_offset
        ]
        if not found:
            raise ValueError(f"no open transaction starts at offset {args.start_offset} of partition {tp}")
        producer_id, producer_epoch, epoch = found[0].producer_id, found[0].producer_epoch, found[0].coordinator_epoch
    # Without a finished transaction of the producer no coordinator epoch is known: 0 is below every coordinator's.
    admin.write_abort_marker(tp, producer_id, producer_epoch, max(epoch, 0))
    return done(args)


def commit(admin: TransactionAdmin, args: argparse.Namespace) -> int:
    """``commit``."""
    admin.end(args.transactional_id, args.producer_id, args.producer_epoch, commit=True)
    return done(args)


def force(admin: TransactionAdmin, args: argparse.Namespace) -> int:
    """``forceTerminateTransaction``."""
    if admin.describe(args.transactional_id) is None:
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"no coordinator knows `{args.transactional_id}`")
    admin.fence(args.transactional_id)
    return done(args)


def done(args: argparse.Namespace) -> int:
    """Print nothing, as Kafka's tool does; with ``--json`` one value, because scripts parse the output."""
    if args.json:
        print_json({"done": True})
    return 0


def print_rows(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table exactly as Kafka's tool prints it: padded cells, a tab behind each."""
    texts = [list(headers), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(headers))]
    for row in texts:
        print("".join(cell.ljust(width) + "\t" for cell, width in zip(row, widths, strict=True)))


ACTIONS = {
    "list": print_list,
    "describe": print_description,
    "describe-producers": print_producers,
    "find-hanging": print_hanging,
    "abort": abort,
    "commit": commit,
    "forceTerminateTransaction": force,
}

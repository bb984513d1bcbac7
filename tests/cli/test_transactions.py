"""``kafkalite transactions``: which flags go together, what is shown, what hangs, and what is asked again."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalite.cli.main import UsageError, build_parser
from kafkalite.cli.transaction_queries import (
    ActiveProducer,
    Description,
    Listing,
    OpenTransaction,
    TransactionAdmin,
    hanging,
    open_since,
)
from kafkalite.cli.transactions import ACTIONS, check_abort, run
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.types import TopicPartition

TP = TopicPartition("t", 1)
OPEN = ActiveProducer(7, 2, -1, 5, 1_000_000, 40)
IDLE = ActiveProducer(8, 0, 3, 5, 1_000_000, -1)
ONGOING = Description(2, "tid", 7, 2, "Ongoing", 60000, 1_000_000, (TP, TopicPartition("u", 0)))


def parse(*arguments: str) -> argparse.Namespace:
    return build_parser("transactions").parse_args(["transactions", *arguments])


class Answers:
    """In place of :class:`TransactionAdmin`."""

    def __init__(self, description: Description | None = ONGOING, hanging: Sequence[OpenTransaction] = ()) -> None:
        self.description = description
        self.hanging = hanging
        self.done: list[tuple[Any, ...]] = []

    def listings(self, duration_filter_ms: int) -> list[Listing]:
        self.done.append(("list", duration_filter_ms))
        return [Listing("tid", 2, 7, "Ongoing"), Listing("another one", 11, 1234567890, "CompleteCommit")]

    def describe(self, _: str) -> Description | None:
        return self.description

    def producers(self, partitions: list[TopicPartition], broker: int | None = None) -> dict[TopicPartition, Any]:
        self.done.append(("producers", broker))
        return {tp: [OPEN, IDLE] for tp in partitions}

    def find_hanging(self, *arguments: Any) -> Sequence[OpenTransaction]:
        self.done.append(("hanging", *arguments))
        return self.hanging

    def write_abort_marker(self, *arguments: Any) -> None:
        self.done.append(("marker", *arguments))

    def end(self, *arguments: Any, commit: bool) -> None:
        self.done.append(("end", *arguments, commit))

    def fence(self, *arguments: Any) -> None:
        self.done.append(("fence", *arguments))


def act(answers: Answers, *arguments: str) -> int:
    args = parse(*arguments)
    return ACTIONS[args.action](answers, args)  # type: ignore[arg-type]


def test_flags_stand_before_or_behind_the_command() -> None:
    before = parse("--bootstrap-server", "a:1", "--json", "list")
    behind = parse("list", "--bootstrap-server", "a:1", "--json")
    assert (before.bootstrap_server, before.json) == (behind.bootstrap_server, behind.json) == ("a:1", True)
    assert parse("list").json is False


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("list",), "--bootstrap-server is required"),
        (("--bootstrap-server", "a:1", "find-hanging"), "needs --topic or --broker-id"),
        (("--bootstrap-server", "a:1", "find-hanging", "--broker-id", "1", "--partition", "0"), "needs --topic"),
        (
            ("--bootstrap-server", "a:1", "abort", "--topic", "t"),
            "needs --topic and --partition, or --transactional-id",
        ),
    ],
)
def test_flags_that_are_refused(arguments: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        run(parse(*arguments))


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--topic t --partition 0", "needs --start-offset, or --producer-id"),
        ("--topic t --partition 0 --producer-id 1 --producer-epoch 0", "and --coordinator-epoch"),
        ("--transactional-id x --producer-id 1", "needs --producer-id and --producer-epoch"),
        ("--topic t --partition 0 --start-offset 5", ""),
        ("--topic t --partition 0 --producer-id 1 --producer-epoch 0 --coordinator-epoch 0", ""),
        ("--transactional-id x --producer-id 0 --producer-epoch 0", ""),
    ],
)
def test_which_transaction_to_abort(flags: str, says: str) -> None:
    args = parse("abort", *flags.split())
    if says:
        with pytest.raises(UsageError, match=says):
            check_abort(args)
    else:
        check_abort(args)


def test_tables_are_those_of_kafka(capsys: pytest.CaptureFixture[str]) -> None:
    act(Answers(), "list", "--duration-filter", "5")
    assert capsys.readouterr().out.splitlines() == [
        "TransactionalId\tCoordinator\tProducerId\tTransactionState\t",
        "tid            \t2          \t7         \tOngoing         \t",
        "another one    \t11         \t1234567890\tCompleteCommit  \t",
    ]
    act(Answers(), "describe-producers", "--topic", "t", "--partition", "1", "--broker-id", "3")
    [_, *rows] = [[cell.strip() for cell in line.split("\t")[:-1]] for line in capsys.readouterr().out.splitlines()]
    assert rows == [["7", "2", "-1", "5", "1000000", "40"], ["8", "0", "3", "5", "1000000", "None"]]
    act(Answers(), "describe", "--transactional-id", "tid")
    [row] = [line.split("\t") for line in capsys.readouterr().out.splitlines()[1:]]
    assert [cell.strip() for cell in (*row[:7], row[8])] == [
        *("2", "tid", "7", "2", "Ongoing", "60000", "1000000", "t-1,u-0"),
    ]
    assert int(row[7]) > 1_000_000


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    never = Description(1, "tid", 7, 0, "Empty", 60000, -1, ())
    act(Answers(never), "--json", "describe", "--transactional-id", "tid")
    said = json.loads(capsys.readouterr().out)
    assert (said["start_time_ms"], said["partitions"], said["state"]) == (None, [], "Empty")
    act(Answers(hanging=[(TP, OPEN)]), "--json", "find-hanging", "--topic", "t")
    [found] = json.loads(capsys.readouterr().out)
    assert (found["topic"], found["partition"], found["start_offset"]) == ("t", 1, 40)
    act(Answers(), "--json", "commit", "--transactional-id", "x", "--producer-id", "1", "--producer-epoch", "0")
    assert json.loads(capsys.readouterr().out) == {"done": True}


@pytest.mark.parametrize(
    ("arguments", "done"),
    [
        # Of a producer without a marker no epoch is known: 0.
        ("abort --topic t --partition 1 --start-offset 40", ("marker", TP, 7, 2, 0)),
        (
            "abort --topic t --partition 1 --producer-id 9 --producer-epoch 3 --coordinator-epoch 4",
            ("marker", TP, 9, 3, 4),
        ),
        ("abort --transactional-id x --producer-id 9 --producer-epoch 3", ("end", "x", 9, 3, False)),
        ("commit --transactional-id x --producer-id 9 --producer-epoch 3", ("end", "x", 9, 3, True)),
        ("forceTerminateTransaction --transactional-id x", ("fence", "x")),
        ("find-hanging --broker-id 4 --max-transaction-timeout 2", ("hanging", None, None, 4, 120000)),
    ],
)
def test_what_is_done(arguments: str, done: tuple[Any, ...]) -> None:
    answers = Answers()
    assert act(answers, *arguments.split()) == 0
    assert answers.done[-1] == done


def test_what_is_not_there() -> None:
    with pytest.raises(ValueError, match="no open transaction starts at offset 41 of partition t-1"):
        act(Answers(), "abort", "--topic", "t", "--partition", "1", "--start-offset", "41")
    for command in ("describe", "forceTerminateTransaction"):
        answers = Answers(None)
        with pytest.raises(ApiError, match="no coordinator knows `x`"):
            act(answers, command, "--transactional-id", "x")
        assert not answers.done


def test_candidates_are_open_and_silent() -> None:
    found = open_since({TP: [OPEN, IDLE]}, 500, 1_000_501)
    assert found == [(TP, OPEN)]
    assert not open_since({TP: [OPEN]}, 500, 1_000_500)


@pytest.mark.parametrize(
    ("ids", "descriptions", "hangs"),
    [
        ({}, {}, True),
        ({7: "tid"}, {"tid": None}, True),
        ({7: "tid"}, {"tid": ONGOING}, False),
        ({7: "tid"}, {"tid": Description(2, "tid", 7, 2, "Ongoing", 1, 1, (TopicPartition("u", 0),))}, True),
        ({8: "tid"}, {"tid": ONGOING}, True),
    ],
)
def test_what_hangs(ids: dict[int, str], descriptions: dict[str, Description | None], hangs: bool) -> None:
    """No coordinator knows the producer, or not with this partition: no marker will come."""
    assert bool(hanging([(TP, OPEN)], ids, descriptions)) is hangs


class Library:
    """kafka-python's admin client: ``answer`` says what a request to a broker gets."""

    def __init__(self, answer: Callable[[Any, int | None], Any], leader: int = 2) -> None:
        self.answer = answer
        self.leader = leader
        self.asked: list[tuple[str, int | None]] = []
        self._manager = self
        self.cluster = SimpleNamespace(brokers=lambda: [SimpleNamespace(node_id=n) for n in (2, 1)])

    def run(self, _: Any, __: Any, request: Any, where: dict[str, int]) -> Any:
        broker = where.get("node_id")
        name = type(request).__name__
        self.asked.append((name, broker))
        if name == "FindCoordinatorRequest":
            return SimpleNamespace(coordinators=[SimpleNamespace(error_code=0, node_id=2)])
        return self.answer(request, broker)

    def describe_topics(self, topics: list[str] | None) -> list[dict[str, Any]]:
        names = ["t"] if topics is None else topics
        partitions = [
            {"partition_index": n, "leader_id": self.leader, "replica_nodes": [self.leader], "error_code": 0}
            for n in range(2)
        ]
        return [{"name": name, "error_code": 0, "partitions": partitions} for name in names]


def test_a_coordinator_on_the_move_is_asked_again() -> None:
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE]
    library = Library(lambda *_: SimpleNamespace(error_code=int(codes.pop(0))))
    naps: list[float] = []
    TransactionAdmin(library, naps.append).end("x", 1, 0, commit=True)
    assert library.asked == [("FindCoordinatorRequest", None), ("EndTxnRequest", 2)] * 3
    assert len(naps) == 2


def test_other_errors_are_raised_at_once() -> None:
    library = Library(lambda *_: SimpleNamespace(error_code=int(ErrorCode.INVALID_TXN_STATE)))
    with pytest.raises(ApiError, match="INVALID_TXN_STATE: x"):
        TransactionAdmin(library).fence("x")
    assert len(library.asked) == 2


def test_every_broker_lists() -> None:
    def answer(request: Any, broker: int | None) -> Any:
        assert request.producer_id_filters == [3, 4]
        state = SimpleNamespace(transactional_id=f"of {broker}", producer_id=3, transaction_state="Empty")
        return SimpleNamespace(error_code=0, transaction_states=[state])

    listed = TransactionAdmin(Library(answer)).listings(producer_ids=[4, 3])
    assert [(one.transactional_id, one.coordinator) for one in listed] == [("of 1", 1), ("of 2", 2)]


def test_producers_are_asked_of_leaders_or_of_one_replica() -> None:
    def answer(request: Any, _: int | None) -> Any:
        rows = [
            SimpleNamespace(
                name=topic.name,
                partitions=[
                    SimpleNamespace(partition_index=n, error_code=0, active_producers=[])
                    for n in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
        return SimpleNamespace(topics=rows)

    library = Library(answer, leader=5)
    partitions = [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert TransactionAdmin(library).producers(partitions) == {tp: [] for tp in partitions}
    TransactionAdmin(library).producers(partitions, 9)
    assert library.asked == [("DescribeProducersRequest", 5), ("DescribeProducersRequest", 9)]
    with pytest.raises(ApiError, match="UNKNOWN_TOPIC_OR_PARTITION: t-7"):
        TransactionAdmin(library).producers([TopicPartition("t", 7)])


def test_an_unknown_transactional_id() -> None:
    state = SimpleNamespace(error_code=int(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND))
    assert TransactionAdmin(Library(lambda *_: SimpleNamespace(transaction_states=[state]))).describe("x") is None

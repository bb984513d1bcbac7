"""The checker finds nothing in histories that are as they should be, and every kind of thing that is planted."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from kafkalite.testing.history.breaches import MOST_OF_A_RULE, Breach, Rule
from kafkalite.testing.history.checker import check
from kafkalite.testing.history.events import (
    Aborted,
    Acked,
    Begun,
    Committed,
    Committing,
    Compacted,
    Deleting,
    Event,
    GroupRemoved,
    Isolation,
    LogEntry,
    OffsetCommitted,
    OffsetCommitting,
    Owned,
    Positioned,
    ProducerKind,
    Reached,
    Read,
    RecordId,
    Replica,
    Sent,
    Started,
    Syncing,
    Unknown,
)
from tests.testing.history.model import valid_history
from tests.testing.history.mutations import MUTATIONS, Mutation

SEEDS = range(5)


@pytest.mark.parametrize("seed", range(30))
def test_valid_histories_pass(seed: int) -> None:
    history = valid_history(seed)
    assert check(history) == []
    # Without replicas the checker takes the read records for the logs.
    assert check(event for event in history if not isinstance(event, Replica)) == []


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.plant.__name__)
def test_every_planted_breach_is_found(mutation: Mutation) -> None:
    for seed in SEEDS:
        history = valid_history(seed, 700)
        place = mutation.plant(history, random.Random(seed))
        found = check(history)
        assert any(breach.rule is mutation.rule and place in breach.text for breach in found), (seed, place, found)


def test_every_rule_is_broken_by_some_mutation() -> None:
    assert {mutation.rule for mutation in MUTATIONS} == set(Rule)


FIRST, SECOND = RecordId("p", 1), RecordId("p", 2)
READ = Isolation.READ_UNCOMMITTED


@pytest.mark.parametrize(
    ("kind", "fates", "log", "rules"),
    [
        pytest.param(ProducerKind.PLAIN, [0, 1], [FIRST, SECOND], set(), id="as it should be"),
        pytest.param(ProducerKind.PLAIN, [1, 2], [FIRST, FIRST, SECOND], set(), id="a plain producer's retry"),
        pytest.param(ProducerKind.PLAIN, [0, 1], [FIRST, SECOND, FIRST], set(), id="a late one"),
        pytest.param(ProducerKind.IDEMPOTENT, [0, 1], [FIRST, SECOND, FIRST], {Rule.ONCE}, id="not of an idempotent"),
        pytest.param(ProducerKind.IDEMPOTENT, [None, 0], [SECOND], set(), id="unknown and not there"),
        pytest.param(ProducerKind.IDEMPOTENT, [None, 1], [FIRST, SECOND], set(), id="unknown and there"),
        pytest.param(ProducerKind.IDEMPOTENT, [None, 0], [SECOND, FIRST], {Rule.ORDER}, id="unknown and too late"),
        pytest.param(ProducerKind.IDEMPOTENT, [-1, 1], [FIRST, SECOND], set(), id="acknowledged somewhere"),
        pytest.param(ProducerKind.IDEMPOTENT, [-1, 0], [SECOND], {Rule.KEPT}, id="acknowledged somewhere and lost"),
        pytest.param(ProducerKind.PLAIN, [0, 0], [FIRST], {Rule.KEPT}, id="two at one offset"),
        pytest.param(ProducerKind.PLAIN, [0, 1], [], {Rule.KEPT}, id="nothing is there"),
    ],
)
def test_valid_logs_have_no_violation(
    kind: ProducerKind, fates: list[int | None], log: list[RecordId], rules: set[Rule]
) -> None:
    history: list[Event] = [Started("p", kind)]
    for record, offset in zip((FIRST, SECOND), fates, strict=True):
        history.append(Sent(record, "t-0"))
        history.append(Unknown(record) if offset is None else Acked(record, "t-0", offset))
    history += [Read("reader", READ, "t-0", offset, record) for offset, record in enumerate(log)]
    assert {breach.rule for breach in check(history)} == rules


@pytest.mark.parametrize(
    ("started", "first", "rules"),
    [
        (Started("p", ProducerKind.PLAIN), Acked(FIRST, "t-0", 1), {Rule.ORDER}),
        (Started("p", ProducerKind.PLAIN), Unknown(FIRST), set()),
        (Started("p", ProducerKind.PLAIN), None, {Rule.ORDER}),
        (Started("p", ProducerKind.PLAIN, ordered=False), Acked(FIRST, "t-0", 1), set()),
        (Started("p", ProducerKind.IDEMPOTENT, ordered=False), Unknown(FIRST), {Rule.ORDER}),
    ],
)
def test_which_producers_keep_the_order_of_their_records(
    started: Started, first: Event | None, rules: set[Rule]
) -> None:
    history: list[Event] = [started, Sent(FIRST, "t-0"), Sent(SECOND, "t-0"), Acked(SECOND, "t-0", 0)]
    history += [] if first is None else [first]
    history += [Read("reader", READ, "t-0", offset, record) for offset, record in enumerate((SECOND, FIRST))]
    assert {breach.rule for breach in check(history)} == rules


def test_a_reader_that_is_told_that_there_is_nothing_more() -> None:
    sent: list[Event] = [Sent(FIRST, "t-0"), Acked(FIRST, "t-0", 0)]
    other: list[Event] = [Read("other", READ, "t-0", 0, FIRST)]
    told: list[Event] = [Positioned("reader", "t-0", 0), Reached("reader", READ, "t-0", 1)]
    assert check([*sent, *other, *told]) == [
        Breach(Rule.COMPLETE, "p#1 in t-0 at offset 0: reader passed over it"),
    ]
    assert check([*sent, *other, told[0]]) == []


@pytest.mark.parametrize(
    ("aborted", "given", "rules"),
    [
        ((), SECOND, set()),
        ((), FIRST, {Rule.COMPLETE}),
        ((1,), SECOND, set()),
        ((2,), SECOND, {Rule.COMPLETE}),
        ((2,), FIRST, set()),
    ],
)
def test_compaction_takes_aborted_records_and_those_that_a_visible_one_follows(
    aborted: tuple[int, ...], given: RecordId, rules: set[Rule]
) -> None:
    history: list[Event] = [Compacted("t"), Started("p", ProducerKind.TRANSACTIONAL)]
    for number, record in ((1, FIRST), (2, SECOND)):
        history += [Begun("p", number), Sent(record, "t-0", number, "key"), Acked(record, "t-0", number - 1)]
        history += [Aborted("p", number)] if number in aborted else [Committing("p", number), Committed("p", number)]
    history += [Read("other", READ, "t-0", 0, FIRST), Read("other", READ, "t-0", 1, SECOND)]
    history += [Positioned("reader", "t-0", 0), Read("reader", READ, "t-0", given.number - 1, given)]
    history.append(Reached("reader", READ, "t-0", 2))
    assert {breach.rule for breach in check(history)} == rules


def test_a_violation_is_one_line_and_their_number_is_limited() -> None:
    history = valid_history(1)
    nothing_left = [event._replace(entries=()) if isinstance(event, Replica) else event for event in history]
    found = check(nothing_left)
    assert sum(breach.rule is Rule.KEPT for breach in found) == MOST_OF_A_RULE
    assert all(str(breach).startswith(f"{breach.rule.name}: ") and "\n" not in str(breach) for breach in found)


def executed_lines(call: Callable[[], object]) -> int:
    """How many lines ``call`` executes, because its seconds depend on the machine and on the load of the machine."""
    lines = 0

    def count(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    former = sys.gettrace()
    sys.settrace(count)
    try:
        call()
    finally:
        sys.settrace(former)
    return lines


def test_cost_grows_with_the_history_not_with_its_square() -> None:
    small, large = valid_history(0, 400), valid_history(0, 4_000)
    growth = len(large) / len(small)
    assert growth > 8
    of_small, of_large = executed_lines(lambda: check(small)), executed_lines(lambda: check(large))
    assert of_large < 1.5 * growth * of_small


def test_an_event_costs_at_most_fifty_lines() -> None:
    history = valid_history(1, 1_000)
    assert len(history) > 5_000
    lines = executed_lines(lambda: check(history))
    assert lines / len(history) < 50


def test_a_removed_group_begins_its_generations_at_1() -> None:
    before, after = Owned("g", 1, "first", ("t-0",)), Owned("g", 1, "second", ("t-0",))
    assert check([before, GroupRemoved("g"), after]) == []
    assert [breach.rule for breach in check([before, GroupRemoved("other"), after])] == [Rule.OWNER]


def test_an_assignment_belongs_to_the_group_of_its_request() -> None:
    """A paused member reads its assignment after its group was removed."""
    late, new = Owned("g", 1, "late", ("t-0",)), Owned("g", 1, "new", ("t-0",))
    ask_late, ask_new = Syncing("g", "late"), Syncing("g", "new")
    assert check([ask_late, GroupRemoved("g"), ask_new, new, late]) == []
    for requests in ([ask_late, ask_new], [ask_late, GroupRemoved("g"), ask_late, ask_new]):
        assert [breach.rule for breach in check([*requests, new, late])] == [Rule.OWNER]


def test_an_assignment_of_a_removed_group_ends_no_generation() -> None:
    late, committed = Owned("g", 5, "late", ()), ("g", "t-0", 1, 1)
    begun: list[Event] = [Owned("g", 1, "new", ("t-0",)), OffsetCommitting(*committed)]
    assert check([Syncing("g", "late"), GroupRemoved("g"), late, *begun, OffsetCommitted(*committed)]) == []
    found = check([GroupRemoved("g"), late, *begun, OffsetCommitted(*committed)])
    assert [breach.rule for breach in found] == [Rule.GENERATION]


@pytest.mark.parametrize(("start", "rules"), [(1, set()), (0, {Rule.ALIKE})])
def test_replicas_are_compared_from_the_greatest_log_start_offset_on(start: int, rules: set[Rule]) -> None:
    """A follower truncates at most to the leader's log start offset, and keeps what it has below."""
    history: list[Event] = [Started("p", ProducerKind.PLAIN), Sent(FIRST, "t-0"), Sent(SECOND, "t-0")]
    history.append(Deleting("t-0", 1))
    history.append(Replica("t-0", 1, (LogEntry(0, 1, FIRST), LogEntry(1, 3, SECOND)), start))
    history.append(Replica("t-0", 2, (LogEntry(0, 0, FIRST), LogEntry(1, 3, SECOND))))
    assert {breach.rule for breach in check(history)} == rules

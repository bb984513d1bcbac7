"""The checker finds nothing in histories that are as they should be, and every kind of thing that is planted."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

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
    Event,
    GroupRemoved,
    Isolation,
    Owned,
    Positioned,
    ProducerKind,
    Reached,
    Read,
    RecordId,
    Replica,
    Sent,
    Started,
    Unknown,
)
from tests.testing.history.model import valid_history
from tests.testing.history.mutations import MUTATIONS, Mutation

SEEDS = range(5)


@pytest.mark.parametrize("seed", range(30))
def test_valid_histories_pass(seed: int) -> None:
    history = valid_history(seed)
    assert check(history) == []
    # What was read makes the logs, where the replicas are not known.
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
def test_what_a_log_may_hold(
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
        (Started("p", ProducerKind.PLAIN, ordered=False), Acked(FIRST, "t-0", 1), set()),
        (Started("p", ProducerKind.IDEMPOTENT, ordered=False), Unknown(FIRST), {Rule.ORDER}),
    ],
)
def test_who_is_promised_order(started: Started, first: Event, rules: set[Rule]) -> None:
    history: list[Event] = [started, Sent(FIRST, "t-0"), Sent(SECOND, "t-0"), Acked(SECOND, "t-0", 0), first]
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


def test_a_breach_is_one_line_and_there_are_not_too_many() -> None:
    history = valid_history(1)
    nothing_left = [event._replace(entries=()) if isinstance(event, Replica) else event for event in history]
    found = check(nothing_left)
    assert sum(breach.rule is Rule.KEPT for breach in found) == MOST_OF_A_RULE
    assert all(str(breach).startswith(f"{breach.rule.name}: ") and "\n" not in str(breach) for breach in found)


def seconds(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


def test_time_grows_with_the_history_not_with_its_square() -> None:
    small, large = valid_history(0, 2_000), valid_history(0, 20_000)
    assert len(large) > 100_000
    growth = len(large) / len(small)
    assert seconds(lambda: check(large)) < 3 * growth * max(min(seconds(lambda: check(small)) for _ in range(3)), 0.005)


def test_ten_thousand_operations_take_well_under_a_second() -> None:
    history = valid_history(1, 4_000)
    assert len(history) > 20_000
    assert seconds(lambda: check(history)) < 0.5


def test_a_group_that_was_removed_begins_its_generations_anew() -> None:
    before, after = Owned("g", 1, "first", ("t-0",)), Owned("g", 1, "second", ("t-0",))
    assert check([before, GroupRemoved("g"), after]) == []
    assert [breach.rule for breach in check([before, GroupRemoved("other"), after])] == [Rule.OWNER]

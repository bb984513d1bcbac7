"""Exactly once, without a cluster: every table row, and a model of one on which every step is interrupted."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from kafkalite.spark.attempts import Attempt, AttemptDecision, DecisionError, State
from kafkalite.spark.decision import (
    BatchDone,
    Describe,
    End,
    Known,
    Look,
    RecordDecision,
    Step,
    Sweep,
    is_settled,
    next_step,
)

BATCH = 7
A, B, C = (Attempt(BATCH, "aa", task, task, 100 + task, 0) for task in range(3))
A2, B2 = (Attempt(BATCH, "bb", task, task, 200 + task, 0) for task in range(2))
OPEN, COMMITTED, LOST, UNKNOWN = State
OLD = AttemptDecision(BATCH - 1, (Attempt(BATCH - 1, "zz", 0, 0, 1, 0),))
OURS = AttemptDecision(BATCH, (A, B))
LATER = AttemptDecision(BATCH + 1, (Attempt(BATCH + 1, "zz", 0, 0, 1, 0),))
NEW = Known(BATCH, (A2, B2), looked=True)


def states(*of: tuple[Attempt, State]) -> dict[Attempt, State]:
    return dict(of)


@pytest.mark.parametrize(
    ("known", "step"),
    [
        (Known(BATCH, (A, B)), Look()),
        # The batch has no decision.
        (NEW, Describe((A2, B2))),
        (replace(NEW, recorded=OLD), Describe((A2, B2))),
        (replace(NEW, recorded=OLD, states=states((A2, OPEN))), Describe((B2,))),
        (
            replace(NEW, recorded=OLD, states=states((A2, OPEN), (B2, OPEN))),
            RecordDecision(AttemptDecision(BATCH, (A2, B2))),
        ),
        (replace(NEW, proposed=()), Sweep(BATCH)),
        (replace(NEW, proposed=(), swept=True), BatchDone()),
        # The batch has a decision of this commit or of an earlier one.
        (replace(NEW, recorded=OURS), Describe((A, B))),
        (replace(NEW, recorded=OURS, skipped=True, proposed=()), Describe((A, B))),
        (replace(NEW, recorded=OURS, states=states((A, OPEN), (B, OPEN))), End((A, B), commit=True)),
        (replace(NEW, recorded=OURS, states=states((A, COMMITTED), (B, OPEN))), End((B,), commit=True)),
        (replace(NEW, recorded=OURS, states=states((A, COMMITTED), (B, COMMITTED))), Sweep(BATCH, (A, B))),
        (replace(NEW, recorded=OURS, states=states((A, COMMITTED), (B, COMMITTED)), swept=True), BatchDone()),
        # The batch has a decision with lost attempts and no committed one.
        (replace(NEW, recorded=OURS, states=states((A, LOST), (B, OPEN))), End((B,), commit=False)),
        (replace(NEW, recorded=OURS, states=states((A, LOST), (B, LOST))), Describe((A2, B2))),
        (
            replace(NEW, recorded=OURS, states=states((A, LOST), (B, LOST), (A2, OPEN), (B2, OPEN))),
            RecordDecision(AttemptDecision(BATCH, (A2, B2), serial=1)),
        ),
        # Loss that the user accepts.
        (
            replace(NEW, recorded=OURS, states=states((A, LOST), (B, COMMITTED)), accept_loss=True),
            Sweep(BATCH, (A, B)),
        ),
        (
            replace(NEW, recorded=OURS, states=states((A, UNKNOWN), (B, OPEN)), accept_loss=True),
            End((B,), commit=True),
        ),
        (
            replace(NEW, recorded=OURS, states=states((A, LOST), (B, COMMITTED)), accept_loss=True, swept=True),
            BatchDone((A,)),
        ),
        # A later one is: the query was set back.
        (replace(NEW, recorded=LATER), Sweep(BATCH)),
        (replace(NEW, recorded=LATER, swept=True), BatchDone()),
    ],
)
def test_next_step(known: Known, step: Step) -> None:
    assert next_step(known) == step


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (
            replace(NEW, states=states((A2, OPEN), (B2, LOST))),
            r"1 transaction\(s\) \(of tasks 1\) is not open any more",
        ),
        (replace(NEW, states=states((A2, UNKNOWN), (B2, LOST))), "Nothing of the batch is visible"),
        (replace(NEW, proposed=(), skipped=True), "it can be run again"),
        (replace(NEW, proposed=(), skipped=True, recorded=OURS, states=states((A, LOST), (B, LOST))), "run again"),
        (replace(NEW, recorded=OURS, states=states((A, LOST), (B, COMMITTED))), "rows are missing for readers"),
        (replace(NEW, recorded=OURS, states=states((A, UNKNOWN), (B, OPEN))), "rows are missing for readers"),
        (replace(NEW, recorded=OURS, states=states((A, UNKNOWN), (B, LOST))), "rows are missing for readers"),
    ],
)
def test_loss_is_never_silent(known: Known, message: str) -> None:
    with pytest.raises(DecisionError, match=message):
        next_step(known)


def test_an_attempt_need_not_write_what_is_decided() -> None:
    both = states((A, OPEN), (B, COMMITTED))
    assert not is_settled(None, BATCH, {})
    assert not is_settled(OLD, BATCH, {})
    assert is_settled(LATER, BATCH, {})
    assert is_settled(OURS, BATCH, both)
    assert not is_settled(OURS, BATCH, both | states((A, LOST)))
    assert not is_settled(OURS, BATCH, {})


# A model of a cluster, and of everything that may die


class DiedError(Exception):
    """The process is no more."""


@dataclass
class ModelCluster:
    """Transactions and decisions as a cluster keeps them. ``rows`` are each attempt's; of a batch's retry they may be
    divided otherwise."""

    state: dict[Attempt, State] = field(default_factory=dict)
    rows: dict[Attempt, list[int]] = field(default_factory=dict)
    decision: AttemptDecision | None = None
    committer: int = 0
    steps: int = 0

    def attempts(self, batch: int, nonce: str, rows: list[list[int]]) -> tuple[Attempt, ...]:
        """A run's task attempts, all written and open."""
        made = []
        for task, given in enumerate(rows):
            attempt = Attempt(batch, nonce, task, task, len(self.state), 0)
            self.state[attempt] = State.OPEN
            self.rows[attempt] = given
            made.append(attempt)
        return tuple(made)

    def visible(self) -> list[int]:
        return sorted(row for each, state in self.state.items() if state is COMMITTED for row in self.rows[each])

    def time_out(self) -> None:
        for each, state in self.state.items():
            if state is OPEN:
                self.state[each] = LOST


@dataclass
class Driver:
    """A commit that dies after ``lives`` of the cluster's smallest changes."""

    cluster: ModelCluster
    lives: int = 1 << 30
    epoch: int = -1

    def run(self, known: Known) -> Known:
        while not isinstance(step := next_step(known), BatchDone):
            known = self.perform(step, known)
        return known

    def change(self) -> None:
        if not self.lives:
            raise DiedError
        self.lives -= 1
        self.cluster.steps += 1

    def perform(self, step: Step, known: Known) -> Known:
        cluster = self.cluster
        if isinstance(step, Look):
            self.change()
            cluster.committer += 1
            self.epoch = cluster.committer
            return replace(known, looked=True, recorded=cluster.decision)
        if isinstance(step, Describe):
            return known.after({each: cluster.state[each] for each in step.attempts})
        if isinstance(step, RecordDecision):
            if self.epoch != cluster.committer:
                raise DecisionError("fenced")
            self.change()
            cluster.decision = step.decision
            return replace(known, recorded=step.decision)
        if isinstance(step, End):
            found = {}
            for each in step.attempts:
                if cluster.state[each] is OPEN:
                    self.change()
                    cluster.state[each] = COMMITTED if step.commit else LOST
                found[each] = cluster.state[each]
            return known.after(found)
        assert isinstance(step, Sweep)
        for each, state in cluster.state.items():
            if state is OPEN and each.batch_id <= step.batch_id and each not in step.keep:
                self.change()
                cluster.state[each] = LOST
        return replace(known, swept=True)

    def abort(self, batch: int) -> None:
        known = self.perform(Look(), Known(batch))
        if known.recorded is None or known.recorded.batch_id < batch:
            self.perform(Sweep(batch), known)


def interruptions() -> Iterator[tuple[int, int, str]]:
    """Steps that the first commit makes, steps that the second makes, and what happens between them."""
    return itertools.product(range(9), range(9), ["nothing", "abort", "late attempt", "abort dies"])


@pytest.mark.parametrize("repartitioned", [False, True])
def test_each_row_is_visible_once_after_the_death_of_any_process(repartitioned: bool) -> None:
    for first, second, between in interruptions():
        cluster = ModelCluster()
        split = [[1, 2], [3], [4, 5]]
        lives = iter([first, second])
        for run in range(3):
            rows = split if not repartitioned or run == 0 else [[5, 1], [2, 3, 4]]
            attempts = cluster.attempts(BATCH, f"run{run}", rows)
            # Speculation: an attempt whose message never reaches the driver.
            cluster.attempts(BATCH, f"run{run}s", [rows[0]])
            skipped = cluster.decision is not None and run == 2
            driver = Driver(cluster, next(lives, 1 << 30))
            try:
                driver.run(Known(BATCH, () if skipped else attempts, skipped=skipped))
                break
            except DiedError:
                assert cluster.visible() == sorted(set(cluster.visible()))
            if between.startswith("abort"):
                try:
                    Driver(cluster, 2 if between == "abort dies" else 1 << 30).abort(BATCH)
                except DiedError:
                    pass
        assert cluster.visible() == [1, 2, 3, 4, 5], (first, second, between)
        assert OPEN not in cluster.state.values()
        if between == "late attempt":
            # This attempt opens its transaction after the batch was decided, and finds that it is not needed.
            late = cluster.attempts(BATCH, "late", [[1, 2]])
            assert is_settled(cluster.decision, BATCH, cluster.state)
            next_batch = cluster.attempts(BATCH + 1, "next", [[6]])
            # The attempt died before it could find that out; the next batch's commit aborts its transaction.
            Driver(cluster).run(Known(BATCH + 1, next_batch))
            assert cluster.state[late[0]] is LOST
            assert cluster.visible() == [1, 2, 3, 4, 5, 6]


def test_two_commits_at_once_decide_once() -> None:
    """A driver that was considered dead continues, step by step, beside the driver that replaced it."""
    for seed in range(300):
        rng = random.Random(seed)
        cluster = ModelCluster()
        drivers = [Driver(cluster), Driver(cluster)]
        knowns: list[Known | None] = [
            Known(BATCH, cluster.attempts(BATCH, "old", [[1], [2], [3]])),
            Known(BATCH, cluster.attempts(BATCH, "new", [[3, 2], [1]])),
        ]
        failed = 0
        while live := [at for at, known in enumerate(knowns) if known is not None]:
            at = rng.choice(live)
            known = knowns[at]
            assert known is not None
            try:
                step = next_step(known)
                knowns[at] = None if isinstance(step, BatchDone) else drivers[at].perform(step, known)
            except DecisionError:
                failed += 1
                knowns[at] = None
        if failed == 2:
            assert not cluster.visible()
            assert cluster.decision is None
        again = cluster.attempts(BATCH, "again", [[2], [1, 3]])
        Driver(cluster).run(Known(BATCH, again))
        assert cluster.visible() == [1, 2, 3], seed


def test_timeouts_lose_rows_loudly_or_not_at_all() -> None:
    """Without two-phase commit the cluster may abort a transaction while no driver runs that would commit it."""
    for lives in range(6):
        cluster = ModelCluster()
        attempts = cluster.attempts(BATCH, "one", [[1], [2]])
        try:
            Driver(cluster, lives).run(Known(BATCH, attempts))
            done = True
        except DiedError:
            done = False
        cluster.time_out()
        partly = len(cluster.visible()) == 1
        again = Known(BATCH, cluster.attempts(BATCH, "two", [[2, 1]]))
        if partly:
            with pytest.raises(DecisionError, match="rows are missing"):
                Driver(cluster).run(again)
            Driver(cluster).run(replace(again, accept_loss=True))
            assert len(cluster.visible()) == 1
        else:
            Driver(cluster).run(again)
            assert cluster.visible() == [1, 2], (lives, done)
        assert OPEN not in cluster.state.values()

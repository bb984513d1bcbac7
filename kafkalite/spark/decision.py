"""Exactly once: which attempts of a batch count, and the next step to make them visible.

Answers to: nothing in Kafka or Spark (SPARK-28908 was never merged); Flink's ``KafkaCommitter`` is its kin. Pure.

A task attempt writes into a transaction of its own and leaves it open. The driver's commit records, durably and only
once, which attempts are the *winners* of the batch; every later commit completes that decision. A commit that was
interrupted starts again from what the cluster has: the recorded decision, and the states of the winners' transactions.

```
no decision:              all proposed attempts are open: record them, commit them, sweep
                          one is not open: fail, no row of the batch is visible
decision for this batch:  all winners are open or committed: commit the open ones, sweep
                          some are lost, none is committed: abort the open ones, decide again
                          some are lost, some are committed: rows are lost, fail
decision for a later one: sweep
```
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kafkalite.spark.attempts import Attempt, AttemptDecision, DecisionError, State


@dataclass(frozen=True)
class Known:
    """The knowledge of a commit. ``proposed``: the attempts of this run; ``skipped``: its tasks found the batch decided
    and wrote nothing; ``states``: of attempts that were described or ended; ``looked``: the recorded decision was read,
    after all other commits of the query were fenced."""

    batch_id: int
    proposed: tuple[Attempt, ...] = ()
    skipped: bool = False
    accept_loss: bool = False
    looked: bool = False
    recorded: AttemptDecision | None = None
    states: Mapping[Attempt, State] = field(default_factory=dict)
    swept: bool = False

    def after(self, states: Mapping[Attempt, State]) -> Known:
        """The same with ``states`` added."""
        return replace(self, states={**self.states, **states})


@dataclass(frozen=True)
class Look:
    """Initialize the committer's transactional id, which fences all other commits of the query; read the decision."""


@dataclass(frozen=True)
class Describe:
    """Ask for the states of these attempts' transactions."""

    attempts: tuple[Attempt, ...]


@dataclass(frozen=True)
class RecordDecision:
    """Record the decision in the cluster."""

    decision: AttemptDecision


@dataclass(frozen=True)
class End:
    """Commit or abort these attempts' transactions; then the states of those that could not be ended so are known."""

    attempts: tuple[Attempt, ...]
    commit: bool


@dataclass(frozen=True)
class Sweep:
    """Abort and fence all open attempts of this batch and of earlier ones, except ``keep``."""

    batch_id: int
    keep: tuple[Attempt, ...] = ()


@dataclass(frozen=True)
class BatchDone:
    """The rows of the batch are visible. ``lost``: winners whose rows are not; ``failOnDataLoss=false`` accepts it."""

    lost: tuple[Attempt, ...] = ()


Step = Look | Describe | RecordDecision | End | Sweep | BatchDone


def next_step(known: Known) -> Step:
    """The next step of a commit. Raises :class:`DecisionError` if the batch cannot be committed."""
    if not known.looked:
        return Look()
    recorded = known.recorded
    if recorded is not None and recorded.batch_id > known.batch_id:
        return _finish(known, ())
    if recorded is not None and recorded.batch_id == known.batch_id:
        return _carry_out(known, recorded)
    return _decide(known)


def _decide(known: Known, serial: int = 0) -> Step:
    if known.skipped:
        raise DecisionError(
            f"batch {known.batch_id}: its tasks found that it was decided and wrote nothing, but there is no decision "
            "that can be carried out; nothing of it is visible, and it can be run again"
        )
    if not known.proposed:
        return _finish(known, ())
    unseen = tuple(each for each in known.proposed if each not in known.states)
    if unseen:
        return Describe(unseen)
    gone = [each for each in known.proposed if known.states[each] is not State.OPEN]
    if gone:
        raise DecisionError(
            f"batch {known.batch_id}: {_say(gone)} not open any more before the batch was decided: aborted after "
            "transaction.timeout.ms, or by another client. Nothing of the batch is visible, and it can be run again"
        )
    return RecordDecision(AttemptDecision(known.batch_id, known.proposed, serial))


def _carry_out(known: Known, recorded: AttemptDecision) -> Step:
    winners = recorded.winners
    unseen = tuple(each for each in winners if each not in known.states)
    if unseen:
        return Describe(unseen)
    by_state: dict[State, list[Attempt]] = {state: [] for state in State}
    for each in winners:
        by_state[known.states[each]].append(each)
    lost = by_state[State.LOST] + by_state[State.UNKNOWN]
    if lost and not by_state[State.COMMITTED] and not by_state[State.UNKNOWN]:
        # No row of the decision is visible, and none can become visible once the open winners are aborted.
        if by_state[State.OPEN]:
            return End(tuple(by_state[State.OPEN]), commit=False)
        return _decide(known, recorded.serial + 1)
    if lost and not known.accept_loss:
        raise DecisionError(
            f"batch {known.batch_id}: {_say(lost)} decided to be part of it, but can not be committed any more "
            "(aborted after transaction.timeout.ms or by another client, or forgotten by the cluster), while others "
            "are or may be: rows are missing for readers with read_committed. failOnDataLoss=false lets the query go on"
        )
    if by_state[State.OPEN]:
        return End(tuple(by_state[State.OPEN]), commit=True)
    return _finish(known, winners, tuple(lost))


def _finish(known: Known, winners: tuple[Attempt, ...], lost: tuple[Attempt, ...] = ()) -> Step:
    return BatchDone(lost) if known.swept else Sweep(known.batch_id, winners)


def is_settled(decision: AttemptDecision | None, batch_id: int, states: Mapping[Attempt, State]) -> bool:
    """Whether an attempt need not write, because its batch is decided and the decision can be carried out."""
    if decision is None or decision.batch_id < batch_id:
        return False
    if decision.batch_id > batch_id:
        return True
    return all(states.get(each) in (State.OPEN, State.COMMITTED) for each in decision.winners)


def _say(attempts: Iterable[Attempt]) -> str:
    listed = list(attempts)
    tasks = ", ".join(str(each.task) for each in listed[:5])
    more = ", …" if len(listed) > 5 else ""
    verb = "is" if len(listed) == 1 else "are"
    return f"{len(listed)} transaction(s) (of tasks {tasks}{more}) {verb}"

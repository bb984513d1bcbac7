"""Exactly once: which attempts of a batch count, decided once, and what is still to be done about it.

Answers to: nothing in Kafka or Spark (SPARK-28908 was never merged); Flink's ``KafkaCommitter`` is its kin. Pure.

A task attempt writes into a transaction of its own and leaves it open. The driver's commit records, durably and only
once, which attempts are the *winners* of the batch; from then on it is theirs, whoever has to finish it. Whatever was
interrupted is done again from what can be read: the recorded decision, and how far the winners' transactions are.

```
nothing recorded:     are all proposed open? record them, commit them, sweep. Is one not: give up, nothing is seen
recorded:             are all winners open or committed? commit those that are open, sweep
                      some lost, none committed: abort those that are open, propose anew
                      some lost, some committed: part of the rows is lost: say so
a later batch is:     nothing to do but sweep
```
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kafkalite.spark.attempts import Attempt, AttemptDecision, DecisionError, State


@dataclass(frozen=True)
class Known:
    """All that a commit knows. ``proposed`` are this run's attempts; ``skipped``: its tasks found the batch decided
    and wrote nothing. ``states`` are of attempts that were described or ended. ``looked``: the recorded decision was
    read, after everybody else was kept from recording."""

    batch_id: int
    proposed: tuple[Attempt, ...] = ()
    skipped: bool = False
    accept_loss: bool = False
    looked: bool = False
    recorded: AttemptDecision | None = None
    states: Mapping[Attempt, State] = field(default_factory=dict)
    swept: bool = False

    def after(self, states: Mapping[Attempt, State]) -> Known:
        """With what was learnt of attempts."""
        return replace(self, states={**self.states, **states})


@dataclass(frozen=True)
class Look:
    """Take the committer's id, which fences every other commit of the query; then read the decision."""


@dataclass(frozen=True)
class Describe:
    """Ask how far these attempts' transactions are."""

    attempts: tuple[Attempt, ...]


@dataclass(frozen=True)
class RecordDecision:
    """Write the decision down."""

    decision: AttemptDecision


@dataclass(frozen=True)
class End:
    """Commit or abort these attempts' transactions; what cannot be ended so is learnt."""

    attempts: tuple[Attempt, ...]
    commit: bool


@dataclass(frozen=True)
class Sweep:
    """Abort and fence all attempts of this and of earlier batches that are open, but ``keep``."""

    batch_id: int
    keep: tuple[Attempt, ...] = ()


@dataclass(frozen=True)
class BatchDone:
    """The batch's rows are seen by everybody; ``lost`` are winners whose rows are not, which was accepted."""

    lost: tuple[Attempt, ...] = ()


Step = Look | Describe | RecordDecision | End | Sweep | BatchDone


def next_step(known: Known) -> Step:
    """What a commit does next. Raises :class:`DecisionError` where there is nothing good to be done."""
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
            "transaction.timeout.ms, or by somebody. Nothing of the batch is visible, and it can be run again"
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
        # Nothing of what was decided is visible, and nothing of it can become so once the rest is aborted.
        if by_state[State.OPEN]:
            return End(tuple(by_state[State.OPEN]), commit=False)
        return _decide(known, recorded.serial + 1)
    if lost and not known.accept_loss:
        raise DecisionError(
            f"batch {known.batch_id}: {_say(lost)} decided to be part of it, but can not be committed any more "
            "(aborted after transaction.timeout.ms or by somebody, or forgotten by the cluster), while others are or "
            "may be: rows are missing for readers with read_committed. failOnDataLoss=false lets the query go on"
        )
    if by_state[State.OPEN]:
        return End(tuple(by_state[State.OPEN]), commit=True)
    return _finish(known, winners, tuple(lost))


def _finish(known: Known, winners: tuple[Attempt, ...], lost: tuple[Attempt, ...] = ()) -> Step:
    return BatchDone(lost) if known.swept else Sweep(known.batch_id, winners)


def is_settled(decision: AttemptDecision | None, batch_id: int, states: Mapping[Attempt, State]) -> bool:
    """Whether an attempt of a batch need not write: the batch is decided, and that decision can be carried out."""
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

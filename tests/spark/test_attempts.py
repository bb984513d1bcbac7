"""Names of attempts, decisions as texts, and what a coordinator's answer means."""

from __future__ import annotations

import random

import pytest

from kafkalite.spark.attempts import (
    CHUNK,
    Attempt,
    AttemptDecision,
    DecisionError,
    State,
    committer_of,
    from_chunks,
    group_of,
    parse_attempt,
    prefix_of,
    state_of,
    to_chunks,
)
from kafkalite.spark.client.transactions import CommittedOffset, Described

ATTEMPT = Attempt(12, "0a1b2c3d4e5f", 3, 41, 1000, 0)


def winners(count: int, batch_id: int = 5, seed: int = 0) -> tuple[Attempt, ...]:
    """Attempts in random order, with neighbouring task numbers and producer ids."""
    rng = random.Random(seed)
    nonce = rng.randbytes(6).hex()
    ids = [1_000_000 + at + rng.randrange(3) for at in range(count)]
    return tuple(
        Attempt(batch_id, nonce, task, 7000 + task + rng.choice((0, 0, 0, count)), ids[task], rng.choice((0, 0, 2)))
        for task in rng.sample(range(count), count)
    )


@pytest.mark.parametrize("query", ["4dbb7f0c-ff1d-4a6d-9d3e-000000000000", "batch-my.load %2E", "batch-é/."])
def test_names(query: str) -> None:
    name = ATTEMPT.name(query)
    assert name.startswith(prefix_of(query))
    assert parse_attempt(query, name) == ATTEMPT._replace(producer_id=-1, producer_epoch=-1)
    assert parse_attempt(query, committer_of(query)) is None
    assert parse_attempt(query, name + "x") is None
    assert parse_attempt("other", name) is None
    assert parse_attempt(query + ".1", name) is None


def test_a_stream_goes_on_from_what_an_earlier_version_recorded() -> None:
    """Recorded by the first version with this format. A name or a text that differs would repeat rows of the stream."""
    query = "59e63dd4-1e3a-42f6-95bd-c444dfdda427"
    first = Attempt(7, "0a1b2c3d4e5f", 0, 41, 1000, 0)
    second = Attempt(7, "0a1b2c3d4e5f", 1, 43, 1001, 0)
    third = Attempt(7, "f00dfeed0123", 2, 60, 1002, 1)
    text = "kafkalite:1:7.1:0/1:eNolycERABAMRNG7KraE3WDUgyT9l8BweYf_ObVsV2_RE0l6RjhltRCErro2waBRRP7w5gG0_gxx"
    decision = AttemptDecision(7, (first, second, third), 1)
    assert from_chunks([CommittedOffset(7, text)]) == decision
    assert to_chunks(decision) == [CommittedOffset(7, text)], "an earlier version reads it, too, after a downgrade"
    assert third.name(query) == f"kafkalite-spark.{query}.7.f00dfeed0123.2.60"
    assert committer_of(query) == f"kafkalite-spark.{query}.commit"
    assert group_of(query) == f"kafkalite-spark-{query}"


@pytest.mark.parametrize("count", [1, 2, 200, 1000, 4000])
def test_a_decision_is_read_as_it_was_written(count: int) -> None:
    decision = AttemptDecision(5, winners(count), 3)
    chunks = to_chunks(decision)
    assert all(chunk.offset == 5 and len(chunk.metadata) <= 4096 for chunk in chunks)
    found = from_chunks([CommittedOffset(9, ""), CommittedOffset(3, "somebody's"), *reversed(chunks)])
    assert found is not None
    assert sorted(found.winners) == sorted(decision.winners)
    assert (found.batch_id, found.serial) == (5, 3)


def test_a_thousand_winners_fit_beside_one_offset() -> None:
    assert len(to_chunks(AttemptDecision(5, winners(1000)))) == 1


def test_the_last_decision_counts() -> None:
    """Others stand beside the offsets of other partitions, whole or in part."""
    long, short = to_chunks(AttemptDecision(5, winners(4000))), to_chunks(AttemptDecision(5, winners(2, seed=1), 1))
    assert len(long) > len(short) == 1
    assert from_chunks([*short, *long[1:]]) == from_chunks(short)
    assert from_chunks([*long, *short]) == from_chunks(short)
    later = to_chunks(AttemptDecision(6, winners(1, 6)))
    assert from_chunks([*long, *later, *short]) == from_chunks(later)
    assert from_chunks([]) is None


@pytest.mark.parametrize("damage", ["missing", "cut", "garbage"])
def test_a_decision_that_cannot_be_read_stops_the_query(damage: str) -> None:
    chunks = to_chunks(AttemptDecision(5, winners(4000)))
    bad = {
        "missing": chunks[1:],
        "cut": [*chunks[:-1], CommittedOffset(5, chunks[-1].metadata[:-40])],
        "garbage": [CommittedOffset(5, "kafkalite:1:5.0:0/1:" + "A" * CHUNK)],
    }[damage]
    with pytest.raises(DecisionError, match="about batch 5 cannot be read"):
        from_chunks(bad)


@pytest.mark.parametrize(
    ("described", "state"),
    [
        (None, State.UNKNOWN),
        (Described("Ongoing", 1000, 0), State.OPEN),
        (Described("PrepareCommit", 1000, 0), State.COMMITTED),
        (Described("CompleteCommit", 1000, 0), State.COMMITTED),
        (Described("PrepareAbort", 1000, 0), State.LOST),
        (Described("CompleteAbort", 1000, 0), State.LOST),
        (Described("CompleteAbort", 1000, 1), State.LOST),
        (Described("Empty", 1000, 0), State.UNKNOWN),
        (Described("Empty", 1000, 1), State.UNKNOWN),
        (Described("Ongoing", 1000, 1), State.UNKNOWN),
        (Described("Ongoing", 1001, 0), State.UNKNOWN),
        (Described("CompleteCommit", 1000, 1), State.UNKNOWN),
    ],
)
def test_states(described: Described | None, state: State) -> None:
    assert state_of(ATTEMPT, described) is state

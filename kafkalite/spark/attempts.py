"""Task attempts with their transactional ids, and decisions about them as metadata of committed offsets.

Answers to: nothing in Kafka or Spark; the texts live in what ``OffsetAndMetadata`` calls metadata. Pure.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple
from urllib.parse import quote

from kafkalite.spark.client.transactions import CommittedOffset, Described, InitializedProducer

PREFIX = "kafkalite-spark"
CHUNK = 4000
"""Characters of a decision in one offset's metadata; ``offset.metadata.max.bytes`` is 4096 by default."""
_NAME = re.compile(r"(\d+)\.([0-9a-f]+)\.(\d+)\.(\d+)")
_CHUNK = re.compile(r"kafkalite:1:(\d+)\.(\d+):(\d+)/(\d+):([A-Za-z0-9_=-]*)")


class State(Enum):
    """The state of an attempt's transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    LOST = "lost"
    """Aborted, by its timeout or by a client."""
    UNKNOWN = "unknown"
    """Another producer has the transactional id, or the id has expired."""


class Attempt(NamedTuple):
    """A task attempt of a batch, and the producer that wrote its rows.

    ``nonce`` tells writers (runs of a query) apart, ``attempt`` the attempts of one.
    """

    batch_id: int
    nonce: str
    task: int
    attempt: int
    producer_id: int = -1
    producer_epoch: int = -1

    def name(self, query: str) -> str:
        """Its transactional id."""
        return f"{prefix_of(query)}{self.batch_id}.{self.nonce}.{self.task}.{self.attempt}"

    def producer(self, query: str) -> InitializedProducer:
        """The producer that wrote its rows."""
        return InitializedProducer(self.name(query), self.producer_id, self.producer_epoch)


class AttemptDecision(NamedTuple):
    """The attempts whose rows count for a batch. ``serial`` counts the decisions about one batch, of which the last is
    valid."""

    batch_id: int
    winners: tuple[Attempt, ...]
    serial: int = 0


class DecisionError(Exception):
    """A batch that cannot be committed; the text says what happened to its rows, and what to do."""


def prefix_of(query: str) -> str:
    """The prefix of the transactional ids of a query's attempts."""
    return f"{PREFIX}.{quote(query, safe='').replace('.', '%2E')}."


def group_of(query: str) -> str:
    """The group of the query, whose committed offsets hold its decisions."""
    return f"{PREFIX}-{query}"


def committer_of(query: str) -> str:
    """The transactional id under which decisions are recorded; each commit fences the ones before it."""
    return f"{prefix_of(query)}commit"


def parse_attempt(query: str, name: str) -> Attempt | None:
    """The attempt of a transactional id; ``None`` if the id is not one of the query's attempts."""
    prefix = prefix_of(query)
    match = _NAME.fullmatch(name[len(prefix) :]) if name.startswith(prefix) else None
    return match and Attempt(int(match[1]), match[2], int(match[3]), int(match[4]))


def state_of(attempt: Attempt, described: Described | None) -> State:
    """The state of an attempt, from what the coordinator tells of its transactional id."""
    if described is None:
        return State.UNKNOWN
    same = (described.producer_id, described.producer_epoch) == (attempt.producer_id, attempt.producer_epoch)
    if described.state in ("PrepareAbort", "CompleteAbort", "PrepareEpochFence"):
        # Under a greater epoch, too, because a timeout raises it. A committed transaction cannot become aborted.
        return State.LOST
    if same and described.state == "Ongoing":
        return State.OPEN
    if same and described.state in ("PrepareCommit", "CompleteCommit"):
        return State.COMMITTED
    return State.UNKNOWN


def to_chunks(decision: AttemptDecision) -> list[CommittedOffset]:
    """A decision as offsets with metadata, one or more: the offset is the batch's id.

    Numbers of neighbours differ by little, so differences are kept, and compressed: a thousand winners take about
    two thousand characters.
    """
    rows = sorted(decision.winners, key=lambda each: (each.nonce, each.task))
    lines = [" ".join(sorted({row.nonce for row in rows}))]
    nonces = lines[0].split(" ")
    columns = [
        [nonces.index(row.nonce) for row in rows],
        [row.task for row in rows],
        [row.attempt for row in rows],
        [row.producer_id for row in rows],
        [row.producer_epoch for row in rows],
    ]
    for numbers in columns:
        lines.append(" ".join(str(number - before) for number, before in zip(numbers, [0, *numbers], strict=False)))
    text = base64.urlsafe_b64encode(zlib.compress("\n".join(lines).encode(), 9)).decode()
    pieces = [text[at : at + CHUNK] for at in range(0, len(text), CHUNK)]
    return [
        CommittedOffset(
            decision.batch_id, f"kafkalite:1:{decision.batch_id}.{decision.serial}:{number}/{len(pieces)}:{piece}"
        )
        for number, piece in enumerate(pieces)
    ]


def from_chunks(offsets: Iterable[CommittedOffset]) -> AttemptDecision | None:
    """The last decision among a group's offsets; ``None`` where there is none. Raises :class:`DecisionError`."""
    found: dict[tuple[int, int], dict[int, str]] = {}
    sizes: dict[tuple[int, int], int] = {}
    for offset in offsets:
        match = _CHUNK.fullmatch(offset.metadata)
        if match is not None:
            which = int(match[1]), int(match[2])
            found.setdefault(which, {})[int(match[3])] = match[5]
            sizes[which] = int(match[4])
    if not found:
        return None
    # Offsets may hold pieces of older decisions that the last one has not overwritten.
    batch_id, serial = last = max(found)
    try:
        text = "".join(found[last][number] for number in range(sizes[last]))
        lines = zlib.decompress(base64.urlsafe_b64decode(text)).decode().split("\n")
        nonces = lines[0].split(" ")
        columns = []
        for line in lines[1:]:
            total, numbers = 0, []
            for step in line.split():
                total += int(step)
                numbers.append(total)
            columns.append(numbers)
        winners = [Attempt(batch_id, nonces[at], *rest) for at, *rest in zip(*columns, strict=True)]
    except (KeyError, ValueError, IndexError, TypeError, zlib.error) as error:
        raise DecisionError(
            f"the decision about batch {batch_id} cannot be read ({error}): offsets of the query's group were changed"
        ) from None
    return AttemptDecision(batch_id, tuple(winners), serial)

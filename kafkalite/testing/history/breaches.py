"""The rules of a history, and their violations.

Answers to: nothing in Kafka; the guarantees for its users. Pure.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

MOST_OF_A_RULE = 20
"""Greatest number of kept violations of one rule, because further ones mostly have the same cause."""


class Rule(Enum):
    """The rules of every history; the value is the rule's text."""

    KEPT = "what was acknowledged is there"
    ONE_OFFSET = "a record is acknowledged at one offset, and stands there"
    ONCE = "a record of an idempotent or transactional producer is there once"
    ORDER = "the records of a producer stand in the order in which they were sent"
    REFUSED = "what was refused is nowhere"
    WRITTEN = "nothing is read, or stored, that was not sent"
    UNCHANGED = "what was read at an offset stands there for ever"
    COMPLETE = "a reader passes over nothing that it is to see"
    ONWARD = "a reader is given ascending offsets"
    ABORTED = "no reader of committed records sees one of a transaction that was not committed"
    ALL = "a committed transaction is there in full"
    FORWARD = "no committed offset goes back"
    COMMITTED = "no offset is shown as committed that no member committed"
    ONE_LEADER = "one leader acknowledges in one leader epoch"
    ALIKE = "all replicas hold the same"
    FENCED = "a producer that was fenced writes nothing"
    OWNER = "a partition has one owner in a generation of its group"
    GENERATION = "no member commits in a generation that is over"
    EXACTLY_ONCE = "of each record that a pipeline has committed as read, one result is there"
    LAST_VALUE = "the last value of a key outlasts compaction, and a deleted key does not come back"
    WHOLE = "the offsets of a replica have no gap, and its leader epochs do not go back"


class Breach(NamedTuple):
    """One violation of a rule, as one line."""

    rule: Rule
    text: str

    def __str__(self) -> str:
        return f"{self.rule.name}: {self.text}"


class Breaches:
    """The violations found so far."""

    def __init__(self) -> None:
        self.found: list[Breach] = []
        self._count = dict.fromkeys(Rule, 0)

    def add(self, rule: Rule, text: str) -> None:
        """Add a violation; it is dropped if its rule has many already."""
        self._count[rule] += 1
        if self._count[rule] <= MOST_OF_A_RULE:
            self.found.append(Breach(rule, text))

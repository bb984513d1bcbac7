"""The subscription of a member: topics by name, or by a regular expression.

Answers to: ``kafka.consumer.{TopicCount,TopicFilter}`` (``StaticTopicCount``, ``WildcardTopicCount``). Pure.

A member writes its subscription into its znode with expressions unexpanded: each reader expands them against the topics
that it sees.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafkalite.cluster.model import INTERNAL_TOPICS
from kafkalite.zk.znodes.consumers import ConsumerRegistration

STATIC, WHITE_LIST, BLACK_LIST = "static", "white_list", "black_list"


@dataclass(frozen=True, slots=True)
class Subscription:
    """``streams``: topic (if ``pattern`` is a list: expression) → number of streams that share it."""

    streams: Mapping[str, int]
    pattern: str = STATIC

    @classmethod
    def to_topics(cls, topics: Iterable[str]) -> Subscription:
        """These topics, one stream."""
        return cls(dict.fromkeys(topics, 1))

    @classmethod
    def white_list(cls, expression: str) -> Subscription:
        """Every topic that the expression matches; a comma separates alternatives."""
        return cls({expression: 1}, WHITE_LIST)

    @classmethod
    def black_list(cls, expression: str) -> Subscription:
        """Every topic that the expression does not match."""
        return cls({expression: 1}, BLACK_LIST)

    @classmethod
    def of(cls, registration: ConsumerRegistration) -> Subscription:
        """The subscription in a member's znode."""
        return cls(registration.subscription, registration.pattern)

    @property
    def is_wildcard(self) -> bool:
        """Whether topics that are created later may belong to the subscription."""
        return self.pattern != STATIC

    def topics(self, existing: Iterable[str], *, exclude_internal: bool = True) -> dict[str, int]:
        """Topic → streams, expressions expanded over the ``existing`` topics."""
        if not self.is_wildcard:
            return dict(self.streams)
        found: dict[str, int] = {}
        for raw, streams in self.streams.items():
            expression = re.compile(clean(raw))
            for topic in existing:
                matches = expression.fullmatch(topic) is not None
                if matches == (self.pattern == WHITE_LIST) and not (exclude_internal and topic in INTERNAL_TOPICS):
                    found[topic] = streams
        return found


def clean(expression: str) -> str:
    """An expression in Kafka's form: commas separate alternatives; blanks and surrounding quotes are ignored."""
    return expression.strip().replace(",", "|").replace(" ", "").strip("\"'")

"""Topics by name and by expression."""

from __future__ import annotations

import pytest

from kafkalite.consumer.subscription import Subscription, clean
from kafkalite.zk.znodes.consumers import ConsumerRegistration

EXISTING = ["a", "b", "ab", "__consumer_offsets"]


@pytest.mark.parametrize(
    ("subscription", "topics"),
    [
        (Subscription.to_topics(["a", "none"]), {"a": 1, "none": 1}),
        (Subscription({"a": 3}), {"a": 3}),
        (Subscription.white_list("a|b"), {"a": 1, "b": 1}),
        (Subscription.white_list("a, b"), {"a": 1, "b": 1}),
        (Subscription.white_list("'a.*'"), {"a": 1, "ab": 1}),
        (Subscription.white_list(".*"), {"a": 1, "b": 1, "ab": 1}),
        (Subscription.black_list("a.*"), {"b": 1}),
        (Subscription({"a": 2}, "white_list"), {"a": 2}),
    ],
)
def test_topics(subscription: Subscription, topics: dict[str, int]) -> None:
    assert subscription.topics(EXISTING) == topics


def test_internal_topics_when_asked_for() -> None:
    assert "__consumer_offsets" in Subscription.white_list(".*").topics(EXISTING, exclude_internal=False)
    assert "__consumer_offsets" not in Subscription.black_list("a").topics(EXISTING)


def test_expressions_of_property_files() -> None:
    assert clean(' "a,b c" ') == "a|bc"


def test_a_members_znode() -> None:
    assert Subscription.of(ConsumerRegistration({"t.*": 1}, "white_list", 0)) == Subscription.white_list("t.*")
    assert not Subscription.of(ConsumerRegistration({"t": 1}, "static", 0)).is_wildcard

"""The topics to which members subscribe, decoded from their metadata."""

from __future__ import annotations

import pytest

from kafkalite.coordinator.group.group_metadata import decode_topics
from tests.coordinator.group.fixtures import SUBSCRIPTION, GroupFixture

# As the consumer of Kafka 3.9 writes it: version 3, with owned partitions, generation and rack.
MODERN = bytes.fromhex("00030000000200016100026262ffffffff00000000ffffffffffff")


def test_topics() -> None:
    assert decode_topics(SUBSCRIPTION) == {"t"}
    assert decode_topics(MODERN) == {"a", "bb"}
    assert decode_topics(b"\0\0\0\0\0\0") == set()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0\0\0",
        b"\0\0\0\0\0\1",
        b"\0\0\0\0\0\1\0\5abc",
        b"\xff\xff\0\0\0\0",
        b"\0\0\0\0\0\1\xff\xff",
        b"\0\0\xff\xff\xff\xff",
        b"\0\0\0\0\0\1\0\1\xff",
    ],
)
def test_malformed_subscriptions_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"subscription|utf-8"):
        decode_topics(data)


def test_a_group_subscribes_to_the_topics_of_all_its_members() -> None:
    fixture = GroupFixture()
    fixture.join("a", protocols=(("range", SUBSCRIPTION),))
    fixture.join("b", protocols=(("range", MODERN),))
    fixture.advance(6.0)
    fixture.assign()
    assert fixture.group.subscribed_topics() == {"t", "a", "bb"}


@pytest.mark.parametrize(("kind", "metadata"), [("connect", SUBSCRIPTION), ("consumer", b"?")])
def test_the_subscribed_topics_are_unknown_if_metadata_cannot_be_decoded(kind: str, metadata: bytes) -> None:
    fixture = GroupFixture()
    fixture.stable("a", protocol_type=kind, protocols=(("range", metadata),))
    assert fixture.group.subscribed_topics() is None

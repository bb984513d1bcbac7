"""Which names topics may have."""

from __future__ import annotations

import pytest

from kafkalite.cluster.model import check_topic, colliding_topic, is_valid_topic
from kafkalite.common.errors import ApiError, ErrorCode


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "...", "__consumer_offsets"])
def test_valid(name: str) -> None:
    check_topic(name)
    assert is_valid_topic(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ü", "a\n", "a:b"])
def test_invalid(name: str) -> None:
    assert not is_valid_topic(name)
    with pytest.raises(ApiError, match="Topic name is invalid") as caught:
        check_topic(name)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("name", "existing", "found"),
    [
        ("a.b", ["a_b"], "a_b"),
        ("a_b", ["a.b"], "a.b"),
        ("a.b", ["a.b"], None),
        ("a.b", ["a.c", "ab"], None),
        ("ab", ["a.b"], None),
    ],
)
def test_collisions(name: str, existing: list[str], found: str | None) -> None:
    assert colliding_topic(name, existing) == found

"""Any name becomes the name of a znode and itself again."""

from __future__ import annotations

import random
import re

import pytest

from kafkalite.zk.znodes.codec import decode_name, encode_name

LEGAL = re.compile("[^\x00-\x1f/\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]+")
"""What ZooKeeper's ``PathUtils.validatePath`` lets pass between two slashes, but for ``.`` and ``..``."""


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("my-group_1.x", "my-group_1.x"),
        ("Gruppe für äöü €", "Gruppe für äöü €"),
        ("", "%"),
        ("%", "%25"),
        (".", "%2E"),
        ("..", "%2E%2E"),
        ("...", "..."),
        ("a/b", "a%2Fb"),
        ("100%", "100%"),
        ("%4", "%4"),
        ("%41", "%2541"),
        ("%2F", "%252F"),
        ("%%41", "%%2541"),
        ("%/", "%%2F"),
        ("line\nbreak\x00", "line%0Abreak%00"),
        ("😀", "%F0%9F%98%80"),
        ("\ue000\ufff0", "%EE%80%80%EF%BF%B0"),
    ],
)
def test_both_ways(name: str, encoded: str) -> None:
    assert encode_name(name) == encoded
    assert decode_name(encoded) == name


def test_no_two_names_meet() -> None:
    rng = random.Random(4)
    letters = "%%%25AFaf/./é\n😀x"
    names = {"".join(rng.choices(letters, k=rng.randrange(7))) for _ in range(20_000)}
    encoded = {name: encode_name(name) for name in names}
    assert len(set(encoded.values())) == len(names)
    for name, found in encoded.items():
        assert decode_name(found) == name
        assert LEGAL.fullmatch(found) and found not in (".", "..")


@pytest.mark.parametrize("found", ["a%2fb", "%FF", "%41", "x%2E"])
def test_what_we_would_not_have_written_stays_as_it_is(found: str) -> None:
    """An old consumer's group may be called so; read as an escape it would be taken for another group."""
    assert decode_name(found) == found

"""Passwords of sessions, against what Java's ``Random`` gave for the same ids."""

from __future__ import annotations

import pytest

from kafkalite.testing.session_password import session_password


@pytest.mark.parametrize(
    ("session", "password"),
    [
        (0x100001234560000, "28dca4e895de729d466f3f4d668d25c0"),
        (1, "054cc74a37327db215e702e20c73f005"),
        (-1, "20f62cb5648dc2d771471c8a2486a9ee"),
    ],
)
def test_a_session_has_the_password_that_the_server_gives_it(session: int, password: str) -> None:
    assert session_password(session).hex() == password

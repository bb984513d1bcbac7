"""Passwords in clear against SCRAM's credentials."""

from __future__ import annotations

import pytest

from kafkalite.security.password_logins import ScramPasswords, any_of
from kafkalite.security.scram_credentials import SCRAM_SHA_256, SCRAM_SHA_512, ScramCredential

STORED = {
    (SCRAM_SHA_256.name, "alice"): ScramCredential.from_password(SCRAM_SHA_256, "wonder", b"salt", 4096),
    (SCRAM_SHA_512.name, "bob"): ScramCredential.from_password(SCRAM_SHA_512, "bürste", b"pepper", 5000),
}


def find(mechanism: str, user: str) -> ScramCredential | None:
    return STORED.get((mechanism, user))


@pytest.mark.parametrize(
    ("user", "password", "is_right"),
    [
        ("alice", "wonder", True),
        ("bob", "bürste", True),
        ("alice", "bürste", False),
        ("alice", "", False),
        ("carol", "wonder", False),
    ],
)
def test_a_password_is_that_of_the_user_under_any_mechanism(user: str, password: str, is_right: bool) -> None:
    passwords = ScramPasswords([SCRAM_SHA_256.name, SCRAM_SHA_512.name], find)
    assert passwords.check(user, password) is is_right


def test_a_mechanism_that_is_not_enabled_does_not_count() -> None:
    assert not ScramPasswords([SCRAM_SHA_256.name], find).check("bob", "bürste")


@pytest.mark.parametrize("user", ["alice", "carol"])
def test_an_unknown_user_costs_the_work_of_a_wrong_password(user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    real = ScramCredential.from_password

    def counted(mechanism: object, password: str, salt: bytes, iterations: int) -> ScramCredential:
        assert mechanism is SCRAM_SHA_256
        made.append(iterations)
        return real(SCRAM_SHA_256, password, salt, iterations)

    monkeypatch.setattr(ScramCredential, "from_password", counted)
    assert not ScramPasswords([SCRAM_SHA_256.name], find).check(user, "wrong")
    assert made == [4096]


def test_one_of_several_checks_is_enough_and_all_are_asked() -> None:
    asked: list[str] = []

    def one(user: str, password: str) -> bool:
        asked.append("one")
        return user == password

    def other(user: str, password: str) -> bool:  # noqa: ARG001
        asked.append("other")
        return False

    assert any_of([one, other])("a", "a")
    assert not any_of([one, other])("a", "b")
    assert not any_of([])("a", "a")
    assert asked == ["one", "other", "one", "other"]

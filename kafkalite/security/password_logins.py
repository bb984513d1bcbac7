"""Logins by a user and a password in clear, over TLS, against the credentials of SASL.

Answers to: nothing in Kafka, whose clients prove a password by SASL; HTTP has basic logins (RFC 7617). Pure.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from typing import Final

from kafkalite.security.plain import PasswordCheck
from kafkalite.security.scram_credentials import SCRAM_MECHANISMS, ScramCredential

FindCredential = Callable[[str, str], ScramCredential | None]
"""Takes a mechanism and a user."""


class ScramPasswords:
    """Checks passwords against the credentials of ``mechanisms``, which ``find`` knows."""

    _SALT: Final = bytes(32)

    def __init__(self, mechanisms: Iterable[str], find: FindCredential) -> None:
        self._mechanisms = [SCRAM_MECHANISMS[name] for name in mechanisms]
        self._find = find

    def check(self, user: str, password: str) -> bool:
        """Whether ``password`` is the user's. Takes milliseconds, for an unknown user as for a wrong password."""
        is_right = False
        for mechanism in self._mechanisms:
            found = self._find(mechanism.name, user)
            salt, iterations = (
                (self._SALT, mechanism.min_iterations) if found is None else (found.salt, found.iterations)
            )
            made = ScramCredential.from_password(mechanism, password, salt, iterations)
            is_right |= found is not None and hmac.compare_digest(made.stored_key, found.stored_key)
        return is_right


def any_of(checks: Iterable[PasswordCheck]) -> PasswordCheck:
    """Whether one of ``checks`` knows the password; all are asked, so that the time does not tell which."""
    asked = tuple(checks)

    def check(user: str, password: str) -> bool:
        answers = [each(user, password) for each in asked]
        return True in answers

    return check

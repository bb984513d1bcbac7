"""Principals: who a client is.

Answers to: ``org.apache.kafka.common.security.auth.KafkaPrincipal`` and ``SecurityUtils.parseKafkaPrincipal``. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

USER_TYPE: Final = "User"


@dataclass(frozen=True, slots=True)
class KafkaPrincipal:
    """A type and a name. ``token_authenticated``: a delegation token proved them; it takes no part in ``==``."""

    type: str
    name: str
    token_authenticated: bool = field(default=False, compare=False)

    @classmethod
    def user(cls, name: str) -> KafkaPrincipal:
        """The principal of type ``User`` with that name."""
        return cls(USER_TYPE, name)

    @classmethod
    def parse(cls, text: str) -> KafkaPrincipal:
        """``User:alice`` as a principal. Raises :class:`ValueError` for any other form."""
        kind, colon, name = text.partition(":")
        if not text:
            raise ValueError("expected a string in format principalType:principalName but got an empty string")
        if not colon:
            raise ValueError(f"expected a string in format principalType:principalName but got {text}")
        return cls(kind, name)

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = KafkaPrincipal.user("ANONYMOUS")
"""A client that did not authenticate."""


def parse_super_users(text: str) -> frozenset[KafkaPrincipal]:
    """The principals of ``super.users``, which semicolons separate. Raises :class:`ValueError`."""
    return frozenset(KafkaPrincipal.parse(part.strip()) for part in text.split(";") if part.strip())

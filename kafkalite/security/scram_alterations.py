"""Changes of SCRAM credentials as a client asks for them: which users' are refused, and the credentials of the others.

Answers to: ``kafka.server.ZkAdminManager.alterUserScramCredentials`` (KIP-554). Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafkalite.common.errors import ErrorCode
from kafkalite.security.scram_credentials import SCRAM_MECHANISMS, ScramCredential

MECHANISMS_BY_TYPE: Final = {each.type: each for each in SCRAM_MECHANISMS.values()}
NO_NAME: Final = "Username must not be empty"


@dataclass(frozen=True, slots=True)
class Upsertion:
    """A credential to be written; ``mechanism`` is a code. The salted password is shown by no ``repr``."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


class Deletion(NamedTuple):
    """A credential to be removed; ``mechanism`` is a code."""

    user: str
    mechanism: int


class CredentialRefusal(NamedTuple):
    """Why nothing is changed for a user."""

    code: ErrorCode
    message: str


def refused_users(upsertions: Sequence[Upsertion], deletions: Sequence[Deletion]) -> dict[str, CredentialRefusal]:
    """The users for whom nothing can be changed. One wrong change of a user refuses all of that user's changes."""
    refused: dict[str, CredentialRefusal] = {}
    changes: list[Upsertion | Deletion] = [*upsertions, *deletions]
    for each in changes:
        refusal = _wrong(each)
        if refusal is not None:
            refused.setdefault(each.user, refusal)
    counted = Counter((each.user, each.mechanism) for each in changes if each.user not in refused)
    for (user, _), count in counted.items():
        if count > 1:
            refused[user] = CredentialRefusal(
                ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
            )
    return refused


def _wrong(change: Upsertion | Deletion) -> CredentialRefusal | None:
    if not change.user:
        return CredentialRefusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, NO_NAME)
    mechanism = MECHANISMS_BY_TYPE.get(change.mechanism)
    if mechanism is None:
        return CredentialRefusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, Deletion):
        return None
    if change.iterations > mechanism.max_iterations:
        return CredentialRefusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if change.iterations < mechanism.min_iterations:
        return CredentialRefusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    return None


def altered(
    overrides: Mapping[str, str], upsertions: Sequence[Upsertion], deletions: Sequence[Deletion]
) -> dict[str, str] | None:
    """The overrides of one user after the changes; ``None`` if a credential is to be removed that does not exist."""
    changed = dict(overrides)
    for deletion in deletions:
        if changed.pop(MECHANISMS_BY_TYPE[deletion.mechanism].name, None) is None:
            return None
    for upsertion in upsertions:
        mechanism = MECHANISMS_BY_TYPE[upsertion.mechanism]
        changed[mechanism.name] = ScramCredential.from_salted_password(
            mechanism, upsertion.salted_password, upsertion.salt, upsertion.iterations
        ).text()
    return changed

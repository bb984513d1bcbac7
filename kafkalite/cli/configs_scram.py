"""``kafkalite configs`` for users: their SCRAM credentials, through the controller.

Answers to: ``kafka.admin.ConfigCommand`` (3.9; ``alterUserScramCredentialConfigs``). Reactor shell (client library).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kafkalite.cli.clients import check_error, send
from kafkalite.cli.main import UsageError
from kafkalite.security.scram_credentials import SCRAM_MECHANISMS

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

_SALT_BYTES: Final = 20


def are_credentials(names: Sequence[str]) -> bool:
    """Whether the flags name SCRAM mechanisms. Raises :class:`UsageError` if they name quotas beside them."""
    found = [name in SCRAM_MECHANISMS for name in names]
    if any(found) and not all(found):
        raise UsageError("SCRAM credentials and quotas cannot be altered in one command")
    return any(found)


def alter(admin: KafkaAdminClient, user: str, settings: Mapping[str, str], deleted: Sequence[str], label: str) -> int:
    """Write ``iterations=N,password=…`` of each mechanism, and remove others. Raises :class:`ApiError`."""
    from kafka.protocol.admin import AlterUserScramCredentialsRequest

    upsertions = []
    for name, text in settings.items():
        mechanism = SCRAM_MECHANISMS[name]
        iterations, password = parse_credential(name, text)
        salt = secrets.token_bytes(_SALT_BYTES)
        salted = mechanism.salted_password(password, salt, iterations)
        upsertions.append((user, mechanism.type, iterations, salt, salted))
    deletions = [(user, SCRAM_MECHANISMS[name].type) for name in deleted]
    request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
    for result in send(admin, request, admin.describe_cluster()["controller_id"]).results:
        check_error(result)
    print(f"Completed updating config for {label}.")
    return 0


def parse_credential(name: str, text: str) -> tuple[int, str]:
    """Iterations and password of ``iterations=N,password=…``. Raises :class:`UsageError`, without the password."""
    iterations, comma, rest = text.partition(",")
    if not iterations.startswith("iterations="):
        iterations, comma, rest = f"iterations={SCRAM_MECHANISMS[name].min_iterations}", ",", text
    number = iterations.removeprefix("iterations=").strip()
    if not comma or not rest.startswith("password=") or rest == "password=" or not number.isdigit():
        raise UsageError(f"{name}: expected [iterations=N,password=PASSWORD]")
    return int(number), rest.removeprefix("password=")

"""The SCRAM credentials of all users, as ``/config/users`` has them.

Answers to: ``org.apache.kafka.common.security.authenticator.CredentialCache``,
``kafka.security.CredentialProvider``. Deterministic.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafkalite.security.sanitizer import desanitize
from kafkalite.security.scram_credentials import SCRAM_MECHANISMS, ScramCredential
from kafkalite.zk.znodes.config import DEFAULT

log = logging.getLogger(__name__)


class CredentialCache:
    """Credentials by mechanism and user."""

    def __init__(self) -> None:
        self._credentials: dict[str, dict[str, ScramCredential]] = {name: {} for name in SCRAM_MECHANISMS}

    def find(self, mechanism: str, user: str) -> ScramCredential | None:
        """The credential of ``user`` for ``mechanism``."""
        return self._credentials[mechanism].get(user)

    def user_changed(self, name: str, overrides: Mapping[str, str]) -> None:
        """Take over what stands under ``/config/users/<name>``; the credential of a wrong text is dropped."""
        if "/" in name or name == DEFAULT:
            # Quotas of a user's client, or of all users.
            return
        user = desanitize(name)
        for mechanism, credentials in self._credentials.items():
            text = overrides.get(mechanism)
            credentials.pop(user, None)
            if text is None:
                continue
            try:
                credentials[user] = ScramCredential.parse(text)
            except ValueError as error:
                log.error("user %s cannot authenticate by %s: %s", user, mechanism, error)

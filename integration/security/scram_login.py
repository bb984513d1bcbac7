"""A login by SCRAM on a connection of the protocol, by a password or by a delegation token."""

from __future__ import annotations

import base64
import random

from integration.security.acl_matrix import ask
from kafkalite.common.errors import ErrorCode
from kafkalite.network.blocking_client import BlockingConnection
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.security.sasl_client import ScramSaslClient
from kafkalite.security.scram_credentials import SCRAM_MECHANISMS


def log_in(
    client: BlockingConnection, mechanism: str, user: str, password: str, *, is_token: bool = False
) -> ErrorCode:
    """Authenticate; what the broker answers last. ``user`` may be the id of a token."""
    answer = ask(client, ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism)
    exchange = ScramSaslClient(SCRAM_MECHANISMS[mechanism], user, password, random.Random(), is_token=is_token)
    message = exchange.evaluate(None)
    while message is not None and answer.error_code == ErrorCode.NONE:
        answer = ask(client, ApiKey.SASL_AUTHENTICATE, 1, auth_bytes=message)
        if answer.error_code == ErrorCode.NONE:
            message = exchange.evaluate(bytes(answer.auth_bytes))
    return ErrorCode(answer.error_code)


def token_password(hmac: bytes) -> str:
    """The password of the delegation token whose maker was told ``hmac``."""
    return base64.b64encode(hmac).decode()

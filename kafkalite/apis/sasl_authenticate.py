"""SaslAuthenticate 0-2 of a client that is authenticated, or on a listener without SASL (KIP-152).

- 1: the length of the session (KIP-368)
- 2: flexible (KIP-482)

Answers to: ``KafkaApis.handleSaslAuthenticateRequest``. Pure.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.SASL_AUTHENTICATE, 0, 2)
def handle(context: RequestContext, request: messages.SaslAuthenticateRequest) -> messages.SaslAuthenticateResponse:  # noqa: ARG001
    """ILLEGAL_SASL_STATE: before the client is authenticated its connection takes these requests."""
    return messages.SaslAuthenticateResponse(
        version=context.version,
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
        auth_bytes=b"",
        session_lifetime_ms=0,
    )

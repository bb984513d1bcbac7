"""SaslHandshake 0-1 of a client that is authenticated, or on a listener without SASL (KIP-43).

- 1: SaslAuthenticate requests follow (KIP-152)

Answers to: ``KafkaApis.handleSaslHandshakeRequest``. Pure.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.common.errors import ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.SASL_HANDSHAKE, 0, 1)
def handle(context: RequestContext, request: messages.SaslHandshakeRequest) -> messages.SaslHandshakeResponse:  # noqa: ARG001
    """A handshake has no place here: the connection is authenticated, or needs no authentication, already."""
    return messages.SaslHandshakeResponse(
        version=context.version, error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[]
    )

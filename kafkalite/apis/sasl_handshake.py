"""SaslHandshake on a listener without SASL.

Answers to: ``KafkaApis.handleSaslHandshakeRequest``. Pure.
"""

from __future__ import annotations

from typing import Any

from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ErrorCode
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class


def handle(context: RequestContext, request: Any) -> Any:  # noqa: ARG001
    """A handshake has no place here: the connection is authenticated, or needs no authentication, already."""
    return response_class(ApiKey.SASL_HANDSHAKE)(
        version=context.version, error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[]
    )

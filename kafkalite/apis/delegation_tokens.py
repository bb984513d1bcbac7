"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken.

Answers to: ``KafkaApis.handle{Create,Renew,Expire,Describe}…Token…Request`` where tokens are not allowed. Pure.

They are advertised, as in Kafka, and refused, because Kafka gives no token to a client that has not authenticated
itself.
"""

from __future__ import annotations

from typing import Any, Final

from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ErrorCode
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class

_USER: Final = "User"
_ANONYMOUS: Final = "ANONYMOUS"
_REFUSED: Final = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
_OWNER_FROM: Final = 3


def handler(api_key: ApiKey) -> Any:
    """The handler of one of these keys: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as Kafka on a PLAINTEXT listener."""

    def refuse(context: RequestContext, request: Any) -> Any:
        version = context.version
        response = response_class(api_key)(version=version, error_code=_REFUSED, throttle_time_ms=0)
        if api_key is ApiKey.CREATE_DELEGATION_TOKEN:
            response.principal_type = response.token_requester_principal_type = _USER
            response.principal_name = response.token_requester_principal_name = _ANONYMOUS
            if version >= _OWNER_FROM and request.owner_principal_name:
                response.principal_type = request.owner_principal_type
                response.principal_name = request.owner_principal_name
            response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = -1
            response.token_id, response.hmac = "", b""
        elif api_key is ApiKey.DESCRIBE_DELEGATION_TOKEN:
            response.tokens = []
        else:
            response.expiry_timestamp_ms = -1
        return response

    return refuse

"""DescribeAcls, CreateAcls and DeleteAcls of a broker without an authorizer.

Answers to: ``kafka.server.AclApis`` where no authorizer is configured. Pure.

They are advertised, as in Kafka, and answered with the error that tells a user why.
"""

from __future__ import annotations

from typing import Any, Final

from kafkalite.apis.context import RequestContext
from kafkalite.apis.error_responses import error_response
from kafkalite.common.errors import ErrorCode
from kafkalite.protocol.api_keys import ApiKey

_NO_AUTHORIZER: Final = "No Authorizer is configured."


def handler(api_key: ApiKey) -> Any:
    """The handler of one of these keys: SECURITY_DISABLED, as Kafka without an authorizer."""

    def acls(context: RequestContext, request: Any) -> Any:
        return error_response(api_key, context.version, request, ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER)

    return acls

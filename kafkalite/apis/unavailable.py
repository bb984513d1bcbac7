"""Requests for what this broker does not have: coordinators of groups and transactions, an authorizer.

Answers to: ``KafkaApis`` where a coordinator is not available and where no authorizer is configured. Pure.

They are advertised, because clients look for them before they do anything else, and answered with the error
that lets a client wait or tells its user why.
"""

from __future__ import annotations

from typing import Any, Final

from kafkalite.apis.context import RequestContext
from kafkalite.apis.error_responses import error_response
from kafkalite.common.errors import ErrorCode
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class

_NO_COORDINATOR: Final = "This broker has no coordinator of groups and transactions."
_NO_AUTHORIZER: Final = "No Authorizer is configured."


def _no_coordinator(api_key: ApiKey, context: RequestContext, request: Any) -> Any:
    return error_response(api_key, context.version, request, ErrorCode.COORDINATOR_NOT_AVAILABLE, _NO_COORDINATOR)


def find_coordinator(context: RequestContext, request: Any) -> Any:
    """No node, one answer for each key from version 4 on."""
    kind = response_class(ApiKey.FIND_COORDINATOR)
    nowhere = {
        "error_code": ErrorCode.COORDINATOR_NOT_AVAILABLE,
        "error_message": _NO_COORDINATOR,
        "node_id": -1,
        "host": "",
        "port": -1,
    }
    if context.version < 4:
        return kind(version=context.version, **nowhere)
    return kind(
        version=context.version,
        coordinators=[
            kind.Coordinator(version=context.version, key=key, **nowhere) for key in request.coordinator_keys
        ],
    )


def list_groups(context: RequestContext, request: Any) -> Any:  # noqa: ARG001
    """There are none."""
    return response_class(ApiKey.LIST_GROUPS)(version=context.version, error_code=ErrorCode.NONE, groups=[])


def acls(api_key: ApiKey, context: RequestContext, request: Any) -> Any:
    """SECURITY_DISABLED, as Kafka without an authorizer."""
    return error_response(api_key, context.version, request, ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER)


def handler(api_key: ApiKey) -> Any:
    """The handler of one of these keys."""
    if api_key is ApiKey.FIND_COORDINATOR:
        return find_coordinator
    if api_key is ApiKey.LIST_GROUPS:
        return list_groups
    answer = acls if api_key in (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS) else _no_coordinator
    return lambda context, request: answer(api_key, context, request)

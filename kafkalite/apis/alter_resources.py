"""What AlterConfigs and IncrementalAlterConfigs have in common: one resource after the other, each with its own error.

Answers to: ``kafka.server.ConfigAdminManager.preprocess``. Reactor shell.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from kafkalite.apis.context import RequestContext
from kafkalite.apis.error_responses import refusal
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class

log = logging.getLogger(__name__)


async def altered(
    api_key: ApiKey, context: RequestContext, request: Any, alter: Callable[[Any], Awaitable[None]]
) -> Any:
    """The response, after ``alter`` was called for every resource; one that is named twice is not altered at all."""
    kind = response_class(api_key)
    named = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    responses = []
    for resource in request.resources:
        response = kind.AlterConfigsResourceResponse(
            version=context.version,
            error_code=ErrorCode.NONE,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        try:
            if named[resource.resource_type, resource.resource_name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            await alter(resource)
        except Exception as error:
            refused = refusal(error)
            if refused is None:
                log.exception("Altering the configuration of %s failed", resource.resource_name)
                refused = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
            response.error_code, response.error_message = refused.code, refused.message or None
        responses.append(response)
    return kind(version=context.version, responses=responses)

"""What AlterConfigs and IncrementalAlterConfigs have in common: one resource after the other, each with its own error.

Answers to: ``kafka.server.ConfigAdminManager.preprocess``. Reactor shell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from kafkalite.admin.config_admin import ResourceType
from kafkalite.apis.context import RequestContext
from kafkalite.apis.error_responses import code_and_message
from kafkalite.common.acls import CLUSTER_NAME, AclOperation, AclResourceType
from kafkalite.common.errors import ApiError, ErrorCode


class ConfigResource(Protocol):
    """A resource in the request of either API."""

    resource_type: int
    resource_name: str


class ConfigResourceResponse(ConfigResource, Protocol):
    """A resource in the response of either API."""

    error_code: int
    error_message: str | None


def authorize_configs(context: RequestContext, operation: AclOperation, resource: ConfigResource) -> None:
    """Check that the client may do ``operation`` to the resource's configuration.

    Raises :class:`ApiError` TOPIC_AUTHORIZATION_FAILED or CLUSTER_AUTHORIZATION_FAILED, without a message.
    """
    if resource.resource_type == ResourceType.TOPIC:
        context.check_authorized(operation, AclResourceType.TOPIC, resource.resource_name)
    else:
        context.check_authorized(operation, AclResourceType.CLUSTER, CLUSTER_NAME)


R = TypeVar("R", bound=ConfigResource)
A = TypeVar("A", bound=ConfigResourceResponse)


async def alter_resources(
    context: RequestContext, resources: Sequence[R], make: Callable[..., A], alter: Callable[[R], Awaitable[None]]
) -> list[A]:
    """A response by ``make`` for each resource, after ``alter`` was called for it; one that is named twice is not
    altered at all.
    """
    named = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    responses = []
    for resource in resources:
        response = make(
            version=context.version,
            error_code=ErrorCode.NONE,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        try:
            if named[resource.resource_type, resource.resource_name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            authorize_configs(context, AclOperation.ALTER_CONFIGS, resource)
            await alter(resource)
        except Exception as error:
            response.error_code, response.error_message = code_and_message(
                error, f"Altering the configuration of {resource.resource_name}"
            )
        responses.append(response)
    return responses

"""IncrementalAlterConfigs 0-1: single overrides changed (KIP-339).

- 1: flexible (KIP-482)

Answers to: ``KafkaApis.handleIncrementalAlterConfigsRequest``. Reactor shell.
"""

from __future__ import annotations

from kafkalite.admin.config_admin import AlterOp
from kafkalite.apis.alter_resources import alter_resources
from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)
async def handle(
    context: RequestContext, request: messages.IncrementalAlterConfigsRequest
) -> messages.IncrementalAlterConfigsResponse:
    """Every resource with its error, if any."""

    async def alter(resource: messages.IncrementalAlterConfigsRequest.AlterConfigsResource) -> None:
        ops = [AlterOp(config.name, config.config_operation, config.value) for config in resource.configs]
        await context.services.configs.alter(
            resource.resource_type, resource.resource_name, ops, validate_only=request.validate_only
        )

    kind = messages.IncrementalAlterConfigsResponse
    responses = await alter_resources(context, request.resources, kind.AlterConfigsResourceResponse, alter)
    return kind(version=context.version, responses=responses)

"""AlterConfigs 0-2: all overrides of a resource replaced (KIP-133).

- 1: the client throttles itself (KIP-219)
- 2: flexible (KIP-482)

Answers to: ``KafkaApis.handleAlterConfigsRequest``. Reactor shell.
"""

from __future__ import annotations

from kafkalite.apis.alter_resources import alter_resources
from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.ALTER_CONFIGS, 0, 2)
async def handle(context: RequestContext, request: messages.AlterConfigsRequest) -> messages.AlterConfigsResponse:
    """Every resource with its error, if any."""

    async def alter(resource: messages.AlterConfigsRequest.AlterConfigsResource) -> None:
        texts = {config.name: config.value for config in resource.configs}
        await context.services.configs.replace(
            resource.resource_type, resource.resource_name, texts, validate_only=request.validate_only
        )

    kind = messages.AlterConfigsResponse
    responses = await alter_resources(context, request.resources, kind.AlterConfigsResourceResponse, alter)
    return kind(version=context.version, responses=responses)

"""AlterConfigs: all overrides of a resource replaced.

Answers to: ``KafkaApis.handleAlterConfigsRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Any

from kafkalite.apis.alter_resources import altered
from kafkalite.apis.context import RequestContext
from kafkalite.protocol.api_keys import ApiKey


async def handle(context: RequestContext, request: Any) -> Any:
    """Every resource with its error, if any."""

    async def alter(resource: Any) -> None:
        texts = {config.name: config.value for config in resource.configs}
        await context.services.configs.replace(
            resource.resource_type, resource.resource_name, texts, validate_only=request.validate_only
        )

    return await altered(ApiKey.ALTER_CONFIGS, context, request, alter)

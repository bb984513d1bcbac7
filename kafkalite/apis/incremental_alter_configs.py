"""IncrementalAlterConfigs: single overrides changed (KIP-339).

Answers to: ``KafkaApis.handleIncrementalAlterConfigsRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Any

from kafkalite.admin.config_admin import AlterOp
from kafkalite.apis.alter_resources import altered
from kafkalite.apis.context import RequestContext
from kafkalite.protocol.api_keys import ApiKey


async def handle(context: RequestContext, request: Any) -> Any:
    """Every resource with its error, if any."""

    async def alter(resource: Any) -> None:
        ops = [AlterOp(config.name, config.config_operation, config.value) for config in resource.configs]
        await context.services.configs.alter(
            resource.resource_type, resource.resource_name, ops, validate_only=request.validate_only
        )

    return await altered(ApiKey.INCREMENTAL_ALTER_CONFIGS, context, request, alter)

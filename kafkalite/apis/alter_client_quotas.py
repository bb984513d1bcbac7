"""AlterClientQuotas 0-1: quotas of users, clients and addresses (KIP-546).

- 1: flexible (KIP-482)

Answers to: ``KafkaApis.handleAlterClientQuotasRequest`` and ``ZkAdminManager.alterClientQuotas``. Reactor shell.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext
from kafkalite.apis.error_responses import code_and_message
from kafkalite.apis.quota_entities import path_of, value_text
from kafkalite.apis.registry import serves
from kafkalite.common.acls import AclOperation
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1)
async def handle(
    context: RequestContext, request: messages.AlterClientQuotasRequest
) -> messages.AlterClientQuotasResponse:
    """Every entity with its error, if any. Quotas that are not named stay."""
    kind = messages.AlterClientQuotasResponse
    allowed = context.may(AclOperation.ALTER_CONFIGS)
    entries = []
    for entry in request.entries:
        error, message = ErrorCode.NONE, None
        try:
            if not allowed:
                raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
            await _alter(context, entry, request.validate_only)
        except Exception as failure:
            error, message = code_and_message(failure, "Altering quotas")
        entries.append(
            kind.EntryData(
                version=context.version,
                error_code=error,
                error_message=message,
                entity=[
                    kind.EntryData.EntityData(
                        version=context.version, entity_type=each.entity_type, entity_name=each.entity_name
                    )
                    for each in entry.entity
                ],
            )
        )
    return kind(version=context.version, throttle_time_ms=0, entries=entries)


async def _alter(
    context: RequestContext, entry: messages.AlterClientQuotasRequest.EntryData, validate_only: bool
) -> None:
    kind, name = path_of((each.entity_type, each.entity_name) for each in entry.entity)
    changes = {op.key: None if op.remove else value_text(kind, op.key, op.value) for op in entry.ops}
    await context.services.configs.alter_client(kind, name, changes, validate_only=validate_only)

"""AddOffsetsToTxn 0-4: offsets of a group will be part of the transaction (KIP-98).

- 1: the client throttles itself (KIP-219)
- 2: PRODUCER_FENCED (KIP-588)
- 3: flexible (KIP-482)
- 4: TRANSACTION_ABORTABLE (KIP-890)

Answers to: ``KafkaApis.handleAddOffsetsToTxnRequest``. Reactor shell.
"""

from __future__ import annotations

from kafkalite.apis.context import RequestContext
from kafkalite.apis.registry import serves
from kafkalite.apis.transaction_errors import error_for_version
from kafkalite.common.acls import AclOperation, AclResourceType
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.coordinator.transaction.values import ProducerIdAndEpoch
from kafkalite.protocol import messages
from kafkalite.protocol.api_keys import ApiKey


@serves(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4)
async def handle(context: RequestContext, request: messages.AddOffsetsToTxnRequest) -> messages.AddOffsetsToTxnResponse:
    """Answered once it is durable that the group has a part in it."""
    context.check_authorized(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)
    context.check_authorized(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    try:
        await context.services.transactions.add_offsets(request.transactional_id, producer, request.group_id)
    except ApiError as error:
        raise error_for_version(error, context.version) from None
    return messages.AddOffsetsToTxnResponse(version=context.version, error_code=ErrorCode.NONE)

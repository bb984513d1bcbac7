"""EndTxn 0-4: commit or abort (KIP-98), on any connection, by transactional id, producer id and epoch.

- 1: the client throttles itself (KIP-219)
- 2: PRODUCER_FENCED (KIP-588)
- 3: flexible (KIP-482)
- 4: TRANSACTION_ABORTABLE (KIP-890)

Answers to: ``KafkaApis.handleEndTxnRequest``. Reactor shell.
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


@serves(ApiKey.END_TXN, 0, 4)
async def handle(context: RequestContext, request: messages.EndTxnRequest) -> messages.EndTxnResponse:
    """Answered once the decision is durable; the markers follow."""
    context.check_authorized(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    try:
        await context.services.transactions.end(request.transactional_id, producer, commit=request.committed)
    except ApiError as error:
        raise error_for_version(error, context.version) from None
    return messages.EndTxnResponse(version=context.version, error_code=ErrorCode.NONE)

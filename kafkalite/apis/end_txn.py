"""EndTxn: commit or abort. Whoever knows transactional id, producer id and epoch may say it, on any connection.

Answers to: ``KafkaApis.handleEndTxnRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Any

from kafkalite.apis.context import RequestContext
from kafkalite.apis.transaction_errors import as_told
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.coordinator.transaction.values import ProducerIdAndEpoch
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class


async def handle(context: RequestContext, request: Any) -> Any:
    """Answered once the decision is durable; the markers follow."""
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    try:
        await context.services.transactions.end(request.transactional_id, producer, commit=request.committed)
    except ApiError as error:
        raise as_told(error, context.version) from None
    return response_class(ApiKey.END_TXN)(version=context.version, error_code=ErrorCode.NONE)

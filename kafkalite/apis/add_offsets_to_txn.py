"""AddOffsetsToTxn: offsets of a group will be part of the transaction.

Answers to: ``KafkaApis.handleAddOffsetsToTxnRequest``. Reactor shell.
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
    """Answered once it is durable that the group has a part in it."""
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    try:
        await context.services.transactions.add_offsets(request.transactional_id, producer, request.group_id)
    except ApiError as error:
        raise as_told(error, context.version) from None
    return response_class(ApiKey.ADD_OFFSETS_TO_TXN)(version=context.version, error_code=ErrorCode.NONE)

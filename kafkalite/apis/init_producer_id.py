"""InitProducerId: an id for an idempotent producer, or the id and epoch under which a transactional one writes.

Answers to: ``KafkaApis.handleInitProducerIdRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Any

from kafkalite.apis.context import RequestContext
from kafkalite.apis.transaction_errors import as_told
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.coordinator.transaction.values import ProducerIdAndEpoch
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class

_PRODUCER_FENCED_FROM = 4
_NOBODY = ProducerIdAndEpoch(-1, -1)


async def handle(context: RequestContext, request: Any) -> Any:
    """Without a transactional id: a new producer id with epoch 0, also for one that had another (KIP-360), as in Kafka.

    With one: whoever had it is fenced and what it left open is aborted, both before the answer.
    """
    error, given = ErrorCode.NONE, _NOBODY
    try:
        given = await _give(context, request)
    except ApiError as refused:
        error = as_told(refused, context.version, _PRODUCER_FENCED_FROM).code
    return response_class(ApiKey.INIT_PRODUCER_ID)(
        version=context.version,
        error_code=error,
        producer_id=given.producer_id,
        producer_epoch=given.producer_epoch,
    )


async def _give(context: RequestContext, request: Any) -> ProducerIdAndEpoch:
    expected = None
    if context.version >= 3:
        if (request.producer_id == -1) != (request.producer_epoch == -1):
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if request.producer_id != -1:
            expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    services = context.services
    if request.transactional_id is None:
        return ProducerIdAndEpoch(await services.producer_ids.generate(), 0)
    return await services.transactions.init_producer_id(
        request.transactional_id, request.transaction_timeout_ms, expected
    )

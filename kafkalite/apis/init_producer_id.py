"""InitProducerId: an id for an idempotent producer.

Answers to: ``KafkaApis.handleInitProducerIdRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Any

from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class


async def handle(context: RequestContext, request: Any) -> Any:
    """A new id with epoch 0; a producer that had one (KIP-360) gets a new one too, as in Kafka.

    A transactional id needs a coordinator: COORDINATOR_NOT_AVAILABLE.
    """
    if request.transactional_id is not None:
        if not request.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if context.version >= 3 and (request.producer_id == -1) != (request.producer_epoch == -1):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    producer_id = await context.services.producer_ids.generate()
    return response_class(ApiKey.INIT_PRODUCER_ID)(
        version=context.version, error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0
    )

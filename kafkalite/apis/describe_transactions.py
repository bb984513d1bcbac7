"""DescribeTransactions: how far a transaction is, and where it has written.

Answers to: ``KafkaApis.handleDescribeTransactionsRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Any

from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ApiError, ErrorCode
from kafkalite.common.tasks import gather
from kafkalite.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class
from kafkalite.zk.znodes.transactions import TransactionMetadata


async def handle(context: RequestContext, request: Any) -> Any:
    """One answer for each id; a transaction without a timeout shows the largest number there is."""
    kind = response_class(ApiKey.DESCRIBE_TRANSACTIONS)
    names = list(dict.fromkeys(request.transactional_ids))
    found = await gather(_describe(context.services.transactions, name) for name in names)
    return kind(
        version=context.version,
        transaction_states=[_state(kind, context.version, name, each) for name, each in zip(names, found, strict=True)],
    )


async def _describe(coordinator: TransactionCoordinator, name: str) -> TransactionMetadata | ErrorCode:
    try:
        return await coordinator.describe(name)
    except ApiError as error:
        return error.code


def _state(kind: Any, version: int, name: str, found: TransactionMetadata | ErrorCode) -> Any:
    make = kind.TransactionState
    if isinstance(found, ErrorCode):
        return make(version=version, transactional_id=name, error_code=found, transaction_state="")
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(found.partitions):
        topics.setdefault(topic, []).append(partition)
    return make(
        version=version,
        error_code=ErrorCode.NONE,
        transactional_id=name,
        transaction_state=found.state.value,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[
            make.TopicData(version=version, topic=topic, partitions=partitions) for topic, partitions in topics.items()
        ],
    )

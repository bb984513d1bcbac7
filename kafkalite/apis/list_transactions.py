"""ListTransactions: every transactional id that this broker coordinates.

Answers to: ``KafkaApis.handleListTransactionsRequest``. Reactor shell.
"""

from __future__ import annotations

from typing import Any

from kafkalite.apis.context import RequestContext
from kafkalite.common.errors import ErrorCode
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec import response_class


def handle(context: RequestContext, request: Any) -> Any:
    """Filtered by state, producer id and (from version 1 on) by how long the transaction has been open."""
    kind = response_class(ApiKey.LIST_TRANSACTIONS)
    version = context.version
    listed, unknown = context.services.transactions.list(
        request.state_filters, request.producer_id_filters, request.duration_filter if version >= 1 else -1
    )
    make = kind.TransactionState
    return kind(
        version=version,
        error_code=ErrorCode.NONE,
        unknown_state_filters=unknown,
        transaction_states=[
            make(
                version=version,
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state.value,
            )
            for each in listed
        ],
    )

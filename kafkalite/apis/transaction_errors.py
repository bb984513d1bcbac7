"""Errors of transactions for clients that are older than the errors.

Answers to: the version checks of ``KafkaApis.handle{InitProducerId,AddPartitionsToTxn,AddOffsetsToTxn,EndTxn}Request``.
Pure.
"""

from __future__ import annotations

from kafkalite.common.errors import ApiError, ErrorCode


def error_for_version(error: ApiError, version: int, producer_fenced_from: int = 2) -> ApiError:
    """``error`` for a client that speaks ``version``; PRODUCER_FENCED was INVALID_PRODUCER_EPOCH before (KIP-588)."""
    if error.code is ErrorCode.PRODUCER_FENCED and version < producer_fenced_from:
        return ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, error.message)
    return error

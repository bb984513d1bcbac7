"""Which batches belong to aborted transactions, and which markers nobody needs any more.

Answers to: ``org.apache.kafka.storage.internals.log.CleanedTransactionMetadata``. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from kafkalite.log.values import AbortedTxn
from kafkalite.record.batch import BatchHeader

ABORT, COMMIT = 0, 1
"""Types of control records."""


class CleanedTransactions:
    """Follows the transactions of a log whose batches are shown to it in order.

    ``aborted``: all aborted transactions that overlap what will be shown. ``kept`` is called with those whose marker
    stays because data of theirs was still there: they have to stay in the transaction index.
    """

    def __init__(self, aborted: Iterable[AbortedTxn], kept: Callable[[AbortedTxn], object] | None = None) -> None:
        self._waiting = deque(sorted(aborted, key=lambda txn: txn.first_offset))
        self._kept = kept
        self._committed: set[int] = set()
        self._aborted: dict[int, tuple[AbortedTxn, bool]] = {}

    def on_data(self, header: BatchHeader) -> bool:
        """Whether the batch is part of an aborted transaction, and so may go."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        ongoing = self._aborted.get(header.producer_id)
        if ongoing is None:
            self._committed.add(header.producer_id)
            return False
        self._aborted[header.producer_id] = ongoing[0], True
        return True

    def on_control(self, header: BatchHeader, kind: int | None) -> bool:
        """Whether the marker may go: no data of its transaction was seen. ``kind``: ``None`` of an empty batch."""
        self._begin_up_to(header.last_offset)
        if kind is None:
            return True
        if kind == ABORT:
            txn, seen = self._aborted.pop(header.producer_id, (None, False))
            if txn is not None and seen:
                if self._kept is not None:
                    self._kept(txn)
                return False
            return True
        if kind == COMMIT:
            if header.producer_id in self._committed:
                self._committed.discard(header.producer_id)
                return False
            return True
        return False

    def _begin_up_to(self, offset: int) -> None:
        waiting = self._waiting
        while waiting and waiting[0].first_offset <= offset:
            txn = waiting.popleft()
            self._aborted.setdefault(txn.producer_id, (txn, False))

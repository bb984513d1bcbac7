"""What a group has committed of a partition, and who commits within a transaction.

Answers to: ``kafka.common.OffsetAndMetadata`` and ``GroupMetadata.CommitRecordMetadataAndOffset``. Pure.

The values are those of the znodes; this is where coordinators and requests have them from.
"""

from __future__ import annotations

from kafkalite.zk.znodes.offsets import NO_EPOCH, NO_TIMESTAMP, OffsetAndMetadata, TxnProducer

__all__ = ["NO_EPOCH", "NO_TIMESTAMP", "OffsetAndMetadata", "TxnProducer"]

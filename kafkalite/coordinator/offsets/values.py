"""Re-exports the values of committed offsets from the znode codecs.

Answers to: ``kafka.common.OffsetAndMetadata`` and ``GroupMetadata.CommitRecordMetadataAndOffset``. Pure.

Coordinators and requests use the same values as the znodes.
"""

from __future__ import annotations

from kafkalite.zk.znodes.offsets import NO_EPOCH, NO_TIMESTAMP, OffsetAndMetadata, TxnProducer

__all__ = ["NO_EPOCH", "NO_TIMESTAMP", "OffsetAndMetadata", "TxnProducer"]
